"""Samples in memory that answer like a Prometheus server, for a reader or over HTTP.

`test_binary.py` compares it with the real one.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs

import httpx

from slo.prometheus.selector import Selector, parse_selector

_RANGE = re.compile(r"(.+)\[(\d+)ms\]", re.DOTALL)
_COUNT = re.compile(r"count_over_time\((.+)\[1d\]\)", re.DOTALL)
_GROUP = re.compile(r"group by \(le\) \((.+)\)", re.DOTALL)
LOOKBACK = 300_000


class Tsdb:
    """Series by labels (with `__name__`), samples by milliseconds."""

    def __init__(self) -> None:
        self.series: dict[tuple[tuple[str, str], ...], dict[int, float]] = {}
        self.asked: list[str] = []
        self.answers: dict[str, Callable[[int], list[tuple[dict[str, str], float]]]] = {}

    def put(self, name: str, labels: Mapping[str, str], samples: Mapping[int, float]) -> None:
        key = tuple(sorted({"__name__": name, **labels}.items()))
        self.series.setdefault(key, {}).update(samples)

    def samples(self, selector: str, start: int, end: int) -> list[dict[str, Any]]:
        return self.between(selector, start - 1, end - 1)

    def between(self, selector: str, first: int, last: int) -> list[dict[str, Any]]:
        """Return samples of [first, last], as an older Prometheus does."""
        self.asked.append(selector)
        found = []
        for labels, samples in self._matching(parse_selector(selector)):
            values = [
                [at / 1000, _text(value)]
                for at, value in sorted(samples.items())
                if first <= at <= last and not math.isnan(value)
            ]
            if values:
                found.append({"metric": labels, "values": values})
        return found

    def instant(self, query: str, at: int) -> list[dict[str, Any]]:
        self.asked.append(query)
        if match := _COUNT.fullmatch(query):
            found = self.between(match.group(1), at - 86_400_000, at)
            return [
                {"metric": _unnamed(each["metric"]), "value": [at / 1000, str(len(each["values"]))]}
                for each in found
            ]
        if match := _GROUP.fullmatch(query):
            found = self.between(match.group(1), at - LOOKBACK, at)
            limits = {each["metric"].get("le", "") for each in found}
            return [{"metric": {"le": le}, "value": [at / 1000, "1"]} for le in sorted(limits)]
        raise AssertionError(query)

    def steps(self, query: str, start: int, end: int, step: int) -> list[dict[str, Any]]:
        self.asked.append(query)
        found: dict[tuple[tuple[str, str], ...], list[Any]] = {}
        for at in range(start, end, step):
            for labels, value in self.answers[query](at):
                key = tuple(sorted(labels.items()))
                found.setdefault(key, []).append([at / 1000, _text(value)])
        return [{"metric": dict(key), "values": values} for key, values in found.items()]

    def _matching(self, selector: Selector) -> list[tuple[dict[str, str], dict[int, float]]]:
        found = []
        for key, samples in self.series.items():
            labels = dict(key)
            if labels["__name__"] == selector.metric and all(
                _holds(matcher.operator, labels.get(matcher.label, ""), matcher.value)
                for matcher in selector.matchers
            ):
                found.append((labels, samples))
        return found


class Web:
    """The HTTP API over a `Tsdb`; `faults` are answered first, one a question."""

    def __init__(self, tsdb: Tsdb) -> None:
        self.tsdb = tsdb
        self.faults: list[Callable[[httpx.Request], httpx.Response | None]] = []
        self.requests: list[httpx.Request] = []

    def client(self) -> httpx.Client:
        return httpx.Client(transport=httpx.MockTransport(self.answer))

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if self.faults:
            found = self.faults.pop(0)(request)
            if found is not None:
                return found
        form = {key: values[0] for key, values in parse_qs(request.content.decode()).items()}
        if request.url.path.endswith("/query_range"):
            start, end, step = (
                round(float(form[name]) * 1000) for name in ("start", "end", "step")
            )
            return success("matrix", self.tsdb.steps(form["query"], start, end + 1, step))
        at = round(float(form["time"]) * 1000)
        if match := _RANGE.fullmatch(form["query"]):
            first = at - int(match.group(2))
            return success("matrix", self.tsdb.between(match.group(1), first, at))
        return success("vector", self.tsdb.instant(form["query"], at))


def success(kind: str, result: list[dict[str, Any]], **more: Any) -> httpx.Response:
    body = {"status": "success", "data": {"resultType": kind, "result": result}, **more}
    return httpx.Response(200, json=body)


def failure(
    status: int, error: str = "", kind: str = "execution", **headers: str
) -> Callable[[httpx.Request], httpx.Response]:
    body = json.dumps({"status": "error", "errorType": kind, "error": error})
    return lambda _: httpx.Response(status, text=body, headers=headers)


def _holds(operator: str, found: str, value: str) -> bool:
    matches = found == value if operator in {"=", "!="} else re.fullmatch(value, found) is not None
    return matches is (operator in {"=", "=~"})


def _text(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(value)


def _unnamed(labels: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if key != "__name__"}
