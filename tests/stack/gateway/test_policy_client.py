from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from base.clock import ManualClock
from stack.gateway.policy_client import PolicyClient

NOW = datetime(2026, 11, 30, 18, tzinfo=UTC)


class FakeControl:
    """Answers policy polls as the control plane does; `away` refuses the connection."""

    def __init__(self) -> None:
        self.away = False
        self.status = 200
        self.document: dict[str, Any] = {}
        self.requests: list[httpx.Request] = []

    def publish(self, version: int, *rules: dict[str, Any]) -> None:
        self.document = {"gateway": "demo", "version": version, "rules": list(rules)}

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if self.away:
            raise httpx.ConnectError("refused")
        etag = f'"{self.document["version"]}"'
        if self.status != 200:
            return httpx.Response(self.status)
        if request.headers.get("if-none-match") == etag:
            return httpx.Response(304)
        return httpx.Response(200, content=json.dumps(self.document), headers={"etag": etag})


def rule(tenant: str, expires_in_s: int, **fields: Any) -> dict[str, Any]:
    return {
        "id": f"lease-{tenant}",
        "match": {"tenant": tenant},
        "action": "shed",
        "fraction": 1.0,
        "retry_after_s": 10,
        "reason": f"{tenant} floods",
        "expires_at": (NOW + timedelta(seconds=expires_in_s)).isoformat(),
        **fields,
    }


def client_of(control: FakeControl, clock: ManualClock) -> PolicyClient:
    http = httpx.AsyncClient(transport=httpx.MockTransport(control))
    return PolicyClient(
        "http://control", "demo", http, clock, headers={"authorization": "Bearer k"}
    )


async def test_a_poll_names_the_gateway_its_version_and_its_etag() -> None:
    control, clock = FakeControl(), ManualClock(NOW)
    control.publish(7, rule("acme", 60))
    client = client_of(control, clock)

    assert await client.poll()
    assert await client.poll()

    first, second = control.requests
    assert str(first.url) == "http://control/api/v1/policies/demo?wait=25"
    assert first.headers["x-policy-version"] == "0"
    assert "if-none-match" not in first.headers
    assert second.headers["x-policy-version"] == "7"
    assert second.headers["if-none-match"] == '"7"'
    assert second.headers["authorization"] == "Bearer k"
    assert [r.id for r in client.rules] == ["lease-acme"]


async def test_rules_outlive_the_control_plane_until_their_own_end() -> None:
    control, clock = FakeControl(), ManualClock(NOW)
    control.publish(1, rule("acme", 60), rule("globex", 120))
    client = client_of(control, clock)
    await client.poll()
    control.away = True

    clock.advance(timedelta(seconds=59))
    assert not await client.poll()
    assert len(client.rules) == 2
    clock.advance(timedelta(seconds=1))
    assert not await client.poll()
    assert [r.id for r in client.rules] == ["lease-globex"]
    clock.advance(timedelta(seconds=60))

    assert list(client.rules) == []
    assert client.failures == 2
    assert client.silence_s == 120


async def test_an_error_or_nonsense_keeps_the_last_document() -> None:
    control, clock = FakeControl(), ManualClock(NOW)
    control.publish(1, rule("acme", 60))
    client = client_of(control, clock)
    await client.poll()

    control.status = 503
    assert not await client.poll()
    control.status = 200
    control.publish(2, {"id": "x", "fraction": 7})
    assert not await client.poll()

    assert client.version == 1
    assert len(client.rules) == 1


async def test_a_new_document_replaces_the_old_one_whole() -> None:
    control, clock = FakeControl(), ManualClock(NOW)
    control.publish(1, rule("acme", 60))
    client = client_of(control, clock)
    await client.poll()

    control.publish(2)
    await client.poll()

    assert client.version == 2
    assert list(client.rules) == []


async def test_before_the_first_answer_nothing_is_shed(bench: Any) -> None:
    control, clock = FakeControl(), ManualClock(NOW)
    control.away = True
    client = client_of(control, clock)

    assert not await client.poll()

    assert list(client.rules) == []
    assert client.silence_s is None


async def test_a_shed_request_is_bad_for_its_tenant_and_nobody_else(bench: Any) -> None:
    control, clock = FakeControl(), ManualClock(NOW)
    control.publish(3, rule("acme", 60))
    policy = client_of(control, clock)
    await policy.poll()
    _, engine_url = await bench.engine()
    url = await bench.gateway(engine_url, policy=policy, clock=clock)

    shed = await bench.chat(url, "say 1")
    passed = await bench.chat(url, "say 1", key="sk-globex-secret-0123456789abcdef")

    assert shed.status_code == 429
    assert 10 <= int(shed.headers["retry-after"]) <= 15
    assert shed.headers["x-tokenweir-shed-reason"] == "acme floods"
    assert passed.status_code == 200
    endings = {
        (
            s.attributes["tenant.id"],
            s.attributes["tokenweir.outcome"],
            s.attributes["tokenweir.outcome_reason"],
        )
        for s in await bench.gateway_spans.first(2)
    }
    assert endings == {("acme", "bad", "shed"), ("globex", "good", "ok")}


async def test_the_gateway_shows_its_rules_and_forgets_them_at_their_end(bench: Any) -> None:
    control, clock = FakeControl(), ManualClock(NOW)
    control.publish(3, rule("acme", 60))
    policy = client_of(control, clock)
    await policy.poll()
    _, engine_url = await bench.engine()
    url = await bench.gateway(engine_url, policy=policy, clock=clock)

    before = (await bench.http.get(f"{url}/policy")).json()
    metrics = (await bench.http.get(f"{url}/metrics")).text
    clock.advance(timedelta(seconds=60))
    after = (await bench.http.get(f"{url}/policy")).json()

    assert before["version"] == 3
    assert [r["match"]["tenant"] for r in before["rules"]] == ["acme"]
    assert "tokenweir_gateway_policy_rules 1.0" in metrics
    assert after["rules"] == []
    assert (await bench.chat(url, "say 1")).status_code == 200


async def test_who_is_over_its_own_quota_is_not_counted_as_shed(bench: Any) -> None:
    from stack.gateway.tenants import Tenant, from_keys

    control, clock = FakeControl(), ManualClock(NOW)
    policy = client_of(control, clock)
    control.publish(1)
    await policy.poll()
    _, engine_url = await bench.engine()
    tenants = from_keys(
        [("sk-acme-secret-0123456789abcdef", Tenant("acme", requests_per_minute=1))]
    )
    url = await bench.gateway(engine_url, policy=policy, clock=clock, tenants=tenants)
    await bench.chat(url, "say 1")
    control.publish(2, rule("acme", 60))
    await policy.poll()

    await bench.chat(url, "say 1")

    assert (await bench.gateway_spans.first(2))[-1].attributes[
        "tokenweir.outcome_reason"
    ] == "quota"
