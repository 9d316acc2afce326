"""A lease as JSON: the form in the database and, with little added, in the API."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from actuators.lease import Expect, HistoryStep, Kind, Lease, LeaseState, OnExpiry
from base.durations import format_instant, parse_instant

_STATES = ("state", "close_as", "frozen_from")
_TIMES = ("created_at", "expires_at", "verify_by", "changed_at", "frozen_at", "closed_at")
_PLAIN = (
    "id", "target", "subject", "change", "revert_to", "reason", "cause", "evidence", "slo",
    "episode", "pending", "after", "dry_run",
)  # fmt: skip


def to_json(lease: Lease) -> dict[str, Any]:
    """Write every field; times are RFC 3339, durations seconds."""
    out: dict[str, Any] = {name: getattr(lease, name) for name in _PLAIN}
    out |= {name: _text(getattr(lease, name)) for name in _STATES}
    out |= {name: _instant(getattr(lease, name)) for name in _TIMES}
    out["kind"] = str(lease.kind)
    out["on_expiry"] = str(lease.on_expiry)
    out["expect"] = {
        "metric": lease.expect.metric,
        "direction": lease.expect.direction,
        "by": lease.expect.by,
        "within_s": lease.expect.within.total_seconds(),
        "before": lease.expect.before,
        "enough": lease.expect.enough,
    }
    out["history"] = [
        {"at": format_instant(h.at), "step": h.step, "note": h.note, "actor": h.actor}
        for h in lease.history
    ]
    return out


def from_json(document: dict[str, Any]) -> Lease:
    """Read what `to_json` wrote."""
    expect = document["expect"]
    return Lease(
        **{name: document[name] for name in _PLAIN},
        **{name: _state(document[name]) for name in _STATES},
        **{name: _moment(document[name]) for name in _TIMES},
        kind=Kind(document["kind"]),
        on_expiry=OnExpiry(document["on_expiry"]),
        expect=Expect(
            metric=expect["metric"],
            direction=expect["direction"],
            by=expect["by"],
            within=timedelta(seconds=expect["within_s"]),
            before=expect["before"],
            enough=expect["enough"],
        ),
        history=tuple(
            HistoryStep(parse_instant(h["at"]), h["step"], h["note"], h["actor"])
            for h in document["history"]
        ),
    )


def _text(state: LeaseState | None) -> str | None:
    return None if state is None else str(state)


def _state(text: str | None) -> Any:
    return None if text is None else LeaseState(text)


def _instant(moment: datetime | None) -> str | None:
    return None if moment is None else format_instant(moment)


def _moment(text: str | None) -> Any:
    return None if text is None else parse_instant(text)
