"""The REST surface, in process."""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from rig import Rig

from actuators import api


@pytest.fixture
def client(rig: Rig) -> TestClient:
    app = FastAPI()
    app.include_router(api.router(rig.db, rig.loop, rig.drivers, rig.settings, rig.clock))
    return TestClient(app)


def flooded(rig: Rig) -> None:
    rig.world.rates["acme"] = 40.0
    rig.run(60)


def test_an_action_tells_why_what_was_expected_and_what_came_of_it(
    rig: Rig, client: TestClient
) -> None:
    flooded(rig)
    body = client.get("/api/v1/actions").json()
    shed = next(a for a in body["actions"] if a["kind"] == "shed")

    assert body["mode"] == "live"
    assert body["kill_switch"] == {"on": False, "by": None, "reason": None, "at": None}
    assert shed["state"] == "verified"
    assert shed["slo"] == "chat-wait"
    assert shed["cause"] == "tenant_flood:acme"
    assert shed["expect"]["metric"] == "queue_p95_ms"
    assert shed["measured"]["after"] < shed["measured"]["before"]
    assert shed["evidence"]["values"]["queue_p95_ms"]["state"] == "known"
    assert "acme" in shed["evidence"]["causes"][0]["because"][0]
    steps = [t["step"] for t in shed["timeline"]]
    assert (steps[0], steps[-1]) == ("proposed", "verified")
    assert set(steps) <= {"proposed", "applied", "raised", "verified"}, "more may be needed"


def test_the_kill_switch_reverts_at_once_and_remembers_who(rig: Rig, client: TestClient) -> None:
    flooded(rig)
    order = {"on": True, "by": "ana", "reason": "incident call"}
    answer = client.post("/api/v1/actions/kill-switch", json=order)

    assert answer.status_code == 200
    assert len(answer.json()["reverted"]) == 2
    assert client.get("/api/v1/actions").json()["kill_switch"]["by"] == "ana"
    assert rig.open() == []
    assert client.get("/api/v1/policies/demo").json()["rules"] == []


def test_an_order_without_a_name_is_refused(client: TestClient) -> None:
    assert client.post("/api/v1/actions/kill-switch", json={"on": True}).status_code == 422


def test_a_lease_is_reverted_once(rig: Rig, client: TestClient) -> None:
    flooded(rig)
    url = f"/api/v1/actions/{rig.open()[0].id}/revert"
    order = {"by": "ana", "reason": "no"}

    assert client.post(url, json=order).json()["state"] == "reverted"
    assert client.post(url, json=order).status_code == 404


def test_holds_are_placed_listed_and_lifted(client: TestClient) -> None:
    order = {"target": "fleet/chat", "by": "ana", "reason": "migration", "for": "30m"}

    assert client.post("/api/v1/actions/holds", json=order).status_code == 201
    held = client.get("/api/v1/actions").json()["holds"]
    assert [(h["target"], h["by"]) for h in held] == [("fleet/chat", "ana")]
    assert client.delete("/api/v1/actions/holds/fleet/chat?by=ana").status_code == 204
    assert client.delete("/api/v1/actions/holds/fleet/chat?by=ana").status_code == 404


@pytest.mark.parametrize(
    ("change", "status"),
    [({"target": "fleet/other"}, 404), ({"for": "soon"}, 400), ({"for": "400d"}, 400)],
)
def test_a_hold_that_makes_no_sense_is_refused(
    client: TestClient, change: dict[str, str], status: int
) -> None:
    order = {"target": "fleet/chat", "by": "ana", "reason": "x", "for": "30m", **change}

    assert client.post("/api/v1/actions/holds", json=order).status_code == status


def test_a_policy_is_not_sent_twice(rig: Rig, client: TestClient) -> None:
    flooded(rig)
    first = client.get("/api/v1/policies/demo")
    etag = first.headers["etag"]
    second = client.get("/api/v1/policies/demo", headers={"If-None-Match": etag})

    assert first.json()["rules"]
    assert second.status_code == 304
    assert second.headers["etag"] == etag
    assert client.get("/api/v1/policies/other").status_code == 404


def test_a_poll_proves_the_version_by_header_or_by_etag(rig: Rig, client: TestClient) -> None:
    rig.world.gateway_down = True
    rig.world.rates["acme"] = 40.0
    rig.run(30)
    lease = next(x for x in rig.open() if x.kind == "shed")
    board = rig.drivers.policies
    client.get("/api/v1/policies/demo", headers={"x-policy-version": "0"})
    not_yet = board.taken(lease, rig.clock.now())
    etag = client.get("/api/v1/policies/demo").headers["etag"]
    client.get("/api/v1/policies/demo", headers={"If-None-Match": etag})

    assert not_yet is False
    assert board.taken(lease, rig.clock.now()) is True


def test_scaling_is_a_number_or_an_error(rig: Rig, client: TestClient) -> None:
    before = client.get("/api/v1/scaling/chat")
    flooded(rig)
    known = client.get("/api/v1/scaling/chat")
    rig.world.silent = True
    rig.run(25)
    stale = client.get("/api/v1/scaling/chat")

    assert before.status_code == 503
    assert known.json()["desired"] == rig.world.desired
    assert known.json()["lease_id"]
    assert stale.status_code == 503
    assert "desired" not in stale.json()
    assert client.get("/api/v1/scaling/other").status_code == 404
