"""Read what the ledger needs from the store: one pass of SQL per kind of row, no raw rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Protocol, get_args

from base.errors import BadInput
from cost.ledger import (
    Existence,
    Hour,
    HourBill,
    Ledger,
    Occupancy,
    Traffic,
    Use,
    bill_hours,
    charge,
    runs_on_priced_gpus,
)
from cost.prices import PriceBook
from cost.queries import ACTIVITY, ALIVE, HARDWARE, OCCUPANCY, TRAFFIC, USE

Dimension = Literal[
    "tenant", "route", "model", "replica", "feature", "user_id", "app_version", "priority"
]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)

HOUR_NS = 3_600 * 10**9
# No request runs longer than this, so older facts need not be looked at.
LONGEST_REQUEST = timedelta(hours=6)


class Rows(Protocol):
    """The one verb of the store's engine that reading needs."""

    def arrow(self, sql: str, params: Mapping[str, Any] | None = None) -> Any: ...


@dataclass(frozen=True, slots=True)
class Window:
    """Half-open [start, end)."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        if self.start >= self.end:
            raise BadInput(f"from {self.start.isoformat()} is not before to {self.end.isoformat()}")


def read_ledger(
    engine: Rows, book: PriceBook, window: Window, by: Sequence[Dimension] = ("tenant", "route")
) -> Ledger:
    """Bill every replica-hour of the window and charge it to groups of `by`."""
    bills, _ = read_bills(engine, window, book)
    traffic = list(read_traffic(engine, window, by))
    later = read_later(engine, window, book, bills, traffic)
    return charge(bills, read_uses(engine, window, by), traffic, book, later)


def read_bills(
    engine: Rows, window: Window, book: PriceBook
) -> tuple[dict[tuple[str, Hour], HourBill], list[Occupancy]]:
    """Bill every replica-hour of the window; also answer how busy each was."""
    occupancies = [Occupancy(*row) for row in _fetch(engine, OCCUPANCY, window)]
    known = [Existence(*row) for row in _fetch(engine, ALIVE, window)]
    reported = {(e.replica, e.hour) for e in known}
    if any((o.replica, o.hour) not in reported for o in occupancies):
        known += _inferred(engine, window, book, known)
    return bill_hours(known, occupancies, book), occupancies


def read_later(
    engine: Rows,
    window: Window,
    book: PriceBook,
    bills: Mapping[tuple[str, Hour], HourBill],
    traffic: Sequence[Traffic],
) -> frozenset[tuple[str, Hour]]:
    """Name the places after the window, priced, in which requests that began in it ran.

    Their GPU time is on the bill of that time, so their tokens are on nobody's: the ledgers of two
    windows side by side charge no request twice.
    """
    last = nanoseconds(window.end)
    hours = [
        row.last_hour
        for row in traffic
        if row.last_hour is not None
        and (row.last_hour + 1) * HOUR_NS > last
        and not runs_on_priced_gpus(bills, row.replica, row.first_hour, row.last_hour)
    ]
    if not hours:
        return frozenset()
    beyond = Window(window.end, _EPOCH + timedelta(hours=max(hours) + 1))
    found, _ = read_bills(engine, beyond, book)
    return frozenset(place for place, bill in found.items() if bill.is_priced)


def _inferred(
    engine: Rows, window: Window, book: PriceBook, known: Sequence[Existence]
) -> Iterator[Existence]:
    """Read existence off the requests of each replica-hour that has no alive record."""
    reported = {(e.replica, e.hour) for e in known}
    hardware: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for row in _fetch(engine, HARDWARE, window):
        hardware[row[0]].append(row[1:])
    activity = {(row[0], row[1]): row for row in _fetch(engine, ACTIVITY, _widened(window))}
    first, last = nanoseconds(window.start), nanoseconds(window.end)
    for (replica, hour), (_, _, model, began, ended) in sorted(activity.items()):
        if (replica, hour) in reported:
            continue
        # Active in the hour before as well: it did not go away in between.
        start = hour * HOUR_NS if (replica, hour - 1) in activity else began
        end = (hour + 1) * HOUR_NS if (replica, hour + 1) in activity else ended
        ns = min(end, last) - max(start, first)
        if ns > 0:
            said = _said(hardware.get(replica, ()), hour)
            gpu_type, gpu_count = said or _hardware(book, model, hour)
            yield Existence(replica, hour, model, gpu_type, gpu_count, ns, inferred=True)


def read_uses(
    engine: Rows, window: Window, by: Sequence[str], marks: Sequence[str] = ()
) -> Iterator[Use]:
    """Read engine time per replica, hour and group.

    `marks` are SQL over `facts`, of our own making, whose texts end the keys.
    """
    sql = USE.replace("$by", _columns(by, marks))
    return (Use(row[0], row[1], row[3:], row[2]) for row in _fetch(engine, sql, window))


def read_traffic(
    engine: Rows, window: Window, by: Sequence[str], marks: Sequence[str] = ()
) -> Iterator[Traffic]:
    """Read requests and tokens of the requests that began in the window; `marks` as above."""
    sql = TRAFFIC.replace("$by", _columns(by, marks))
    return (Traffic(row[13:], *row[:13]) for row in _fetch(engine, sql, window))


def parse_by(text: str) -> tuple[Dimension, ...]:
    """Read "tenant,route" into dimensions."""
    names = [part.strip() for part in text.split(",") if part.strip()]
    unknown = [name for name in names if name not in DIMENSIONS]
    if unknown or not names:
        raise BadInput(f"by={text!r}: use one or more of {', '.join(DIMENSIONS)}")
    return tuple(dict.fromkeys(name for name in DIMENSIONS if name in names))


def _said(records: Sequence[tuple[Any, ...]], hour: Hour) -> tuple[str, int] | None:
    """Choose what a replica said of itself last before the hour's end, else first after it.

    `records` are (since, gpu_type, gpu_count) by time, of all time: what an hour costs must not
    depend on the window that is asked for.
    """
    before = [record for record in records if record[0] < (hour + 1) * HOUR_NS]
    chosen = before[-1:] or records[:1]
    return (chosen[0][1], chosen[0][2]) if chosen else None


def _hardware(book: PriceBook, model: str, hour: Hour) -> tuple[str, int]:
    on = datetime.fromtimestamp(hour * 3600, UTC).date()
    found = book.hardware_of(model, on)
    return (found.gpu_type, found.gpu_count) if found else ("", 1)


def _columns(by: Sequence[str], marks: Sequence[str] = ()) -> str:
    for name in by:
        if name not in DIMENSIONS:
            raise BadInput(f"by={name!r}: use one or more of {', '.join(DIMENSIONS)}")
    return "".join(f", {each}" for each in (*by, *marks))


def _fetch(engine: Rows, sql: str, window: Window) -> list[tuple[Any, ...]]:
    params = {
        "from": nanoseconds(window.start),
        "to": nanoseconds(window.end),
        "since": nanoseconds(window.start - LONGEST_REQUEST),
        "hour": HOUR_NS,
    }
    table = engine.arrow(sql, params)
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _widened(window: Window) -> Window:
    hour = timedelta(hours=1)
    return Window(window.start - hour, window.end + hour)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def nanoseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000
