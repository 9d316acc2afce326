"""Questions to a server that speaks Prometheus' HTTP API: exact samples, or nothing.

Samples are read with instant queries of a range selector, `name{…}[600000ms]`: every compatible
server answers them with the samples as they were scraped (remote read, which would also give
staleness markers, is missing in Thanos and VictoriaMetrics; a range query would resample). An
answer that may be partial is no answer.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

import httpx

from base.clock import Clock
from base.durations import format_duration
from base.errors import ConfigError, Permanent, Retryable
from base.outbound import redact_url
from slo.settings import PrometheusSettings

MOST_BYTES = 8 * 1024 * 1024
"""Of one answer, unpacked; a larger one is asked for in pieces. Nothing else in the process runs
while it is parsed, so it is small."""

SHORTEST_MS = 60_000
"""Pieces are not made shorter than this."""

MOST_POINTS = 10_000  # of one series; Prometheus answers at most 11,000

_T = TypeVar("_T")
_TOO_MUCH = (
    "too many", "exceed", "too long", "limit", "maximum", "too large",
    "cannot select more",  # VictoriaMetrics
)  # fmt: skip
_NO_LOSS = ("PromQL info:", "PromQL warning:")  # remarks on the query, not on the data


class TooMuch(Retryable):
    """The same question may be answered over a shorter time."""


class Unanswered(Retryable):
    """No answer in time: the question may be too large, or the server hangs."""


class Asks(Protocol):
    """Answers over a span of time in milliseconds, [start, end); series as the API writes them.

    What is long comes in pieces: a series may come several times, with other samples.
    """

    def samples(self, selector: str, start: int, end: int) -> Iterable[dict[str, Any]]:
        """Return the samples themselves."""
        ...

    def steps(self, query: str, start: int, end: int, step: int) -> Iterable[dict[str, Any]]:
        """Evaluate at start, start + step, … before end."""
        ...

    def instant(self, query: str, at: int) -> list[dict[str, Any]]:
        """Evaluate once."""
        ...


@dataclass(frozen=True, slots=True)
class Credential:
    """Headers of every question; read anew each time, so that a token may be rotated."""

    settings: PrometheusSettings
    where: str

    def headers(self) -> Mapping[str, str]:
        settings = self.settings
        found = dict(settings.headers)
        if settings.bearer_file is not None:
            found["authorization"] = f"Bearer {self._secret(settings.bearer_file, 'bearer_file')}"
        elif settings.password_file is not None:
            password = self._secret(settings.password_file, "password_file")
            pair = base64.b64encode(f"{settings.username}:{password}".encode()).decode()
            found["authorization"] = f"Basic {pair}"
        return found

    def _secret(self, path: Path, name: str) -> str:
        try:
            text = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self.where}.{name}: cannot read {path}: {error}") from None
        if not text or not text.isprintable():
            raise ConfigError(f"{self.where}.{name}: {path} does not hold one line of text")
        return text


class PrometheusClient:
    """One server. What goes wrong is Retryable, TooMuch or Permanent, and names the server."""

    def __init__(
        self, name: str, settings: PrometheusSettings, http: httpx.Client, clock: Clock
    ) -> None:
        self._what = f"prometheus {name!r} at {redact_url(settings.url)}"
        self._settings = settings
        self._credential = Credential(settings, f"slo.prometheus.{name}")
        self._http = http
        self._clock = clock
        self._longest: dict[str, int] = {}  # by question: the span that was answered at once

    def samples(self, selector: str, start: int, end: int) -> Iterator[dict[str, Any]]:
        def ask(first: int, last: int) -> list[dict[str, Any]]:
            # [start, end) exactly: an older server also takes the sample at the open end, and
            # what lies outside is left out by the reader.
            query = {"query": f"{selector}[{last - first}ms]", "time": _seconds(last - 1)}
            return self._result("query", query, "matrix")

        return self._in_pieces(selector, start, end, ask)

    def steps(self, query: str, start: int, end: int, step: int) -> Iterator[dict[str, Any]]:
        def ask(first: int, last: int) -> list[dict[str, Any]]:
            first = start + -(-(first - start) // step) * step
            if first >= last:
                return []
            asked = {"query": query, "start": _seconds(first), "step": _seconds(step)}
            return self._result("query_range", asked | {"end": _seconds(last - 1)}, "matrix")

        self._longest.setdefault(query, MOST_POINTS * step)
        return self._in_pieces(query, start, end, ask)

    def instant(self, query: str, at: int) -> list[dict[str, Any]]:
        return self._result("query", {"query": query, "time": _seconds(at)}, "vector")

    def _in_pieces(
        self, question: str, start: int, end: int, ask: Callable[[int, int], list[_T]]
    ) -> Iterator[_T]:
        """Ask for the whole span, or for halves of it where that is too much."""
        at = start
        while at < end:
            longest = self._longest.get(question, end - start)
            last = min(at + longest, end)
            try:
                found = ask(at, last)
            except Unanswered:
                self._longest[question] = max(SHORTEST_MS, (last - at) // 2)  # next time
                raise
            except TooMuch as error:
                if last - at <= SHORTEST_MS:
                    span = format_duration(timedelta(milliseconds=last - at))
                    raise Permanent(
                        f"{error}, even for {span} of {question}: narrow the selector"
                    ) from None
                self._longest[question] = max(SHORTEST_MS, (last - at) // 2)
                continue
            yield from found
            at = last
            if question in self._longest:  # it may do more when it is less busy
                self._longest[question] += max(1, longest // 8)

    def _result(self, path: str, form: Mapping[str, str], kind: str) -> list[dict[str, Any]]:
        status, headers, body = self._post(path, form)
        answer = self._parsed(status, body)
        if status != httpx.codes.OK or answer.get("status") != "success":
            raise self._refusal(status, headers, answer)
        lost = [str(each) for each in answer.get("warnings") or ()]
        lost = [each for each in lost if not each.startswith(_NO_LOSS)]
        if lost or answer.get("isPartial"):
            why = lost[0] if lost else "isPartial"
            raise Retryable(f"{self._what} answered in part, which is not counted: {why}")
        data = answer.get("data")
        if not isinstance(data, dict) or data.get("resultType") != kind:
            raise Permanent(f"{self._what} did not answer {form['query']} with a {kind}")
        result: list[dict[str, Any]] = data.get("result") or []
        return result

    def _post(self, path: str, form: Mapping[str, str]) -> tuple[int, httpx.Headers, bytes]:
        timeout = self._settings.timeout.total_seconds()
        deadline = self._clock.monotonic() + timeout
        body = bytearray()
        try:
            with self._http.stream(
                "POST",
                f"{self._settings.url}/api/v1/{path}",
                data={**form, "timeout": f"{max(1, math.ceil(timeout))}s"},
                headers=dict(self._credential.headers()),
                timeout=httpx.Timeout(timeout, connect=min(timeout, 3.0)),
            ) as answer:
                for chunk in answer.iter_bytes():
                    body += chunk
                    if len(body) > MOST_BYTES:
                        raise TooMuch(f"{self._what} answered with more than {MOST_BYTES} bytes")
                    if self._clock.monotonic() > deadline:
                        raise TooMuch(f"{self._what} took longer than {timeout:g} s to answer")
        except httpx.TimeoutException as error:
            raise Unanswered(
                f"{self._what} did not answer within {timeout:g} s ({type(error).__name__})"
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            raise Retryable(
                f"{self._what} cannot be asked: {error or type(error).__name__}"
            ) from None
        return answer.status_code, answer.headers, bytes(body)

    def _parsed(self, status: int, body: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None
        if isinstance(answer, dict):
            return answer
        if status == httpx.codes.OK:
            raise Retryable(f"{self._what} sent a body that is not whole, or not JSON")
        return {"error": body[:200].decode("utf-8", "replace").strip()}

    def _refusal(
        self, status: int, headers: httpx.Headers, answer: Mapping[str, Any]
    ) -> Retryable | Permanent:
        error = str(answer.get("error") or "no reason given")
        said = f"{self._what} answered {status}: {error[:300]}"
        is_too_much = any(word in error.lower() for word in _TOO_MUCH)
        if status in {400, 413, 422} and (status == 413 or is_too_much):
            return TooMuch(said)
        if status == 503 and answer.get("errorType") == "timeout":
            return TooMuch(said)
        if status in {401, 403}:
            return Retryable(f"{said}; check bearer_file, or username and password_file")
        if status == 429 or status >= 500:
            return Retryable(said, after=self._retry_after(headers))
        if 300 <= status < 400:
            return Permanent(f"{self._what} redirects, which is not followed: correct the url")
        return Permanent(said)

    def _retry_after(self, headers: httpx.Headers) -> timedelta | None:
        text = headers.get("retry-after", "")
        if text.isascii() and text.isdigit():
            return timedelta(seconds=min(int(text), 3600))
        try:
            left = parsedate_to_datetime(text) - self._clock.now()
        except (ValueError, TypeError):
            return None
        return min(max(left, timedelta(0)), timedelta(hours=1))


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds // 1000}.{milliseconds % 1000:03d}"
