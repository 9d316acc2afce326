"""Limits as tools write them, and as SLO documents do."""

from __future__ import annotations

from datetime import timedelta

import pytest

from base.errors import BadInput
from slo.goodput.limits import Limits, clause_texts, limits_of, parse_limits, slo_of
from slo.model import Slo
from slo.parse import parse_clauses, parse_filter


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("ttft:2000 tpot:100 e2el:10000", Limits(2000, 100, 10000)),
        ("time_to_first_token:250, inter_token_latency:3.4", Limits(250, 3.4)),
        ("tbt:50", Limits(tpot=50)),
        ("request_latency:900", Limits(e2el=900)),
    ],
)
def test_limits_are_read_in_every_tools_words(text: str, limits: Limits) -> None:
    assert parse_limits(text) == limits
    assert parse_limits(str(limits)) == limits


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no limit is given"),
        ("ttft", "write NAME:MILLISECONDS"),
        ("speed:3", "write NAME:MILLISECONDS"),
        ("ttft:fast", "is not a number"),
        ("ttft:0", "above 0"),
        ("ttft:nan", "above 0"),
        ("tpot:1 itl:2", "limited twice"),
    ],
)
def test_what_is_no_limit_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        parse_limits(text)


def slo(good: str) -> Slo:
    return Slo("chat", 0.99, timedelta(days=30), parse_clauses(good), ())


def test_the_limits_of_an_slo_are_found_and_what_else_it_asks() -> None:
    asked = slo(
        "outcome = 'good' and ttft_ms <= 800 and tpot_ms < 60 and 5000 >= duration_ms "
        "and ttft_ms <= 2000 and completion_tokens > 3 and ttft_ms <= 100 + 0.1 * prompt_tokens"
    )

    limits, beyond = limits_of(asked)

    assert limits == Limits(800, 60, 5000)
    assert beyond == ("completion_tokens > 3", "ttft_ms <= 100 + 0.1 * prompt_tokens")


def test_an_slo_without_fixed_limits_is_refused() -> None:
    with pytest.raises(BadInput, match="sets no fixed limit"):
        limits_of(slo("outcome = 'good'"))


def test_what_is_asked_can_be_written_in_a_document() -> None:
    limits = Limits(2000, 100, 10000)

    texts = clause_texts(limits)

    assert {name: parse_filter(text) for name, text in texts.items()} == {
        clause.name: clause.expression for clause in slo_of(limits).good
    }
