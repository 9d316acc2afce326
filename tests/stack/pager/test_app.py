from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from base.clock import ManualClock
from base.errors import BadInput, ConfigError
from stack.pager.app import Pager, new_secret, render
from stack.pager.signature import read_secret, verify

NOW = datetime(2026, 11, 30, 18, tzinfo=UTC)
SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()


def webhook(status: str = "firing", summary: str = "budget burning 14.4x") -> dict[str, Any]:
    return {
        "version": "4",
        "groupKey": '{}:{slo="chat-ttft"}',
        "truncatedAlerts": 0,
        "status": status,
        "receiver": "pager",
        "groupLabels": {"slo": "chat-ttft"},
        "commonLabels": {"alertname": "SLOBurn", "slo": "chat-ttft", "severity": "page"},
        "commonAnnotations": {"summary": summary},
        "externalURL": "https://slo.example",
        "alerts": [
            {
                "status": status,
                "labels": {"alertname": "SLOBurn", "severity": "page"},
                "annotations": {},
                "startsAt": "2026-11-30T17:04:21.024123456Z",
                "endsAt": "0001-01-01T00:00:00Z",
                "generatorURL": "https://slo.example/slo/chat-ttft",
                "fingerprint": "16504ae9abeab52a",
            }
        ],
    }


def event(**fields: Any) -> dict[str, Any]:
    return {
        "routing_key": "R" * 32,
        "event_action": "trigger",
        "dedup_key": "d1",
        "payload": {"summary": "burning", "source": "tokenweir", "severity": "critical"},
        **fields,
    }


def signed(body: bytes, webhook_id: str = "msg_1", at: datetime = NOW) -> dict[str, str]:
    """Sign with the reference library, not with our own code."""
    return {
        "webhook-id": webhook_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(SECRET).sign(webhook_id, at, body.decode()),
    }


async def pager_at(bench: Any) -> tuple[Pager, str]:
    pager = Pager([read_secret(SECRET)], ManualClock(NOW))
    return pager, await bench.serve(pager.app)


async def test_a_signed_webhook_is_kept_and_shown(bench: Any) -> None:
    _, url = await pager_at(bench)
    body = json.dumps(webhook()).encode()

    answer = await bench.http.post(f"{url}/webhook", content=body, headers=signed(body))

    (page,) = (await bench.http.get(f"{url}/pages")).json()
    assert answer.status_code == 200
    assert page["received_at"] == "2026-11-30T18:00:00.000Z"
    assert page["webhook_id"] == "msg_1"
    assert (page["status"], page["severity"]) == ("firing", "page")
    assert page["key"] == '{}:{slo="chat-ttft"}'
    assert page["summary"] == "budget burning 14.4x"
    assert page["body"] == webhook()
    assert "budget burning 14.4x" in (await bench.http.get(url)).text


async def test_a_repeated_id_is_acknowledged_and_not_kept_twice(bench: Any) -> None:
    _, url = await pager_at(bench)
    body = json.dumps(webhook()).encode()

    answers = [
        await bench.http.post(
            f"{url}/webhook",
            content=body,
            headers=signed(body, at=NOW + timedelta(seconds=second)),
        )
        for second in range(3)
    ]

    assert [a.json()["status"] for a in answers] == ["accepted", "duplicate", "duplicate"]
    assert len((await bench.http.get(f"{url}/pages")).json()) == 1
    assert (await bench.http.get(f"{url}/stats")).json() == {"accepted": 1, "duplicate": 2}


@pytest.mark.parametrize(
    "change",
    [
        {"webhook-signature": "v1,AAAA"},
        {"webhook-signature": ""},
        {"webhook-id": "msg_2"},
        {"webhook-id": "a.b"},
        {"webhook-id": ""},
        {"webhook-timestamp": str(int((NOW - timedelta(seconds=301)).timestamp()))},
        {"webhook-timestamp": str(int((NOW + timedelta(seconds=301)).timestamp()))},
        {"webhook-timestamp": "now"},
        {"webhook-timestamp": "²"},
    ],
)
def test_what_is_not_signed_just_so_is_refused(change: dict[str, str]) -> None:
    body = json.dumps(webhook()).encode()

    with pytest.raises(BadInput, match="webhook-"):
        verify({**signed(body), **change}, body, [read_secret(SECRET)], NOW)


def test_a_changed_body_is_refused() -> None:
    body = json.dumps(webhook()).encode()

    with pytest.raises(BadInput, match="does not match"):
        verify(signed(body), body + b" ", [read_secret(SECRET)], NOW)


def test_either_of_two_secrets_and_any_of_several_signatures_will_do() -> None:
    body = b"{}"
    headers = signed(body)
    headers["webhook-signature"] = "v1a,xxxx v1,AAAA " + headers["webhook-signature"]

    assert verify(headers, body, [b"o" * 32, read_secret(SECRET)], NOW) == "msg_1"


async def test_a_bad_signature_is_401_and_leaves_no_page(bench: Any) -> None:
    pager, url = await pager_at(bench)
    body = json.dumps(webhook()).encode()

    answer = await bench.http.post(
        f"{url}/webhook", content=body, headers={**signed(body), "webhook-signature": "v1,x"}
    )

    assert answer.status_code == 401
    assert list(pager.pages) == []


@pytest.mark.parametrize("key", ["version", "groupKey", "status", "alerts", "commonLabels"])
async def test_a_signed_body_that_is_no_webhook_is_400_and_may_come_again(
    bench: Any, key: str
) -> None:
    _, url = await pager_at(bench)
    broken = webhook()
    del broken[key]
    bad, good = json.dumps(broken).encode(), json.dumps(webhook()).encode()

    refused = await bench.http.post(f"{url}/webhook", content=bad, headers=signed(bad))
    accepted = await bench.http.post(f"{url}/webhook", content=good, headers=signed(good))

    assert refused.status_code == 400
    assert key in refused.json()["error"]
    assert accepted.json()["status"] == "accepted"


async def test_pagerduty_events_are_answered_202_and_the_routing_key_is_not_kept(
    bench: Any,
) -> None:
    _, url = await pager_at(bench)

    trigger = await bench.http.post(f"{url}/v2/enqueue", json=event())
    resolve = await bench.http.post(
        f"{url}/v2/enqueue", json=event(event_action="resolve", payload=None)
    )

    assert (trigger.status_code, resolve.status_code) == (202, 202)
    assert trigger.json() == {
        "status": "success",
        "message": "Event processed",
        "dedup_key": "d1",
    }
    text = (await bench.http.get(f"{url}/pages")).text
    assert [p["status"] for p in json.loads(text)] == ["trigger", "resolve"]
    assert "R" * 32 not in text


@pytest.mark.parametrize(
    "fields",
    [
        {"routing_key": "short"},
        {"event_action": "close"},
        {"payload": None},
        {"payload": {"summary": "s", "source": "x", "severity": "page"}},
        {"payload": {"summary": "s" * 1025, "source": "x", "severity": "info"}},
        {"event_action": "resolve", "dedup_key": None},
        {"dedup_key": "d" * 256},
    ],
)
async def test_an_event_pagerduty_would_refuse_is_400(bench: Any, fields: dict[str, Any]) -> None:
    _, url = await pager_at(bench)

    answer = await bench.http.post(f"{url}/v2/enqueue", json=event(**fields))

    assert answer.status_code == 400
    assert answer.json()["status"] == "invalid event"


async def test_the_page_escapes_what_it_shows(bench: Any) -> None:
    pager, url = await pager_at(bench)
    body = json.dumps(webhook(summary="<script>alert(1)</script>")).encode()
    await bench.http.post(f"{url}/webhook", content=body, headers=signed(body))

    assert "<script>" not in render(list(pager.pages))
    assert "Nothing has been received" in render([])


def test_a_made_secret_can_be_read_and_a_bad_one_is_not_shown() -> None:
    assert len(read_secret(new_secret())) == 32
    for bad in ("whsec_*", "whsec_" + base64.b64encode(b"short").decode()):
        with pytest.raises(ConfigError) as caught:
            read_secret(bad)
        assert bad not in str(caught.value)
