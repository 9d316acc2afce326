"""The bill adds up, whatever ran where, in any order."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from base.shares import split
from cost.ledger import Existence, Hour, Occupancy, Traffic, Use, bill_hours, charge, ledger_of
from cost.money import NS_PER_HOUR, PICO
from cost.prices import GpuPrice, PriceBook, TokenPrice
from cost.report import report

LONG_AGO = date(2000, 1, 1)
BOOK = PriceBook(
    gpus=(
        GpuPrice("h100", LONG_AGO, Decimal("2.49"), Decimal("0.30")),
        GpuPrice("l40s", LONG_AGO, Decimal("0.987654")),
    ),
    tokens=(TokenPrice("m", LONG_AGO, Decimal("0.6"), Decimal("2.4"), Decimal("0.1")),),
)
HOUR: Hour = 490_000
ACME, GLOBEX = ("acme",), ("globex",)


def a_traffic(key: tuple[str, ...] = ACME, **changes: object) -> Traffic:
    fields: dict[str, object] = {
        "key": key,
        "model": "m",
        "replica": "r0",
        "hour": HOUR,
        "first_hour": HOUR,
        "last_hour": HOUR,
        "requests": 1,
        "good": 1,
        "bad": 0,
        "excluded": 0,
        "metered": 1,
        "prompt_tokens": 1000,
        "cached_tokens": 0,
        "completion_tokens": 100,
    }
    return Traffic(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_half_busy_hour_is_half_idle() -> None:
    exists = Existence("r0", HOUR, "m", "h100", 4, NS_PER_HOUR)
    half = Occupancy("r0", HOUR, NS_PER_HOUR // 2, NS_PER_HOUR)

    bill = bill_hours([exists], [half], BOOK)["r0", HOUR]

    assert bill.busy == bill.idle == 4 * 2.49 / 2 * PICO
    assert bill.overhead == 4 * 0.30 * PICO


def test_the_busy_half_is_split_by_engine_time() -> None:
    exists = Existence("r0", HOUR, "m", "h100", 4, NS_PER_HOUR)
    bills = bill_hours([exists], [Occupancy("r0", HOUR, NS_PER_HOUR, 4)], BOOK)

    ledger = charge(bills, [Use("r0", HOUR, ACME, 3), Use("r0", HOUR, GLOBEX, 1)], [], BOOK)

    assert ledger.accounts[ACME].gpu == 3 * ledger.accounts[GLOBEX].gpu


def test_a_replica_nobody_used_is_all_idle() -> None:
    exists = Existence("r0", HOUR, "m", "h100", 1, NS_PER_HOUR)

    bill = bill_hours([exists], [], BOOK)["r0", HOUR]

    assert (bill.busy, bill.idle) == (0, int(2.49 * PICO))


def test_requests_on_someone_elses_gpus_are_priced_by_tokens() -> None:
    ledger = charge({}, [], [a_traffic(first_hour=None, last_hour=None)], BOOK)

    assert ledger.accounts[ACME].tokens == 1000 * 600_000 + 100 * 2_400_000
    assert ledger.accounts[ACME].gpu == 0


def test_requests_on_priced_gpus_are_not_billed_for_tokens_as_well() -> None:
    exists = Existence("r0", HOUR, "m", "h100", 1, NS_PER_HOUR)
    bills = bill_hours([exists], [Occupancy("r0", HOUR, 5, 5)], BOOK)

    ledger = charge(bills, [Use("r0", HOUR, ACME, 5)], [a_traffic()], BOOK)

    assert ledger.accounts[ACME].tokens == 0
    assert ledger.accounts[ACME].gpu > 0


def test_an_unknown_model_is_unpriced_and_not_free() -> None:
    ledger = charge({}, [], [a_traffic(model="mystery", first_hour=None, last_hour=None)], BOOK)

    account = ledger.accounts[ACME]
    assert account.total == 0
    assert (account.unpriced_requests, account.unpriced_tokens) == (1, 1100)


def test_a_refused_request_is_unmeasured_and_not_unpriced() -> None:
    refused = a_traffic(first_hour=None, last_hour=None, metered=0, prompt_tokens=0)

    account = charge({}, [], [refused], BOOK).accounts[ACME]

    assert (account.unmeasured_requests, account.unpriced_requests) == (1, 0)


def test_gpus_without_a_price_are_counted_and_left_off_the_bill() -> None:
    exists = Existence("r0", HOUR, "m", "tpu", 8, NS_PER_HOUR)

    bill = bill_hours([exists], [], BOOK)["r0", HOUR]

    assert bill.unpriced_gpu_ns == bill.gpu_ns == 8 * NS_PER_HOUR
    assert not bill.is_priced


@given(st.integers(0, 10**18), st.lists(st.integers(0, 10**13), max_size=30))
def test_a_split_adds_up_and_is_fair_to_the_last_pico_dollar(
    amount: int, weights: list[int]
) -> None:
    shares = split(amount, weights)

    total = sum(weights)
    assert sum(shares) == (amount if total else 0)
    for share, weight in zip(shares, weights, strict=True):
        assert total == 0 or abs(share - Fraction(amount * weight, total)) < 1


replicas = st.sampled_from(["r0", "r1", "r2"])
hours = st.integers(HOUR, HOUR + 2)
nanos = st.integers(0, NS_PER_HOUR)
existences = st.lists(
    st.builds(
        Existence,
        replica=replicas,
        hour=hours,
        model=st.just("m"),
        gpu_type=st.sampled_from(["h100", "l40s", "tpu"]),
        gpu_count=st.integers(1, 8),
        ns=nanos,
    ),
    max_size=12,
)
uses = st.lists(
    st.builds(
        Use,
        replica=replicas,
        hour=hours,
        key=st.sampled_from([ACME, GLOBEX, ("",)]),
        engine_ns=nanos,
    ),
    max_size=20,
)


@given(existences, uses, st.randoms(use_true_random=False))
def test_every_hour_is_conserved_in_any_order(
    exist: list[Existence], used: list[Use], order: object
) -> None:
    spent: dict[tuple[str, Hour], int] = {}
    for use in used:
        place = (use.replica, use.hour)
        spent[place] = spent.get(place, 0) + use.engine_ns
    occupied = [Occupancy(r, h, ns // 2, ns) for (r, h), ns in spent.items()]

    bills = bill_hours(exist, occupied, BOOK)
    ledger = charge(bills, used, [], BOOK)

    for hour in range(HOUR, HOUR + 3):
        exact = sum(
            Fraction(e.ns * e.gpu_count, NS_PER_HOUR) * Fraction(price.per_hour)
            for e in exist
            if e.hour == hour and (price := BOOK.gpu_price(e.gpu_type, date(2026, 1, 1)))
        )
        charged = sum(amount for (h, _), amount in ledger.charges.items() if h == hour)
        idle = sum(b.idle for b in bills.values() if b.hour == hour)
        assert abs(Fraction(charged + idle, PICO) - exact) < Fraction(1, 10**9)
    order.shuffle(exist)  # type: ignore[attr-defined]
    order.shuffle(used)  # type: ignore[attr-defined]
    assert charge(bill_hours(exist, occupied, BOOK), used, [], BOOK) == ledger


def test_the_ledger_of_one_tenant_holds_its_charges_and_no_hardware() -> None:
    exists = Existence("r0", HOUR, "m", "h100", 4, NS_PER_HOUR)
    bills = bill_hours([exists], [Occupancy("r0", HOUR, NS_PER_HOUR // 2, 4)], BOOK)
    uses = [Use("r0", HOUR, ACME, 3), Use("r0", HOUR, GLOBEX, 1)]
    whole = charge(bills, uses, [a_traffic(), a_traffic(GLOBEX)], BOOK)

    answer = report(ledger_of(whole, 0, "acme"), ("tenant",))

    assert [row.group for row in answer.rows] == [{"tenant": "acme"}]
    assert answer.totals.cost_usd == answer.rows[0].cost_usd == 3.735
    assert answer.totals.difference_usd == answer.totals.idle_usd == answer.totals.gpu_hours == 0
