"""A ledger as rows and totals that reconcile."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from cost.ledger import Account, HourBill, Ledger
from cost.money import NS_PER_HOUR, Pico, usd

Kind = Literal["used", "idle", "overhead", "unpriced"]


@dataclass(frozen=True, slots=True)
class CostRow:
    """One line of the bill.

    `group` has a value for each dimension asked for; None is unknown, or, on idle and overhead
    rows, not a thing an idle GPU has. `cost_usd` None means nothing in the row has a price.
    """

    kind: Kind
    group: dict[str, str | None]
    cost_usd: float | None
    gpu_usd: float = 0.0
    token_usd: float = 0.0
    gpu_hours: float | None = None
    engine_hours: float | None = None
    requests: int = 0
    good: int = 0
    bad: int = 0
    excluded: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost_per_good_usd: float | None = None
    unpriced_requests: int = 0
    unmeasured_requests: int = 0


@dataclass(frozen=True, slots=True)
class CostTotals:
    """The sums, and how far the rows are from the GPU bill (0 unless there is a bug).

    `cost_usd` = `used_usd` + `idle_usd` + `overhead_usd` + `token_usd`.
    """

    cost_usd: float
    used_usd: float
    idle_usd: float
    overhead_usd: float
    token_usd: float
    gpu_bill_usd: float
    gpu_hours: float
    busy_gpu_hours: float
    inferred_gpu_hours: float
    unpriced_gpu_hours: float
    requests: int
    good: int
    cost_per_good_usd: float | None
    unpriced_requests: int
    unmeasured_requests: int
    difference_usd: float


@dataclass(frozen=True, slots=True)
class CostReport:
    by: tuple[str, ...]
    rows: tuple[CostRow, ...]
    totals: CostTotals


def report(ledger: Ledger, by: Sequence[str]) -> CostReport:
    """Lay a ledger out: used rows by cost, then idle, overhead and unpriced rows."""
    used = [_used(dict(zip(by, key, strict=True)), a) for key, a in ledger.accounts.items()]
    used.sort(key=lambda row: (-(row.cost_usd or 0.0), [v or "" for v in row.group.values()]))
    places = _by_place(ledger, by)
    idle = [_hardware("idle", by, key, sum(b.idle for b in bills), bills) for key, bills in places]
    overhead = [
        _hardware("overhead", by, key, amount, bills)
        for key, bills in places
        if (amount := sum(b.overhead for b in bills))
    ]
    rows = (*used, *idle, *overhead, *_unpriced(ledger, by))
    return CostReport(tuple(by), rows, _totals(ledger))


def _used(group: dict[str, str], account: Account) -> CostRow:
    is_unpriced = account.total == 0 and account.unpriced_requests > 0
    cost = None if is_unpriced else usd(account.total)
    return CostRow(
        kind="used",
        group={name: value or None for name, value in group.items()},
        cost_usd=cost,
        gpu_usd=usd(account.gpu),
        token_usd=usd(account.tokens),
        engine_hours=account.engine_ns / NS_PER_HOUR,
        requests=account.requests,
        good=account.good,
        bad=account.bad,
        excluded=account.excluded,
        prompt_tokens=account.prompt_tokens,
        cached_tokens=account.cached_tokens,
        completion_tokens=account.completion_tokens,
        cost_per_good_usd=_ratio(cost, account.good),
        unpriced_requests=account.unpriced_requests,
        unmeasured_requests=account.unmeasured_requests,
    )


def _by_place(ledger: Ledger, by: Sequence[str]) -> list[tuple[tuple[str, str], list[HourBill]]]:
    """Group hour bills by what hardware has of the dimensions: its model and its name."""
    places: dict[tuple[str, str], list[HourBill]] = defaultdict(list)
    for bill in ledger.bills.values():
        model = bill.model if "model" in by else ""
        replica = bill.replica if "replica" in by else ""
        places[model, replica].append(bill)
    return sorted(places.items())


def _hardware(
    kind: Kind,
    by: Sequence[str],
    place: tuple[str, str],
    amount: Pico,
    bills: Sequence[HourBill],
) -> CostRow:
    values = {"model": place[0] or None, "replica": place[1] or None}
    gpu_ns = sum(b.gpu_ns - b.unpriced_gpu_ns for b in bills)
    idle_ns = sum((b.gpu_ns - b.unpriced_gpu_ns) * (1 - b.busy_share) for b in bills)
    return CostRow(
        kind=kind,
        group={name: values.get(name) for name in by},
        cost_usd=usd(amount),
        gpu_usd=usd(amount),
        gpu_hours=(idle_ns if kind == "idle" else gpu_ns) / NS_PER_HOUR,
    )


def _unpriced(ledger: Ledger, by: Sequence[str]) -> list[CostRow]:
    """One row for everything without a price: it is somewhere, and it is not zero."""
    requests = sum(a.unpriced_requests for a in ledger.accounts.values())
    gpu_ns = sum(b.unpriced_gpu_ns for b in ledger.bills.values())
    if not requests and not gpu_ns:
        return []
    return [
        CostRow(
            kind="unpriced",
            group=dict.fromkeys(by),
            cost_usd=None,
            gpu_hours=gpu_ns / NS_PER_HOUR,
            unpriced_requests=requests,
        )
    ]


def _totals(ledger: Ledger) -> CostTotals:
    bills, accounts = ledger.bills.values(), ledger.accounts.values()
    idle = sum(b.idle for b in bills)
    overhead = sum(b.overhead for b in bills)
    used, tokens = sum(a.gpu for a in accounts), sum(a.tokens for a in accounts)
    gpu_bill = sum(b.busy for b in bills) + idle if bills else used  # one tenant's has no hardware
    total, good = used + idle + overhead + tokens, sum(a.good for a in accounts)
    priced = bool(tokens or used) or any(b.gpu_ns > b.unpriced_gpu_ns for b in bills)
    priced_ns = [(b, b.gpu_ns - b.unpriced_gpu_ns) for b in bills]
    return CostTotals(
        cost_usd=usd(total),
        used_usd=usd(used),
        idle_usd=usd(idle),
        overhead_usd=usd(overhead),
        token_usd=usd(tokens),
        gpu_bill_usd=usd(gpu_bill),
        gpu_hours=sum(b.gpu_ns for b in bills) / NS_PER_HOUR,
        busy_gpu_hours=sum(ns * b.busy_share for b, ns in priced_ns) / NS_PER_HOUR,
        inferred_gpu_hours=sum(b.gpu_ns for b in bills if b.inferred) / NS_PER_HOUR,
        unpriced_gpu_hours=sum(b.unpriced_gpu_ns for b in bills) / NS_PER_HOUR,
        requests=sum(a.requests for a in accounts),
        good=good,
        cost_per_good_usd=_ratio(usd(total), good) if priced else None,
        unpriced_requests=sum(a.unpriced_requests for a in accounts),
        unmeasured_requests=sum(a.unmeasured_requests for a in accounts),
        difference_usd=usd(used + idle - gpu_bill),
    )


def _ratio(cost: float | None, good: int) -> float | None:
    return None if cost is None or good == 0 else cost / good
