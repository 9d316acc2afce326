"""Answer three questions: may this evidence be acted on, are we burning, are we calm.

They are separate: neither "not burning" nor "nothing known" means calm.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from actuators.evidence import Absent, Evidence, Known, Stale
from actuators.settings import ActuatorSettings
from base.durations import format_duration
from slo.verdict import State, TierVerdict, Verdict

_UNTRUSTED = (State.STALE, State.ABSENT)


@dataclass(frozen=True, slots=True)
class Trust:
    """Whether decisions may be made; if not, the sentences that say why."""

    reasons: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.reasons


def judge_trust(evidence: Evidence) -> Trust:
    """Say what is missing. A telemetry fault wins over every other explanation.

    An SLO counts as blind when none of its groups is known: one tenant's silence, or a group that
    never had traffic, does not stop the loop for all others.
    """
    reasons: list[str] = []
    match evidence.source:
        case Stale(at=at, age=age):
            reasons.append(
                f"telemetry of {evidence.scope} is silent since {at:%H:%M:%S} "
                f"({format_duration(age)})"
            )
        case Absent(why=why):
            reasons.append(f"no telemetry of {evidence.scope}: {why}")
        case Known():
            pass
    if not evidence.verdicts:
        reasons.append("no SLO has a verdict")
        return Trust(tuple(reasons))
    states: dict[str, list[State]] = defaultdict(list)
    for verdict in evidence.verdicts:
        states[verdict.slo].append(verdict.state)
    reasons += [
        f"slo {slo}: every verdict is stale"
        for slo, seen in sorted(states.items())
        if State.STALE in seen and all(s in _UNTRUSTED for s in seen)
    ]
    if all(v.state is State.ABSENT for v in evidence.verdicts):
        reasons.append("no SLO ever had data")
    return Trust(tuple(reasons))


def burning(verdicts: Iterable[Verdict], settings: ActuatorSettings) -> tuple[Verdict, ...]:
    """Return the verdicts that call for action, the hottest first."""
    found = [
        v
        for v in verdicts
        if v.state not in _UNTRUSTED
        and any(t.burning and (settings.act_on == "any" or t.severity == "page") for t in v.tiers)
    ]
    return tuple(sorted(found, key=lambda v: (-_heat(v), v.slo, sorted(v.group.items()))))


def fast_tier(verdict: Verdict) -> TierVerdict | None:
    """Return the tier with the shortest window, the first to speak and the first to fall silent."""
    return min(verdict.tiers, key=lambda t: (t.short, t.long), default=None)


def is_calm(evidence: Evidence, settings: ActuatorSettings) -> bool:
    """Say whether the fast tier of every SLO burns below 1 on both windows and nothing queues.

    A burn of None under a trusted source is an idle service, which is calm. A spent budget that
    burns no more is calm too: undoing must not wait for the budget to grow back.
    """
    if not judge_trust(evidence).ok or not all(_is_quiet(v) for v in evidence.verdicts):
        return False
    match evidence.queue_p95_ms:
        case Known(value=queue):
            return queue < settings.thresholds.queueing_ms
        case Stale():
            return False
        case Absent():
            return True  # idle, or no engine reports its queue: the burn rates have spoken


def _is_quiet(verdict: Verdict) -> bool:
    if verdict.state is State.STALE:
        return False
    if any(t.burning and t.severity == "page" for t in verdict.tiers):
        return False
    fast = fast_tier(verdict)
    burns = (fast.long_burn, fast.short_burn) if fast else ()
    return all(burn is None or burn < 1 for burn in burns)  # NaN is not calm


def burns_nowhere(evidence: Evidence) -> bool:
    """Say whether every window of every SLO is below 1: the condition for giving capacity back."""
    burns = [b for v in evidence.verdicts for b in v.burn.values()]
    return all(b is None or b < 1 for b in burns)


def _heat(verdict: Verdict) -> float:
    burns = [t.short_burn for t in verdict.tiers if t.burning and t.short_burn is not None]
    return max(burns, default=0.0)
