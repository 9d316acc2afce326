"""Slices of time, counted by the engine and by hand, to the last one."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from base.clock import ManualClock
from base.errors import BadInput
from slo.budget import Count
from slo.calendar import read_calendar
from slo.counts import SloCounts
from slo.evaluator import Evaluator, windows_of
from slo.exclusion import Excluded
from slo.fields import Report
from slo.model import Slo
from slo.parse import parse_clauses
from slo.series import read_series
from slo.settings import SloSettings
from slo.slices import LENGTHS, Slices, ceil_to_slice, floor_to_slice, make_slices
from slo.tiers import derive
from slo.verdict import State
from slo.verdict_body import SlicesBody, body_of
from slo.window_counts import GroupCounts, count_windows
from store.engine import Engine
from tests.slo.conftest import empty
from tests.slo.made_facts import EPOCH, alive, dirty, fact, put
from tests.slo.made_slos import read_slos
from tests.slo.sliced import Sliced, count_slices, judge_slices, of_slices
from tests.slo.test_counts import ALL, PAIRS, TTFT, keep, random_facts

SECOND, MINUTE, HOUR, DAY = (
    timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1),
)  # fmt: skip
JUDGED = (
    of_slices(TTFT, 10 * SECOND, "100", name="ten"),
    of_slices(PAIRS, 20 * SECOND, "50", name="twenty"),
    of_slices(TTFT, MINUTE, "75", name="minute"),
    of_slices(ALL, MINUTE, "66.7", name="minute-too"),
    of_slices(PAIRS, 5 * MINUTE, "50", name="five"),
    of_slices(TTFT, 12 * MINUTE, "60", name="twelve"),
    of_slices(ALL, HOUR, "70", name="hour"),
    read_slos(
        [
            {"name": "whole", "composite": {"all": ["first", "pace"]}, "group_by": ["tenant"],
             "slices": {"length": "2m", "good": 55.5}},
            {"name": "first", "good": "ttft_ms <= 2000"},
            {"name": "pace", "eligible": "model = 'a'", "good": "tpot_ms <= 50"},
        ]
    )[0],
)  # fmt: skip
WINDOWS = [HOUR, 6 * HOUR, 3 * DAY, 30 * DAY]
DAYS = (0, 1, 2, 16, 29, 30)
"""Days with requests: counting costs the same for each, however few there are."""


def busy(rng: random.Random, count: int, over: timedelta) -> list[dict[str, Any]]:
    """Scatter requests in clusters, so that slices hold several."""
    centres = [over * rng.random() for _ in range(max(1, count // 12))]
    facts = random_facts(rng, count, over)
    for each in facts[::2]:
        spread = rng.choice([10, 60, 300, 3600])
        at = fact(EPOCH + rng.choice(centres) + timedelta(seconds=spread * rng.random()))
        each["start"] = at["start"]
    return facts


def on_days(facts: list[dict[str, Any]], days: tuple[int, ...]) -> list[dict[str, Any]]:
    """Move the first days of some facts to other ones, and give each a number."""
    day_ns = 86_400 * 10**9
    begin = fact(EPOCH)["start"]
    moved = []
    for number, each in enumerate(facts):
        day, within = divmod(each["start"] - begin, day_ns)
        at = begin + days[int(day) % len(days)] * day_ns + within
        moved.append(each | {"start": at, "request_id": f"{number:016x}"})
    return moved


def seen(found: list[GroupCounts], windows: list[timedelta]) -> dict[Any, Any]:
    return {
        each.group: (
            [(each.windows[length].good, each.windows[length].bad) for length in windows],
            each.excluded,
            dict(each.bad_reasons),
            each.run,
        )
        for each in found
    }


def expected(
    slo: Slo,
    facts: list[dict[str, Any]],
    windows: list[timedelta],
    now: datetime,
    excluded: tuple[Excluded, ...] = (),
) -> dict[Any, Any]:
    judged = judge_slices(slo, facts, excluded)
    counted = {length: count_slices(slo, judged, now, length) for length in windows}
    return {
        group: (
            [
                (
                    counted[length].get(group, Sliced()).good,
                    counted[length].get(group, Sliced()).bad,
                )
                for length in windows
            ],
            whole.excluded,
            dict(whole.reasons),
            whole.run,
        )
        for group, whole in counted[max(windows)].items()
    }


@pytest.fixture(scope="module")
def month(opened: Engine) -> list[dict[str, Any]]:
    empty(opened)
    facts = busy(random.Random(1), 3000, timedelta(days=len(DAYS)))
    facts = on_days(facts + busy(random.Random(2), 1000, timedelta(hours=3)), DAYS)
    put(opened, facts)
    keep(opened, [*JUDGED, TTFT]).ensure()
    return facts


instants = st.one_of(
    st.integers(0, 32 * 86_400 * 10**6),
    st.integers(0, 32 * 24).map(lambda hour: hour * 3600 * 10**6),
    st.integers(0, 11_000).map(lambda second: second * 10**6 + 1),
).map(lambda offset: EPOCH + timedelta(microseconds=offset))
lasting = settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@given(now=instants, slo=st.sampled_from(JUDGED))
@lasting
def test_slices_equal_those_judged_by_hand_at_any_instant(
    opened: Engine, month: list[dict[str, Any]], now: datetime, slo: Slo
) -> None:
    found = count_windows(opened, [slo], WINDOWS, now)[slo.name]

    assert seen(found, WINDOWS) == expected(slo, month, WINDOWS, now)


@given(
    now=instants,
    slo=st.sampled_from(JUDGED),
    spans=st.lists(
        st.tuples(st.integers(0, 31 * 1440), st.integers(1, 200), st.booleans()), max_size=5
    ),
)
@lasting
def test_what_an_exclusion_leaves_of_a_slice_is_judged_by_itself(
    opened: Engine,
    month: list[dict[str, Any]],
    now: datetime,
    slo: Slo,
    spans: list[tuple[int, int, bool]],
) -> None:
    excluded = tuple(
        Excluded(
            slo.name,
            ((0, "acme"),) if of_one and slo.group_by else (),
            ((EPOCH + start * MINUTE, EPOCH + (start + length) * MINUTE),),
        )
        for start, length, of_one in spans
    )

    found = count_windows(opened, [slo], WINDOWS, now, excluded=excluded)[slo.name]

    assert seen(found, WINDOWS) == expected(slo, month, WINDOWS, now, excluded)


def test_slos_of_several_lengths_and_of_requests_are_counted_side_by_side(
    opened: Engine, month: list[dict[str, Any]]
) -> None:
    now = EPOCH + 2 * HOUR + timedelta(minutes=31, seconds=7)

    together = count_windows(opened, [*JUDGED, TTFT], WINDOWS, now)

    for slo in (*JUDGED, TTFT):
        assert together[slo.name] == count_windows(opened, [slo], WINDOWS, now)[slo.name]


def test_windows_that_cut_slices_are_left_out(opened: Engine, month: list[dict[str, Any]]) -> None:
    slo = JUDGED[5]
    now = EPOCH + 3 * HOUR

    found = count_windows(opened, [slo], [10 * SECOND, HOUR, 90 * MINUTE], now)[slo.name]

    assert {length for each in found for length in each.windows} == {HOUR}


# Kathmandu is 5:45 ahead, the Chathams 12:45 or 13:45: their clocks change on 4 April 2026.
@pytest.mark.parametrize("zone", ["Asia/Kathmandu", "Pacific/Chatham", "Europe/Berlin"])
@pytest.mark.parametrize("period", ["day", "week"])
@pytest.mark.parametrize("slo", [JUDGED[2], JUDGED[5], JUDGED[6]])
def test_a_slice_belongs_to_the_period_in_which_it_begins(
    opened: Engine, month: list[dict[str, Any]], slo: Slo, period: str, zone: str
) -> None:
    judged = judge_slices(slo, month)
    for hours in (30.3, 200, 500.75, 743.9):
        now = EPOCH + hours * HOUR
        since = read_calendar(period, zone).bounds(now)[0]

        found = count_windows(opened, [slo], [HOUR], now, since=[since])[slo.name]

        by_hand = count_slices(slo, judged, now, since)
        counted = {
            each.group: (each.periods[since][0].good, each.periods[since][0].bad,
                         each.periods[since][1])
            for each in found if each.periods[since] != (Count(), 0)
        }  # fmt: skip
        assert counted == {
            group: (each.good, each.bad, each.excluded) for group, each in by_hand.items()
        }


def test_a_series_has_every_slice_of_a_window_once(
    opened: Engine, month: list[dict[str, Any]]
) -> None:
    now = EPOCH + timedelta(days=3, hours=5, minutes=17, seconds=3)
    excluded = (Excluded("twelve", (), ((EPOCH + 2 * DAY, EPOCH + 2 * DAY + 77 * MINUTE),)),)
    for slo in (JUDGED[0], JUDGED[2], JUDGED[5], JUDGED[6]):
        assert slo.slices is not None
        until = floor_to_slice(now, slo.slices.length)
        found = read_series(opened, slo, until - 2 * DAY, now, HOUR, excluded)

        starts = until.replace(minute=0) + (HOUR if until.minute else timedelta(0)) - 2 * DAY
        counted = expected(slo, month, [until - starts], now, excluded)
        totals = {
            tuple(each.group.values()): ([(sum(each.good), sum(each.bad))], sum(each.excluded))
            for each in found
        }
        assert totals == {group: each[:2] for group, each in counted.items()}


@given(
    now=instants,
    slo=st.sampled_from(JUDGED),
    pair=st.tuples(st.integers(1, 720), st.integers(1, 720)),
)
@lasting
def test_a_longer_window_holds_the_slices_of_a_shorter_one(
    opened: Engine, month: list[dict[str, Any]], now: datetime, slo: Slo, pair: tuple[int, int]
) -> None:
    short, long = sorted(n * HOUR for n in pair)

    for each in count_windows(opened, [slo], [short, long], now)[slo.name]:
        assert each.windows[short].good <= each.windows[long].good
        assert each.windows[short].bad <= each.windows[long].bad


def test_days_of_23_and_25_hours_have_as_many_slices(engine: Engine) -> None:
    """Every minute of the Chathams' days around 5 April and 27 September 2026 has a request."""
    slo = of_slices(ALL, MINUTE, "100", name="each-minute")
    calendar = read_calendar("day", "Pacific/Chatham")
    for moment, minutes in ((datetime(2026, 4, 4, 15, tzinfo=UTC), 1500),
                            (datetime(2026, 9, 26, 15, tzinfo=UTC), 1380)):  # fmt: skip
        empty(engine)
        start, end = calendar.bounds(moment)
        facts = [fact(start + n * MINUTE, n) for n in range(minutes)]
        put(engine, facts)
        keep(engine, [slo]).ensure()
        now = end - timedelta(microseconds=1)

        (found,) = count_windows(engine, [slo], [HOUR], now, since=[start])[slo.name]

        assert end - start == minutes * MINUTE
        assert found.periods[start][0].good == minutes - 1  # the last one is not over


@pytest.mark.slow
@given(seed=st.integers(0, 10**6))
@settings(
    max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_late_doubled_and_corrected_requests_end_in_the_same_slices(
    opened: Engine, seed: int
) -> None:
    rng = random.Random(seed)
    slos = [JUDGED[0], JUDGED[1], JUDGED[3], JUDGED[4], JUDGED[6], TTFT]
    newest = fact(EPOCH + timedelta(hours=4), 1000, ttft_ms=1.0)
    facts = [*busy(rng, 150, timedelta(hours=3)), newest]
    corrected = [
        each | {"version": 2, "outcome": "bad", "outcome_reason": "timeout"}
        for each in rng.sample(facts, 20)
    ]
    gone = [each | {"version": 3, "deleted": 1} for each in rng.sample(facts[:-1], 10)]
    empty(opened)
    live = keep(opened, slos)
    live.ensure()
    rng.shuffle(facts)
    for version, start in enumerate(range(0, len(facts), 60), start=1):
        batch = facts[start : start + 60]
        put(opened, batch * rng.choice([1, 2]))
        live.refresh(dirty(batch), version)
    for version, batch in ((50, corrected), (51, gone)):
        put(opened, batch)
        live.refresh(dirty(batch), version)

    for seconds in (7201, 9000, 14_399, 4 * 3600, 18_000.5):
        now, windows = EPOCH + seconds * SECOND, [HOUR, 6 * HOUR]
        for slo in slos[:-1]:
            found = count_windows(opened, [slo], windows, now)[slo.name]
            everything = [*facts, *corrected, *gone]
            assert seen(found, windows) == expected(slo, everything, windows, now)


def test_slices_stay_exact_when_old_fine_rows_have_been_dropped(engine: Engine) -> None:
    facts = on_days(busy(random.Random(4), 600, timedelta(days=4)), (0, 19, 20, 39))
    put(engine, facts)
    clock = ManualClock(EPOCH)
    slos = [JUDGED[0], JUDGED[1], JUDGED[2], JUDGED[4], JUDGED[6]]
    counts = SloCounts(engine, slos, SloSettings(), clock)
    counts.ensure()
    clock.advance(timedelta(days=40))
    late = [
        fact(EPOCH + timedelta(days=day, seconds=5), 9000 + day, ttft_ms=1.0) for day in (3, 20)
    ]
    put(engine, late)
    counts.refresh(dirty(late), 5)

    for now in (EPOCH + timedelta(days=40, seconds=3), EPOCH + timedelta(days=20, seconds=33)):
        found = count_windows(engine, slos, WINDOWS, now)
        for slo in slos:
            assert seen(found[slo.name], WINDOWS) == expected(slo, [*facts, *late], WINDOWS, now)


def test_an_edit_of_the_slices_is_counted_anew_and_its_revert_restores_every_count(
    engine: Engine,
) -> None:
    facts = busy(random.Random(3), 300, timedelta(hours=5))
    put(engine, facts)
    slo, now = JUDGED[2], EPOCH + timedelta(hours=5, minutes=1, seconds=3)
    counts = keep(engine, [slo])
    counts.ensure()
    before = count_windows(engine, [slo], WINDOWS, now)
    edits = (
        of_slices(TTFT, 5 * MINUTE, "75", name="minute"),
        replace(slo, slices=None),
    )
    for edited in edits:
        assert counts.replace([edited]) == ["minute"]
        if edited.slices is not None:
            found = count_windows(engine, [edited], WINDOWS, now)["minute"]
            assert seen(found, WINDOWS) == expected(edited, facts, WINDOWS, now)

    counts.replace([slo])

    assert count_windows(engine, [slo], WINDOWS, now) == before


# --- laws ------------------------------------------------------------------------------------


@given(
    good=st.integers(0, 10**12), bad=st.integers(0, 10**12), more=st.integers(0, 10**6),
    share=st.fractions(Fraction(1, 10**9), 1, max_denominator=10**9),
)  # fmt: skip
def test_another_good_request_never_makes_a_slice_bad(
    good: int, bad: int, more: int, share: Fraction
) -> None:
    slices = Slices(MINUTE, share)

    assert slices.is_good(good + more, bad) or not slices.is_good(good, bad)
    assert not slices.is_good(good, bad + more) or slices.is_good(good, bad)


@given(moment=st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
       length=st.sampled_from(LENGTHS))  # fmt: skip
def test_an_instant_lies_between_two_edges(moment: datetime, length: timedelta) -> None:
    below, above = floor_to_slice(moment, length), ceil_to_slice(moment, length)

    assert below <= moment <= above < below + 2 * length
    assert (above - below) in {timedelta(0), length}
    assert int(below.timestamp()) % length.total_seconds() == 0
    assert floor_to_slice(moment, None) == moment


def test_a_share_is_compared_exactly() -> None:
    for percent, good, bad in ((7.0, 7, 93), (29, 29, 71), (99.9, 999, 1), (100, 5, 0)):
        slices = make_slices(MINUTE, percent)
        assert slices.is_good(good, bad)
        assert not slices.is_good(good, bad + 1)


@pytest.mark.parametrize(
    ("length", "percent", "message"),
    [
        (timedelta(seconds=7), 99, "10s"),
        (timedelta(minutes=7), 99, "write 6m"),
        (timedelta(hours=2), 99, "write 1h"),
        (timedelta(seconds=90), 99, "fit in minutes and hours"),
        (MINUTE, 0.0, "above 0"),
        (MINUTE, 100.5, "up to 100"),
        (MINUTE, 99.123456789123, "round it"),
    ],
)
def test_slices_that_cannot_be_counted_are_refused(
    length: timedelta, percent: float, message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        make_slices(length, percent)


def test_every_length_fits_in_the_buckets_of_the_count_tables() -> None:
    for length in LENGTHS:
        seconds = int(length.total_seconds())
        assert seconds % 10 == 0
        assert 3600 % seconds == 0
        assert 60 % seconds == 0 or seconds % 60 == 0
    others = [n for n in range(10, 3601, 10) if 3600 % n == 0 and (60 % n == 0 or n % 60 == 0)]
    assert [int(each.total_seconds()) for each in LENGTHS] == others


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (
            {"weight": "completion_tokens"},
            "line 10: slices are judged by requests that each count as",
        ),
        ({"composite": {"sum": {"a": 1}}}, "leave a sum of SLOs out"),
        ({"composite": {"all": ["a"]}}, "leave the weight of its components out"),
    ],
)
def test_what_weighs_has_no_slices(fields: dict[str, Any], says: str) -> None:
    report = Report()
    component = {"name": "a", "weight": "coalesce(completion_tokens, 9)"}
    found = read_slos(
        [{"name": "x", "slices": {"length": "1m", "good": 9}} | fields, component], report
    )

    assert [slo.name for slo in found] == ["a"]
    assert says in report.problems[0]


def test_an_override_of_slices_has_tiers_of_whole_slices() -> None:
    (slo,) = read_slos(
        [{"name": "x", "window": "30d", "slices": {"length": "10m", "good": 99},
          "group_by": ["tenant"],
          "overrides": [{"match": {"tenant": "acme"}, "objective": 99.9}]}]
    )  # fmt: skip

    theirs = slo.for_group(("acme",))
    assert theirs.slices == slo.slices
    assert theirs.tiers == derive(0.999, 30 * DAY, 3, timedelta(minutes=10))


def test_slices_are_another_definition_and_requests_keep_theirs() -> None:
    assert TTFT.definition == "86a24701d9735794"
    assert len({TTFT.definition, *(slo.definition for slo in JUDGED)}) == len(JUDGED) + 1
    assert of_slices(TTFT, MINUTE, "75").definition == JUDGED[2].definition
    assert of_slices(TTFT, MINUTE, "75.0").definition == JUDGED[2].definition


# --- verdicts --------------------------------------------------------------------------------


def live(length: timedelta, window: timedelta = 6 * HOUR, **fields: Any) -> Slo:
    slices = Slices(length, Fraction(9, 10))
    return Slo(
        name="sliced",
        objective=0.9,
        window=window,
        good=parse_clauses("outcome = 'good'"),
        tiers=derive(0.9, window, 3, length),
        slices=slices,
        **fields,
    )


def steady(since: datetime, until: datetime, bad_from: datetime | None = None) -> list[Any]:
    """Send a request every six seconds; from some time on a fifth of them fails."""
    facts = []
    for n in range((until - since) // timedelta(seconds=6)):
        at = since + n * timedelta(seconds=6)
        fails = bad_from is not None and at >= bad_from and n % 5 == 0
        facts.append(fact(at, n, outcome="bad" if fails else "good", outcome_reason="timeout"))
    return facts


def judge(engine: Engine, slo: Slo, now: datetime) -> Any:
    (verdict,) = Evaluator(engine, [slo], SloSettings()).evaluate(now)
    return verdict


def test_a_verdict_counts_the_slices_that_are_over_and_says_so(engine: Engine) -> None:
    slo = live(MINUTE, calendars=(read_calendar("day", "UTC"),))
    now = EPOCH + timedelta(hours=1, seconds=42)
    put(engine, steady(EPOCH, now, bad_from=EPOCH + timedelta(minutes=50)))
    alive(engine, [EPOCH + n * timedelta(seconds=10) for n in range(364)])
    keep(engine, [slo]).ensure()

    verdict = judge(engine, slo, now)

    assert (verdict.good, verdict.bad, verdict.unit) == (50, 10, "slices")
    assert verdict.bad_in_a_row == 10
    assert verdict.bad_reasons == {"timeout": 10}
    assert (verdict.periods[0].good, verdict.periods[0].bad) == (50, 10)
    assert verdict.state is State.BURNING
    assert verdict.causes is not None
    assert verdict.causes.since == EPOCH + timedelta(minutes=50)
    body = body_of(verdict)
    assert (body.unit, body.requests) == ("slices", None)
    assert body.slices == SlicesBody(length="1m", good=0.9)


def test_silence_is_judged_up_to_now_and_coverage_up_to_the_last_slice(engine: Engine) -> None:
    slo = live(HOUR, window=24 * HOUR)
    put(engine, steady(EPOCH, EPOCH + 5 * HOUR))
    heard = [EPOCH + n * timedelta(seconds=30) for n in range(5 * 120) if n // 60 != 2]
    alive(engine, heard)
    keep(engine, [slo]).ensure()

    soon = judge(engine, slo, EPOCH + timedelta(hours=5, minutes=1))
    later = judge(engine, slo, EPOCH + timedelta(hours=5, minutes=50))

    assert soon.state is State.OK
    assert soon.coverage == pytest.approx(0.9)  # half an hour of five was not heard
    assert later.state is State.STALE
    assert later.coverage == soon.coverage
    assert later.watermark == soon.watermark == EPOCH + timedelta(hours=5, seconds=-30)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("window", [HOUR, 6 * HOUR, DAY, 30 * DAY])
@pytest.mark.parametrize("objective", [0.5, 0.9, 0.99, 0.999])
def test_derived_tiers_are_whole_slices_and_can_be_told_apart(
    length: timedelta, window: timedelta, objective: float
) -> None:
    slo = replace(live(length, window), tiers=derive(objective, window, 3, length))

    for tier in slo.tiers:
        assert tier.short < tier.long <= window
        assert tier.short % length == tier.long % length == timedelta(0)
        assert tier.long >= 3 * length
        assert tier.hold >= tier.short
    seen_windows = [(tier.severity, tier.long, tier.short) for tier in slo.tiers]
    assert len(set(seen_windows)) == len(seen_windows)
    assert all(each % length == timedelta(0) for each in windows_of(slo))
    if length == 10 * SECOND:
        shorter = derive(objective, window, 3)
        assert [tier.name for tier in slo.tiers] == [tier.name for tier in shorter]
