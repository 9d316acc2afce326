"""Asks one server for its SLOs: what is new every few seconds, what is old in between.

What is read for good is one stretch of time per SLO, [since, until). Each poll reads from `until`
to now and moves `until` on to the block that may still change (`late`), so what appears late is
counted. In between, history is read backwards day by day until the stretch holds the window; within
a day forwards, because counters are. The stretch is stored: after a restart reading goes on where
it ended, and reading something twice changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from prometheus_client import Counter, Gauge

from base.clock import Clock
from base.durations import format_instant
from base.errors import Permanent, Retryable
from base.selfmon import REGISTRY, Log
from slo.model import Slo
from slo.prometheus.client import TooMuch
from slo.prometheus.reading import Memory, Reader, Reading
from slo.prometheus.rows import CountWriter, Stretch
from slo.prometheus.tally import BLOCK_MS
from slo.settings import PrometheusSettings

CHUNK_S = 6 * 3600
"""Of history, read at once."""

_BLOCK_S = BLOCK_MS // 1000
_DAY_S, _HOUR_S = 86_400, 3600
_FIRST_WAIT_S, _LONGEST_WAIT_S = 5.0, 60.0

log = Log(__name__)

READS = Counter(
    "tokenweir_slo_prometheus_reads",
    "Reads of an SLO from a Prometheus server, by how they ended.",
    ["server", "result"],
    registry=REGISTRY,
)
NOT_COUNTED = Gauge(
    "tokenweir_slo_prometheus_uncounted_samples",
    "First samples in the newest read that may show events from before, and were not counted.",
    ["slo"],
    registry=REGISTRY,
)
NEWEST = Gauge(
    "tokenweir_slo_prometheus_newest_sample_timestamp_seconds",
    "Time of the newest sample of an SLO from Prometheus.",
    ["slo"],
    registry=REGISTRY,
)


@dataclass(slots=True)
class _State:
    slo: Slo
    reader: Reader
    stretch: Stretch | None = None
    memory: Memory | None = None
    old: Memory | None = None  # where reading of the day before the stretch has come to
    old_since: int = 0  # where that day's reading began
    error: str | None = None
    doubt: str | None = None
    retry_at: float = 0.0


class Poller:
    """One thread, one server; `step` does what is due and is what the thread repeats."""

    def __init__(
        self,
        name: str,
        readers: Sequence[tuple[Slo, Reader]],
        writer: CountWriter,
        settings: PrometheusSettings,
        clock: Clock,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._name = name
        self._states = [_State(slo, reader) for slo, reader in readers]
        self._writer = writer
        self._settings = settings
        self._clock = clock
        self._stop = threading.Event()
        self._wait = wait or self._stop.wait
        self._due = clock.monotonic()
        self._paused_until = clock.monotonic()
        self._pause_s = 0.0
        self._server_error: str | None = None
        self._thread = threading.Thread(target=self._run, name=f"prometheus-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Ask the loop to end, without waiting for it."""
        self._stop.set()

    def stop(self, timeout_s: float = 20.0) -> None:
        """End, and wait for the question that is out."""
        self.end()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def problems(self) -> Mapping[str, str]:
        """Say, by SLO, why what is shown may be old or lack something."""
        found = {
            state.slo.name: self._server_error or state.error or state.doubt or self._unread(state)
            for state in self._states
        }
        return {name: text for name, text in found.items() if text}

    def step(self) -> float:
        """Do what is due; return after how many seconds there is something to do again."""
        started = self._clock.monotonic()
        if started < self._paused_until:
            return self._paused_until - started
        if started >= self._due:
            self._due = started + self._settings.poll_every.total_seconds()
            if not self._each(self._states, self._poll):
                return self._paused_until - self._clock.monotonic()
        waiting = [state for state in self._states if self._has_history(state)]
        began = self._clock.monotonic()
        if waiting and not self._each([min(waiting, key=_newest_first)], self._read_history):
            return self._paused_until - self._clock.monotonic()
        now = self._clock.monotonic()
        if any(self._has_history(state) for state in self._states):
            return max(0.0, min(now - began, self._due - now))  # rest as long as it took
        return max(0.0, self._due - now)

    def _run(self) -> None:
        while not self._wait(self.step()):
            pass

    def _each(self, states: Sequence[_State], do: Callable[[_State], None]) -> bool:
        """Do it for each; False if the server could not answer, and is left alone for a while."""
        for state in states:
            if self._stop.is_set():
                return True
            if self._clock.monotonic() < state.retry_at:
                continue
            try:
                do(state)
            except TooMuch as error:
                self._failed(state, str(error), "refused")
            except Retryable as error:
                self._pause(error)
                self._states.sort(key=lambda each: each is state)  # the others go first next time
                return False
            except Permanent as error:
                self._failed(state, str(error), "refused")
            except Exception:
                log.exception("slo_prometheus_failed", server=self._name, slo=state.slo.name)
                self._failed(state, "reading failed: see the log", "failed")
            else:
                self._worked(state)
        return True

    def _poll(self, state: _State) -> None:
        now = _milliseconds(self._clock.now())
        settled = (now - _milliseconds_of(self._settings.late)) // BLOCK_MS * _BLOCK_S
        if state.stretch is None:
            state.stretch = self._writer.read_stretch(state.slo)
        if state.stretch is None or state.stretch.until <= self._wanted(state.slo):
            state.stretch = Stretch(settled, settled)
            state.memory = None
        if state.memory is None:
            state.memory = state.reader.remember(state.stretch.until * 1000)
        while state.stretch.until + CHUNK_S < settled and not self._stop.is_set():
            until = state.stretch.until + CHUNK_S
            self._advance(state, until, until * 1000)
        # A clock that was set back reads again what is settled, and settles nothing.
        self._advance(state, max(settled, state.stretch.until), now + 1)

    def _advance(self, state: _State, until: int, end: int) -> None:
        """Read from the stretch's end to `end`, milliseconds, and settle what is before `until`."""
        assert state.stretch is not None  # noqa: S101
        assert state.memory is not None  # noqa: S101
        start = state.stretch.until * 1000
        if end <= start:
            return
        reading = state.reader.read(state.memory, start, end, until * 1000)
        self._writer.write(state.slo, reading)
        state.memory = reading.memory
        self._judge(state, reading)
        if until > state.stretch.until:
            state.stretch = replace(state.stretch, until=until)
            self._writer.write_stretch(state.slo, state.stretch)

    def _read_history(self, state: _State) -> None:
        assert state.stretch is not None  # noqa: S101
        since = state.stretch.since
        if state.old is None or state.old.at >= since * 1000:
            state.old_since = max((since - 1) // _DAY_S * _DAY_S, self._wanted(state.slo))
            state.old = state.reader.remember(state.old_since * 1000)
        start = state.old.at
        end = min(start + CHUNK_S * 1000, since * 1000)
        reading = state.reader.read(state.old, start, end, end)
        self._writer.write(state.slo, reading)
        state.old = reading.memory
        if end == since * 1000:
            state.stretch = replace(state.stretch, since=state.old_since)
            state.old = None
            self._writer.write_stretch(state.slo, state.stretch)

    def _has_history(self, state: _State) -> bool:
        return (
            state.stretch is not None
            and self._clock.monotonic() >= state.retry_at
            and state.stretch.since > self._wanted(state.slo)
        )

    def _wanted(self, slo: Slo) -> int:
        """Say from when on events are needed, in whole hours."""
        now = self._clock.now()
        firsts = [now - slo.window, *(each.bounds(now)[0] for each in slo.calendars)]
        return max(0, int(min(firsts).timestamp()) // _HOUR_S * _HOUR_S)

    def _unread(self, state: _State) -> str | None:
        if state.stretch is None:
            return None if state.error else "nothing was read yet"
        if state.stretch.since <= self._wanted(state.slo):
            return None
        since = format_instant(datetime.fromtimestamp(state.stretch.since, UTC))
        return f"history is being read: from {since} on so far"

    def _judge(self, state: _State, reading: Reading) -> None:
        """Keep what is doubtful about a read, and say it once."""
        NOT_COUNTED.labels(state.slo.name).set(reading.unknown)
        if reading.minutes:
            newest = max(last for _, last in reading.minutes.values())
            NEWEST.labels(state.slo.name).set(newest / 1000)
        doubt = "; ".join([*map(str, reading.impossible[:3]), *reading.notes]) or None
        if doubt is not None and state.doubt is None:
            log.warning(
                "slo_prometheus_doubt", server=self._name, slo=state.slo.name, problem=doubt
            )
        state.doubt = doubt

    def _worked(self, state: _State) -> None:
        READS.labels(self._name, "ok").inc()
        if self._server_error is not None:
            log.info("slo_prometheus_answers_again", server=self._name)
        if state.error is not None:
            log.info("slo_prometheus_reads_again", server=self._name, slo=state.slo.name)
        self._server_error, self._pause_s = None, 0.0
        state.error = None

    def _failed(self, state: _State, problem: str, result: str) -> None:
        """Leave this SLO alone for a minute; the others go on."""
        READS.labels(self._name, result).inc()
        if state.error is None:
            log.warning(
                "slo_prometheus_refused", server=self._name, slo=state.slo.name, problem=problem
            )
        state.error = problem
        state.retry_at = self._clock.monotonic() + _LONGEST_WAIT_S

    def _pause(self, error: Retryable) -> None:
        """Leave the server alone, for as long as it asked or longer each time."""
        READS.labels(self._name, "retry").inc()
        self._pause_s = min(max(_FIRST_WAIT_S, self._pause_s * 2), _LONGEST_WAIT_S)
        wait = self._pause_s if error.after is None else error.after.total_seconds()
        self._paused_until = self._clock.monotonic() + max(wait, 1.0)
        self._due = self._paused_until
        if self._server_error is None:
            log.warning("slo_prometheus_unanswered", server=self._name, problem=str(error))
        self._server_error = str(error)


def _newest_first(state: _State) -> int:
    """Read first for the SLO that has come least far."""
    return 0 if state.stretch is None else -state.stretch.since


def _milliseconds(moment: datetime) -> int:
    return _milliseconds_of(moment - datetime.fromtimestamp(0, UTC))


def _milliseconds_of(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)
