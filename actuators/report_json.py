"""Reports and overrules as the API writes them."""

from __future__ import annotations

from typing import Any

from actuators.loop import ScopeReport
from actuators.overrules import Hold, KillSwitch
from base.durations import format_instant


def report_json(report: ScopeReport) -> dict[str, Any]:
    """Write what the last tick saw and decided."""
    return {
        "scope": report.scope,
        "at": format_instant(report.at),
        "frozen": not report.trust.ok,
        "frozen_because": list(report.trust.reasons),
        "calm_since": None if report.calm_since is None else format_instant(report.calm_since),
        "burning": list(report.hot),
        "causes": [
            {"cause": c.key, "score": round(c.score, 3), "because": list(c.because)}
            for c in report.causes
        ],
        "done": [{"step": str(p.step), "lever": p.key, "reason": p.reason} for p in report.done],
        "refused": [
            {"lever": r.proposal.key, "reason": r.proposal.reason, "rule": r.rule, "why": r.why}
            for r in report.refused
        ],
    }


def hold_json(hold: Hold) -> dict[str, Any]:
    """Write a hold."""
    return {
        "target": hold.target,
        "by": hold.by,
        "reason": hold.reason,
        "at": format_instant(hold.at),
        "until": format_instant(hold.until),
    }


def kill_switch_json(switch: KillSwitch) -> dict[str, Any]:
    """Write the switch."""
    return {
        "on": switch.on,
        "by": switch.by or None,
        "reason": switch.reason or None,
        "at": None if switch.at is None else format_instant(switch.at),
    }
