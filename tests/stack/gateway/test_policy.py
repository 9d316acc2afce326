from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.errors import BadInput
from stack.gateway.policy import Candidate, Match, Rule, active_rules, decide, draw, parse_policy

NOW = datetime(2026, 11, 30, 18, tzinfo=UTC)


def rule(**fields: Any) -> Rule:
    return Rule(**{"id": "lease-1", "expires_at": NOW + timedelta(minutes=1), **fields})


def request(**fields: Any) -> Candidate:
    return Candidate(
        **{
            "request_id": "r1",
            "tenant": "acme",
            "route": "/v1/chat/completions",
            "priority": "batch",
            "model": "tiny",
            "active": 0,
            **fields,
        }
    )


@settings(deadline=None)
@given(st.floats(0, 1), st.integers(0, 10_000))
def test_the_fraction_shed_stays_within_five_standard_deviations(
    fraction: float, start: int
) -> None:
    count = 2000
    rules = [rule(fraction=fraction)]

    shed = sum(
        decide(rules, request(request_id=f"req-{start + n}")) is not None for n in range(count)
    )

    spread = (count * fraction * (1 - fraction)) ** 0.5
    assert abs(shed - count * fraction) <= 5 * spread + 1


def test_a_decision_is_the_same_every_time_and_independent_between_rules() -> None:
    first = [draw("lease-1", f"r{n}") < 0.5 for n in range(2000)]
    second = [draw("lease-2", f"r{n}") < 0.5 for n in range(2000)]

    assert first == [draw("lease-1", f"r{n}") < 0.5 for n in range(2000)]
    both = sum(a and b for a, b in zip(first, second, strict=True))
    assert 400 < both < 600


@given(st.text(), st.text())
def test_a_draw_is_at_least_zero_and_below_one(rule_id: str, request_id: str) -> None:
    assert 0 <= draw(rule_id, request_id) < 1


@pytest.mark.parametrize(
    ("match", "hits"),
    [
        ({}, True),
        ({"tenant": "acme"}, True),
        ({"tenant": "globex"}, False),
        ({"priority": "batch", "tenant": "acme"}, True),
        ({"priority": "interactive", "tenant": "acme"}, False),
        ({"route": "/v1/completions"}, False),
        ({"model": "tiny"}, True),
    ],
)
def test_a_rule_is_about_the_requests_it_matches(match: dict[str, str], hits: bool) -> None:
    rules = [rule(match=Match(**match), fraction=1)]

    assert (decide(rules, request()) is not None) is hits


def test_a_fraction_of_zero_sheds_nobody_and_of_one_everybody() -> None:
    ids = [f"r{n}" for n in range(200)]

    assert not any(decide([rule(fraction=0)], request(request_id=i)) for i in ids)
    assert all(decide([rule(fraction=1)], request(request_id=i)) for i in ids)


def test_a_concurrency_cap_refuses_from_the_cap_on() -> None:
    rules = [rule(max_concurrency=2)]

    assert decide(rules, request(active=1)) is None
    assert decide(rules, request(active=2)) is not None


def test_a_rule_ends_at_its_own_time() -> None:
    document = parse_policy(
        json.dumps(
            {
                "gateway": "demo",
                "version": 7,
                "rules": [
                    {"id": "a", "fraction": 1, "expires_at": "2026-11-30T18:00:30Z"},
                    {"id": "b", "fraction": 1, "expires_at": "2026-11-30T18:01:00Z"},
                ],
            }
        ).encode()
    )

    assert [r.id for r in active_rules(document, NOW)] == ["a", "b"]
    assert [r.id for r in active_rules(document, NOW + timedelta(seconds=30))] == ["b"]
    assert active_rules(document, NOW + timedelta(seconds=60)) == []
    assert active_rules(None, NOW) == ()


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"gateway":"demo"}',
        '{"gateway":"demo","version":1,"rules":[{"id":"a","fraction":2,"expires_at":"2026-11-30T18:00:30Z"}]}',
        '{"gateway":"demo","version":1,"rules":[{"id":"a","expires_at":"2026-11-30T18:00:30"}]}',
    ],
)
def test_a_document_that_cannot_be_trusted_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="policy document"):
        parse_policy(text.encode())


def test_fields_of_a_newer_control_plane_are_ignored() -> None:
    document = parse_policy(b'{"gateway":"demo","version":1,"ttl_s":60,"new":1,"rules":[]}')

    assert document.version == 1
