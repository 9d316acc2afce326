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
_SLOWLY = timedelta(seconds=30)  # for what changes little


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
    window = state.window(now)
    chosen = plan(window, now)
    flow = reader.start(taken_in, engine, window.start, window.end, chosen.step_s, tenant)
    stored = reader.start(activity, engine, window.start, window.end, tenant)
    recent = reader.start(taken_in, engine, now - _NOW, now, 3600, tenant)
    names = reader.start(unknown_names, engine, window.start, window.end)
    beats = reader.start(read_heartbeats, engine, now)
    sources = reader.start(_sources, reader, now)
    heard = reader.memo.get(("heard",), _SLOWLY, lambda: _heard(engine, now))
    first = reader.memo.get(("first taken in",), SHARED, lambda: first_taken_in(engine))
    ports = deps.intake
    receiver = read_receiver(ports.status(), now) if ports else None
    lag = ports.pipeline.lag() if ports else None
    letters = _newest_first(ports.letters(), tenant) if ports else None
    within = stored.result(PATIENCE_S)
    return IntakeFacts(
        now=now,
        window=window,
        plan=chosen,
        receiver=receiver,
        lag=lag,
        pipeline=ports.pipeline.status() if ports else None,
        log_bytes=ports.log_bytes if ports else None,
        letters=letters,
        flow=flow.result(PATIENCE_S),
        spans_per_s=_pace(recent.result(PATIENCE_S), lag, first),
        first=first,
        newest=max([*heard.values(), *(each.last for each in within if each.last)], default=first),
        senders=sender_rows(within, heard, receiver, letters, tenant),
        names=names.result(PATIENCE_S),
        sources=sources.result(PATIENCE_S),
        beats=beats.result(PATIENCE_S),
    )


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
