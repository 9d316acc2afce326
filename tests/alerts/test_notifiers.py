"""Every dialect: exact payloads, every HTTP code, and that no secret ever leaks."""

from __future__ import annotations

import json
import os
import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from alerts.decide import Reason
from alerts.model import Severity
from alerts.notice import Item, Notice, group_key, safe_label
from alerts.notifiers.alertmanager import Alertmanager
from alerts.notifiers.dialect import Notifier
from alerts.notifiers.pagerduty import MAX_BODY, PagerDuty
from alerts.notifiers.webhook import Webhook
from alerts.outcome import Answer, Fate, classify_error, redact, retry_after
from alerts.signing import decode_secret

GOLDEN = Path(__file__).parents[1] / "golden" / "alerts"
NOW = datetime(2026, 11, 30, 17, 4, 21, 24000, tzinfo=UTC)
ROUTING_KEY = "R0123456789abcdef0123456789abcde"
SIGNING_SECRET = "whsec_dG9rZW53ZWlyLXRlc3Qtc2VjcmV0LTAxMjM0NTY3"
TOKEN = "t0ken-in-the-path-5f2c"
BEARER = "Bearer s3cret-bearer-token"

WEBHOOK = Webhook(
    f"https://hooks.example/services/{TOKEN}?auth={TOKEN}",
    (decode_secret(SIGNING_SECRET, where="x"),),
    (SIGNING_SECRET,),
    BEARER,
)
PAGERDUTY = PagerDuty(ROUTING_KEY)
ALERTMANAGER = Alertmanager(f"https://am.example/{TOKEN}", timedelta(minutes=1), BEARER)
NOTIFIERS: dict[str, Notifier] = {
    "webhook": WEBHOOK,
    "pagerduty": PAGERDUTY,
    "alertmanager": ALERTMANAGER,
}
SECRETS = (ROUTING_KEY, SIGNING_SECRET, SIGNING_SECRET[6:], TOKEN, BEARER)


def item(tenant: str = "acme", **changes: Any) -> Item:
    made = Item(
        episode="01KBBK9S8G0000000000000000",
        fingerprint="16504ae9abeab52a",
        status="firing",
        severity=Severity.PAGE,
        told_severity=None,
        labels={"alertname": "SLOBurn", "slo": "chat-ttft", "tenant": tenant},
        annotations={
            "summary": f"chat-ttft{{tenant={tenant}}}: the error budget is burning 20x too fast",
            "description": "It burns – really.",
            "budget_left": "38 %",
        },
        starts_at=NOW - timedelta(seconds=21),
        ends_at=None,
        url=f"https://slo.example/?slo=chat-ttft&tenant={tenant}",
    )
    return replace(made, **changes)


def notice(*items: Item, reason: Reason = Reason.FIRST) -> Notice:
    labels = {"slo": "chat-ttft"}
    return Notice(
        receiver="pager",
        group_key=group_key(labels),
        group_labels=labels,
        reason=reason,
        items=items,
        external_url="https://slo.example",
        at=NOW,
    )


FIRING = notice(item(), item("beta", severity=Severity.TICKET, fingerprint="b" * 16))
RESOLVED = notice(
    item(status="resolved", ends_at=NOW, told_severity=Severity.PAGE), reason=Reason.ALL_RESOLVED
)
RAISED = notice(item(told_severity=Severity.TICKET), reason=Reason.RAISED)


@pytest.mark.parametrize("name", NOTIFIERS)
@pytest.mark.parametrize(
    ("case", "told"), [("firing", FIRING), ("resolved", RESOLVED), ("raised", RAISED)]
)
def test_the_payload_is_as_recorded(name: str, case: str, told: Notice) -> None:
    made = json.loads(NOTIFIERS[name].render(told))
    path = GOLDEN / f"{name}-{case}.json"
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(made, indent=2, ensure_ascii=False) + "\n")

    assert made == json.loads(path.read_text())


def test_a_resolve_has_the_dedup_key_and_routing_key_of_its_trigger() -> None:
    trigger, resolve = (
        json.loads(PAGERDUTY.seal(PAGERDUTY.render(told), "id", NOW).body)
        for told in (FIRING, RESOLVED)
    )

    assert (trigger["event_action"], resolve["event_action"]) == ("trigger", "resolve")
    assert trigger["dedup_key"] == resolve["dedup_key"]
    assert len(trigger["dedup_key"]) == 64
    assert trigger["routing_key"] == resolve["routing_key"] == ROUTING_KEY


def test_pagerduty_s_limits_are_kept() -> None:
    huge = {"summary": "ü" * 2000, "description": "x" * 700_000}

    body = PAGERDUTY.seal(PAGERDUTY.render(notice(item(annotations=huge))), "id", NOW).body

    assert len(body) <= MAX_BODY
    sent = json.loads(body)
    assert len(sent["payload"]["summary"]) == 1024
    assert sent["payload"]["custom_details"] == {"error": "the details were too large and left out"}


def test_a_webhook_counts_the_alerts_it_leaves_out() -> None:
    body = json.loads(WEBHOOK.render(notice(*(item(f"t{n}") for n in range(130)))))

    assert (len(body["alerts"]), body["truncatedAlerts"]) == (100, 30)


def test_a_firing_alert_pushed_to_an_alertmanager_expires_unless_repeated() -> None:
    (pushed,) = json.loads(ALERTMANAGER.render(notice(item())))

    assert pushed["endsAt"] == "2026-11-30T17:08:21.024Z"


def test_label_names_are_rewritten_to_what_every_alertmanager_takes() -> None:
    assert safe_label("gen_ai.request.model") == "gen_ai_request_model"
    assert safe_label("1st") == "_1st"
    assert safe_label("") == "_"


DELIVERED = {200, 201, 202, 204, 206, 226, 299}
RETRIED = {408, 425, 429, *range(500, 600)}


@pytest.mark.parametrize("name", NOTIFIERS)
def test_every_http_code_has_its_fate(name: str) -> None:
    for status in range(200, 600):
        outcome = NOTIFIERS[name].classify(Answer(status, {}, "said so"), NOW)

        if 200 <= status < 300:
            expected = Fate.DELIVERED
        elif status in RETRIED:
            expected = Fate.RETRY
        elif status == 410:
            expected = Fate.GONE
        else:
            expected = Fate.REFUSED
        assert outcome.fate is expected, status
        assert str(status) in outcome.reason
        assert outcome.maybe_heard == (status >= 500)


def test_retry_after_is_read_in_both_forms_and_limited() -> None:
    assert retry_after("120", NOW) == timedelta(minutes=2)
    assert retry_after("Mon, 30 Nov 2026 17:05:21 GMT", NOW) == timedelta(seconds=59.976)
    assert retry_after("86400", NOW) == timedelta(hours=1)
    assert retry_after("-5", NOW) == timedelta(0)
    assert retry_after("Mon, 30 Nov 2020 17:05:21 GMT", NOW) == timedelta(0)
    for junk in (None, "", "soon", "1e999", "nan"):
        assert retry_after(junk, NOW) is None


def test_pagerduty_waits_at_least_half_a_minute_after_429() -> None:
    plain = PAGERDUTY.classify(Answer(429, {}, ""), NOW)
    asked = PAGERDUTY.classify(Answer(429, {"retry-after": "90"}, ""), NOW)

    assert (plain.after, asked.after) == (timedelta(seconds=30), timedelta(seconds=90))


def test_a_redirect_is_named_without_its_secrets() -> None:
    answer = Answer(302, {"location": f"https://new.example/x/{TOKEN}"}, "")

    assert WEBHOOK.classify(answer, NOW).reason == (
        "HTTP 302: redirects to https://new.example/…; set the final url"
    )


REQUEST = httpx.Request("POST", WEBHOOK.url)
_UNVERIFIED = httpx.ConnectError("certificate verify failed", request=REQUEST)
_UNVERIFIED.__cause__ = ssl.SSLCertVerificationError(1, f"bad certificate for {WEBHOOK.url}")

FAILURES = [
    (httpx.ConnectError(f"refused {WEBHOOK.url}", request=REQUEST), Fate.RETRY, False),
    (httpx.ConnectTimeout(f"late {WEBHOOK.url}", request=REQUEST), Fate.RETRY, False),
    (httpx.PoolTimeout(f"busy {BEARER}", request=REQUEST), Fate.RETRY, False),
    (httpx.ReadTimeout(f"late {WEBHOOK.url}", request=REQUEST), Fate.RETRY, True),
    (httpx.WriteTimeout(f"late {WEBHOOK.url}", request=REQUEST), Fate.RETRY, True),
    (httpx.ReadError(f"reset {WEBHOOK.url}", request=REQUEST), Fate.RETRY, True),
    (httpx.RemoteProtocolError(f"junk {TOKEN}", request=REQUEST), Fate.RETRY, True),
    (httpx.UnsupportedProtocol(f"no {WEBHOOK.url}", request=REQUEST), Fate.REFUSED, False),
    (httpx.InvalidURL(f"no {WEBHOOK.url}"), Fate.REFUSED, False),
    (ValueError(f"no {ROUTING_KEY}"), Fate.REFUSED, False),
    (_UNVERIFIED, Fate.REFUSED, False),
]


@pytest.mark.parametrize(("error", "fate", "maybe_heard"), FAILURES, ids=lambda v: str(v)[:20])
def test_every_failure_has_its_fate_and_leaks_nothing(
    error: Exception, fate: Fate, maybe_heard: bool
) -> None:
    outcome = classify_error(error)

    assert (outcome.fate, outcome.maybe_heard) == (fate, maybe_heard)
    assert not any(secret in outcome.reason for secret in SECRETS)


@pytest.mark.parametrize("name", NOTIFIERS)
def test_no_secret_is_kept_in_the_outbox(name: str) -> None:
    body = NOTIFIERS[name].render(FIRING).decode()

    assert not any(secret in body for secret in SECRETS)


@pytest.mark.parametrize("name", NOTIFIERS)
@pytest.mark.parametrize("status", [200, 302, 400, 410, 429, 503])
def test_no_secret_that_a_receiver_echoes_is_repeated(name: str, status: int) -> None:
    notifier = NOTIFIERS[name]
    sealed = notifier.seal(b"{}", "id", NOW)
    echo = f"x{' ' * 150}{sealed.url} {sealed.headers} {sealed.body!r} {SIGNING_SECRET}"
    mine = [secret for secret in SECRETS if any(secret in s for s in notifier.secrets())]

    answer = Answer(status, {"location": sealed.url}, redact(echo, notifier.secrets()))
    said = redact(notifier.classify(answer, NOW).reason, notifier.secrets())

    assert mine
    assert not any(secret in said for secret in mine)
