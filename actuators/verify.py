"""Did the change do what it was expected to do? Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from actuators.capacity import is_queueing
from actuators.evidence import Evidence, known
from actuators.lease import Kind, Lease
from actuators.settings import Thresholds
from slo.verdict import Verdict


class Outcome(StrEnum):
    WAIT = "wait"
    MET = "met"
    NOT_MET = "not_met"
    NOT_ENOUGH = "not_enough"  # more of the same is needed; taking it back would make it worse
    NO_DATA = "no_data"  # nothing to judge by: neither proof nor disproof


@dataclass(frozen=True, slots=True)
class Finding:
    outcome: Outcome
    note: str
    measured: float | None = None


def judge(
    lease: Lease,
    evidence: Evidence,
    hot: Sequence[Verdict],
    *,
    in_place: bool | None,
    thresholds: Thresholds,
    now: datetime,
) -> Finding:
    """Compare what is with what was promised.

    `in_place` is what reading back said: True, False, or None when the target can't be asked or
    has not answered yet. `hot` are the verdicts that burn now.
    """
    due = now >= lease.verify_by
    value = known(evidence.metric(lease.expect.metric))
    missing = _not_there(lease, evidence, in_place=in_place)
    if missing is not None:
        return Finding(Outcome.NOT_MET if due else Outcome.WAIT, missing, value)
    if lease.expect.direction == "hold":
        return _judge_hold(lease, value, hot, due=due)
    if value is None:
        note = f"{lease.expect.metric} is not known"
        return Finding(Outcome.NO_DATA if due else Outcome.WAIT, note)
    queueing = is_queueing(evidence, thresholds)
    return _judge_fall(lease, value, due=due, queueing=queueing)


def _not_there(lease: Lease, evidence: Evidence, *, in_place: bool | None) -> str | None:
    """Say why the change can't have had an effect yet."""
    if in_place is None:
        return "the change was never confirmed by its target"
    if not in_place:
        return "the change is not in place"
    if lease.kind is Kind.SCALE and not _replicas_are_ready(lease, evidence):
        return "the new replicas are not ready"
    return None


def _judge_fall(lease: Lease, value: float, *, due: bool, queueing: bool) -> Finding:
    expect = lease.expect
    said = f"{expect.metric} went from {_number(expect.before)} to {_number(value)}"
    fell = expect.before is not None and value <= expect.before * (1 - expect.by)
    if value <= expect.enough or fell:
        return Finding(Outcome.MET, said, value)
    if not due:
        return Finding(Outcome.WAIT, said, value)
    if lease.kind is Kind.SCALE and queueing:
        return Finding(Outcome.NOT_ENOUGH, f"{said}: capacity is used, but still short", value)
    return Finding(Outcome.NOT_MET, said, value)


def _judge_hold(lease: Lease, value: float | None, hot: Sequence[Verdict], *, due: bool) -> Finding:
    metric = lease.expect.metric
    if hot or (value is not None and value > lease.expect.enough):
        burns = f"; {hot[0].slo} burns" if hot else ""
        return Finding(Outcome.NOT_MET, f"{metric} is {_number(value)}{burns}", value)
    held = f"{metric} stayed at {_number(value)}"
    return Finding(Outcome.MET if due else Outcome.WAIT, held, value)


def _replicas_are_ready(lease: Lease, evidence: Evidence) -> bool:
    fleet = evidence.fleet(lease.target.partition("/")[2])
    state = known(fleet.state) if fleet else None
    return state is not None and state.ready >= int(lease.change["desired"])


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.6g}"
