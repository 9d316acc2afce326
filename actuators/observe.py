"""Gather the evidence of one scope: from the store, from the fleets, from the verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from actuators import queries
from actuators.capacity import Slot, measured_capacity, peak
from actuators.evidence import (
    Absent,
    Evidence,
    Fleet,
    FleetState,
    Known,
    Stale,
    Value,
    blind,
    finite,
    measured,
)
from actuators.liveness import Liveness, liveness
from actuators.loads import replica_load, tenant_loads, work_by_priority
from actuators.settings import ActuatorSettings, FleetSettings, GatewaySettings
from base.errors import TokenweirError
from slo.verdict import Verdict
from store.sources import SourceState

_CAPACITY_HOLDS = timedelta(hours=24)
_SLOTS = 6  # per window, to see capacity in the few seconds a queue lasts


class Rows(Protocol):
    """The part of `store.engine.Engine` that is used here."""

    def rows(self, sql: str, params: Mapping[str, Any] | None = None) -> list[dict[str, Any]]: ...


Sources = Callable[[datetime], Sequence[SourceState]]
FleetReader = Callable[[datetime], FleetState]


class Observer:
    """Reads the world.

    Remembers each fleet's last answer, to tell stale from absent, and its last measured capacity,
    which shows only while requests wait.
    """

    def __init__(
        self,
        engine: Rows,
        settings: ActuatorSettings,
        sources: Sources,
        fleets: Mapping[str, FleetReader],
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._sources = sources
        self._fleets = fleets
        self._last: dict[str, tuple[datetime, FleetState]] = {}
        self._capacity: dict[str, Known[float]] = {}

    def observe(
        self, scope: GatewaySettings, verdicts: Sequence[Verdict], now: datetime
    ) -> Evidence:
        """Take a snapshot as of `now`; what can't be read is absent and says why."""
        # Money is no reason to turn requests away or to add replicas, unless somebody says so.
        steering = tuple(
            v for v in verdicts if (v.slo in scope.slos if scope.slos else v.cost is None)
        )
        try:
            return self._look(scope, steering, now)
        except TokenweirError as error:
            return blind(scope.name, steering, now, self._settings.window, f"store: {error}")

    def _look(
        self, scope: GatewaySettings, verdicts: tuple[Verdict, ...], now: datetime
    ) -> Evidence:
        settings = self._settings
        seen = liveness(self._sources(now), scope, now, settings)
        where: dict[str, Any] = {
            "models": list(scope.models),
            "service": scope.service or "",
            "weight": settings.thresholds.completion_weight,
        }
        recent = {**where, "from": now - settings.window, "to": now}
        latencies = self._engine.rows(queries.LATENCIES, recent)[0]
        loads = self._engine.rows(queries.LOADS, recent)
        tenants = tenant_loads(
            loads, self._baselines(where, now - settings.window, seen), settings.window
        )
        seconds = settings.window.total_seconds()

        def from_facts(number: float | None, why: str = "no request") -> Value[float]:
            if not isinstance(seen.newest, Known):
                return Absent("telemetry is silent")
            return measured(number, now, "facts", coverage=seen.coverage, why=why)

        def rate(column: str) -> Value[float]:
            return from_facts(sum(row[column] for row in loads) / seconds)

        judged = latencies["good"] + latencies["bad"]
        return Evidence(
            scope=scope.name,
            at=now,
            window=settings.window,
            source=seen.newest,
            missing_sources=seen.missing,
            arrivals_per_s=rate("requests"),
            prompt_tokens_per_s=rate("prompt"),
            completion_tokens_per_s=rate("completion"),
            offered_work_per_s=from_facts(sum(t.offered_work_per_s for t in tenants)),
            queue_p95_ms=from_facts(latencies["queue_p95_ms"]),
            ttft_p50_ms=from_facts(latencies["ttft_p50_ms"]),
            ttft_p95_ms=from_facts(latencies["ttft_p95_ms"]),
            bad_ratio=from_facts(latencies["bad"] / judged if judged else None),
            outcomes={
                f"{row['label']}/{row['reason']}": row["requests"]
                for row in self._engine.rows(queries.OUTCOMES, recent)
            },
            tenants=tenants,
            priorities=work_by_priority(loads, seconds),
            replicas=tuple(
                replica_load(row, seconds) for row in self._engine.rows(queries.REPLICAS, recent)
            ),
            fleets=self._read_fleets(scope, where, now),
            verdicts=verdicts,
        )

    def _baselines(
        self, where: Mapping[str, Any], until: datetime, seen: Liveness
    ) -> Mapping[str, float] | None:
        """Return each tenant's usual work per second, from before the window.

        The lower of the whole baseline and its older half, so that a flood that has just begun
        does not raise the mark it is measured against.
        """
        since = until - self._settings.baseline
        since = max(since, seen.first) if seen.first else until
        if until - since < self._settings.window:
            return None
        span = until - since
        rows = self._engine.rows(
            queries.BASELINE, {**where, "from": since, "to": until, "middle": since + span / 2}
        )
        seconds = span.total_seconds()
        return {r["tenant"]: min(r["work"], 2 * r["older_work"]) / seconds for r in rows}

    def _read_fleets(
        self, scope: GatewaySettings, where: Mapping[str, Any], now: datetime
    ) -> tuple[Fleet, ...]:
        behind = self._settings.fleets_behind(scope.name)
        if not behind:
            return ()
        slot = max(self._settings.window / _SLOTS, timedelta(seconds=1))
        since = now - max(self._settings.baseline, self._settings.remember_peak)
        slots = self._engine.rows(
            queries.SLOTS,
            {**where, "from": since, "to": now, "slot_ms": round(slot.total_seconds() * 1000)},
        )
        beats = self._engine.rows(
            queries.HEARTBEATS, {"from": now - self._settings.forget_after, "to": now}
        )
        return tuple(self._fleet(f, slots, slot, beats, now) for f in behind)

    def _fleet(
        self,
        fleet: FleetSettings,
        slots: Sequence[Mapping[str, Any]],
        slot: timedelta,
        beats: Sequence[Mapping[str, Any]],
        now: datetime,
    ) -> Fleet:
        state = self._state(fleet.name, now)
        mine = [
            Slot(
                row["slot"],
                row["work"] / slot.total_seconds(),
                row["replicas"],
                finite(row["queue_p50_ms"]),
            )
            for row in slots
            if fleet.model in {None, row["model"]}
        ]
        span = max(self._settings.baseline, self._settings.remember_peak)
        first_late = (span - self._settings.remember_peak) / slot
        late = [s for s in mine if s.number >= first_late]
        listed = state.value.replicas if isinstance(state, Known) else ()
        quiet = {b["instance"] for b in beats if now - b["last"] > self._settings.stale_after}
        return Fleet(
            name=fleet.name,
            state=state,
            capacity_per_replica=self._capacity_of(fleet, mine, now),
            peak_work_per_s=peak(late, _SLOTS, now),
            silent=tuple(r for r in listed if r in quiet),
        )

    def _capacity_of(
        self, fleet: FleetSettings, slots: Sequence[Slot], now: datetime
    ) -> Value[float]:
        """Return what was measured now, else what was measured last, else what the settings say."""
        fresh = measured_capacity(slots, self._settings.thresholds, now)
        if isinstance(fresh, Known):
            self._capacity[fleet.name] = fresh
            return fresh
        last = self._capacity.get(fleet.name)
        if last is not None and now - last.at <= _CAPACITY_HOLDS:
            return last
        if fleet.tokens_per_s is not None:
            return Known(fleet.tokens_per_s, now, source="settings")
        return fresh

    def _state(self, name: str, now: datetime) -> Value[FleetState]:
        reader = self._fleets.get(name)
        if reader is None:
            return Absent("nobody can be asked about this fleet")
        try:
            state = reader(now)
        except TokenweirError as error:
            if name not in self._last:
                return Absent(str(error))
            at, last = self._last[name]
            return Stale(last, at, now - at)
        self._last[name] = (now, state)
        return Known(state, now, source=f"fleet {name}")
