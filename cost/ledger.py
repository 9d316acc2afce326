"""The GPU-hour ledger: every hour of every replica, split over the requests that ran in it.

For each replica and hour: the GPU-hours it existed, times the price, is the bill. The part of the
hour in which at least one request ran is busy, and its share of the bill is split over those
requests by their engine seconds in that hour; the rest is idle. So for every hour and filter

    charged + idle + overhead = GPU-hours x (price + overhead per hour)

to the pico-dollar. Requests on replicas without a GPU price are priced by their tokens. The
ledger is a pure function of what it is given, in any order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime

from base.shares import split
from cost.money import Pico, per_hour
from cost.prices import PriceBook

Hour = int  # whole hours since the epoch
Key = tuple[str, ...]  # the values of the dimensions a ledger is grouped by; '' is unknown


@dataclass(frozen=True, slots=True)
class Existence:
    """How long a replica existed within one hour, on which GPUs.

    `inferred` marks replicas that send no alive records: their existence is read off the
    requests they served.
    """

    replica: str
    hour: Hour
    model: str
    gpu_type: str
    gpu_count: int
    ns: int
    inferred: bool = False


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How much of one hour at least one request ran on the replica, and all their engine time.

    `engine_ns` exceeds `busy_ns` as far as requests ran side by side.
    """

    replica: str
    hour: Hour
    busy_ns: int
    engine_ns: int


@dataclass(frozen=True, slots=True)
class Use:
    """Engine nanoseconds that one group's requests spent on a replica in one hour."""

    replica: str
    hour: Hour
    key: Key
    engine_ns: int


@dataclass(frozen=True, slots=True)
class Traffic:
    """One group's requests of one model, replica and hour of their start, with their tokens.

    `first_hour` and `last_hour` bound the engine time of the requests (None where none is
    known). `metered` of them have token counts; the counts are sums over those alone.
    """

    key: Key
    model: str
    replica: str
    hour: Hour
    first_hour: Hour | None
    last_hour: Hour | None
    requests: int
    good: int
    bad: int
    excluded: int
    metered: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class HourBill:
    """What one replica cost in one hour. `busy` plus `idle` is the GPU bill."""

    replica: str
    hour: Hour
    model: str
    gpu_ns: int
    unpriced_gpu_ns: int
    inferred: bool
    busy: Pico
    idle: Pico
    overhead: Pico
    busy_share: float

    @property
    def is_priced(self) -> bool:
        return self.gpu_ns > self.unpriced_gpu_ns


@dataclass(slots=True)
class Account:
    """What one group was charged, and for what."""

    requests: int = 0
    good: int = 0
    bad: int = 0
    excluded: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    engine_ns: int = 0
    gpu: Pico = 0
    tokens: Pico = 0
    unpriced_requests: int = 0
    unpriced_tokens: int = 0
    unmeasured_requests: int = 0

    @property
    def total(self) -> Pico:
        return self.gpu + self.tokens


@dataclass(frozen=True, slots=True)
class Ledger:
    """Hour bills and the accounts they were charged to."""

    bills: Mapping[tuple[str, Hour], HourBill]
    accounts: Mapping[Key, Account]
    charges: Mapping[tuple[Hour, Key], Pico]


def hour_start(hour: Hour) -> datetime:
    return datetime.fromtimestamp(hour * 3600, UTC)


def bill_hours(
    existences: Iterable[Existence], occupancies: Iterable[Occupancy], book: PriceBook
) -> dict[tuple[str, Hour], HourBill]:
    """Bill every (replica, hour), split into busy and idle."""
    busy_ns = {(o.replica, o.hour): o.busy_ns for o in occupancies if o.engine_ns > 0}
    rows: dict[tuple[str, Hour], list[Existence]] = defaultdict(list)
    for row in existences:
        rows[row.replica, row.hour].append(row)
    return {place: _bill(place, rows[place], busy_ns.get(place, 0), book) for place in sorted(rows)}


def charge(
    bills: Mapping[tuple[str, Hour], HourBill],
    uses: Iterable[Use],
    traffic: Iterable[Traffic],
    book: PriceBook,
    later: AbstractSet[tuple[str, Hour]] = frozenset(),
) -> Ledger:
    """Charge busy GPU time and tokens to the groups that used them.

    `later` are places with a price beyond the bills, on which requests of `traffic` went on to run.
    """
    accounts: dict[Key, Account] = defaultdict(Account)
    charges: dict[tuple[Hour, Key], Pico] = defaultdict(int)
    by_place: dict[tuple[str, Hour], list[Use]] = defaultdict(list)
    for use in uses:
        by_place[use.replica, use.hour].append(use)
    for place in sorted(by_place):
        sharers = sorted(by_place[place], key=lambda u: u.key)
        bill = bills.get(place)
        shares = split(bill.busy if bill else 0, [u.engine_ns for u in sharers])
        for use, share in zip(sharers, shares, strict=True):
            accounts[use.key].engine_ns += use.engine_ns
            accounts[use.key].gpu += share
            charges[use.hour, use.key] += share
    for row in traffic:
        account = accounts[row.key]
        _count(account, row)
        if not runs_on_priced_gpus(bills, row.replica, row.first_hour, row.last_hour, later):
            charges[row.hour, row.key] += _price_tokens(account, row, book)
    return Ledger(bills, dict(sorted(accounts.items())), dict(sorted(charges.items())))


def ledger_of(ledger: Ledger, place: int, value: str) -> Ledger:
    """Keep the accounts whose key has `value` at `place`; hardware has no owner, so no bill."""
    return Ledger(
        {},
        {key: account for key, account in ledger.accounts.items() if key[place] == value},
        {each: cost for each, cost in ledger.charges.items() if each[1][place] == value},
    )


def runs_on_priced_gpus(
    bills: Mapping[tuple[str, Hour], HourBill],
    replica: str,
    first_hour: Hour | None,
    last_hour: Hour | None,
    later: AbstractSet[tuple[str, Hour]] = frozenset(),
) -> bool:
    """Whether any hour of a request's engine time is on the GPU bill: then tokens are not."""
    if first_hour is None or last_hour is None:
        return False
    places = [(replica, hour) for hour in range(first_hour, last_hour + 1)]
    return any(
        place in later or ((bill := bills.get(place)) is not None and bill.is_priced)
        for place in places
    )


def _bill(
    place: tuple[str, Hour], rows: Sequence[Existence], busy_ns: int, book: PriceBook
) -> HourBill:
    replica, hour = place
    on = hour_start(hour).date()
    amount = overhead = 0
    gpu_ns = unpriced_ns = existed_ns = 0
    for row in rows:
        ns = row.ns * row.gpu_count
        existed_ns += row.ns
        gpu_ns += ns
        price = book.gpu_price(row.gpu_type, on)
        if price is None:
            unpriced_ns += ns
            continue
        amount += per_hour(price.per_hour, ns)
        overhead += per_hour(price.overhead_per_hour, ns)
    # A newest alive record may trail the newest request by a few seconds.
    busy_ns = min(busy_ns, existed_ns)
    busy = amount * busy_ns // existed_ns if existed_ns else 0
    return HourBill(
        replica=replica,
        hour=hour,
        model=max((r.model for r in rows), default=""),
        gpu_ns=gpu_ns,
        unpriced_gpu_ns=unpriced_ns,
        inferred=any(r.inferred for r in rows),
        busy=busy,
        idle=amount - busy,
        overhead=overhead,
        busy_share=busy_ns / existed_ns if existed_ns else 0.0,
    )


def _count(account: Account, row: Traffic) -> None:
    account.requests += row.requests
    account.good += row.good
    account.bad += row.bad
    account.excluded += row.excluded
    account.prompt_tokens += row.prompt_tokens
    account.cached_tokens += row.cached_tokens
    account.completion_tokens += row.completion_tokens


def _price_tokens(account: Account, row: Traffic, book: PriceBook) -> Pico:
    unmetered = row.requests - row.metered
    if row.first_hour is None:
        account.unmeasured_requests += unmetered  # refused before an engine, or never reported
    else:
        account.unpriced_requests += unmetered
    on = hour_start(row.hour).date()
    price = book.token_price(row.model, on) if row.model else None
    if price is None:
        account.unpriced_requests += row.metered
        account.unpriced_tokens += row.prompt_tokens + row.completion_tokens
        return 0
    amount = price.price(row.prompt_tokens, row.cached_tokens, row.completion_tokens)
    account.tokens += amount
    return amount
