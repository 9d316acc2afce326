from datetime import timedelta

from hypothesis import assume, given
from hypothesis import strategies as st

from slo.budget import Count, allowance, budget_remaining, sli, time_to_exhaustion
from slo.burn import burn_rate

WINDOW = timedelta(days=30)

numbers = st.integers(0, 10**9)
counts = st.builds(Count, numbers, numbers)
objectives = st.sampled_from([0.5, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999])


def test_five_bad_of_a_hundred_spend_the_whole_budget_at_95_percent() -> None:
    assert budget_remaining(Count(95, 5), 0.95) == 0
    assert budget_remaining(Count(90, 10), 0.95) == -1
    assert budget_remaining(Count(100, 0), 0.95) == 1


def test_nothing_is_said_without_traffic() -> None:
    assert sli(Count()) is None
    assert budget_remaining(Count(), 0.99) is None
    assert burn_rate(Count(), 0.99) is None


@given(counts, objectives)
def test_what_is_left_and_what_burned_add_up_to_one(count: Count, objective: float) -> None:
    remaining, burn = budget_remaining(count, objective), burn_rate(count, objective)

    if count.total == 0:
        assert remaining is None
        assert burn is None
    else:
        assert remaining is not None
        assert burn is not None
        assert abs(remaining + burn - 1) < 1e-9 * max(1, burn)


@given(counts, objectives, numbers)
def test_a_good_request_never_costs_and_a_bad_one_never_gives(
    count: Count, objective: float, more: int
) -> None:
    assume(count.total > 0)
    before = budget_remaining(count, objective)
    better = budget_remaining(count + Count(more, 0), objective)
    worse = budget_remaining(count + Count(0, more), objective)

    assert before is not None
    assert better is not None
    assert worse is not None
    assert worse <= before <= better <= 1


@given(st.lists(counts, min_size=1), objectives)
def test_the_burn_of_a_parent_is_the_traffic_weighted_burn_of_its_groups(
    groups: list[Count], objective: float
) -> None:
    parent = sum(groups, Count())
    assume(parent.total > 0)
    burn = burn_rate(parent, objective)
    weighted = sum((burn_rate(each, objective) or 0.0) * each.total for each in groups)

    assert burn is not None
    assert abs(burn - weighted / parent.total) <= 1e-9 * max(1.0, burn)


@given(objectives)
def test_a_total_outage_burns_at_the_highest_rate_there_is(objective: float) -> None:
    burn = burn_rate(Count(0, 7), objective)

    assert burn == 1 / allowance(objective)


def test_time_left_counts_only_what_is_left() -> None:
    assert time_to_exhaustion(1.0, 2.0, WINDOW) == timedelta(days=15)
    assert time_to_exhaustion(0.5, 2.0, WINDOW) == timedelta(days=7.5)
    assert time_to_exhaustion(0.0, 2.0, WINDOW) == timedelta(0)
    assert time_to_exhaustion(-1.0, 2.0, WINDOW) == timedelta(0)


def test_a_budget_that_refills_faster_than_it_is_spent_does_not_run_out() -> None:
    assert time_to_exhaustion(0.5, 0.0, WINDOW) is None
    assert time_to_exhaustion(0.5, 0.4, WINDOW) is None
    assert time_to_exhaustion(None, 1.0, WINDOW) is None
    assert time_to_exhaustion(0.5, None, WINDOW) is None
