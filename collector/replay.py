"""Send recorded OTLP to a receiver, in order and with the times that were recorded.

Small requests are joined (protobuf messages merge when they are concatenated), large ones split,
so that a file of a million lines and a file of one line are both quick.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from base.clock import Clock
from base.errors import BadInput, Permanent, Retryable, TokenweirError
from base.outbound import http_client
from collector.otlp_files import BadLine, NotOtlp, OtlpFile, Skipped, find, read

JOIN_BYTES = 4 << 20
SPLIT_BYTES = 32 << 20
PATIENCE = timedelta(minutes=5)

_RETRYABLE = {429, 502, 503, 504}
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 30.0


@dataclass(frozen=True, slots=True)
class Progress:
    """For a progress bar: bytes of files done of all, and spans sent so far."""

    path: Path
    bytes_done: int
    bytes_total: int
    spans: int


@dataclass(frozen=True, slots=True)
class Failed:
    path: Path
    reason: str


@dataclass(slots=True)
class ReplayResult:
    """What came of it. `rejected` spans were not valid; `failed` files could not be read."""

    spans: int = 0
    rejected: int = 0
    files: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)


class Sender:
    """Posts requests to one receiver, and tries again what may be tried again."""

    def __init__(
        self,
        url: str,
        clock: Clock,
        *,
        key: str | None = None,
        http: httpx.Client | None = None,
        sleep: Callable[[float], None] = time.sleep,
        patience: timedelta = PATIENCE,
    ) -> None:
        self._url = url.rstrip("/").removesuffix("/v1/traces") + "/v1/traces"
        self._clock = clock
        self._http = http or http_client(total_s=60)
        self._sleep = sleep
        self._patience_s = patience.total_seconds()
        self._headers = {"content-type": "application/x-protobuf"}
        if key:
            self._headers["authorization"] = f"Bearer {key}"

    def send(self, body: bytes) -> int:
        """Send one request and return how many spans were rejected.

        Raises Permanent when it is refused for good, Retryable when patience ran out.
        """
        wait_s, waited_s = _FIRST_WAIT_S, 0.0
        while True:
            try:
                return self._try(body)
            except Retryable as error:
                pause_s = wait_s if error.after is None else error.after.total_seconds()
                if waited_s + pause_s > self._patience_s:
                    raise
                self._sleep(pause_s)
                waited_s += pause_s
                wait_s = min(wait_s * 2, _LONGEST_WAIT_S)

    def _try(self, body: bytes) -> int:
        try:
            answer = self._http.post(self._url, content=body, headers=self._headers)
        except httpx.TransportError as error:
            raise Retryable(f"{self._url} cannot be reached: {error}") from error
        if answer.status_code == httpx.codes.OK:
            return ExportTraceServiceResponse.FromString(
                answer.content
            ).partial_success.rejected_spans
        message = f"{self._url} answered {answer.status_code}"
        if answer.status_code in _RETRYABLE:
            raise Retryable(message, self._retry_after(answer.headers.get("retry-after")))
        raise Permanent(f"{message}: {answer.content[:200]!r}")

    def _retry_after(self, value: str | None) -> timedelta | None:
        """Read seconds or a date."""
        if value is None:
            return None
        if value.strip().isdigit():
            return timedelta(seconds=int(value))
        try:
            return max(timedelta(0), parsedate_to_datetime(value) - self._clock.now())
        except (ValueError, TypeError):
            return None


def replay(
    paths: Sequence[Path],
    sender: Sender,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> ReplayResult:
    """Send every OTLP file of `paths`. A file that fails does not stop the others.

    Raises BadInput for a path that does not exist.
    """
    files, skipped = find(paths)
    result = ReplayResult(skipped=skipped)
    total = sum(file.path.stat().st_size for file in files)
    done = 0
    with _collector_paused():
        for file in files:
            start = done

            def tell(path: Path = file.path, start: int = start) -> None:
                on_progress(Progress(path, start, total, result.spans))

            _replay_file(file, sender, result, tell)
            done += file.path.stat().st_size
            on_progress(Progress(file.path, done, total, result.spans))
    return result


def _replay_file(
    file: OtlpFile, sender: Sender, result: ReplayResult, tell: Callable[[], None]
) -> None:
    bad: list[str] = []
    try:
        for body, spans in _sized(read(file.path), bad):
            rejected = sender.send(body)
            result.spans += spans - rejected
            result.rejected += rejected
            tell()
    except NotOtlp as error:
        if not file.named:
            result.skipped.append(Skipped(file.path, str(error)))
            return
        bad.append(str(error))
    except (TokenweirError, OSError) as error:
        bad.append(str(error))
    if bad:
        more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        result.failed.append(Failed(file.path, bad[0] + more))
    else:
        result.files += 1


def _sized(requests: Iterator[bytes | BadLine], bad: list[str]) -> Iterator[tuple[bytes, int]]:
    """Join small requests and split large ones; yield each with the number of its spans.

    What could not be read is noted in `bad`. Raises BadInput.
    """
    waiting: list[bytes] = []
    size = spans = 0
    for request in requests:
        if isinstance(request, BadLine):
            bad.append(request.reason)
            continue
        message = _parse(request)
        if waiting and size + len(request) > JOIN_BYTES:
            yield b"".join(waiting), spans
            waiting, size, spans = [], 0, 0
        if len(request) > SPLIT_BYTES:
            yield from _split(message)
        else:
            waiting.append(request)
            size += len(request)
            spans += _count(message)
    if waiting:
        yield b"".join(waiting), spans


def _split(request: ExportTraceServiceRequest) -> Iterator[tuple[bytes, int]]:
    for resource_spans in request.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            every = len(scope_spans.spans)
            step = max(1, every * JOIN_BYTES // max(1, scope_spans.ByteSize()))
            for first in range(0, every, step):
                piece = ExportTraceServiceRequest()
                piece.resource_spans.add(
                    resource=resource_spans.resource, schema_url=resource_spans.schema_url
                ).scope_spans.add(
                    scope=scope_spans.scope,
                    schema_url=scope_spans.schema_url,
                    spans=scope_spans.spans[first : first + step],
                )
                yield piece.SerializeToString(), min(step, every - first)


def _parse(request: bytes) -> ExportTraceServiceRequest:
    try:
        return ExportTraceServiceRequest.FromString(request)
    except DecodeError as error:
        raise BadInput(f"it is not an ExportTraceServiceRequest: {error}") from error


def _count(request: ExportTraceServiceRequest) -> int:
    return sum(
        len(scope_spans.spans)
        for resource_spans in request.resource_spans
        for scope_spans in resource_spans.scope_spans
    )


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Documents hold no cycles, and looking for some in them takes half of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
