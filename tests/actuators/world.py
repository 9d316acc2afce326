"""A small serving world for the loop: tenants, one gateway, one fleet, a queue in tokens of work.

It is fluid (tokens per second, no single requests) and moves a second at a time. What the loop
sees of it comes through the same doors as in production: evidence rows, a policy document, a
fleet's HTTP interface, verdicts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from actuators import queries
from actuators.drivers.gateway import PolicyBoard
from base.clock import ManualClock
from slo.verdict import State, TierVerdict, Verdict

START = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
OBJECTIVE = 0.99
LIMIT_MS = 1000.0  # a request that waits longer is bad


@dataclass(frozen=True, slots=True)
class SourceSeen:
    layer: str
    service: str
    instance: str
    first: datetime
    last: datetime


@dataclass(slots=True)
class Second:
    """What happened in one second."""

    at: datetime
    requests: dict[str, float]
    shed: dict[str, float]
    tokens: float  # prompt tokens of one request
    wait_ms: float
    ready: int
    done: float
    failed: float = 0.0


@dataclass(slots=True)
class World:
    """`rates` are requests per second by tenant, each of `tokens` uncached prompt tokens."""

    clock: ManualClock
    rates: dict[str, float]
    tokens: float = 1000.0
    per_replica: float = 10_000.0
    cold_start_s: int = 10
    desired: int = 2
    ready: int = 2
    min: int = 1
    max: int = 6
    priority: dict[str, str] = field(default_factory=dict)
    changed_by: str | None = None
    changed_lease: str | None = None
    puts: list[int] = field(default_factory=list)
    seconds: list[Second] = field(default_factory=list)
    backlog: float = 0.0
    silent: bool = False  # the gateway's telemetry does not arrive
    fleet_down: bool = False
    gateway_down: bool = False
    shed_works: bool = True
    extra_wait_ms: float = 0.0
    error_share: float = 0.0
    board: PolicyBoard | None = None
    sheds_are_bad: bool = False
    _warming: list[int] = field(default_factory=list)
    _rules: list[Mapping[str, Any]] = field(default_factory=list)
    _last_spoken: datetime = START

    # -- time ---------------------------------------------------------------------------------

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.advance(timedelta(seconds=1))
            self._step()

    def _step(self) -> None:
        now = self.clock.now()
        self._poll_policy(now)
        self._warm_up()
        shed = {t: r * self._refused(t, now) for t, r in self.rates.items()}
        admitted = sum((r - shed[t]) * self.tokens for t, r in self.rates.items())
        capacity = self.ready * self.per_replica
        done = min(capacity, self.backlog + admitted)
        self.backlog += admitted - done
        wait = 1000 * self.backlog / capacity if capacity else 60_000.0
        self.seconds.append(
            Second(
                now,
                dict(self.rates),
                shed,
                self.tokens,
                wait + self.extra_wait_ms,
                self.ready,
                done,
                self.error_share,
            )
        )
        del self.seconds[: max(0, len(self.seconds) - 420)]  # more than any window asks for
        if not self.silent:
            self._last_spoken = now

    def _warm_up(self) -> None:
        self._warming = [left - 1 for left in self._warming]
        self.ready = min(self.desired, self.ready + sum(1 for left in self._warming if left <= 0))
        self._warming = [left for left in self._warming if left > 0]
        missing = self.desired - self.ready - len(self._warming)
        self._warming += [self.cold_start_s] * max(0, missing)
        del self._warming[max(0, self.desired - self.ready) :]

    # -- gateway ------------------------------------------------------------------------------

    def _poll_policy(self, now: datetime) -> None:
        if self.board is None or self.gateway_down:
            return
        document = self.board.current("demo", now).document
        self._rules = list(document["rules"])
        self.board.heard("demo", "gw-0", int(document["version"]), now)

    def rules(self) -> Sequence[Mapping[str, Any]]:
        """Return the rules in force: a gateway drops a rule that has ended."""
        now = self.clock.now()
        return [r for r in self._rules if datetime.fromisoformat(r["expires_at"]) > now]

    def _refused(self, tenant: str, now: datetime) -> float:
        if not self.shed_works:
            return 0.0
        passing = 1.0
        for rule in self.rules():
            match = rule["match"]
            hit = match["tenant"] in {None, tenant}
            hit = hit and match["priority"] in {None, self.priority.get(tenant, "")}
            if hit and rule["fraction"] is not None:
                passing *= 1 - rule["fraction"]
            if hit and rule["max_concurrency"] is not None:
                passing = min(passing, 0.2)
        return 1 - passing

    # -- fleet --------------------------------------------------------------------------------

    def http(self) -> httpx.Client:
        return httpx.Client(transport=httpx.MockTransport(self._answer))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if self.fleet_down:
            return httpx.Response(503)
        if request.method == "PUT":
            body = json.loads(request.content)
            self.set_desired(body["desired"], body["by"], body.get("lease_id"))
        return httpx.Response(200, json=self.fleet_document())

    def set_desired(self, desired: int, by: str, lease_id: str | None = None) -> None:
        self.desired = max(self.min, min(self.max, desired))
        self.puts.append(self.desired)
        self.changed_by, self.changed_lease = by, lease_id
        self.ready = min(self.ready, self.desired)

    def fleet_document(self) -> dict[str, Any]:
        return {
            "desired": self.desired,
            "ready": self.ready,
            "pending": self.desired - self.ready,
            "min": self.min,
            "max": self.max,
            "replicas": [{"id": f"r{i}", "state": "ready"} for i in range(self.ready)],
            "last_change": {"by": self.changed_by, "lease_id": self.changed_lease},
        }

    # -- what the loop sees -------------------------------------------------------------------

    def sources(self, now: datetime) -> list[SourceSeen]:
        first = START - timedelta(days=1)
        return [SourceSeen("gateway", "tokenweir-gateway", "gw-0", first, self._last_spoken)]

    def rows(self, sql: str, params: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        asked = dict(params or {})
        seen = [s for s in self.seconds if asked["from"] < s.at <= asked["to"]]
        if self.silent:
            seen = [s for s in seen if s.at <= self._last_spoken]
        match sql:
            case queries.LOADS:
                return self._loads(seen)
            case queries.BASELINE:
                return self._baseline(seen, asked["middle"])
            case queries.LATENCIES:
                return [self._latencies(seen)]
            case queries.OUTCOMES:
                return self._outcomes(seen)
            case queries.SLOTS:
                return self._slots(seen, asked["from"], asked["slot_ms"])
            case queries.REPLICAS | queries.HEARTBEATS:
                return []
        raise AssertionError(f"the world does not know this query: {sql}")

    def _loads(self, seen: Sequence[Second]) -> list[dict[str, Any]]:
        tenants = sorted({t for s in seen for t in s.requests})
        out = []
        for tenant in tenants:
            requests = sum(s.requests.get(tenant, 0.0) for s in seen)
            shed = sum(s.shed.get(tenant, 0.0) for s in seen)
            work = sum(
                (s.requests.get(tenant, 0.0) - s.shed.get(tenant, 0.0)) * s.tokens for s in seen
            )
            if requests > 0:
                out.append(
                    {
                        "tenant": tenant,
                        "priority": self.priority.get(tenant, ""),
                        "requests": requests,
                        "refused": shed,
                        "prompt": work,
                        "completion": 0,
                        "work": work,
                        "refused_sized": 0,
                        "refused_work": 0,
                    }
                )
        return out

    def _baseline(self, seen: Sequence[Second], middle: datetime) -> list[dict[str, Any]]:
        def work(tenant: str, until: datetime | None) -> float:
            return sum(
                (s.requests.get(tenant, 0.0) - s.shed.get(tenant, 0.0)) * s.tokens
                for s in seen
                if until is None or s.at <= until
            )

        tenants = sorted({t for s in seen for t in s.requests})
        return [
            {"tenant": t, "work": work(t, None), "older_work": work(t, middle)} for t in tenants
        ]

    def _latencies(self, seen: Sequence[Second]) -> dict[str, Any]:
        waits = sorted((s.wait_ms, sum(s.requests.values()) - sum(s.shed.values())) for s in seen)
        total = sum(n for _, n in waits)

        def quantile(q: float) -> float:
            if total == 0:
                return float("nan")  # as ClickHouse answers for a quantile of nothing
            left = q * total
            for wait, n in waits:
                left -= n
                if left <= 0:
                    return wait
            return waits[-1][0]

        failed = sum(n * self.error_share for _, n in waits)
        return {
            "requests": total,
            "queue_p95_ms": quantile(0.95),
            "ttft_p50_ms": quantile(0.5) + 100,
            "ttft_p95_ms": quantile(0.95) + 100,
            "good": total - failed,
            "bad": failed,
        }

    def _outcomes(self, seen: Sequence[Second]) -> list[dict[str, Any]]:
        total = sum(sum(s.requests.values()) - sum(s.shed.values()) for s in seen)
        failed = sum((sum(s.requests.values()) - sum(s.shed.values())) * s.failed for s in seen)
        return [
            {"label": "good", "reason": "ok", "requests": total - failed},
            {"label": "bad", "reason": "upstream_error", "requests": failed},
        ]

    def _slots(self, seen: Sequence[Second], start: datetime, slot_ms: int) -> list[dict[str, Any]]:
        slots: dict[int, list[Second]] = {}
        for s in seen:
            slots.setdefault(int((s.at - start).total_seconds() * 1000 // slot_ms), []).append(s)
        return [
            {
                "slot": i,
                "model": "m",
                "work": sum(s.done for s in found),
                "replicas": max(s.ready for s in found),
                "queue_p50_ms": sorted(s.wait_ms for s in found)[len(found) // 2],
            }
            for i, found in sorted(slots.items())
        ]

    # -- verdicts -----------------------------------------------------------------------------

    def verdicts(self) -> list[Verdict]:
        """Judge as the evaluator would: burn over 60 s and 10 s, stale when nothing arrives."""
        now = self.clock.now()
        long, short = timedelta(seconds=60), timedelta(seconds=10)
        long_burn, short_burn = self.burn(long), self.burn(short)
        hot = all(b is not None and b >= 10 for b in (long_burn, short_burn))
        state = State.BURNING if hot else State.OK
        stale = now - self._last_spoken > timedelta(seconds=30)
        good, bad, shed = self._counts(timedelta(hours=2))
        return [
            Verdict(
                slo="chat-wait",
                group={},
                objective=OBJECTIVE,
                window=timedelta(hours=1),
                good=good,
                bad=bad,
                excluded=0,
                sli=None,
                budget_remaining=0.5,
                burn={"10s": short_burn, "1m": long_burn},
                coverage=1.0,
                watermark=self._last_spoken,
                state=State.STALE if stale else state,
                tiers=(TierVerdict("fast", "page", 10, long, short, long_burn, short_burn, hot),),
                bad_reasons={"shed": shed},
                at=now,
                expires_in=None,
                labels={},
                annotations={},
            )
        ]

    def burn(self, window: timedelta) -> float | None:
        good, bad, _ = self._counts(window)
        return None if good + bad == 0 else bad / (good + bad) / (1 - OBJECTIVE)

    def _counts(self, window: timedelta) -> tuple[int, int, int]:
        now = self.clock.now()
        good = bad = shed = 0.0
        for s in self.seconds:
            if s.at <= now - window:
                continue
            refused = sum(s.shed.values()) if self.sheds_are_bad else 0.0
            served = sum(s.requests.values()) - sum(s.shed.values())
            failed = served if s.wait_ms > LIMIT_MS else served * s.failed
            good, bad, shed = good + served - failed, bad + failed + refused, shed + refused
        return round(good * 10), round(bad * 10), round(shed * 10)
