"""The loop that acts: evidence, diagnosis, decision, guard, lease, driver, proof, undo."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from sqlalchemy import Engine

import store.engine
from actuators import metrics, register, tending
from actuators.capacity import need
from actuators.decide import Snapshot, decide, hour_before
from actuators.diagnose import Cause, diagnose
from actuators.drivers.build import Drivers
from actuators.enact import Enactor
from actuators.episodes import open_episodes
from actuators.evidence import Evidence, known
from actuators.guard import Context, Refused, guard
from actuators.lease import Kind, Lease, LeaseState
from actuators.lease_evidence import anchors, lease_evidence
from actuators.observe import Observer, Sources
from actuators.overrules import Hold, KillSwitch, active_holds, place_hold, read_kill_switch
from actuators.own_sheds import OwnSheds
from actuators.proposal import Proposal, Step
from actuators.settings import ActuatorSettings, GatewaySettings
from actuators.signals import Signal
from actuators.trust import Trust, burning, is_calm, judge_trust
from base.clock import Clock
from base.db import transaction
from base.errors import BadInput
from slo.verdict import Verdict
from store.sources import watermarks

Episodes = Callable[[datetime], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class ScopeReport:
    """What one tick saw and did in one scope; kept for the API, never for a decision."""

    scope: str
    at: datetime
    trust: Trust
    calm_since: datetime | None
    causes: tuple[Cause, ...] = ()
    hot: tuple[str, ...] = ()
    done: tuple[Proposal, ...] = ()
    refused: tuple[Refused, ...] = ()


@dataclass(slots=True)
class _Orders:
    """What people ordered and what is open, as read at the start of a tick."""

    kill: KillSwitch
    holds: Sequence[Hold]
    leases: dict[str, Lease]
    recent: Mapping[str, tuple[datetime, ...]]
    cold: frozenset[str]

    @property
    def held(self) -> dict[str, str]:
        return {h.target: f"{h.by} until {h.until:%H:%M} ({h.reason})" for h in self.holds}


class ControlLoop:
    """One loop per deployment. `tick` and the two orders of people exclude each other."""

    def __init__(
        self,
        engine: store.engine.Engine,
        db: Engine,
        drivers: Drivers,
        settings: ActuatorSettings,
        clock: Clock,
        *,
        sources: Sources | None = None,
        episodes: Episodes | None = None,
    ) -> None:
        self._db = db
        self._drivers = drivers
        self._settings = settings
        self._observer = Observer(
            engine, settings, sources or partial(watermarks, engine), drivers.readers
        )
        self._enactor = Enactor(db, drivers.levers, settings, clock)
        self._own_sheds = OwnSheds()
        self._episodes = episodes or partial(open_episodes, db)
        self._calm_since: dict[str, datetime] = {}
        self._lock = threading.RLock()
        self.reports: dict[str, ScopeReport] = {}

    def tick(self, verdicts: Sequence[Verdict], now: datetime) -> list[ScopeReport]:
        """Look once and do what is due. Never raises for what a target refuses."""
        if not self._settings.enabled:
            return []
        with self._lock:
            orders = self._read_orders(now)
            self._settle(orders, now)
            if orders.kill.on:
                self._take_all_back(orders, f"kill switch: {orders.kill.reason}", now)
            judged = self._own_sheds.discount(verdicts)
            reports = [self._tick_scope(s, judged, orders, now) for s in self._settings.scopes()]
            self.reports = {r.scope: r for r in reports}
            return reports

    def revert(self, lease_id: str, by: str, reason: str, now: datetime) -> Lease:
        """Take one lease back because a person says so. Raises BadInput when it isn't open."""
        with self._lock:
            with transaction(self._db) as connection:
                lease = register.find(connection, lease_id)
            if lease is None or not lease.is_open:
                raise BadInput(f"lease {lease_id!r} is not open")
            return self._enactor.take_back(lease, LeaseState.REVERTED, reason, now, actor=by)

    def take_all_back(self, by: str, reason: str, now: datetime) -> list[Lease]:
        """Take every lease back at once: what the kill switch does, without waiting for a tick."""
        with self._lock:
            return self._take_all_back(self._read_orders(now), reason, now, actor=by)

    def _read_orders(self, now: datetime) -> _Orders:
        with transaction(self._db) as connection:
            return _Orders(
                kill=read_kill_switch(connection),
                holds=active_holds(connection, now),
                leases={x.id: x for x in register.open_leases(connection)},
                recent=register.recent_changes(connection, hour_before(now)),
                cold=register.cold_levers(connection, now - self._settings.cold_for),
            )

    def _settle(self, orders: _Orders, now: datetime) -> None:
        """Finish what a crash or a deaf target left undone, and let time run out."""
        for lease in list(orders.leases.values()):
            orders.leases[lease.id] = tending.settle(lease, self._enactor, now)

    def _take_all_back(
        self, orders: _Orders, reason: str, now: datetime, actor: str = "tokenweir"
    ) -> list[Lease]:
        taken = []
        for lease in list(orders.leases.values()):
            if lease.is_open and lease.pending != "revert":
                taken.append(
                    self._enactor.take_back(lease, LeaseState.REVERTED, reason, now, actor)
                )
                orders.leases[lease.id] = taken[-1]
        return taken

    def _tick_scope(
        self, scope: GatewaySettings, verdicts: Sequence[Verdict], orders: _Orders, now: datetime
    ) -> ScopeReport:
        evidence = self._observer.observe(scope, verdicts, now)
        trust = judge_trust(evidence)
        hot = burning(evidence.verdicts, self._settings)
        self._track_calm(scope.name, evidence, now)
        self._tend(scope, evidence, trust, hot, orders, now)
        leases = self._leases_of(scope, orders)
        with metrics.DECISION.time():
            causes = diagnose(evidence, trust, self._settings, anchors(leases))
            snapshot = Snapshot(
                evidence=evidence,
                trust=trust,
                causes=causes if hot or not trust.ok else (),
                hot=hot,
                leases=leases,
                now=now,
                calm_since=self._calm_since.get(scope.name),
                cold=orders.cold | _just_failed(orders),
                recent=orders.recent,
                episodes=self._episodes(now) if hot else {},
            )
            context = Context(evidence, leases, orders.recent, now, orders.held, orders.kill.on)
            allowed, refused = guard(decide(snapshot, self._settings), context, self._settings)
        for proposal in allowed:
            self._carry_out(proposal, snapshot, orders, now)
        for stopped in refused:
            metrics.REFUSALS.labels(rule=stopped.rule).inc()
        self._signal(scope, evidence, trust, orders, now)
        result = "frozen" if not trust.ok else "acted" if allowed else "held"
        metrics.TICKS.labels(scope=scope.name, result=result).inc()
        metrics.FROZEN.labels(scope=scope.name).set(0 if trust.ok else 1)
        return ScopeReport(
            scope=scope.name,
            at=now,
            trust=trust,
            calm_since=self._calm_since.get(scope.name),
            causes=snapshot.causes,
            hot=tuple(v.slo for v in hot),
            done=allowed,
            refused=refused,
        )

    def _track_calm(self, scope: str, evidence: Evidence, now: datetime) -> None:
        if is_calm(evidence, self._settings):
            self._calm_since.setdefault(scope, now)
        else:
            self._calm_since.pop(scope, None)

    def _leases_of(self, scope: GatewaySettings, orders: _Orders) -> tuple[Lease, ...]:
        targets = {f"gateway/{scope.name}"}
        targets |= {f"fleet/{f.name}" for f in self._settings.fleets_behind(scope.name)}
        return tuple(x for x in orders.leases.values() if x.is_open and x.target in targets)

    def _tend(
        self,
        scope: GatewaySettings,
        evidence: Evidence,
        trust: Trust,
        hot: Sequence[Verdict],
        orders: _Orders,
        now: datetime,
    ) -> None:
        """Look after the open leases: overridden, frozen, proven, disproven, extended."""
        for lease in self._leases_of(scope, orders):
            override = tending.overridden_by(lease, evidence)
            if override is not None:
                note = f"{override} changed {lease.target}: hands off"
                orders.leases[lease.id] = self._enactor.leave(
                    lease, LeaseState.REVERTED, note, now, override
                )
                self._hold(lease.target, override, orders, now)
                continue
            orders.leases[lease.id] = tending.tend(
                lease,
                evidence,
                trust,
                hot,
                self._enactor,
                self._settings,
                now,
                held=lease.target in orders.held,
            )

    def _hold(self, target: str, by: str, orders: _Orders, now: datetime) -> None:
        hold = Hold(target, by, "manual change", now, now + self._settings.override_hold)
        with transaction(self._db) as connection:
            place_hold(connection, hold)
        orders.holds = (*orders.holds, hold)

    def _carry_out(
        self, proposal: Proposal, snapshot: Snapshot, orders: _Orders, now: datetime
    ) -> None:
        lease = orders.leases.get(proposal.lease_id or "")
        if proposal.step is Step.OPEN:
            kept = lease_evidence(proposal, snapshot.evidence, snapshot.causes, snapshot.hot)
            opened = self._enactor.open(proposal, kept, now)
            orders.leases[opened.id] = opened
        elif lease is not None and proposal.step is Step.END:
            orders.leases[lease.id] = self._enactor.take_back(
                lease, LeaseState.REVERTED, proposal.reason, now
            )
        elif lease is not None:
            orders.leases[lease.id] = self._enactor.amend(lease, proposal, now)

    def _signal(
        self,
        scope: GatewaySettings,
        evidence: Evidence,
        trust: Trust,
        orders: _Orders,
        now: datetime,
    ) -> None:
        """Tell autoscalers what each fleet should have, or that it may not be said."""
        scaling = {
            x.target: x
            for x in self._leases_of(scope, orders)
            if x.kind is Kind.SCALE and not x.dry_run and x.pending != "revert"
        }
        for configured in self._settings.fleets_behind(scope.name):
            lease = scaling.get(f"fleet/{configured.name}")
            fleet = evidence.fleet(configured.name)
            state = known(fleet.state) if fleet else None
            desired: int | None = None
            why = "no state of the fleet is known"
            if orders.kill.on:
                why = f"kill switch: {orders.kill.reason}"
            elif not trust.ok:
                why = "; ".join(trust.reasons)
            elif lease is not None:
                desired, why = int(lease.change["desired"]), lease.reason
            elif state is not None:
                desired, why = state.desired, "no change is needed"
            wanted = need(evidence, fleet, self._settings.thresholds) if fleet else None
            lease_id = lease.id if lease else None
            self._drivers.signals.publish(
                Signal(configured.name, desired, wanted, now, why, lease_id)
            )
            if desired is None:
                metrics.DESIRED.remove_by_labels({"fleet": configured.name})
            else:
                metrics.DESIRED.labels(fleet=configured.name).set(desired)


def _just_failed(orders: _Orders) -> frozenset[str]:
    """Return the levers that failed in this very tick, or whose taking back is still under way."""
    failed = (x for x in orders.leases.values() if LeaseState.FAILED in {x.state, x.close_as})
    return frozenset(f"{x.key}|{x.cause}" for x in failed)
