"""What has to be seen in the incident, through public interfaces only."""

from __future__ import annotations

from typing import Any

import httpx

from tokenweir.timeline import Step

SLO = "demo-chat"
FLOOD_TENANT = "acme"
TARGET_S = 300.0
ALERT_WITHIN_S = 90.0


class World:
    """Reads the control plane's API, the pager, the gateway and the fleet."""

    def __init__(self, http: httpx.AsyncClient, control: str, stack: dict[str, Any]) -> None:
        self._http = http
        self._control = control
        self._stack = stack
        self.base_replicas = 0
        self._burned: set[str] = set()

    async def read(self, url: str) -> Any:
        answer = await self._http.get(url)
        answer.raise_for_status()
        return answer.json()

    async def firing(self) -> list[dict[str, Any]]:
        found = await self.read(f"{self._control}/api/v1/alerts")
        alerts = found["alerts"]
        return [a for a in alerts if a["slo"] == SLO and a["state"] == "firing"]

    async def leases(self, *kinds: str) -> list[dict[str, Any]]:
        found = await self.read(f"{self._control}/api/v1/actions")
        return [lease for lease in found["actions"] if lease["kind"] in kinds]

    async def pages(self, status: str) -> list[dict[str, Any]]:
        found = await self.read(f"{self._stack['pager']}/pages")
        return [page for page in found if page["status"] == status and SLO in page["key"]]

    async def ready_replicas(self) -> int:
        return int((await self.read(f"{self._stack['fleet']}/replicas"))["ready"])

    async def rules(self) -> set[str]:
        """Return the leases that the gateway obeys now."""
        found = await self.read(f"{self._stack['gateway']}/policy")
        return {rule["id"] for rule in found["rules"]}

    async def burning(self) -> set[str]:
        """Name the tenants whose budget burns now, and remember them."""
        found = await self.read(f"{self._control}/api/v1/slos")
        now = {
            str(slo["group"].get("tenant"))
            for slo in found["slos"]
            if slo["name"] == SLO and any(tier["burning"] for tier in slo["tiers"])
        }
        self._burned |= now
        return now

    # What has to be seen: each answers with a short note once it is.

    async def alert_fires(self) -> str | None:
        firing = await self.firing()
        if not firing:
            return None
        first = firing[0]
        return f"{first['group'].get('tenant')} burns its budget {_burn(first)}"

    async def page_arrives(self) -> str | None:
        return "one webhook, its signature verified" if await self.pages("firing") else None

    async def flood_is_shed(self) -> str | None:
        """See a lease that names the flood as its cause and that the gateway obeys."""
        await self.burning()
        obeyed = await self.rules()
        for lease in await self.leases("shed", "cap"):
            if lease["id"] in obeyed and lease["cause"] == f"tenant_flood:{FLOOD_TENANT}":
                return f"the gateway refuses {_amount(lease)} of {FLOOD_TENANT}: tenant flood"
        return None

    async def capacity_is_added(self) -> str | None:
        await self.burning()
        ready = await self.ready_replicas()
        if ready <= self.base_replicas or not await self.leases("scale"):
            return None
        return f"{ready} replicas serve, {self.base_replicas} before"

    async def effect_is_verified(self) -> str | None:
        for lease in await self.leases("shed", "cap"):
            if lease["state"] in {"verified", "reverted"} and _was(lease, "verified"):
                return _effect(lease)
        return None

    async def others_stop_burning(self) -> str | None:
        """See that nobody but the flooding tenant, who is refused, spends budget too fast."""
        if await self.burning() - {FLOOD_TENANT}:
            return None
        others = sorted(self._burned - {FLOOD_TENANT})
        return f"{', '.join(others)} burned too, no more" if others else "nobody else burned"

    async def page_resolves(self) -> str | None:
        if await self.burning() or await self.firing() or not await self.pages("resolved"):
            return None
        return "no budget burns, the pager was told"

    async def leases_are_undone(self) -> str | None:
        leases = await self.leases("shed", "cap", "scale")
        if not leases or any(lease["closed_at"] is None for lease in leases) or await self.rules():
            return None
        if await self.ready_replicas() > self.base_replicas:
            return None
        return f"{len(leases)} leases closed, {self.base_replicas} replicas again"


def incident_steps(world: World) -> list[Step]:
    """List the steps; limits count from the start of the flood."""
    return [
        Step("alert", "a burn alert fires", ALERT_WITHIN_S, world.alert_fires),
        Step("page", "the signed page arrives", TARGET_S, world.page_arrives, after="alert"),
        Step("shed", "the flood is shed", TARGET_S, world.flood_is_shed),
        Step("scale", "replicas are added", TARGET_S, world.capacity_is_added),
        Step("verify", "the effect is verified", TARGET_S, world.effect_is_verified),
        Step("calm", "the others' budgets are safe", TARGET_S, world.others_stop_burning,
             after="verify"),
        Step("resolve", "the page resolves", TARGET_S, world.page_resolves, after="page"),
        Step("undo", "the leases are undone", TARGET_S, world.leases_are_undone, after="verify"),
    ]  # fmt: skip


def _burn(alert: dict[str, Any]) -> str:
    return str(alert["annotations"].get("burn", "too fast")).replace("x over", " times too fast in")


def _amount(lease: dict[str, Any]) -> str:
    fraction = lease["change"].get("fraction")
    return "what is too much" if fraction is None else f"{fraction:.0%}"


def _was(lease: dict[str, Any], step: str) -> bool:
    return any(entry["step"] == step for entry in lease["timeline"])


def _effect(lease: dict[str, Any]) -> str:
    expect, note = lease["expect"], ""
    for entry in lease["timeline"]:
        if entry["step"] == "verified":
            note = entry["note"]
    before, after = _number(expect["before"]), note.rpartition(" to ")[2]
    return f"{expect['metric']} from {before} to {after or _number(lease['measured']['after'])}"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.0f}"
