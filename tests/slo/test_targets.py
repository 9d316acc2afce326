"""One definition for scheduler, autoscaler and pager: limits read from the clauses of good."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.interpret import evaluate
from slo.model import Slo
from slo.parse import parse_clauses, parse_filter, parse_number
from slo.targets import Limit, targets_of


def slo(good: str, eligible: str | None = None) -> Slo:
    return Slo(
        "chat",
        0.95,
        timedelta(days=30),
        parse_clauses(good),
        (),
        eligible=parse_filter(eligible) if eligible else None,
    )


def test_the_headers_of_a_request_are_its_limits() -> None:
    found = targets_of(
        slo(
            "outcome = 'good' and tpot_ms <= 50 and duration_ms < 60000 "
            "and ttft_ms <= 800 + 0.12 * (prompt_tokens - cached_tokens)"
        )
    )

    assert found.headers({"prompt_tokens": 2000, "cached_tokens": 1000}) == {
        "x-llm-d-slo-ttft-ms": "920",
        "x-llm-d-slo-tpot-ms": "50",
    }
    assert found.headers({}) == {"x-llm-d-slo-tpot-ms": "50"}
    assert found.limits["duration_ms"] == Limit(60_000)


@pytest.mark.parametrize(
    ("good", "limit"),
    [
        ("ttft_ms <= 2000", Limit(2000)),
        ("2000 >= ttft_ms", Limit(2000)),
        ("ttft_ms is null or ttft_ms <= 2000", Limit(2000)),
        ("ttft_ms <= 2000 or ttft_ms is null", Limit(2000)),
        ("ttft_ms <= 2000 and ttft_ms <= 1500", Limit(1500)),
        ("ttft_ms <= prompt_tokens / 4", Limit(0, {"prompt_tokens": 0.25})),
        ("ttft_ms <= -(-300) + (1 + 1) * prompt_tokens", Limit(300, {"prompt_tokens": 2})),
        ("ttft_ms > 100", None),
        ("ttft_ms <= queue_ms", None),
        ("ttft_ms <= prompt_tokens * prompt_tokens", None),
        ("ttft_ms <= 100 or model = 'x'", None),
        ("tpot_ms is null or ttft_ms <= 100", None),
        ("not ttft_ms <= 100", None),
    ],
)
def test_a_limit_is_read_where_a_clause_is_one(good: str, limit: Limit | None) -> None:
    assert targets_of(slo(good)).limits.get("ttft_ms") == limit


@pytest.mark.parametrize(
    ("eligible", "match", "is_exact"),
    [
        (None, {}, True),
        ("route = '/v1/chat' and model in ('a', 'b')",
         {"route": ("/v1/chat",), "model": ("a", "b")}, True),
        ("route = '/v1/chat' and prompt_tokens > 10", {"route": ("/v1/chat",)}, False),
        ("tenant = 'a' or tenant = 'b'", {}, False),
        ("tenant != 'a'", {}, False),
    ],
)  # fmt: skip
def test_it_says_which_requests_the_limits_are_for(
    eligible: str | None, match: dict[str, tuple[str, ...]], is_exact: bool
) -> None:
    found = targets_of(slo("ttft_ms <= 100", eligible))

    assert (found.match, found.is_exact) == (match, is_exact)


bounds = st.recursive(
    st.one_of(
        st.integers(-100, 100).map(str),
        st.sampled_from(["prompt_tokens", "cached_tokens", "completion_tokens"]),
    ),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(st.integers(-9, 9), inner).map(lambda t: f"({t[0]} * {t[1]})"),
        st.tuples(inner, st.integers(1, 9)).map(lambda t: f"({t[0]} / {t[1]})"),
        inner.map(lambda t: f"-({t})"),
    ),
    max_leaves=6,
)
counts = st.fixed_dictionaries(
    {name: st.integers(0, 9999) for name in ("prompt_tokens", "cached_tokens", "completion_tokens")}
)


@given(bounds, counts)
def test_a_limit_is_worth_what_its_expression_is(bound: str, tokens: dict[str, int]) -> None:
    limit = targets_of(slo(f"ttft_ms <= {bound}")).limits["ttft_ms"]

    expected = evaluate(parse_number(bound), tokens)
    assert limit.at(tokens) == pytest.approx(expected, abs=1e-6)
