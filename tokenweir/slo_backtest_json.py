"""A backtest as JSON: the shape that programs read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from base.durations import format_duration, format_instant
from slo.backtest.facts_file import Reading
from slo.backtest.history import History
from slo.model import Slo
from slo.spending.model import CostSlo
from tokenweir.slo_backtest import Alert, Backtest, Outcome, totals


def report_json(
    backtest: Backtest,
    history: History,
    reading: Reading,
    outcomes: Sequence[Outcome],
    what_if: Sequence[Outcome],
    skipped: Sequence[Slo | CostSlo],
) -> dict[str, Any]:
    """Write everything; times are RFC 3339, a resolve of null means that it fires still."""
    grid, span = history.grid, history.span
    return {
        "from": format_instant(grid.at(span.first)),
        "to": format_instant(grid.at(span.end - 1)),
        "evaluations": span.end - span.first,
        "requests": reading.rows,
        "totals": dict(totals(outcomes)),
        "alerts": [_alert(backtest, each.slo, alert) for each in outcomes for alert in each.alerts],
        "final": [
            {
                "slo": each.slo.name,
                "group": backtest.members(each.slo, final.group),
                "unit": each.slo.unit,
                "good": final.count.good,
                "bad": final.count.bad,
                "excluded": final.excluded,
                "sli": final.sli,
                "budget_remaining": final.budget_remaining,
            }
            for each in outcomes
            for final in each.final
        ],
        "misses": [
            {
                "slo": each.slo.name,
                "group": backtest.members(each.slo, miss.group),
                "from": format_instant(miss.start),
                "to": format_instant(miss.end),
                "onset_at": format_instant(miss.onset),
                "tier": miss.stretch.tier.name,
                "burn": miss.stretch.burn,
                "bad": miss.stretch.bad,
            }
            for each in outcomes
            for miss in each.misses
        ],
        "incidents": [
            {
                "slo": each.slo.name,
                "group": backtest.members(each.slo, found.group),
                "from": format_instant(found.incident.start),
                "to": format_instant(found.incident.end),
                "paged_at": _moment(found.paged_at),
                "time_to_detect_s": (
                    None
                    if found.paged_at is None
                    else max(0.0, (found.paged_at - found.incident.start).total_seconds())
                ),
            }
            for each in outcomes
            for found in each.detected
        ],
        "slos": [_summary(each) for each in outcomes],
        "what_if": [_summary(each) for each in what_if],
        "budget": [
            {
                "slo": each.slo.name,
                "group": backtest.members(each.slo, final.group),
                "at": [format_instant(at) for at, _ in points],
                "remaining": [remaining for _, remaining in points],
            }
            for each in outcomes
            for final in each.final
            for points in [backtest.budget(each.slo, final.group)]
        ],
        "not_judged": [slo.name for slo in skipped],
        "input": input_json(reading),
    }


def input_json(reading: Reading) -> dict[str, Any]:
    """Say what of the input was not used, or not there."""
    return {
        "bad_rows": reading.bad,
        "bad_rows_named": [
            {"file": row.file, "line": row.line, "message": row.message} for row in reading.bad_rows
        ],
        "ignored_columns": reading.ignored,
        "missing_columns": reading.missing,
    }


def _alert(backtest: Backtest, slo: Slo, alert: Alert) -> dict[str, Any]:
    return {
        "slo": slo.name,
        "group": backtest.members(slo, alert.group),
        "severity": str(alert.timed.severity),
        "fired_at": format_instant(alert.fired_at),
        "resolved_at": _moment(alert.resolved_at),
        "summary": alert.timed.summary,
        "tier": alert.timed.tier,
        "paged_at": _moment(alert.paged_at),
        "onset_at": _moment(alert.onset),
        "time_to_detect_s": alert.seconds_to_detect,
        "is_false": alert.is_false,
        "turns": [
            {"at": format_instant(at), "turn": str(turn.turn), "severity": str(turn.severity)}
            for at, turn in alert.turns
        ],
    }


def _summary(outcome: Outcome) -> dict[str, Any]:
    return {
        "slo": outcome.slo.name,
        "target": round(outcome.slo.objective * 100, 10),
        "overrides": [
            {
                "match": {name: list(values) for name, values in each.match},
                "target": round(each.objective * 100, 10),
            }
            for each in outcome.slo.overrides
        ],
        "tiers": outcome.variant.tiers,
        "window": format_duration(outcome.slo.window),
        "unfireable_tiers": list(outcome.variant.unfireable),
        "pages": len(outcome.pages),
        "tickets": len(outcome.tickets),
        "misses": len(outcome.misses),
        "small_stretches": outcome.small,
        "false_pages": outcome.false_pages,
        "median_time_to_detect_s": outcome.median_seconds_to_detect,
        "budget_remaining": outcome.least_budget,
    }


def _moment(at: datetime | None) -> str | None:
    return None if at is None else format_instant(at)
