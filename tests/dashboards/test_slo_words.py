"""The small parts of the SLO page: shares, diffs, repetitions, addresses, stretches."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.recurrence import repeated, when
from dashboards.revisions import differences
from dashboards.shares import shares
from dashboards.slo_state import SloView, parse_view, slo_address, sort_address
from slo.exclusion import Exclusion

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@given(
    st.dictionaries(st.text(min_size=1, max_size=5), st.integers(0, 10**6), max_size=20),
    st.integers(2, 9),
)
def test_shares_add_up_to_a_hundred_and_lose_nothing(counts: dict[str, int], most: int) -> None:
    found = shares(counts, most)

    assert sum(each.percent for each in found) == (100 if sum(counts.values()) else 0)
    assert sum(each.count for each in found) == sum(counts.values())
    assert len(found) <= most
    assert all(abs(each.percent - each.part * 100) < 1 for each in found)


def test_what_is_not_nothing_is_not_written_as_nothing() -> None:
    assert [each.text for each in shares({"slow": 999, "error": 1}, 8)] == ["100 %", "<1 %"]


def test_past_the_most_the_rest_is_one_share() -> None:
    found = shares({"a": 5, "b": 3, "c": 1, "d": 1}, 3)

    assert [(each.name, each.count) for each in found] == [("a", 5), ("b", 3), ("2 others", 2)]


def test_a_diff_marks_the_words_that_changed() -> None:
    before = {"objective": "95", "good.first token": "ttft_ms <= 2000", "labels.team": "a"}
    after = {"objective": "95", "good.first token": "ttft_ms <= 1500", "window": "30d"}

    found = {each.path: each.pieces for each in differences(before, after)}

    assert list(found) == ["good.first token", "window", "labels.team"]
    assert [(p.kind, p.text) for p in found["good.first token"]] == [
        ("same", "ttft_ms <= "),
        ("gone", "2000"),
        ("new", "1500"),
    ]
    assert [(p.kind, p.text) for p in found["window"]] == [("new", "30d")]
    assert [(p.kind, p.text) for p in found["labels.team"]] == [("gone", "a")]


@given(
    st.dictionaries(st.sampled_from("abcd"), st.text(max_size=20), max_size=4),
    st.dictionaries(st.sampled_from("abcd"), st.text(max_size=20), max_size=4),
)
def test_a_diff_holds_both_texts(before: dict[str, str], after: dict[str, str]) -> None:
    for each in differences(before, after):
        was = "".join(p.text for p in each.pieces if p.kind != "new")
        now = "".join(p.text for p in each.pieces if p.kind != "gone")
        assert was.rstrip() == before.get(each.path, "").rstrip()
        assert now.lstrip() == after.get(each.path, "").lstrip()


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("FREQ=WEEKLY;BYDAY=SU", "every Sunday"),
        ("FREQ=DAILY", "every day"),
        ("FREQ=DAILY;INTERVAL=2;COUNT=5", "every 2 days, 5 times"),
        ("FREQ=WEEKLY;BYDAY=MO,WE,FR", "every Monday, Wednesday and Friday"),
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=TU", "every 2 weeks on Tuesday"),
        ("FREQ=MONTHLY;BYDAY=1SU", "every month on the first Sunday"),
        ("FREQ=MONTHLY;BYDAY=-1FR", "every month on the last Friday"),
        ("FREQ=MONTHLY;BYMONTHDAY=15,-1", "every month on day 15 and the last day"),
        ("FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=24", "every year on day 24 in December"),
        ("FREQ=WEEKLY;BYDAY=SU;UNTIL=20261231", "every Sunday until 31 Dec 2026"),
        ("RRULE:freq=weekly;byday=su", "every Sunday"),
        ("FREQ=MONTHLY;BYSETPOS=2", "by the rule FREQ=MONTHLY;BYSETPOS=2"),
        ("FREQ=MONTHLY;BYDAY=XX", "by the rule FREQ=MONTHLY;BYDAY=XX"),
        ("nonsense", "by the rule nonsense"),
    ],
)
def test_a_repetition_is_said_in_words_or_shown_as_it_is(rule: str, words: str) -> None:
    assert repeated(rule) == words


def an_exclusion(**fields: Any) -> Exclusion:
    given: dict[str, Any] = {
        "id": "1",
        "starts_at": datetime(2026, 11, 1, 1, tzinfo=UTC),
        "ends_at": datetime(2026, 11, 1, 3, tzinfo=UTC),
        "reason": "database upgrade",
        "created_by": "ada",
        "created_at": NOW,
    }
    return Exclusion(**{**given, **fields})


def test_when_an_exclusion_holds_is_said_in_its_own_zone() -> None:
    once = when(an_exclusion(zone="Europe/Berlin"))
    again = when(an_exclusion(zone="Europe/Berlin", rrule="FREQ=WEEKLY;BYDAY=SU"))

    assert once == "01 Nov 2026 02:00 to 04:00 Europe/Berlin"
    assert again == "every Sunday, 02:00 to 04:00 Europe/Berlin, since 01 Nov 2026"


groups = st.dictionaries(
    st.sampled_from(["tenant", "route", "model"]), st.text(max_size=20), min_size=1
)


@given(groups)
def test_every_group_has_an_address_and_is_found_by_it(group: dict[str, str]) -> None:
    view = parse_view(slo_address("chat", group, "?range=7d&span=aa").partition("?")[2])

    assert view == SloView(name="chat", group=group)


def test_an_address_reads_well_and_keeps_range_and_tenant() -> None:
    address = slo_address("chat", {"tenant": "a,b"}, "?range=7d&tenant=x&slo=other&trace=ab")

    assert address == "/slo?name=chat&group=tenant:a%252Cb&range=7d&tenant=x"


@pytest.mark.parametrize("search", ["?page=-1&sort=planet", "?page=9e9", "?page=٣", "?group="])
def test_nonsense_in_the_address_is_as_if_it_were_not_there(search: str) -> None:
    assert parse_view(search) == SloView()


def test_a_second_click_on_a_column_turns_its_order_round() -> None:
    first = sort_address(SloView(), "bad")
    second = sort_address(parse_view(f"?sort={first}"), "bad")

    assert (first, second) == ("-bad", "bad")
    assert sort_address(SloView(), "budget") == "budget"
