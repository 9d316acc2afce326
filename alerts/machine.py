"""The alert state machine; pure.

inactive -> pending -> firing <-> clearing -> resolved -> inactive

A reading that is unknown freezes the alert where it stands: it neither fires nor resolves, and
the time spent frozen does not count towards any timer.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from alerts.model import (
    AlertState,
    Burning,
    Condition,
    Reading,
    Turn,
    Unknown,
    episode_id,
)

KEEP_RESOLVED = timedelta(minutes=15)  # a resolved alert stays in view this long

Step = tuple[AlertState, tuple[Turn, ...]]


def step(state: AlertState, reading: Reading, now: datetime, *, fingerprint: str) -> Step:
    """Move one alert by one reading.

    `fingerprint` names the alert; a new episode's id is derived from it and `now`.
    """
    if state.condition is Condition.RESOLVED and _elapsed(state.since, now) >= KEEP_RESOLVED:
        state = AlertState()
    if isinstance(reading, Unknown):
        return _freeze(state, reading.reason, now)
    state, thawed = _thaw(state, now)
    if isinstance(reading, Burning):
        moved, turns = _burn(state, reading, now, fingerprint)
    else:
        moved, turns = _calm(state, now)
    return moved, thawed + turns


def withdraw(state: AlertState, now: datetime) -> Step:
    """End an alert because its SLO is gone or a person closed it, whatever is measured."""
    state, _ = _thaw(state, now)
    if state.is_open:
        return _resolve(state, now)
    return AlertState(), ()


def _burn(state: AlertState, reading: Burning, now: datetime, fingerprint: str) -> Step:
    match state.condition:
        case Condition.INACTIVE | Condition.RESOLVED:
            pending = AlertState(
                condition=Condition.PENDING,
                since=now,
                severity=reading.severity,
                tier=reading.tier,
                episode=episode_id(fingerprint, now),
                hold_for=reading.hold_for,
                keep_for=reading.keep_for,
            )
            if reading.hold_for > timedelta(0):
                return pending, (Turn.PENDING,)
            return _fire(pending, reading, now)
        case Condition.PENDING:
            if _elapsed(state.since, now) >= reading.hold_for:
                return _fire(state, reading, now)
            return replace(state, severity=reading.severity, tier=reading.tier), ()
        case Condition.CLEARING:
            back = replace(state, condition=Condition.FIRING, since=now, easing_since=state.since)
            moved, turns = _reweigh(back, reading, now)
            return moved, (Turn.RETURNED, *turns)
        case Condition.FIRING:
            return _reweigh(state, reading, now)


def _fire(state: AlertState, reading: Burning, now: datetime) -> Step:
    fired = replace(
        state,
        condition=Condition.FIRING,
        since=now,
        fired_at=now,
        severity=reading.severity,
        tier=reading.tier,
        keep_for=reading.keep_for,
    )
    return fired, (Turn.FIRED,)


def _reweigh(state: AlertState, reading: Burning, now: datetime) -> Step:
    """Raise the severity at once; lower it only after the louder tier kept quiet for keep_for."""
    told = state.severity
    if told is None or reading.severity.rank >= told.rank:
        louder = told is not None and reading.severity.rank > told.rank
        adopted = _adopt(state, reading)
        return adopted, (Turn.RAISED,) if louder else ()
    easing = state.easing_since or now
    if now - easing >= state.keep_for:
        return _adopt(state, reading), (Turn.LOWERED,)
    return replace(state, easing_since=easing), ()


def _adopt(state: AlertState, reading: Burning) -> AlertState:
    return replace(
        state,
        severity=reading.severity,
        tier=reading.tier,
        keep_for=reading.keep_for,
        easing_since=None,
    )


def _calm(state: AlertState, now: datetime) -> Step:
    match state.condition:
        case Condition.INACTIVE | Condition.RESOLVED:
            return state, ()
        case Condition.PENDING:
            return AlertState(), (Turn.CALMED,)
        case Condition.FIRING if state.keep_for > timedelta(0):
            held = replace(state, condition=Condition.CLEARING, since=now, easing_since=None)
            return held, (Turn.CLEARING,)
        case Condition.CLEARING if _elapsed(state.since, now) < state.keep_for:
            return state, ()
        case Condition.FIRING | Condition.CLEARING:
            return _resolve(state, now)


def _resolve(state: AlertState, now: datetime) -> Step:
    resolved = replace(
        state, condition=Condition.RESOLVED, since=now, resolved_at=now, easing_since=None
    )
    return resolved, (Turn.RESOLVED,)


def _freeze(state: AlertState, reason: str, now: datetime) -> Step:
    if state.condition in {Condition.INACTIVE, Condition.RESOLVED}:
        return state, ()
    if state.frozen_since is not None:
        return replace(state, frozen_reason=reason), ()
    return replace(state, frozen_since=now, frozen_reason=reason), (Turn.FROZE,)


def _thaw(state: AlertState, now: datetime) -> Step:
    if state.frozen_since is None:
        return state, ()
    lost = max(timedelta(0), now - state.frozen_since)
    thawed = replace(
        state,
        since=state.since + lost if state.since else None,
        easing_since=state.easing_since + lost if state.easing_since else None,
        frozen_since=None,
        frozen_reason="",
    )
    return thawed, (Turn.THAWED,)


def _elapsed(since: datetime | None, now: datetime) -> timedelta:
    return now - since if since is not None else timedelta(0)
