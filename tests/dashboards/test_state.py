"""The address says everything a shared link needs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from dashboards.state import ViewState, parse_search, with_search

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_an_empty_address_is_the_last_day_of_every_tenant() -> None:
    state = parse_search("")

    assert state == ViewState()
    assert state.window(NOW).start == NOW - timedelta(hours=24)


def test_what_an_address_says_is_what_the_page_shows() -> None:
    state = parse_search("?range=7d&tenant=acme&slo=chat-ttft~1a2b&by=model,tenant&outcome=bad")

    assert (state.range, state.tenant, state.slo) == ("7d", "acme", "chat-ttft~1a2b")
    assert state.by == ("tenant", "model")
    assert state.filters() == {"tenant": "acme", "outcome": "bad"}


def test_a_fixed_range_does_not_move_with_time() -> None:
    state = parse_search("?from=2026-11-01T00:00:00Z&to=2026-11-02T00:00:00Z")

    window = state.window(NOW)

    assert not state.is_live
    assert (window.start.day, window.end.day) == (1, 2)


@pytest.mark.parametrize(
    "search",
    [
        "?range=9y",
        "?outcome=xyz",
        "?from=then&to=now",
        "?by=planet",
        "?%%%",
        "?from=2026-12-24T00:00:00Z",
    ],
)
def test_nonsense_in_an_address_still_shows_a_page(search: str) -> None:
    window = parse_search(search).window(NOW)

    assert window.start < window.end


def test_changing_one_value_keeps_the_others() -> None:
    assert with_search("?range=7d&tenant=acme", tenant=None, trace="ab") == "?range=7d&trace=ab"
    assert with_search("?trace=ab", trace=None) == ""
