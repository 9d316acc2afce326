from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.clock import ManualClock
from stack.gateway.limits import Limiter, reset_text
from stack.gateway.tenants import Tenant


def limiter() -> tuple[Limiter, ManualClock]:
    clock = ManualClock(datetime(2026, 11, 30, tzinfo=UTC))
    return Limiter(clock), clock


def test_a_minutes_requests_may_come_at_once_and_then_one_each_interval() -> None:
    limits, clock = limiter()
    tenant = Tenant("a", requests_per_minute=60)

    for _ in range(60):
        assert limits.check(tenant, 1) is None
        limits.start(tenant, 1)

    over = limits.check(tenant, 1)
    assert over is not None
    assert over.what == "requests per minute"
    assert over.retry_after_s == pytest.approx(1.0)
    clock.advance(timedelta(seconds=1))
    assert limits.check(tenant, 1) is None


def test_reserved_tokens_count_at_once_and_the_engines_count_settles_them() -> None:
    limits, _ = limiter()
    tenant = Tenant("a", tokens_per_minute=1000)

    limits.start(tenant, 900)
    assert limits.check(tenant, 200) is not None
    limits.finish(tenant, reserved=900, used=300)

    assert limits.check(tenant, 700) is None
    assert limits.headers(tenant)["x-ratelimit-remaining-tokens"] == "700"


def test_a_request_nobody_counted_keeps_its_reservation() -> None:
    limits, _ = limiter()
    tenant = Tenant("a", tokens_per_minute=1000)

    limits.start(tenant, 900)
    limits.finish(tenant, reserved=900, used=None)

    assert limits.headers(tenant)["x-ratelimit-remaining-tokens"] == "100"


def test_more_used_than_there_was_makes_the_next_one_wait_longer() -> None:
    limits, clock = limiter()
    tenant = Tenant("a", tokens_per_minute=600)

    limits.start(tenant, 100)
    limits.finish(tenant, reserved=100, used=1200)

    over = limits.check(tenant, 10)
    assert over is not None
    assert over.retry_after_s == pytest.approx(61.0)
    assert limits.headers(tenant)["x-ratelimit-remaining-tokens"] == "0"
    clock.advance(timedelta(seconds=61))
    assert limits.check(tenant, 10) is None


def test_a_request_larger_than_the_limit_is_not_told_to_wait() -> None:
    limits, _ = limiter()

    over = limits.check(Tenant("a", tokens_per_minute=100), 101)

    assert over is not None
    assert over.retry_after_s is None


def test_concurrency_is_per_tenant_and_given_back() -> None:
    limits, _ = limiter()
    tenant = Tenant("a", max_concurrency=1)

    limits.start(tenant, 0)
    assert limits.active("a") == 1
    assert limits.check(tenant, 0) is not None
    assert limits.check(Tenant("b", max_concurrency=1), 0) is None
    limits.finish(tenant, 0, 0)

    assert limits.check(tenant, 0) is None
    assert limits.active("a") == limits.active("nobody") == 0


def test_a_tenant_without_limits_is_never_refused_and_gets_no_headers() -> None:
    limits, _ = limiter()
    tenant = Tenant("a")

    for _ in range(1000):
        limits.start(tenant, 10**9)

    assert limits.check(tenant, 10**9) is None
    assert limits.headers(tenant) == {}


@given(
    st.lists(
        st.tuples(
            st.integers(0, 50), st.integers(0, 500), st.one_of(st.none(), st.integers(0, 900))
        )
    )
)
def test_over_any_time_no_more_is_reserved_than_two_minutes_allow(
    steps: list[tuple[int, int, int | None]],
) -> None:
    limits, clock = limiter()
    tenant = Tenant("a", tokens_per_minute=600)
    taken = 0

    for wait_s, tokens, _used in steps:
        clock.advance(timedelta(seconds=wait_s))
        if limits.check(tenant, tokens) is None:
            limits.start(tenant, tokens)
            limits.finish(tenant, tokens, None)
            taken += tokens

    assert taken <= 600 + clock.monotonic() * 10 + 1e-6


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0ms"), (0.12, "120ms"), (1, "1s"), (59.2, "1m0s"), (360, "6m0s"), (12.5, "13s")],
)
def test_reset_times_read_as_openai_writes_them(seconds: float, text: str) -> None:
    assert reset_text(seconds) == text
