"""Budgets and burn rates against a recount of the raw spans in plain Python."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from base.durations import parse_duration
from slo.guard import FEW
from tests.e2e.instance import Instance, serving
from tests.e2e.otlp import CHAT, SECOND, Sent, export, gateway_span

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("e2e-recount"), pytest.mark.timeout(300)]

SLOS = """
{kind: slo, name: answers, objective: 99, window: 2h, group_by: [tenant]}
---
kind: slo
name: first-token
objective: 90
window: 30m
group_by: [tenant, route]
eligible: route = '/v1/chat/completions'
good: outcome = 'good' and ttft_ms <= 1500
---
{kind: slo, name: month, objective: 99.9, window: 30d}
"""
DAY_NS = 86_400 * SECOND
END_OF = {  # what an HTTP status says about a request
    200: "good", 500: "bad", 502: "bad", 503: "bad", 504: "bad",
    400: "excluded", 404: "excluded", 429: "excluded", 499: "excluded",
}  # fmt: skip
TTFT_S = (0.2, 1.4999, 1.499999, 1.5, 1.500001, 1.5001, 9.0)


@dataclass(frozen=True, slots=True)
class Raw:
    """One generated request, as plain values."""

    start_ns: int
    tenant: str
    route: str
    status: int
    ttft_s: float | None
    said: str | None
    trace_id: bytes
    span_id: bytes

    @property
    def outcome(self) -> str:
        return self.said or END_OF[self.status]

    def sent(self) -> Sent:
        more: dict[str, Any] = {}
        if self.ttft_s is not None:
            more["gen_ai__server__time_to_first_token"] = self.ttft_s
        if self.said is not None:
            more["tokenweir__outcome"] = self.said
        return gateway_span(
            self.trace_id, self.span_id, self.start_ns, 9500, tenant=self.tenant,
            route=self.route, status=self.status, **more,
        )  # fmt: skip


def is_good(slo: str, raw: Raw) -> bool:
    if slo != "first-token":
        return raw.outcome == "good"
    return raw.outcome == "good" and raw.ttft_s is not None and raw.ttft_s <= 1.5


def group_of(slo: str, raw: Raw) -> tuple[tuple[str, str], ...]:
    match slo:
        case "answers":
            return (("tenant", raw.tenant),)
        case "first-token":
            return (("route", raw.route), ("tenant", raw.tenant))
        case _:
            return ()


def count(slo: str, raws: list[Raw], now_ns: int, length: timedelta) -> dict[Any, list[int]]:
    """Count [good, bad, excluded] by group in (now - length, now]."""
    begin = now_ns - length // timedelta(microseconds=1) * 1000
    found: dict[Any, list[int]] = {}
    for raw in raws:
        if not begin < raw.start_ns <= now_ns:
            continue
        if slo == "first-token" and raw.route != CHAT:
            continue
        tally = found.setdefault(group_of(slo, raw), [0, 0, 0])
        tally[2 if raw.outcome == "excluded" else 0 if is_good(slo, raw) else 1] += 1
    return found


def generate(rng: random.Random, end_ns: int) -> list[Raw]:
    """Spread requests over 29 days, most of them in the last hours; some share an instant."""
    days = [end_ns - rng.randrange(29 * DAY_NS) for _ in range(10)]
    starts = [rng.choice(days) - rng.randrange(600 * SECOND) for _ in range(150)]
    starts += [end_ns - rng.randrange(3 * 3600 * SECOND) for _ in range(500)]
    starts += [at // 1000 * 1000 + beside for at in starts[150:250] for beside in (0, 1, -1)]
    return [
        Raw(
            start_ns=start,
            tenant=rng.choice(["acme", "globex", "initech"]),
            route=rng.choice([CHAT, CHAT, "/v1/embeddings"]),
            status=rng.choices(list(END_OF), [30, 1, 1, 2, 1, 1, 1, 2, 1])[0],
            ttft_s=rng.choice([*TTFT_S, None]),
            said=rng.choice([None] * 12 + ["good", "bad", "excluded"]),
            trace_id=rng.randbytes(16),
            span_id=rng.randbytes(8),
        )
        for start in starts
    ]


@pytest.fixture(scope="module")
def end_ns() -> int:
    return (time.time_ns() - 60 * SECOND) // SECOND * SECOND


@pytest.fixture(scope="module")
def raws(end_ns: int) -> list[Raw]:
    return generate(random.Random(7), end_ns)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, raws: list[Raw]) -> Iterator[Instance]:
    folder: Path = tmp_path_factory.mktemp("recount")
    (folder / "slo.yaml").write_text(SLOS)
    shuffled = random.Random(8).sample(raws, len(raws))
    quarter = len(shuffled) // 4
    with serving(folder / "data", ["--slo", folder / "slo.yaml"]) as instance:
        for first in range(0, len(shuffled), quarter):
            instance.take(export(raw.sent() for raw in shuffled[first : first + quarter]))
        yield instance


def instants(raws: list[Raw], end_ns: int) -> list[datetime]:
    """Odd instants: any, exactly on a request, just before it, and just a window after it."""
    rng = random.Random(9)
    recent = [raw.start_ns // 1000 for raw in raws if raw.start_ns > end_ns - 3600 * SECOND]
    on = rng.sample(recent, 4)
    micros = [end_ns // 1000, end_ns // 1000 - rng.randrange(10**9), *on]
    micros += [on[0] - 1, on[1] + 1, on[2] + 30 * 60 * 10**6, on[3] + 7200 * 10**6]
    micros += [end_ns // 1000 // 60_000_000 * 60_000_000, end_ns // 1000 // 10**10 * 10**10]
    return [datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at) for at in micros]


def test_budget_and_burn_equal_a_recount_of_the_raw_spans(
    filled: Instance, raws: list[Raw], end_ns: int
) -> None:
    compared = 0
    for now in instants(raws, end_ns):
        now_ns = (now - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000
        bodies = filled.ask("slos", now=now.isoformat())["slos"]
        for slo in ("answers", "first-token", "month"):
            shown = [body for body in bodies if body["name"] == slo]
            window = parse_duration(shown[0]["window"])
            expected = count(slo, raws, now_ns, window)
            got = {
                tuple(sorted(body["group"].items())): [body["good"], body["bad"], body["excluded"]]
                for body in shown
            }
            # An SLO without any request says so, with an empty group.
            assert got == (expected or {(): [0, 0, 0]}), (slo, now)
            for body in shown:
                compared += _agrees(body, slo, raws, now_ns)
    assert compared > 500


def _agrees(body: dict[str, Any], slo: str, raws: list[Raw], now_ns: int) -> int:
    """Compare what is worked out from the counts; returns how many numbers were compared."""
    allowed = 1 - Fraction(str(body["objective"]))
    group = tuple(sorted(body["group"].items()))
    total = body["good"] + body["bad"]
    assert body["total"] == total
    assert body["sli"] == (float(Fraction(body["good"], total)) if total else None)
    left = 1 - Fraction(body["bad"], total) / allowed if total else None
    assert body["budget_remaining"] == _close(left)
    assert sum(body["bad_reasons"].values()) == body["bad"]
    for length, burn in body["burn"].items():
        good, bad, _ = count(slo, raws, now_ns, parse_duration(length)).get(group, (0, 0, 0))
        expected = Fraction(bad, good + bad) / allowed if good + bad else None
        assert burn == _close(expected), (slo, group, length)
    for tier in body["tiers"]:
        assert tier["long_burn"] == body["burn"][tier["long"]]
        # A sparse group is asked for its newest requests where the short window holds hardly any.
        short = count(slo, raws, now_ns, parse_duration(tier["short"])).get(group, (0, 0, 0))
        if short[0] + short[1] >= FEW:
            assert tier["short_burn"] == body["burn"][tier["short"]]
    return 2 + len(body["burn"])


def _close(value: Fraction | None) -> Any:
    """Doubles carry sixteen digits; the counts they are made of are compared exactly."""
    return None if value is None else pytest.approx(float(value), rel=1e-13, abs=1e-13)


def test_the_two_ways_to_write_an_instant_mean_the_same(filled: Instance, end_ns: int) -> None:
    seconds = end_ns // SECOND
    written = datetime.fromtimestamp(seconds, UTC)
    bodies = [
        [_lasting(body) for body in filled.ask("slos", now=text)["slos"]]
        for text in (
            f"{seconds}", f"{seconds}.0", f"{written:%Y-%m-%dT%H:%M:%SZ}",
            f"{written.astimezone().isoformat()}",
        )
    ]  # fmt: skip

    assert bodies[0] == bodies[1] == bodies[2] == bodies[3]
    assert filled.get("/api/v1/slos", now="yesterday").status_code == 400
    assert filled.get("/api/v1/slos", now="2026-11-30T12:00:00").status_code == 400


def _lasting(body: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is looked at again at times only: it may be as of a moment before."""
    renewed = {"causes", "forecast", "expires_in"}
    return {name: value for name, value in body.items() if name not in renewed}


def test_idle_time_is_null_and_never_nan(filled: Instance, end_ns: int) -> None:
    for days in (-60, 60):
        now = datetime.fromtimestamp(end_ns // SECOND, UTC) + timedelta(days=days)
        bodies = filled.ask("slos", now=now.isoformat())["slos"]
        assert [body["name"] for body in bodies] == ["answers", "first-token", "month"]
        for body in bodies:
            assert [body[name] for name in ("good", "bad", "excluded", "total")] == [0, 0, 0, 0]
            assert body["sli"] is None
            assert body["budget_remaining"] is None
            assert {*body["burn"].values()} == {None}
            assert body["expires_in"] is None
            assert body["state"] == ("ABSENT" if days < 0 else "STALE")
        span = {"from_": (now - timedelta(hours=2)).isoformat(), "to": now.isoformat()}
        cost = filled.ask("cost", by="tenant,route", **span)
        assert cost["rows"] == []
        assert cost["totals"]["cost_per_good_usd"] is None
        assert filled.ask("requests", **span) == {"requests": [], "next_cursor": None}
        series = filled.ask("slos/answers/series", step="10m", **span)
        assert series["series"] == []


def test_no_answer_and_no_gauge_holds_a_nan(filled: Instance) -> None:
    for path in (
        "slos",
        "requests",
        "cost",
        "alerts",
        "actions",
        "ingest",
        "silences",
        "receivers",
    ):
        filled.ask(path)
    gauges = [
        line for line in filled.get("/metrics").text.splitlines() if line.startswith("tokenweir_")
    ]

    assert [line for line in gauges if line.lower().endswith(("nan", "inf"))] == []
