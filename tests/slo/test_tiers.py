from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.budget import Count
from slo.burn import judge
from slo.documents import Loaded, read
from slo.tiers import Tier, can_fire, classic, derive, hold_of, max_burn, outage_to_fire

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
MONTH = timedelta(days=30)
EVERY = timedelta(seconds=10)
OBJECTIVES = (90, 91, 92.5, 94, 95, 97.5, 98, 99, 99.5, 99.9, 99.95, 99.99)
WINDOWS = [timedelta(hours=h) for h in (1, 3, 6, 12, 24, 72, 168, 336, 720, 1440, 2160)]


def document(path: Path, text: str) -> Loaded:
    file = path / "slos.yaml"
    file.write_text("kind: slo\nname: chat\n" + text, encoding="utf-8")
    return read([file])


def window_counts(
    tiers: tuple[Tier, ...], window: timedelta, outage: timedelta, per_hour: float
) -> dict[timedelta, Count]:
    """Count a steady stream that was good until an outage began: each window at its end."""
    counts = {}
    for length in {window, *(length for tier in tiers for length in (tier.long, tier.short))}:
        bad = int(min(length, outage) / HOUR * per_hour)
        total = int(length / HOUR * per_hour)
        counts[length] = Count(max(0, total - bad), bad)
    return counts


def time_to_page(objective: float, window: timedelta, per_hour: float) -> timedelta:
    tiers = derive(objective, window)
    pages = [tier for tier in tiers if tier.severity == "page"]
    outage = EVERY
    while outage < 6 * HOUR:
        counts = window_counts(tiers, window, outage, per_hour)
        run = int(outage / HOUR * per_hour)
        if any(judge(tier, counts, objective, run=run).burning for tier in pages):
            return outage
        outage += EVERY
    raise AssertionError("a total outage never pages")


@pytest.mark.parametrize("percent", OBJECTIVES)
@pytest.mark.parametrize("per_s", [1, 100])
def test_a_total_outage_pages_within_five_minutes_whatever_objective_and_window(
    percent: float, per_s: int
) -> None:
    worst = max(time_to_page(percent / 100, window, per_s * 3600) for window in WINDOWS)

    assert worst <= timedelta(minutes=4, seconds=10)


@pytest.mark.parametrize("percent", [90, 95, 99])
@pytest.mark.parametrize("minutes", [30, 60])
def test_a_short_period_detects_an_outage_within_tens_of_seconds(
    percent: float, minutes: int
) -> None:
    window = timedelta(minutes=minutes)

    assert time_to_page(percent / 100, window, 5 * 3600) <= timedelta(seconds=60)


@given(
    st.floats(0.01, 0.9999),
    st.integers(1, 366 * 24 * 60).map(lambda minutes: timedelta(minutes=minutes)),
)
def test_every_derived_tier_can_fire_and_none_alerts_within_budget(
    objective: float, window: timedelta
) -> None:
    for tier in derive(objective, window):
        assert can_fire(tier.factor, objective)
        assert tier.factor >= 1
        assert timedelta(seconds=10) <= tier.short < tier.long <= window


@given(st.floats(0.01, 0.9999), st.sampled_from([timedelta(hours=1), timedelta(days=7), MONTH]))
def test_longer_windows_ask_for_less(objective: float, window: timedelta) -> None:
    tiers = derive(objective, window)

    for faster, slower in pairwise(tiers):
        assert faster.long <= slower.long
        assert faster.factor >= slower.factor


def test_the_classic_tiers_are_kept_where_the_objective_leaves_room() -> None:
    classic = [tier.factor for tier in derive(0.999, MONTH) if tier.name != "outage"]

    assert classic == [14.4, 6, 3, 1]


def test_a_factor_that_a_total_outage_cannot_reach_is_known_as_such() -> None:
    assert max_burn(0.9) == 10
    assert not can_fire(14.4, 0.9)
    assert not can_fire(10, 0.9)
    assert can_fire(9.9, 0.9)


@pytest.mark.parametrize("percent", OBJECTIVES)
def test_the_time_a_steady_outage_needs_is_known_beforehand(percent: float) -> None:
    objective = percent / 100
    soonest = min(
        time
        for tier in derive(objective, MONTH)
        if tier.severity == "page" and (time := outage_to_fire(tier, objective)) is not None
    )

    assert abs(time_to_page(objective, MONTH, 100 * 3600) - soonest) <= EVERY


def test_classic_tiers_wait_as_long_as_sloths_at_low_objectives() -> None:
    fast, slow, *_ = classic(MONTH)

    assert outage_to_fire(fast, 0.95) == 43.2 * MINUTE
    assert outage_to_fire(fast, 0.9) is None
    assert outage_to_fire(slow, 0.9) == 216 * MINUTE


def test_tiers_of_a_document_are_derived_unless_it_says_otherwise(tmp_path: Path) -> None:
    (plain,) = document(tmp_path, "objective: 90\n").slos
    (named,) = document(tmp_path, "objective: 90\ntiers: derived\nmin_bad: 5\n").slos

    assert plain.tiers == named.tiers == derive(0.9, MONTH)


def test_classic_tiers_can_be_had_where_they_can_fire(tmp_path: Path) -> None:
    found = document(tmp_path, "objective: 99.9\ntiers: classic\nmin_bad: 7\n")

    assert found.warnings == ()
    assert found.slos[0].tiers == classic(MONTH, 7)
    assert [(t.factor, t.long, t.short) for t in found.slos[0].tiers] == [
        (14.4, HOUR, 5 * MINUTE),
        (6, 6 * HOUR, 30 * MINUTE),
        (3, 24 * HOUR, 2 * HOUR),
        (1, 72 * HOUR, 6 * HOUR),
    ]


def test_a_classic_tier_that_cannot_fire_is_refused_with_the_derived_factor(
    tmp_path: Path,
) -> None:
    found = document(tmp_path, "objective: 90\ntiers: classic\n")

    assert found.slos == ()
    (problem,) = found.problems
    assert problem == (
        "slos.yaml: slo 'chat' line 4: classic tier 'fast' can never fire: a total outage burns at "
        "10 and its factor is 14.4; write tiers: derived, where it is 5.5"
    )


def test_classic_tiers_that_page_late_are_doubted(tmp_path: Path) -> None:
    found = document(tmp_path, "objective: 95\ntiers: classic\n")

    assert "page after 43m12s of a total outage; the derived ones after" in found.warnings[0]


@pytest.mark.parametrize("written", ["fancy", "derived classic"])
def test_no_other_set_of_tiers_has_a_name(tmp_path: Path, written: str) -> None:
    found = document(tmp_path, f"objective: 95\ntiers: {written}\n")

    assert f"tiers {written!r} is neither derived nor classic nor a list" in found.problems[0]


def test_an_incident_is_held_for_half_an_hour_and_less_where_the_period_is_short() -> None:
    assert [tier.hold for tier in derive(0.99, MONTH)] == [
        30 * MINUTE, 30 * MINUTE, 30 * MINUTE, 2 * HOUR, 6 * HOUR,
    ]  # fmt: skip
    assert hold_of(timedelta(seconds=10), timedelta(days=1)) == MINUTE
    assert hold_of(timedelta(seconds=20), timedelta(minutes=30)) == timedelta(seconds=20)


def test_a_written_tier_may_say_its_hold(tmp_path: Path) -> None:
    both = "factor: 2, long: 1h, short: 5m"
    tiers = f"tiers: [{{name: a, {both}, hold: 1h}}, {{name: b, {both}}}]"

    (slo,) = document(tmp_path, f"objective: 95\n{tiers}\n").slos

    assert [tier.hold for tier in slo.tiers] == [HOUR, 30 * MINUTE]
