"""What has to be seen in the incident, through public interfaces only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import httpx

from tokenweir.timeline import Step

SLO = "demo-chat"
TARGET_S = 360.0
ALERT_WITHIN_S = 90.0


class World:
    """Reads the control plane's API, the pager, the gateway and the fleet."""

    def __init__(self, http: httpx.AsyncClient, control: str, stack: dict[str, Any]) -> None:
        self._http = http
        self._control = control
        self._stack = stack
        self.base_replicas = 0

    async def read(self, url: str) -> Any:
        answer = await self._http.get(url)
        answer.raise_for_status()
        return answer.json()

    async def alerts(self) -> list[dict[str, Any]]:
        found = await self.read(f"{self._control}/api/v1/alerts")
        return [alert for alert in found["alerts"] if alert["slo"] == SLO]

    async def actions(self, *kinds: str) -> list[dict[str, Any]]:
        found = await self.read(f"{self._control}/api/v1/actions")
        return [lease for lease in found["actions"] if lease["kind"] in kinds]

    async def pages(self, status: str) -> list[dict[str, Any]]:
        found = await self.read(f"{self._stack['pager']}/pages")
        return [page for page in found if page["status"] == status and SLO in page["key"]]

    async def ready_replicas(self) -> int:
        return int((await self.read(f"{self._stack['fleet']}/replicas"))["ready"])

    async def rules(self) -> list[dict[str, Any]]:
        return list((await self.read(f"{self._stack['gateway']}/policy"))["rules"])

    async def burning(self) -> list[str]:
        """Name the tenants whose budget burns now."""
        found = await self.read(f"{self._control}/api/v1/slos")
        return sorted(
            slo["group"].get("tenant", "")
            for slo in found["slos"]
            if slo["name"] == SLO and any(tier["burning"] for tier in slo["tiers"])
        )

    # What has to be seen: each answers with a note once it is.

    async def alert_fires(self) -> str | None:
        firing = [alert for alert in await self.alerts() if alert["state"] == "firing"]
        return _first(alert["summary"] for alert in firing)

    async def page_arrives(self) -> str | None:
        pages = await self.pages("firing")
        return f"signature verified: {pages[0]['summary']}" if pages else None

    async def shed_is_applied(self) -> str | None:
        leases = {lease["id"]: lease for lease in await self.actions("shed", "cap")}
        held = [rule for rule in await self.rules() if rule["id"] in leases]
        return _first(f"gateway obeys: {leases[rule['id']]['reason']}" for rule in held)

    async def scale_is_applied(self) -> str | None:
        if not await self.actions("scale"):
            return None
        ready = await self.ready_replicas()
        if ready <= self.base_replicas:
            return None
        return f"{ready} replicas serve, {self.base_replicas} before"

    async def effect_is_verified(self) -> str | None:
        leases = await self.actions("shed", "cap", "scale")
        return _first(_effect(lease) for lease in leases if lease["state"] == "verified")

    async def burn_stops(self) -> str | None:
        return None if await self.burning() else "no tenant's budget burns any more"

    async def page_resolves(self) -> str | None:
        firing = [alert for alert in await self.alerts() if alert["state"] == "firing"]
        return "the pager was told" if await self.pages("resolved") and not firing else None

    async def leases_are_undone(self) -> str | None:
        leases = await self.actions("shed", "cap", "scale")
        still = [lease for lease in leases if lease["closed_at"] is None]
        if still or not leases or await self.rules():
            return None
        if await self.ready_replicas() > self.base_replicas:
            return None
        return f"{len(leases)} leases closed, {self.base_replicas} replicas as before"


def incident_steps(world: World) -> list[Step]:
    """List the steps; limits count from the start of the flood."""
    return [
        Step("alert", "a burn alert fires", ALERT_WITHIN_S, world.alert_fires),
        Step("page", "the signed page arrives", TARGET_S, world.page_arrives, after="alert"),
        Step("shed", "shedding is applied", TARGET_S, world.shed_is_applied),
        Step("scale", "scaling is applied", TARGET_S, world.scale_is_applied),
        Step("verify", "the effect is verified", TARGET_S, world.effect_is_verified),
        Step("calm", "the budget stops burning", TARGET_S, world.burn_stops, after="verify"),
        Step("resolve", "the page resolves", TARGET_S, world.page_resolves, after="page"),
        Step("undo", "the leases are undone", TARGET_S, world.leases_are_undone, after="verify"),
    ]


def _first(found: Iterable[str]) -> str | None:
    return next(iter(found), None)


def _effect(lease: dict[str, Any]) -> str:
    expect = lease["expect"]
    return f"{expect['metric']}: {_number(expect['before'])} → {_number(lease['after'])}"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.0f}"
