"""Time slices: an SLO that counts slices of time instead of requests. Pure.

A slice [k x length, (k + 1) x length) since the epoch is good when at least a share of its judged
requests is good, bad when fewer are, and excluded when it has none but excluded ones; one without
requests is no event. It is judged when it is over, on whatever of it is not excluded.

Lengths are whole tens of seconds, fit in an hour, and fit in a minute or are made of minutes: so
every slice lies in one bucket of each count table, or is made of whole buckets. Tables with
buckets of at least a slice hold judged slices, finer ones requests (`slo.recount`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import TypeVar

from base.durations import format_duration
from base.errors import BadInput

LENGTHS = (
    *(timedelta(seconds=s) for s in (10, 20, 30)),
    *(timedelta(minutes=m) for m in (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60)),
)
SLICES = "slices"
MIN_BAD = 3
"""Bad slices that make an incident: two may be one moment at the edge between them, three have
lasted longer than a slice."""

_FINEST_SHARE = 10**9
_EPOCH = datetime.fromtimestamp(0, UTC)
_MICROSECOND = timedelta(microseconds=1)

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Slices:
    """How long a slice is, and the share of its requests that must be good, 0 < share <= 1."""

    length: timedelta
    share: Fraction

    @property
    def length_ns(self) -> int:
        return self.length // _MICROSECOND * 1000

    def holds(self, length: timedelta) -> bool:
        """Say whether a window is made of whole slices."""
        return length > timedelta(0) and length % self.length == timedelta(0)

    def is_good(self, good: int, bad: int) -> bool:
        """Judge a slice that has requests."""
        return good * self.share.denominator >= (good + bad) * self.share.numerator

    def __str__(self) -> str:
        return f"{format_duration(self.length)} at {percent_of(self.share)} %"


def make_slices(length: timedelta, percent: float) -> Slices:
    """Check what a document states; BadInput says what to write instead."""
    if length not in LENGTHS:
        near = min(LENGTHS, key=lambda each: abs(each - length))
        raise BadInput(
            f"slices of {format_duration(length)} do not fit in minutes and hours: write "
            f"{format_duration(near)}; there are {', '.join(map(format_duration, LENGTHS))}"
        )
    share = Fraction(repr(float(percent))) / 100
    if not 0 < share <= 1:
        raise BadInput(f"a slice is good at a percentage above 0, up to 100, not at {percent:g}")
    if share.denominator > _FINEST_SHARE:
        raise BadInput(f"{percent!r} is finer than requests of a slice are counted: round it")
    return Slices(length, share)


def unread_method(method: str) -> str:
    """Say why a budgeting method of OpenSLO is not read."""
    if method == "RatioTimeslices":
        return (
            "budgetingMethod 'RatioTimeslices' averages the ratios of slices, so a quiet minute "
            "weighs as much as a busy one: write Occurrences, or Timeslices to count good slices"
        )
    return f"budgetingMethod {method!r} is neither Occurrences nor Timeslices"


def percent_of(share: Fraction) -> str:
    return f"{float(share * 100):.10g}"


def floor_to_slice(moment: datetime, length: timedelta | None) -> datetime:
    """Find when the last slice ended that is over; without slices every instant is one."""
    return moment if length is None else moment - (moment - _EPOCH) % length


def ceil_to_slice(moment: datetime, length: timedelta) -> datetime:
    """Find the first slice that begins at or after an instant."""
    return moment + (_EPOCH - moment) % length


def whole_slices(span: timedelta, length: timedelta, *, least: int = 1) -> timedelta:
    """Round a window up to whole slices."""
    return max(least, -(-span // length)) * length


def by_length(found: Iterable[tuple[Key, Slices | None]]) -> Mapping[timedelta | None, list[Key]]:
    """Part what counts requests (None) from what counts slices of each length."""
    out: dict[timedelta | None, list[Key]] = {}
    for key, slices in found:
        out.setdefault(slices.length if slices is not None else None, []).append(key)
    return out


def is_good_sql(which: str, slices: Sequence[Slices], good: str, bad: str) -> str:
    """Write whether a slice is good; `which` is the number of its Slices, from 1.

    In 128 bits, so that no product overflows.
    """
    over = _of(which, [each.share.denominator for each in slices])
    under = _of(which, [each.share.numerator for each in slices])
    return f"toUInt128({good}) * {over} >= toUInt128({good} + {bad}) * {under}"


def length_sql(which: str, slices: Sequence[Slices]) -> str:
    """Write the seconds of a slice; `which` as in `is_good_sql`."""
    return _of(which, [round(each.length.total_seconds()) for each in slices])


def most_common_sql(reasons: str) -> str:
    """Write the reason that most requests have, of equals the first by name, as a map of one."""
    pairs = f"arrayZip(mapKeys({reasons}), mapValues({reasons}))"
    first = f"arraySort(x -> (-toInt64(x.2), x.1), {pairs})[1].1"
    return f"if(empty({reasons}), {NO_REASON}, map({first}, toUInt64(1)))"


NO_REASON = "CAST(map(), 'Map(String, UInt64)')"


def _of(which: str, values: Sequence[int]) -> str:
    if len(set(values)) == 1:
        return f"toUInt32({values[0]})"
    return f"[{', '.join(f'toUInt32({value})' for value in values)}][{which}]"
