"""The steps of the incident are seen when they happened, and not before."""

from __future__ import annotations

from typing import Any

import httpx

from tokenweir.demo.steps import SLO, World

STACK = {"pager": "http://pager", "gateway": "http://gateway", "fleet": "http://fleet"}


class Served:
    """What control plane, gateway, pager and fleet answer."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {
            "http://control/api/v1/alerts": {"alerts": []},
            "http://control/api/v1/actions": {"actions": []},
            "http://control/api/v1/slos": {"slos": []},
            "http://pager/pages": [],
            "http://gateway/policy": {"rules": []},
            "http://fleet/replicas": {"ready": 2},
        }

    def world(self) -> World:
        def answer(request: httpx.Request) -> httpx.Response:
            return httpx.Response(200, json=self.answers[str(request.url)])

        client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
        world = World(client, "http://control", STACK, keep_s=0)
        world.base_replicas = 2
        return world

    def leases(self, *leases: dict[str, Any], obeyed: bool = True) -> None:
        self.answers["http://control/api/v1/actions"] = {"actions": list(leases)}
        rules = [{"id": lease["id"]} for lease in leases if obeyed]
        self.answers["http://gateway/policy"] = {"rules": rules}

    def burns(self, **long_burns: float) -> None:
        self.answers["http://control/api/v1/slos"] = {
            "slos": [
                {
                    "name": SLO,
                    "group": {"tenant": tenant},
                    "tiers": [{"burning": burn >= 6, "long_burn": burn, "factor": 6}],
                }
                for tenant, burn in long_burns.items()
            ]
        }


def shed(fraction: float, cause: str = "tenant_flood:acme", **changes: Any) -> dict[str, Any]:
    lease = {"id": "1", "kind": "shed", "cause": cause, "change": {"fraction": fraction},
             "closed_at": None, "timeline": []}  # fmt: skip
    return {**lease, **changes}


async def test_a_shed_counts_when_it_names_the_flood_takes_most_of_it_and_is_obeyed() -> None:
    served, seen = Served(), []
    for lease, obeyed in (
        (shed(0.8, cause="demand_beyond_capacity"), True),
        (shed(0.2), True),
        (shed(0.8), False),
        (shed(0.8), True),
    ):
        served.leases(lease, obeyed=obeyed)
        seen.append(await served.world().flood_is_shed())

    assert seen == [None, None, None, "the gateway refuses 80% of acme's requests"]


async def test_the_others_are_safe_once_their_long_window_says_so() -> None:
    served = Served()
    world = served.world()
    served.burns(acme=20, umbrella=7)
    burning = await world.others_are_safe()
    served.burns(acme=20, umbrella=2)

    assert burning is None
    assert await world.others_are_safe() == "umbrella burned too, no more"


async def test_the_proof_is_said_in_few_words() -> None:
    served = Served()
    proof = {"step": "verified", "note": "queue_p95_ms went from 13,207.5 to 842.46"}
    served.leases(shed(0.8, timeline=[{"step": "applied", "note": ""}, proof]))

    assert await served.world().effect_is_verified() == "queue p95 13,207 → 842 ms"


async def test_leases_are_undone_when_all_are_closed_and_the_world_is_as_before() -> None:
    served = Served()
    world = served.world()
    none_yet = await world.leases_are_undone()
    served.leases(shed(0.8, closed_at="2026-11-30T12:00:00Z"), obeyed=False)
    served.answers["http://fleet/replicas"] = {"ready": 3}
    one_replica_more = await world.leases_are_undone()
    served.answers["http://fleet/replicas"] = {"ready": 2}

    assert none_yet is one_replica_more is None
    assert await world.leases_are_undone() == "all 1 closed, 2 replicas again"


async def test_the_page_resolves_only_when_nothing_burns_and_the_pager_was_told() -> None:
    served = Served()
    world = served.world()
    served.burns(acme=20)
    served.answers["http://pager/pages"] = [{"status": "resolved", "key": f"{SLO}/1"}]
    burning = await world.page_resolves()
    served.burns(acme=0)

    assert burning is None
    assert await world.page_resolves() == "no budget burns, the pager knows"
