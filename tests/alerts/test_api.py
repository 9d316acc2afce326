from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from fastapi.testclient import TestClient

from alerts import api, api_v2
from base.errors import BadInput

MINUTE = timedelta(minutes=1)
World = Any  # see conftest.py


@pytest.fixture
def client(world: World) -> TestClient:
    app = FastAPI()
    app.include_router(api.router(world.db, world.engine, world.clock))
    app.include_router(
        api_v2.router(world.db, world.receivers, world.clock, world.settings.external_url)
    )

    @app.exception_handler(BadInput)
    def bad_input(_request: Request, error: BadInput) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 400)

    return TestClient(app)


def alerts_of(client: TestClient, **query: str) -> list[dict[str, Any]]:
    answer = client.get("/api/v1/alerts", params=query)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["alerts"]
    return found


def test_an_alert_is_shown_with_its_notifications(
    client: TestClient, world: World, say: SimpleNamespace
) -> None:
    world.tick(say.paging())

    (alert,) = alerts_of(client)
    assert alert["slo"] == "chat-ttft"
    assert alert["group"] == {"tenant": "acme"}
    assert alert["labels"]["severity"] == alert["severity"] == "page"
    assert alert["labels"]["team"] == "inference"
    assert (alert["state"], alert["frozen"], alert["resolved_at"]) == ("firing", False, None)
    assert alert["since"] == "2026-11-30T17:00:00.000Z"
    assert alert["summary"] == (
        "chat-ttft{tenant=acme}: the error budget is burning 20x too fast over 1h (page)"
    )
    (note,) = alert["notifications"]
    assert (note["receiver"], note["status"], note["attempts"]) == ("pager", "delivered", 1)


def test_alerts_are_filtered(client: TestClient, world: World, say: SimpleNamespace) -> None:
    world.tick(say.paging(slo="one"), say.ticketing(slo="two"))
    world.tick(say.calm(slo="one"), say.ticketing(slo="two"), after=MINUTE)

    assert [a["slo"] for a in alerts_of(client)] == ["two", "one"]
    assert [a["slo"] for a in alerts_of(client, state="firing")] == ["two"]
    assert [a["slo"] for a in alerts_of(client, severity="page")] == ["one"]
    assert [a["slo"] for a in alerts_of(client, slo="one")] == ["one"]
    assert client.get("/api/v1/alerts?state=loud").status_code == 422


def test_past_episodes_are_listed_by_time(
    client: TestClient, world: World, say: SimpleNamespace
) -> None:
    world.tick(say.paging())
    world.tick(say.calm(), after=MINUTE)
    world.tick(say.calm(), after=60 * MINUTE)

    assert alerts_of(client) == []
    (past,) = alerts_of(client, **{"from": "2026-11-30T16:00:00Z"})
    assert (past["state"], past["resolved_at"]) == ("resolved", "2026-11-30T17:01:00.000Z")
    assert client.get("/api/v1/alerts?from=yesterday").status_code == 400


def test_an_acknowledgement_is_shown_and_can_be_withdrawn(
    client: TestClient, world: World, say: SimpleNamespace
) -> None:
    world.tick(say.paging())
    (alert,) = alerts_of(client)
    body = {"by": "ada", "note": "on it", "for": "1h"}

    assert client.post(f"/api/v1/alerts/{alert['fingerprint']}/ack", json=body).status_code == 200
    (alert,) = alerts_of(client)
    assert (alert["ack"]["by"], alert["ack"]["until"]) == ("ada", "2026-11-30T18:00:00.000Z")
    story = client.get(f"/api/v1/alerts/{alert['id']}/timeline").json()["events"]
    assert [event["what"] for event in story] == ["fired", "acknowledged"]

    assert client.delete(f"/api/v1/alerts/{alert['id']}/ack").status_code == 204
    assert client.delete(f"/api/v1/alerts/{alert['id']}/ack").status_code == 404
    assert client.post("/api/v1/alerts/nobody/ack", json=body).status_code == 404


def test_an_alert_whose_source_died_can_be_closed_by_hand(
    client: TestClient, world: World, say: SimpleNamespace
) -> None:
    world.tick(say.paging())
    world.tick(say.stale(), after=MINUTE)
    (alert,) = alerts_of(client)
    assert alert["frozen"]

    path = f"/api/v1/alerts/{alert['id']}/close"
    assert client.post(path, json={"by": "ada"}).status_code == 204
    world.tick(say.stale(), after=MINUTE)

    assert world.pager.reasons == ["first notification", "all alerts resolved"]
    (alert,) = alerts_of(client)
    assert (alert["state"], alert["frozen"]) == ("resolved", False)
    assert client.post(path, json={"by": "ada"}).status_code == 404


def test_a_silence_lives_from_post_to_delete(
    client: TestClient, world: World, say: SimpleNamespace
) -> None:
    body = {"matchers": ['tenant=~"a.*"'], "for": "2h", "created_by": "ada", "comment": "test"}
    made = client.post("/api/v1/silences", json=body)
    assert (made.status_code, made.json()["state"]) == (201, "active")
    silence = made.json()["id"]
    world.tick(say.paging())

    (alert,) = alerts_of(client)
    assert (alert["silenced_by"], alert["notifications"]) == ([silence], [])
    changed = client.put(f"/api/v1/silences/{silence}", json={**body, "for": "1m"})
    assert changed.json()["ends_at"] == "2026-11-30T17:01:00.000Z"
    assert client.delete(f"/api/v1/silences/{silence}").status_code == 204
    assert client.delete(f"/api/v1/silences/{silence}").status_code == 404
    (listed,) = client.get("/api/v1/silences").json()["silences"]
    assert (listed["state"], listed["matchers"]) == ("expired", ['tenant=~"a.*"'])


@pytest.mark.parametrize(
    "body",
    [
        {"matchers": ["nonsense"], "for": "1h"},
        {"matchers": ['a=~"("'], "for": "1h"},
        {"matchers": ['a=~".*"'], "for": "1h"},
        {"matchers": ["a=b"]},
        {"matchers": ["a=b"], "for": "1h", "ends_at": "2026-12-01T00:00:00Z"},
        {"matchers": ["a=b"], "ends_at": "2020-12-01T00:00:00Z"},
        {"matchers": ["a=b"], "for": "a while"},
    ],
)
def test_a_silence_that_makes_no_sense_is_refused(client: TestClient, body: dict[str, Any]) -> None:
    answer = client.post("/api/v1/silences", json={**body, "created_by": "ada"})

    assert answer.status_code == 400
    assert answer.json()["detail"]


def test_a_gone_receiver_is_shown_and_enabled(
    client: TestClient, world: World, say: SimpleNamespace
) -> None:
    world.pager.plan = [410]
    world.tick(say.paging())

    (receiver,) = client.get("/api/v1/receivers").json()["receivers"]
    assert (receiver["name"], receiver["disabled"]) == ("pager", True)
    assert "410" in receiver["broken_reason"]
    assert client.post("/api/v1/receivers/pager/enable").status_code == 204
    assert client.post("/api/v1/receivers/nobody/enable").status_code == 404
    (receiver,) = client.get("/api/v1/receivers").json()["receivers"]
    assert not receiver["disabled"]


def test_alertmanager_s_read_side_tells_the_same(
    client: TestClient, world: World, say: SimpleNamespace
) -> None:
    world.tick(say.paging(), say.ticketing(group={"tenant": "beta"}))

    alerts = client.get("/api/v2/alerts").json()
    assert [a["labels"]["tenant"] for a in alerts] == ["acme", "beta"]
    assert alerts[0]["status"] == {
        "state": "active",
        "silencedBy": [],
        "inhibitedBy": [],
        "mutedBy": [],
    }
    assert alerts[0]["receivers"] == [{"name": "pager"}]
    only = client.get("/api/v2/alerts", params={"filter": ['severity="page"', "slo=~chat.*"]})
    assert [a["labels"]["tenant"] for a in only.json()] == ["acme"]
    (group,) = client.get("/api/v2/alerts/groups").json()
    assert (group["labels"], len(group["alerts"])) == ({"slo": "chat-ttft"}, 2)
    assert client.get("/api/v2/alerts?receiver=nobody").json() == []
    assert client.get("/api/v2/alerts?receiver=(").status_code == 400
    assert client.get("/api/v2/receivers").json() == [{"name": "pager"}]
    assert client.get("/api/v2/status").json()["cluster"] == {"status": "disabled", "peers": []}
