"""From the log to the store: batches in, facts refreshed, listeners told, position committed.

A batch is taken through four stages, and a failure repeats only the stage that failed:

    insert spans -> refresh facts -> listeners, in order -> commit the position, free the log

Which range a batch covers is on disk before it is inserted. After a crash the same range is done
again under the same token and number; every stage is a no-op the second time.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from prometheus_client import Counter

from base.clock import Clock
from base.errors import Permanent, Retryable
from base.selfmon import REGISTRY, Log
from collector.dead_letter import DeadLetters
from collector.progress import Progress, ProgressFile
from collector.wal_reader import LogReader, Range
from collector.wal_records import Entry, LogRecord, Position
from collector.wellformed import rewritten
from store.otlp import SpanRecord

BATCH_SPANS = 50_000
BATCH_BYTES = 64 << 20
BATCH_WAIT = timedelta(seconds=1)

_POLL_S = 0.05
_DOUBTS = 5  # tries of a batch of which nothing at all can be inserted
_FIRST_BACKOFF_S = 0.2
_LONGEST_BACKOFF_S = 30.0

_spans_total = Counter(
    "tokenweir_collector_spans_inserted", "Spans taken from the log", registry=REGISTRY
)
_batches_total = Counter(
    "tokenweir_collector_batches_inserted", "Batches taken through", registry=REGISTRY
)
_dead_total = Counter(
    "tokenweir_collector_requests_dead_lettered", "Requests set aside", registry=REGISTRY
)
_errors_total = Counter(
    "tokenweir_collector_batch_failures",
    "Tries that failed, by stage",
    ["stage"],
    registry=REGISTRY,
)
_log = Log(__name__)


class SpanSink(Protocol):
    """Stores the spans of a batch.

    The same `token` twice changes nothing. Raises Permanent when the data are at fault, Retryable
    or anything else when they are not.
    """

    def insert(self, records: Sequence[SpanRecord], token: str, seq: int) -> None: ...


class FactSource(Protocol):
    """Works out the request facts that a batch's spans change; returns their 10-second buckets."""

    def refresh(self, seq: int) -> Sequence[datetime]: ...


class BucketListener(Protocol):
    """Recomputes what is derived from the facts of some buckets. Idempotent."""

    def refresh(self, buckets: Sequence[datetime], version: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Lag:
    """How far the store is behind the log. `age` is None when nothing waits."""

    bytes: int
    age: timedelta | None


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """What happened since this process started; `error` is the present one."""

    consumed: Position
    seq: int
    batches: int
    spans: int
    dead_lettered: int
    failures: int
    error: str | None


@dataclass(slots=True)
class _Batch:
    range: Range
    seq: int
    stage: str = "insert"
    doubts: int = 0  # times that nothing at all could be inserted
    buckets: Sequence[datetime] = ()
    told: int = 0  # listeners that are done


class Pipeline:
    """A thread that takes the log into the store.

    `step` does one batch in the caller's thread: for tests, and for replays into a folder.
    """

    def __init__(
        self,
        log: LogReader,
        spans: SpanSink,
        facts: FactSource,
        listeners: Sequence[BucketListener],
        clock: Clock,
        *,
        progress: ProgressFile,
        dead_letters: DeadLetters,
        batch_spans: int = BATCH_SPANS,
        batch_wait: timedelta = BATCH_WAIT,
    ) -> None:
        self._source = log
        self._spans = spans
        self._facts = facts
        self._listeners = listeners
        self._clock = clock
        self._file = progress
        self._dead_letters = dead_letters
        self._batch_spans = batch_spans
        self._batch_wait_s = batch_wait.total_seconds()
        self._progress = progress.load()
        self._batch: _Batch | None = None
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._state = threading.Condition()
        self._drains_wanted = 0
        self._drains_done = 0
        self._counts = {"batches": 0, "spans": 0, "dead_lettered": 0, "failures": 0}
        self._error: str | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="pipeline", daemon=True)
        self._thread.start()

    def stop(self, timeout: timedelta = timedelta(seconds=20)) -> bool:
        """End after the present stage; False when it did not end in time.

        What is unfinished is done again at the next start.
        """
        self._stop.set()
        self._wake.set()
        if self._thread is None:
            return True
        self._thread.join(timeout.total_seconds())
        return not self._thread.is_alive()

    def drain(self, timeout: timedelta) -> bool:
        """Wait until everything in the log now is in the store; False when that took too long."""
        with self._state:
            self._drains_wanted += 1
            mine = self._drains_wanted
        self._wake.set()
        with self._state:
            return self._state.wait_for(lambda: self._drains_done >= mine, timeout.total_seconds())

    def lag(self) -> Lag:
        consumed = self._progress.consumed
        first = self._source.peek(consumed)
        if first is None:
            return Lag(0, None)
        age = self._clock.now().timestamp() - first.received_ns / 1e9
        return Lag(self._source.bytes_after(consumed), timedelta(seconds=max(0.0, age)))

    def status(self) -> PipelineStatus:
        return PipelineStatus(
            consumed=self._progress.consumed,
            seq=self._progress.seq,
            error=self._error,
            **self._counts,
        )

    def step(self) -> bool:
        """Take one batch through; False when the log holds nothing.

        Raises what a stage raised; the next call goes on with the same batch at the same stage.
        """
        if self._batch is None:
            self._batch = self._begin(
                self._source.read(
                    self._progress.consumed,
                    until=self._progress.inflight,
                    max_spans=None if self._progress.inflight else self._batch_spans,
                    max_bytes=None if self._progress.inflight else BATCH_BYTES,
                )
            )
        if self._batch is None:
            return False
        self._take_through(self._batch)
        self._batch = None
        return True

    def _run(self) -> None:
        backoff_s = _FIRST_BACKOFF_S
        while not self._stop.is_set():
            try:
                wanted = self._drains_wanted
                if self._batch is None and self._progress.inflight is None:
                    self._batch = self._begin(self._gather())
                if not self.step():
                    with self._state:
                        self._drains_done = max(self._drains_done, wanted)
                        self._state.notify_all()
                    self._pause(_POLL_S)
            except Exception as error:  # noqa: BLE001  nothing may end this thread
                self._failed(error)
                self._pause(_wait_s(error, backoff_s))
                backoff_s = min(backoff_s * 2, _LONGEST_BACKOFF_S)
            else:
                self._error = None
                backoff_s = _FIRST_BACKOFF_S

    def _gather(self) -> Range:
        """Read until a batch is full, or its first record has waited long enough."""
        start = end = self._progress.consumed
        entries: list[Entry] = []
        spans, size, begun = 0, 0, self._clock.monotonic()
        while True:
            more = self._source.read(
                end, max_spans=self._batch_spans - spans, max_bytes=BATCH_BYTES - size
            )
            entries += more.entries
            spans += more.spans
            size += sum(len(entry.record.body) for entry in more.entries)
            end = more.end
            waited_s = self._clock.monotonic() - begun
            full = spans >= self._batch_spans or size >= BATCH_BYTES
            if not entries or full or waited_s >= self._batch_wait_s or self._in_a_hurry():
                return Range(start, end, tuple(entries))
            self._pause(min(_POLL_S, self._batch_wait_s))

    def _in_a_hurry(self) -> bool:
        return self._stop.is_set() or self._drains_wanted > self._drains_done

    def _pause(self, seconds: float) -> None:
        self._wake.wait(seconds)
        if not self._stop.is_set():
            self._wake.clear()

    def _begin(self, found: Range) -> _Batch | None:
        """Write down what is about to be done, before it is begun."""
        progress = self._progress
        if not found.entries:
            if found.end != progress.consumed or progress.inflight is not None:
                self._commit(Progress(found.end, progress.seq))
            return None
        if progress.inflight is None:
            # Milliseconds, not 1, 2, 3: numbers go on growing even if the progress file is lost.
            seq = max(progress.seq + 1, int(self._clock.now().timestamp() * 1000))
            self._commit(Progress(progress.consumed, seq, found.end))
        return _Batch(found, self._progress.seq)

    def _take_through(self, batch: _Batch) -> None:
        if batch.stage == "insert":
            self._insert(batch)
            batch.stage = "facts"
        if batch.stage == "facts":
            batch.buckets = self._facts.refresh(batch.seq)
            batch.stage = "listeners"
        if batch.stage == "listeners":
            while batch.told < len(self._listeners):
                self._listeners[batch.told].refresh(batch.buckets, batch.seq)
                batch.told += 1
            batch.stage = "commit"
        self._commit(Progress(batch.range.end, batch.seq))
        self._source.free(batch.range.end)
        self._counts["batches"] += 1
        self._counts["spans"] += batch.range.spans
        _batches_total.inc()
        _spans_total.inc(batch.range.spans)

    def _insert(self, batch: _Batch) -> None:
        """Insert, and set aside the requests that are at fault.

        When not one request of a batch can be inserted, it is more likely the store that is at
        fault: that is tried a few times before it is believed.
        """
        poisoned = self._insert_or_narrow(batch.range.entries, batch.seq)
        if len(poisoned) == len(batch.range.entries) and batch.doubts < _DOUBTS:
            batch.doubts += 1
            raise poisoned[0][1]
        for entry, error in poisoned:
            self._dead_letters.put(entry, str(error))
            self._counts["dead_lettered"] += 1
            _dead_total.inc()
            _log.error("request_dead_lettered", position=str(entry.start), reason=str(error))

    def _insert_or_narrow(
        self, entries: Sequence[Entry], seq: int
    ) -> list[tuple[Entry, Permanent]]:
        """Insert what can be inserted; return the rest, each with its error.

        The engine reads less of protobuf than the receiver: no groups, and no known field of
        another wire type, both of which are unknown fields and ignored. What it cannot read is
        therefore written anew, as a library would, before it is given up.
        """
        token = f"{entries[0].start}-{entries[-1].end}"
        try:
            self._spans.insert([_for_store(entry.record) for entry in entries], token, seq)
        except Permanent as error:
            if len(entries) == 1:
                plainly = rewritten(entries[0].record.body)
                if plainly is None:
                    return [(entries[0], error)]
                record = replace(entries[0].record, body=plainly)
                again = replace(entries[0], record=record)
                failed = self._insert_or_narrow([again], seq)
                return [(entries[0], why) for _, why in failed]
            half = len(entries) // 2
            return [
                *self._insert_or_narrow(entries[:half], seq),
                *self._insert_or_narrow(entries[half:], seq),
            ]
        return []

    def _commit(self, progress: Progress) -> None:
        self._file.save(progress)
        self._progress = progress

    def _failed(self, error: Exception) -> None:
        stage = "read" if self._batch is None else self._batch.stage
        self._error = f"{stage}: {type(error).__name__}: {error}"
        self._counts["failures"] += 1
        _errors_total.labels(stage).inc()
        _log.exception("batch_failed", stage=stage, seq=self._progress.seq)


def _for_store(record: LogRecord) -> SpanRecord:
    return SpanRecord(record.body, record.tenant, record.source, record.received_ns)


def _wait_s(error: Exception, backoff_s: float) -> float:
    if isinstance(error, Retryable) and error.after is not None:
        return error.after.total_seconds()
    return backoff_s
