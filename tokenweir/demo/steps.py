"""What has to be seen in the incident, through public interfaces only."""

from __future__ import annotations

import time
from typing import Any

import httpx

from tokenweir.demo.config import FLOOD
from tokenweir.timeline import Step

SLO = "demo-chat"
TARGET_S = 300.0
ALERT_WITHIN_S = 90.0
MOST = 0.5


class World:
    """Reads the control plane's API, the pager, the gateway and the fleet."""

    def __init__(
        self, http: httpx.AsyncClient, control: str, stack: dict[str, Any], keep_s: float = 2.0
    ) -> None:
        self._http = http
        self._control = control
        self._stack = stack
        self.base_replicas = 0
        self._keep_s = keep_s
        self._burned: set[str] = set()
        self._tiers: dict[str, dict[str, Any]] = {}
        self._judged_until = 0.0

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

    async def verdicts(self) -> dict[str, dict[str, Any]]:
        """Return each tenant's tier, and remember whose budget burned.

        Judging is work, and the steps ask often: an answer is good for a moment.
        """
        now = time.monotonic()
        if now < self._judged_until:
            return self._tiers
        found = await self.read(f"{self._control}/api/v1/slos")
        tiers = {
            str(slo["group"].get("tenant")): slo["tiers"][0]
            for slo in found["slos"]
            if slo["name"] == SLO
        }
        self._burned |= {tenant for tenant, tier in tiers.items() if tier["burning"]}
        self._tiers, self._judged_until = tiers, now + self._keep_s
        return tiers

    # What has to be seen: each answers with a short note once it is.

    async def alert_fires(self) -> str | None:
        firing = await self.firing()
        if not firing:
            return None
        first = firing[0]
        return f"{first['group'].get('tenant')}'s budget burns {_burn(first)}"

    async def page_arrives(self) -> str | None:
        return "one webhook, with a valid signature" if await self.pages("firing") else None

    async def flood_is_shed(self) -> str | None:
        """See a lease that names the flood as its cause, takes most of it, and is obeyed."""
        await self.verdicts()
        obeyed = await self.rules()
        for lease in await self.leases("shed"):
            fraction = lease["change"]["fraction"]
            caused = lease["cause"] == f"tenant_flood:{FLOOD.tenant}"
            if caused and lease["id"] in obeyed and fraction >= MOST:
                return f"the gateway refuses {fraction:.0%} of {FLOOD.tenant}'s requests"
        return None

    async def capacity_is_added(self) -> str | None:
        await self.verdicts()
        ready = await self.ready_replicas()
        if ready <= self.base_replicas or not await self.leases("scale"):
            return None
        return f"{ready} replicas serve, {self.base_replicas} before"

    async def effect_is_verified(self) -> str | None:
        for lease in await self.leases("shed"):
            proof = [entry["note"] for entry in lease["timeline"] if entry["step"] == "verified"]
            if proof:
                return _short(proof[-1])
        return None

    async def others_are_safe(self) -> str | None:
        """See that nobody but the flooding tenant, who is refused, spends budget too fast.

        The long window must say so: a minute in which it went well, not a lucky moment.
        """
        tiers = await self.verdicts()
        others = [tier for tenant, tier in tiers.items() if tenant != FLOOD.tenant]
        if any(tier["burning"] or (tier["long_burn"] or 0) >= tier["factor"] for tier in others):
            return None
        burned = sorted(self._burned - {FLOOD.tenant})
        return f"{' and '.join(burned)} burned too, no more" if burned else "nobody else burned"

    async def page_resolves(self) -> str | None:
        tiers = await self.verdicts()
        if any(tier["burning"] for tier in tiers.values()) or await self.firing():
            return None
        return "no budget burns, the pager knows" if await self.pages("resolved") else None

    async def leases_are_undone(self) -> str | None:
        leases = await self.leases("shed", "cap", "scale")
        if not leases or any(lease["closed_at"] is None for lease in leases) or await self.rules():
            return None
        if await self.ready_replicas() > self.base_replicas:
            return None
        return f"all {len(leases)} closed, {self.base_replicas} replicas again"


def incident_steps(world: World) -> list[Step]:
    """List the steps; limits count from the start of the flood."""
    return [
        Step("alert", "a burn alert fires", ALERT_WITHIN_S, world.alert_fires),
        Step("page", "the signed page arrives", TARGET_S, world.page_arrives, after="alert"),
        Step("shed", "the flood is shed", TARGET_S, world.flood_is_shed),
        Step("scale", "replicas are added", TARGET_S, world.capacity_is_added),
        Step("verify", "the effect is verified", TARGET_S, world.effect_is_verified),
        Step("calm", "the others' budgets are safe", TARGET_S, world.others_are_safe,
             after="verify"),
        Step("resolve", "the page resolves", TARGET_S, world.page_resolves, after="page"),
        Step("undo", "the leases are undone", TARGET_S, world.leases_are_undone, after="verify"),
    ]  # fmt: skip


def _burn(alert: dict[str, Any]) -> str:
    """Shorten "13.4x over 1m"."""
    factor, _, _ = str(alert["annotations"].get("burn", "")).partition("x over")
    return f"{factor} times too fast" if factor else "too fast"


def _short(proof: str) -> str:
    """Shorten "queue_p95_ms went from 13,207.5 to 9,842.46"."""
    metric, _, change = proof.partition(" went from ")
    values = [value.partition(".")[0] for value in change.split(" to ")]
    return f"{metric.removesuffix('_ms').replace('_', ' ')} {' → '.join(values)} ms"
