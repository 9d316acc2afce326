"""What one request cost: its share of the hours it ran in, else its tokens, else unknown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from cost.ledger import Hour, HourBill, runs_on_priced_gpus
from cost.money import Pico, usd
from cost.prices import PriceBook
from cost.read import HOUR_NS, Rows, Window, nanoseconds, read_bills

Basis = Literal["gpu", "tokens"]


@dataclass(frozen=True, slots=True)
class Run:
    """What pricing needs to know of a request; the fields are those of its fact."""

    start: datetime
    end: datetime
    model: str
    replica: str
    engine_s: float | None
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None


@dataclass(frozen=True, slots=True)
class RequestCost:
    """`usd` None: no price applies, or what the request used is not known."""

    usd: float | None
    basis: Basis | None


UNKNOWN = RequestCost(None, None)


@dataclass(frozen=True, slots=True)
class _Slice:
    """The engine time of a request that falls in one hour."""

    hour: Hour
    engine_ns: int


def price_requests(engine: Rows, book: PriceBook, runs: Sequence[Run]) -> list[RequestCost]:
    """Price requests, in the order given, with the same arithmetic as the ledger."""
    slices = [[*_slices(run)] for run in runs]
    hours = [part.hour for parts in slices for part in parts]
    if not hours:
        return [_price(run, (), {}, {}, book) for run in runs]
    window = Window(_start(min(hours)), _start(max(hours) + 1))
    bills, occupancies = read_bills(engine, window, book)
    engine_ns = {(o.replica, o.hour): o.engine_ns for o in occupancies}
    return [
        _price(run, parts, bills, engine_ns, book) for run, parts in zip(runs, slices, strict=True)
    ]


def _price(
    run: Run,
    slices: Sequence[_Slice],
    bills: Mapping[tuple[str, Hour], HourBill],
    engine_ns: Mapping[tuple[str, Hour], int],
    book: PriceBook,
) -> RequestCost:
    first = slices[0].hour if slices else None
    last = slices[-1].hour if slices else None
    if runs_on_priced_gpus(bills, run.replica, first, last):
        shares = (_share(run.replica, part, bills, engine_ns) for part in slices)
        return RequestCost(usd(sum(shares)), "gpu")
    price = book.token_price(run.model, run.start.date()) if run.model else None
    if price is None or run.prompt_tokens is None or run.completion_tokens is None:
        return UNKNOWN
    amount = price.price(run.prompt_tokens, run.cached_tokens or 0, run.completion_tokens)
    return RequestCost(usd(amount), "tokens")


def _share(
    replica: str,
    part: _Slice,
    bills: Mapping[tuple[str, Hour], HourBill],
    engine_ns: Mapping[tuple[str, Hour], int],
) -> Pico:
    place = replica, part.hour
    bill, everyone = bills.get(place), engine_ns.get(place, 0)
    return bill.busy * part.engine_ns // everyone if bill and everyone else 0


def _slices(run: Run) -> Iterator[_Slice]:
    if not run.replica or not run.engine_s:
        return
    spent = round(run.engine_s * 1e9)
    ended = nanoseconds(run.end)
    began = max(nanoseconds(run.start), ended - spent)
    for hour in range(began // HOUR_NS, (ended - 1) // HOUR_NS + 1):
        inside = min(ended, (hour + 1) * HOUR_NS) - max(began, hour * HOUR_NS)
        if inside > 0:
            yield _Slice(hour, round(spent * (inside / (ended - began))))


def _start(hour: Hour) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=hour)
