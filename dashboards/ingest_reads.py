"""What the ingest page reads: bookkeeping of the store, the receiver's report, the dead letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from collector.dead_letter import DeadLetter
from collector.pipeline import Lag, PipelineStatus
from cost.read import Window
from dashboards.intake import ReceiverState, Sender, SenderRow, read_receiver, sender_rows
from dashboards.queries import Heartbeat, read_heartbeats
from dashboards.reader import PATIENCE_S, SHARED, Reader
from dashboards.rollups import Plan, plan
from dashboards.state import ViewState
from store.engine import Engine
from store.ingest_history import (
    SenderActivity,
    TakenIn,
    UnknownName,
    activity,
    first_taken_in,
    taken_in,
    unknown_names,
)
from store.sources import SourceState, watermarks

HEARD_WITHIN = timedelta(days=7)
"""Who was last heard before is not shown as silent: it was taken away."""

_NOW = timedelta(minutes=1)
_STILL_CURRENT = timedelta(seconds=10)
_SLOWLY = _LONGEST = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class IntakeFacts:
    """`flow` is of the time range in steps of `plan`; `first` None: nothing was ever stored.

    What is None is not known: the pages run without a receiver, or the store is behind.
    """

    now: datetime
    window: Window
    plan: Plan
    receiver: ReceiverState | None
    lag: Lag | None
    pipeline: PipelineStatus | None
    log_bytes: int | None
    letters: Sequence[DeadLetter] | None
    flow: Sequence[TakenIn]
    spans_per_s: float | None
    first: datetime | None
    newest: datetime | None
    senders: Sequence[SenderRow]
    names: Sequence[UnknownName]
    sources: Sequence[SourceState]
    beats: Sequence[Heartbeat]


def read_intake(reader: Reader, state: ViewState) -> IntakeFacts:
    """Read everything the page shows, side by side."""
    deps, tenant = reader.deps, state.tenant
    engine, now = deps.engine, deps.clock.now()
    recent = reader.start(taken_in, engine, now - _NOW, now, 3600, tenant)
    beats = reader.start(read_heartbeats, engine, now)
    sources = reader.start(_sources, reader, now)
    stored = _read_stored(reader, state, now)
    heard = reader.memo.get(("heard",), _SLOWLY, lambda: _heard(engine, now))
    first = reader.memo.get(("first taken in",), SHARED, lambda: first_taken_in(engine))
    ports = deps.intake
    receiver = read_receiver(ports.status(), now) if ports else None
    lag = ports.pipeline.lag() if ports else None
    letters = _newest_first(ports.letters(), tenant) if ports else None
    lately = recent.result(PATIENCE_S)
    times = [*heard.values(), *(each.last for each in stored.senders if each.last)]
    if lately:
        times.append(now - _NOW)
    return IntakeFacts(
        now=now,
        window=stored.window,
        plan=stored.plan,
        receiver=receiver,
        lag=lag,
        pipeline=ports.pipeline.status() if ports else None,
        log_bytes=ports.log_bytes if ports else None,
        letters=letters,
        flow=stored.flow,
        spans_per_s=_pace(lately, lag, first),
        first=first,
        newest=max(times, default=first),
        senders=sender_rows(stored.senders, heard, receiver, letters, tenant),
        names=stored.names,
        sources=sources.result(PATIENCE_S),
        beats=beats.result(PATIENCE_S),
    )


@dataclass(frozen=True, slots=True)
class _Stored:
    """What the store says of the time range, as it was when this was read."""

    window: Window
    plan: Plan
    flow: Sequence[TakenIn]
    senders: Sequence[SenderActivity]
    names: Sequence[UnknownName]


def _read_stored(reader: Reader, state: ViewState, now: datetime) -> _Stored:
    """Read the time range; a month of batches, which hardly moves in a minute, not each time."""
    window, tenant = state.window(now), state.tenant
    keep = min(max((window.end - window.start) / 5000, SHARED), _LONGEST)

    def make() -> _Stored:
        chosen, engine = plan(window, now), reader.deps.engine
        within = (engine, window.start, window.end)
        flow = reader.start(taken_in, *within, chosen.step_s, tenant)
        senders = reader.start(activity, *within, tenant)
        names = unknown_names(*within, tenant)
        return _Stored(window, chosen, flow.result(PATIENCE_S), senders.result(PATIENCE_S), names)

    key = ("taken in", state.range, state.start, state.end, tenant)
    stored: _Stored = reader.memo.get(key, keep, make)
    return stored


def _pace(recent: Sequence[TakenIn], lag: Lag | None, first: datetime | None) -> float | None:
    """Say how many spans a second arrive; not known while the last minute is not stored yet."""
    if first is None or (lag is not None and lag.age is not None and lag.age > _STILL_CURRENT):
        return None
    return sum(each.accepted for each in recent) / _NOW.total_seconds()


def _heard(engine: Engine, now: datetime) -> Mapping[Sender, datetime]:
    found: Sequence[SenderActivity] = activity(engine, now - HEARD_WITHIN, now)
    return {(each.source, each.tenant): each.last for each in found if each.last}


def _sources(reader: Reader, now: datetime) -> list[SourceState]:
    return watermarks(reader.deps.engine, now, now - HEARD_WITHIN)


def _newest_first(letters: Sequence[DeadLetter], tenant: str | None) -> list[DeadLetter]:
    return [each for each in reversed(letters) if tenant is None or each.tenant in {tenant, ""}]
