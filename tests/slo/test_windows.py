from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from slo.completeness import END_OF_TIME, Complete
from slo.schema import TABLES
from slo.windows import FACTS, NS, cut, nanoseconds

ALL = dict.fromkeys(TABLES, Complete(0, END_OF_TIME))

instants = st.datetimes(datetime(2001, 1, 1), datetime(2060, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
lengths = st.lists(
    st.timedeltas(timedelta(microseconds=1), timedelta(days=400)), min_size=1, max_size=6
)


days = st.integers(0, END_OF_TIME // 86_400).map(lambda day: day * 86_400)
complete = st.fixed_dictionaries({step: st.builds(Complete, days, days) for step in TABLES})


@given(instants, lengths, complete)
def test_the_spans_cover_the_longest_window_once_and_nothing_else(
    now: datetime, windows: list[timedelta], known: dict[timedelta, Complete]
) -> None:
    pieces = cut(now, windows, known)

    spans = sorted(span for found in pieces.spans.values() for span in found)
    assert spans[0][0] == min(pieces.starts.values())
    assert spans[-1][1] == nanoseconds(now) + 1
    assert all(one[1] == other[0] for one, other in pairwise(spans))
    for step, found in pieces.spans.items():
        size = round(step.total_seconds()) * NS
        for start, end in found:
            assert start < end
            if step != FACTS:
                assert start % size == 0
                assert end % size == 0
                assert known[step].floor * NS <= start
                assert end <= known[step].until * NS


@given(instants, lengths)
def test_no_row_crosses_the_start_of_a_window(now: datetime, windows: list[timedelta]) -> None:
    pieces = cut(now, windows, ALL)

    for step, found in pieces.spans.items():
        size = round(step.total_seconds()) * NS or 1
        for start, end in found:
            for edge in pieces.starts.values():
                assert not start < edge < end or edge % size == 0


@given(instants, lengths)
def test_little_is_read_from_facts(now: datetime, windows: list[timedelta]) -> None:
    facts = cut(now, windows, ALL).spans[FACTS]

    assert sum(end - start for start, end in facts) <= 20 * NS * (len(windows) + 1)


def test_a_window_is_open_at_its_start_and_closed_at_its_end() -> None:
    now = datetime(2026, 1, 1, 12, 0, 0, 250, tzinfo=UTC)

    pieces = cut(now, [timedelta(seconds=1)], ALL)

    end = nanoseconds(now)
    assert pieces.spans[FACTS] == ((end - NS + 1, end + 1),)
