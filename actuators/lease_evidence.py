"""The part of the evidence that a lease keeps: what a person needs to judge it later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from actuators.diagnose import Cause
from actuators.evidence import Absent, Evidence, Known, Stale, Value, known
from actuators.lease import Lease
from actuators.proposal import Proposal
from base.durations import format_instant
from slo.verdict import Verdict

_NAMES = (
    "arrivals_per_s",
    "prompt_tokens_per_s",
    "completion_tokens_per_s",
    "offered_work_per_s",
    "queue_p95_ms",
    "ttft_p50_ms",
    "ttft_p95_ms",
    "bad_ratio",
)


def lease_evidence(
    proposal: Proposal, evidence: Evidence, causes: Sequence[Cause], hot: Sequence[Verdict]
) -> dict[str, Any]:
    """Write down what the decision was based on; numbers that were not known stay null."""
    top = sorted(evidence.tenants, key=lambda t: -t.offered_work_per_s)[:5]
    return {
        "at": format_instant(evidence.at),
        "window_s": evidence.window.total_seconds(),
        "values": {name: value_json(getattr(evidence, name)) for name in _NAMES},
        "numbers": dict(proposal.numbers),
        "causes": [
            {"cause": c.key, "score": round(c.score, 3), "because": list(c.because)} for c in causes
        ],
        "outcomes": dict(evidence.outcomes),
        "tenants": [
            {
                "tenant": t.tenant,
                "offered_work_per_s": t.offered_work_per_s,
                "baseline_work_per_s": t.baseline_work_per_s,
                "prompt_tokens_per_s": t.prompt_tokens_per_s,
                "arrivals_per_s": t.arrivals_per_s,
            }
            for t in top
        ],
        "fleets": [
            {
                "fleet": f.name,
                "desired": s.desired if (s := known(f.state)) else None,
                "ready": s.ready if s else None,
                "capacity_per_replica": known(f.capacity_per_replica),
            }
            for f in evidence.fleets
        ],
        "slos": [
            {
                "slo": v.slo,
                "group": dict(v.group),
                "burn": dict(v.burn),
                "budget_remaining": v.budget_remaining,
            }
            for v in hot[:5]
        ],
    }


def value_json(value: Value[float]) -> dict[str, Any]:
    """Write a value so that known, stale and absent stay apart."""
    match value:
        case Known():
            return {
                "state": "known",
                "value": value.value,
                "at": format_instant(value.at),
                "coverage": value.coverage,
                "source": value.source,
            }
        case Stale():
            return {"state": "stale", "value": value.last, "age_s": value.age.total_seconds()}
        case Absent():
            return {"state": "absent", "value": None, "why": value.why}


def anchors(leases: Sequence[Lease]) -> dict[str, float]:
    """Return the usual work of the tenants under a lease, as it was before their flood."""
    return {
        lease.subject.removeprefix("tenant="): float(
            lease.evidence["numbers"]["baseline_work_per_s"]
        )
        for lease in leases
        if lease.subject.startswith("tenant=")
        and "baseline_work_per_s" in lease.evidence.get("numbers", {})
    }
