"""What the SLOs about cost ask of the ledger."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from cost.ledger import HourBill, Traffic, Use, charge
from cost.prices import PriceBook
from cost.read import (
    HOUR_NS,
    LONGEST_REQUEST,
    Window,
    read_bills,
    read_later,
    read_traffic,
    read_uses,
)
from slo.evaluator import Evaluator
from slo.spending.cell import Bearer, Group, Pool
from slo.spending.model import Ask
from slo.spending.source import Hour, Hours, HourSpending
from slo.verdict import Verdict
from store.engine import Engine

_Row = TypeVar("_Row", Use, Traffic)

_REACH = LONGEST_REQUEST.seconds // 3600 + 1  # hours
_ASKED, _OTHERS = "asked", "others"

# Alive records are only ever added, or dropped by age: an hour in which the number of different
# ones changed has others. A record speaks for every hour up to its end.
_ALIVE = """
SELECT toInt64(intDiv(toUnixTimestamp64Nano(start), {hour:Int64})) AS hour,
  uniqExact(cityHash64(instance, model, gpu_type, gpu_count, start, end)) AS records,
  toInt64(intDiv(max(toUnixTimestamp64Nano(end)), {hour:Int64})) AS last
FROM alive WHERE role = 'engine' GROUP BY hour"""
# What a replica said of itself counts for its hours without alive records, whenever they were.
_SAID = """
SELECT instance, gpu_type, toInt64(greatest(ifNull(gpu_count, 1), 1)) AS gpus,
  toUnixTimestamp64Nano(min(start)) AS since
FROM alive WHERE role = 'engine' GROUP BY instance, gpu_type, gpus"""
_RAN = """
SELECT DISTINCT toInt64(intDiv(toUnixTimestamp64Nano(start), {hour:Int64})) AS hour
FROM facts WHERE replica IN {replicas:Array(String)}"""


class LedgerSpending:
    """`slo.spending.source.Spending` over the GPU-hour ledger."""

    def __init__(self, engine: Engine, book: PriceBook) -> None:
        self._engine = engine
        self._book = book
        self._lock = threading.Lock()
        self._alive: dict[Hour, tuple[int, Hour]] | None = None
        self._said: set[tuple[str, str, int, int]] = set()

    def read(self, ask: Ask, start: datetime, end: datetime) -> Mapping[Hour, HourSpending]:
        """Read [start, end) by hour; a pool is the GPUs of a model, or one replica of groups by it.

        An hour's charges are those that the whole ledger has in it: charging hour by hour changes
        nothing, because a use belongs to its hour and a request's tokens to the hour of its start.
        """
        window = Window(start, end)
        marks = () if ask.condition is None else (f"if({ask.condition}, '{_ASKED}', '{_OTHERS}')",)
        bills, _ = read_bills(self._engine, window, self._book)
        uses = _by_hour(read_uses(self._engine, window, ask.group_by, marks))
        rows = list(read_traffic(self._engine, window, ask.group_by, marks))
        later = read_later(self._engine, window, self._book, bills, rows)
        traffic = _by_hour(rows)
        by_replica = "replica" in ask.group_by
        unused: dict[Hour, dict[Pool, int]] = defaultdict(lambda: defaultdict(int))
        for bill in bills.values():
            unused[bill.hour][_pool(bill, by_replica=by_replica)] += bill.idle + bill.overhead
        return {
            hour: self._charge(
                uses.get(hour, ()), traffic.get(hour, ()), unused.get(hour, {}),
                bills, later, len(ask.group_by), by_replica=by_replica,
            )
            for hour in {*uses, *traffic, *unused}
        }  # fmt: skip

    def changed(self) -> Sequence[Hours]:
        """Name the hours that newly arrived alive records, or new replicas, may have changed.

        Late ones reach back to requests that ran on their replica hours after they began: whether
        those are charged for their tokens depends on whether it has a price.
        """
        with self._lock:
            rows = self._engine.rows(_ALIVE, {"hour": HOUR_NS})
            alive = {row["hour"]: (row["records"], row["last"]) for row in rows}
            said = {tuple(row.values()) for row in self._engine.rows(_SAID)}
            before, self._alive = self._alive, alive
            new, self._said = said ^ self._said, said
        if before is None:  # nothing was read before this
            return ()
        found = [
            (
                hour - (0 if hour >= max(alive, default=hour) - 1 else _REACH),
                max(each[hour][1] for each in (before, alive) if hour in each) + 2,
            )
            for hour in {*before, *alive}
            if before.get(hour) != alive.get(hour)
        ]
        if new:
            replicas = sorted({each[0] for each in new})
            rows = self._engine.rows(_RAN, {"hour": HOUR_NS, "replicas": replicas})
            found += [(row["hour"] - _REACH, row["hour"] + _REACH + 1) for row in rows]
        return found

    def _charge(
        self,
        uses: Sequence[Use],
        traffic: Sequence[Traffic],
        unused: Mapping[Pool, int],
        bills: Mapping[tuple[str, Hour], HourBill],
        later: frozenset[tuple[str, Hour]],
        members: int,
        *,
        by_replica: bool,
    ) -> HourSpending:
        charged: dict[tuple[Bearer, Pool], int] = defaultdict(int)
        by_pool: dict[Pool, list[Use]] = defaultdict(list)
        for use in uses:
            bill = bills.get((use.replica, use.hour))
            if bill is not None:
                by_pool[_pool(bill, by_replica=by_replica)].append(use)
        for pool, shared in by_pool.items():
            for key, account in charge(bills, shared, (), self._book).accounts.items():
                charged[_bearer(key, members), pool] += account.gpu
        unpriced: dict[Group, int] = {}
        unmeasured: dict[Group, int] = {}
        for key, account in charge(bills, (), traffic, self._book, later).accounts.items():
            bearer = _bearer(key, members)
            charged[bearer, ""] += account.tokens
            if bearer is not None:
                unpriced[bearer] = account.unpriced_requests
                unmeasured[bearer] = account.unmeasured_requests
        kept = {key: amount for key, amount in charged.items() if amount}
        return HourSpending(kept, dict(unused), unpriced, unmeasured)


def _pool(bill: HourBill, *, by_replica: bool) -> Pool:
    return f"replica {bill.replica}" if by_replica else f"model {bill.model}"


def _bearer(key: tuple[str, ...], members: int) -> Bearer:
    """Cut the mark off a key; who is not asked about is everybody else."""
    return None if key[members:] == (_OTHERS,) else key[:members]


def _by_hour(rows: Iterable[_Row]) -> dict[Hour, list[_Row]]:
    found: dict[Hour, list[_Row]] = defaultdict(list)
    for row in rows:
        found[row.hour].append(row)
    return found


class Ticks:
    """The evaluator as the judge asks it: often, and without waiting for a month of spending."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator

    def evaluate(self, now: datetime) -> list[Verdict]:
        return self._evaluator.evaluate(now, is_tick=True)
