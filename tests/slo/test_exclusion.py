"""Exclusions: their times, and counts with and without them, to the last request."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine as Database

from base.clock import ManualClock
from base.db import open_engine, transaction
from base.errors import BadInput
from base.migrate import upgrade
from slo import exclusion_book
from slo.calendar import read_calendar
from slo.counts import SloCounts
from slo.evaluator import Evaluator
from slo.exclusion import Exclusion, check, occurrences, union
from slo.exclusion_api import router
from slo.exclusion_book import ExclusionsInForce
from slo.model import Slo
from slo.parse import parse_clauses
from slo.series import read_series
from slo.settings import SloSettings
from slo.verdict import Verdict
from slo.window_counts import count_windows
from store.engine import Engine
from tests.slo.conftest import empty
from tests.slo.made_facts import EPOCH, alive, fact, put

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
NOW = EPOCH + timedelta(days=3, hours=7, minutes=13, seconds=4, microseconds=321)
BY_TENANT = Slo(
    name="by-tenant",
    objective=0.9,
    window=timedelta(days=3),
    good=parse_clauses("outcome = 'good'"),
    tiers=(),
    group_by=("tenant", "route"),
    calendars=(read_calendar("day", "UTC"), read_calendar("week", "Europe/Berlin")),
)
WHOLE = Slo("whole", 0.9, timedelta(hours=5), parse_clauses("outcome = 'good'"), ())


def exclusion(start: datetime, end: datetime, **fields: Any) -> Exclusion:
    given_fields: dict[str, Any] = {
        "id": "1",
        "reason": "move to new racks",
        "created_by": "ada",
        "created_at": NOW,
        "approved_by": "ben",
        "approved_at": NOW,
    }
    return Exclusion(starts_at=start, ends_at=end, **given_fields | fields)


# --- times -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rrule", "zone", "first", "expected"),
    [
        # Sunday 02:30 in Berlin, over the change of clocks: the wall time stays.
        (
            "FREQ=WEEKLY;BYDAY=SU",
            "Europe/Berlin",
            "2026-03-22T01:30",
            ["2026-03-22T01:30", "2026-03-29T01:30", "2026-04-05T00:30"],
        ),
        (
            "FREQ=MONTHLY;BYDAY=1TU;COUNT=2",
            "UTC",
            "2026-03-03T04:00",
            ["2026-03-03T04:00", "2026-04-07T04:00"],
        ),
        ("FREQ=MONTHLY;BYMONTHDAY=31", "UTC", "2026-03-31T00:00", ["2026-03-31T00:00"]),
        ("RRULE:FREQ=DAILY;UNTIL=20260324T013000Z", "UTC", "2026-03-22T01:30",
         ["2026-03-22T01:30", "2026-03-23T01:30", "2026-03-24T01:30"]),
        ("FREQ=DAILY;INTERVAL=9;UNTIL=20260331", "UTC", "2026-03-22T01:30",
         ["2026-03-22T01:30", "2026-03-31T01:30"]),
    ],
)  # fmt: skip
def test_a_rule_repeats_the_first_time_in_its_zone(
    rrule: str, zone: str, first: str, expected: list[str]
) -> None:
    start = datetime.fromisoformat(first).replace(tzinfo=UTC)
    it = exclusion(start, start + HOUR, rrule=rrule, zone=zone)
    check(it)

    found = occurrences(it, datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 10, tzinfo=UTC))

    assert [f"{begins:%Y-%m-%dT%H:%M}" for begins, _ in found] == expected
    assert all(ends - begins == HOUR for begins, ends in found)


def test_a_time_that_began_before_the_window_still_reaches_into_it() -> None:
    it = exclusion(EPOCH - 2 * DAY, EPOCH + DAY, rrule="FREQ=WEEKLY")

    assert occurrences(it, EPOCH, EPOCH + MINUTE) == [(EPOCH - 2 * DAY, EPOCH + DAY)]
    assert occurrences(it, EPOCH + DAY, EPOCH + 2 * DAY) == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rrule": "FREQ=HOURLY"}, "DAILY"),
        ({"rrule": "FREQ=SECONDLY"}, "DAILY"),
        ({"rrule": "every sunday"}, "FREQ=WEEKLY"),
        ({"rrule": "FREQ=DAILY;FREQ=WEEKLY"}, "not one rule"),
        ({"rrule": "FREQ=DAILY;BYDAY=XX"}, "FREQ=WEEKLY"),
        ({"rrule": "DTSTART=20260101T000000Z;FREQ=DAILY"}, "no DTSTART"),
        ({"rrule": "FREQ=DAILY;COUNT=0"}, "COUNT"),
        ({"rrule": "FREQ=DAILY;COUNT=99999999"}, "COUNT"),
        ({"rrule": "FREQ=DAILY;UNTIL=soon"}, "UNTIL"),
        ({"rrule": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"}, "no time at starts_at"),
        ({"ends_at": EPOCH}, "after it starts"),
        ({"ends_at": EPOCH + timedelta(seconds=90)}, "whole minute"),
        ({"ends_at": EPOCH + timedelta(days=32)}, "31 days"),
    ],
)
def test_what_cannot_be_counted_exactly_is_refused(fields: dict[str, Any], message: str) -> None:
    values = {"start": EPOCH, "end": fields.pop("ends_at", EPOCH + HOUR)} | fields

    with pytest.raises(BadInput, match=message):
        check(exclusion(**values))


spans = st.lists(st.tuples(st.integers(0, 200), st.integers(1, 40)), max_size=12).map(
    lambda pairs: [(EPOCH + a * MINUTE, EPOCH + (a + n) * MINUTE) for a, n in pairs]
)


@given(spans)
def test_the_union_holds_the_same_minutes_and_no_two_touch(
    given_spans: list[tuple[datetime, datetime]],
) -> None:
    joined = union(given_spans)

    def minutes(of: list[tuple[datetime, datetime]]) -> set[datetime]:
        return {a + n * MINUTE for a, b in of for n in range((b - a) // MINUTE)}

    assert minutes(joined) == minutes(given_spans)
    assert all(one[1] < other[0] for one, other in pairwise(joined))


# --- counts ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def facts(opened: Engine) -> list[dict[str, Any]]:
    """Put one request every 97 s over three and a half days, four kinds of groups, in the store."""
    empty(opened)
    made = [
        fact(
            EPOCH + timedelta(seconds=97 * number, microseconds=number),
            number,
            tenant=("acme", "initech")[number % 2],
            route=("/v1/chat", "/v1/embed")[number // 2 % 2],
            outcome=("good", "bad", "good", "excluded", "good", "bad", "good")[number % 7],
            outcome_reason="shed" if number % 7 in {1, 5} else "",
        )
        for number in range(int(timedelta(days=3.5).total_seconds() / 97))
    ]
    put(opened, made)
    SloCounts(opened, [BY_TENANT, WHOLE], SloSettings(), ManualClock(NOW)).ensure()
    return made


starts = st.datetimes(datetime(2025, 12, 31), datetime(2026, 1, 4, 6)).map(  # noqa: DTZ001
    lambda at: at.replace(second=0, microsecond=0, tzinfo=UTC)
)
exclusions_of = st.lists(
    st.builds(
        lambda start, minutes, slos, match, rrule: exclusion(
            start, start + minutes * MINUTE, slos=slos, match=match, rrule=rrule
        ),
        starts,
        st.integers(1, 2000),
        st.sampled_from([(), ("whole",), ("by-tenant",), ("whole", "by-tenant")]),
        st.sampled_from([{}, {"tenant": "acme"}, {"tenant": "initech", "route": "/v1/embed"}]),
        st.sampled_from(["", "FREQ=DAILY"]),
    ),
    max_size=4,
)


@given(exclusions_of)
@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_counts_equal_a_recount_without_what_is_excluded(
    opened: Engine, facts: list[dict[str, Any]], excluded: list[Exclusion]
) -> None:
    verdicts = Evaluator(opened, [BY_TENANT, WHOLE], SloSettings(), lambda: excluded).evaluate(NOW)

    for slo in (BY_TENANT, WHOLE):
        mine = [v for v in verdicts if v.slo == slo.name]
        expected = recount(slo, facts, excluded, NOW - slo.window)
        assert {tuple(v.group.values()): (v.good, v.bad, v.excluded) for v in mine} == expected
        for number, calendar in enumerate(slo.calendars):
            start, _ = calendar.bounds(NOW)
            within = recount(slo, facts, excluded, start - timedelta(microseconds=1))
            found = {
                tuple(v.group.values()): (p.good, p.bad, p.excluded)
                for v in mine
                if (p := v.periods[number]).total + p.excluded
            }
            assert found == within


def recount(
    slo: Slo, facts: list[dict[str, Any]], excluded: list[Exclusion], after: datetime
) -> dict[tuple[str, ...], tuple[int, int, int]]:
    """Count (after, NOW] by hand, fact by fact."""
    out: dict[tuple[str, ...], list[int]] = {}
    for row in facts:
        start = row["start"]
        if not nanos(after) < start <= nanos(NOW):
            continue
        group = {column: row[column] for column in slo.group_by}
        counts = out.setdefault(tuple(group.values()), [0, 0, 0])
        is_out = any(
            each.applies_to(slo)
            and each.match.items() <= group.items()
            and any(
                nanos(a) <= start < nanos(b) for a, b in occurrences(each, EPOCH - DAY, NOW + DAY)
            )
            for each in excluded
        )
        place = 2 if is_out else ("good", "bad", "excluded").index(row["outcome"])
        counts[place] += 1
    return {group: (good, bad, left) for group, (good, bad, left) in out.items()}


def nanos(at: datetime) -> int:
    return (at - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1) * 1000


def test_a_series_leaves_out_the_same(opened: Engine, facts: list[dict[str, Any]]) -> None:
    it = exclusion(EPOCH + 10 * HOUR + 7 * MINUTE, EPOCH + 11 * HOUR + 22 * MINUTE)
    evaluator = Evaluator(opened, [WHOLE], SloSettings(), lambda: [it])
    end = EPOCH + DAY

    (plain,) = read_series(opened, WHOLE, EPOCH, end, HOUR)
    (without,) = read_series(
        opened, WHOLE, EPOCH, end, HOUR, evaluator.excluded([WHOLE], EPOCH, end)
    )

    changed = [n for n, at in enumerate(plain.at) if plain.good[n] != without.good[n]]
    assert [plain.at[n].hour for n in changed] == [10, 11]
    sums = [[sum(one) for one in (s.good, s.bad, s.excluded)] for s in (plain, without)]
    assert sum(sums[0]) == sum(sums[1])


# --- the book and its endpoints ---------------------------------------------------------------


@pytest.fixture
def db(tmp_path: Any) -> Any:
    database = open_engine(f"sqlite:///{tmp_path}/control.db")
    upgrade(database)
    yield database
    database.dispose()


@pytest.fixture
def evaluator(opened: Engine, facts: list[dict[str, Any]], db: Database) -> Evaluator:
    alive(opened, [NOW - MINUTE])
    return Evaluator(opened, [BY_TENANT, WHOLE], SloSettings(), ExclusionsInForce(db))


@pytest.fixture
def client(evaluator: Evaluator, db: Database) -> TestClient:
    app = FastAPI()
    app.include_router(router(db, evaluator, ManualClock(NOW)))

    @app.exception_handler(BadInput)
    def on_bad_input(_: Request, error: BadInput) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 400)

    return TestClient(app)


BODY = {
    "slos": ["by-tenant"],
    "match": {"tenant": "acme"},
    "starts_at": "2026-01-02T00:00:00Z",
    "ends_at": "2026-01-02T06:00:00Z",
    "reason": "storage migration CHG-77",
    "created_by": "ada",
}
LIST = "/api/v1/exclusions"


def test_approval_puts_it_in_force_and_a_revert_restores_every_budget_exactly(
    client: TestClient, evaluator: Evaluator
) -> None:
    before = evaluator.evaluate(NOW)
    proposed = client.post(LIST, json=BODY).json()
    path = f"{LIST}/{proposed['id']}"

    assert proposed["state"] == "proposed"
    assert proposed["applies_to"] == ["by-tenant"]
    assert evaluator.evaluate(NOW) == before
    effect = client.get(f"{path}/effect").json()["effect"]
    assert {each["group"]["tenant"] for each in effect} == {"acme"}
    assert client.post(f"{path}/approve", json={"by": "Ben"}).json()["state"] == "approved"
    during = {(v.slo, *v.group.values()): v for v in evaluator.evaluate(NOW)}
    for each in effect:
        verdict = during["by-tenant", *each["group"].values()]
        assert verdict.budget_remaining == each["budget_remaining_with"]
    assert client.post(f"{path}/revert", json={"by": "ada"}).json()["reverted_by"] == "ada"
    assert evaluator.evaluate(NOW) == before
    (kept,) = client.get(LIST).json()["exclusions"]
    assert (kept["state"], kept["approved_by"], kept["reason"]) == (
        "reverted", "Ben", "storage migration CHG-77",
    )  # fmt: skip


def test_nobody_approves_what_they_proposed(client: TestClient) -> None:
    path = f"{LIST}/{client.post(LIST, json=BODY).json()['id']}"

    refused = client.post(f"{path}/approve", json={"by": " ADA "})

    assert refused.status_code == 400
    assert "somebody else" in refused.json()["error"]
    assert client.get(LIST).json()["exclusions"][0]["state"] == "proposed"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slos": ["nobody"]}, "no SLO is named 'nobody'"),
        ({"match": {"colour": "red"}}, "no SLO is grouped by it"),
        ({"slos": ["whole"], "match": {"tenant": "acme"}}, "would apply to no SLO"),
        ({"zone": "Mars"}, "IANA"),
        ({"rrule": "FREQ=MINUTELY"}, "DAILY"),
        ({"ends_at": "2026-01-01T00:00:00Z"}, "after it starts"),
        ({"starts_at": "whenever"}, "whenever"),
    ],
)
def test_a_wrong_proposal_is_refused_and_not_kept(
    client: TestClient, change: dict[str, Any], message: str
) -> None:
    refused = client.post(LIST, json=BODY | change)

    assert refused.status_code == 400
    assert message in refused.json()["error"]
    assert client.get(LIST).json()["exclusions"] == []


def test_what_is_not_there_is_404_and_twice_is_an_error(client: TestClient) -> None:
    assert client.post(f"{LIST}/nothing/approve", json={"by": "ben"}).status_code == 404
    assert client.get(f"{LIST}/nothing/effect").status_code == 404
    path = f"{LIST}/{client.post(LIST, json=BODY).json()['id']}"
    client.post(f"{path}/approve", json={"by": "ben"})

    assert client.post(f"{path}/approve", json={"by": "cleo"}).status_code == 400
    client.post(f"{path}/revert", json={"by": "ben"})
    assert client.post(f"{path}/revert", json={"by": "ben"}).status_code == 400


def test_the_book_lists_only_what_is_in_force(db: Database) -> None:
    ids = ["proposed", "approved", "reverted"]
    with transaction(db) as connection:
        made = [
            exclusion(EPOCH, EPOCH + HOUR, id=name, approved_by=None, approved_at=None)
            for name in ids
        ]
        for each in made:
            exclusion_book.propose(connection, each)
        approved = [exclusion_book.approve(connection, each, "ben", NOW) for each in made[1:]]
        exclusion_book.revert(connection, approved[-1], "ben", NOW)
        assert exclusion_book.find(connection, "approved") == approved[0]

    assert [each.id for each in ExclusionsInForce(db)()] == ["approved"]


def test_the_requests_of_an_outage_that_is_excluded_do_not_burn(
    opened: Engine,
    facts: list[dict[str, Any]],
) -> None:
    it = exclusion(EPOCH + 3 * DAY + 6 * HOUR, EPOCH + 4 * DAY)

    def burns(excluded: list[Exclusion]) -> Verdict:
        return Evaluator(opened, [WHOLE], SloSettings(), lambda: excluded).evaluate(NOW)[0]

    assert burns([]).burn["1h"] is not None
    assert burns([it]).burn["1h"] is None
    (counts,) = count_windows(opened, [WHOLE], [HOUR], NOW)["whole"]
    assert burns([it]).excluded > counts.excluded
