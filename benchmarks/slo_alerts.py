"""When alerts fire: false pages of healthy tenants, time to page in an outage, and flapping.

`python benchmarks/slo_alerts.py` prints five tables in a few minutes. Tenants are simulated
minute by minute: Poisson arrivals, independent failures. "Plain" is the same tiers without a
guard, "5 bad" asks in addition for five bad requests in the long window. With weights, requests
have between 100 and 100,000 tokens (`--tail` of a Pareto distribution: the lower, the heavier) and
fail alike, or with a chance that grows as their tokens to the power of `--skew`; "as counts" is a
guard that takes tokens for requests.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from slo.backtest.greatest import Greatest
from slo.budget import allowance
from slo.burn import judge_many
from slo.guard import Behind, Flags, Floats, Ints, Tally
from slo.tiers import Tier, classic, derive, outage_to_fire

MINUTE, MONTH = timedelta(minutes=1), timedelta(days=30)
MINUTES = MONTH // MINUTE
RATES = (1, 5, 10, 30, 100, 300, 1000)  # requests per hour
OBJECTIVES = (0.9, 0.95, 0.99, 0.999)
WEIGHED_RATES = (5, 30, 100, 300)
MOST_TOKENS = 100_000
AT_ONCE = 20  # tenants with tokens
REACH = timedelta(days=3)  # the longest tier's long window
SLOTH_MIN = {0.999: 1, 0.95: 43, 0.9: 216}
"""Minutes of total outage until Sloth's own rules page, measured with promtool 2.42 on the rules
of slok/sloth v0.16.0 (examples/_gen/getting-started.yml), evaluated each minute."""

Burning = Callable[[Tier, float, "History", Ints], Flags]


class History:
    """Minutes of many tenants, laid end to end, with running sums."""

    def __init__(self, good: Ints, bad: Ints, rng: np.random.Generator) -> None:
        self.minutes = good.shape[1]
        self.bad, self.total = bad.ravel(), (good + bad).ravel()
        self._start = np.repeat(np.arange(good.shape[0]) * self.minutes, self.minutes)
        self._sums = [_running(each, np.int32) for each in (self.bad, self.total)]
        self._every: dict[timedelta, Tally] = {}
        self.run = self._runs(good.ravel(), rng)

    def window(self, length: timedelta, at: Ints) -> Tally:
        first = self._first(length, at)
        bad, total = (sums[at + 1] - sums[first] for sums in self._sums)
        return Tally(bad, total)

    def _first(self, length: timedelta, at: Ints) -> Ints:
        return np.maximum(at + 1 - length // MINUTE, self._start[at])

    def every(self, length: timedelta) -> Tally:
        """Count the window that ends with each minute; kept, three of them are asked for often."""
        if length not in self._every:
            self._every[length] = self.window(length, np.arange(self.bad.size))
        return self._every[length]

    def _runs(self, good: Ints, rng: np.random.Generator) -> Ints:
        """Count the bad requests since the last good one, at the end of each minute."""
        ahead = _after_the_last_good(good, self.bad, rng)
        at = np.arange(good.size)
        last = np.maximum.accumulate(np.where(good > 0, at, -1))
        since = np.maximum(last, np.maximum(self._start, at - REACH // MINUTE) - 1)
        run = self._sums[0][1:] - self._sums[0][since + 1]
        return run + np.where((last >= self._start) & (last == since), ahead[last], 0)


def _running(each: Ints, kind: type[np.integer[Any]] = np.int64) -> Ints:
    return np.concatenate((np.zeros(1, kind), np.cumsum(each, dtype=kind)))


def _after_the_last_good(good: Ints, bad: Ints, rng: np.random.Generator) -> Ints:
    """Draw how many of a minute's bad requests came after its last good one, in random order."""
    out = np.zeros(good.size, np.int64)
    mixed = np.flatnonzero((good > 0) & (bad > 0))
    left, all_left = bad[mixed].copy(), (good + bad)[mixed]
    going = np.ones(mixed.size, bool)
    while going.any():
        going &= rng.random(mixed.size) * all_left < left
        out[mixed] += going
        left, all_left = left - going, all_left - going
    return out


def ours(tier: Tier, objective: float, history: History, at: Ints) -> Flags:
    lengths = {length for each in derive(objective, MONTH) for length in (each.long, each.short)}
    lengths |= {tier.long, tier.short, MONTH}
    windows = {length: history.window(length, at) for length in lengths}
    return judge_many(tier, objective, windows, history.run[at]).burning


def plain(tier: Tier, objective: float, history: History, at: Ints) -> Flags:
    threshold = tier.factor * allowance(objective)
    long, short = history.window(tier.long, at), history.window(tier.short, at)
    return np.asarray(
        (long.bad >= tier.min_bad)
        & (long.bad >= threshold * np.maximum(long.total, 1))
        & (short.bad >= threshold * short.total)
        & (short.total > 0)
    )


def pages(rule: Burning, tiers: Sequence[Tier], objective: float, history: History) -> Flags:
    """Say in which minutes a page tier burns; looked at only where one could."""
    flags = np.zeros(history.bad.size, bool)
    for tier in tiers:
        if tier.severity != "page":
            continue
        long = history.every(tier.long)
        could = long.bad >= np.maximum(tier.factor * allowance(objective) * long.total, 1)
        if rule is not plain:
            could |= history.run >= tier.min_bad
        at = np.flatnonzero(could)
        flags[at] |= rule(tier, objective, history, at)
    return flags.reshape(-1, history.minutes)


def onsets(flags: Flags) -> int:
    return int(np.count_nonzero(flags[:, 1:] & ~flags[:, :-1]) + np.count_nonzero(flags[:, 0]))


def simulated(
    per_hour: float, bad_share: float, tenants: int, minutes: int, rng: np.random.Generator
) -> History:
    shape, per_minute = (tenants, minutes), per_hour / 60
    good = rng.poisson(per_minute * (1 - bad_share), shape)
    return History(good, rng.poisson(per_minute * bad_share, shape), rng)


def false_pages(tenants: int, rng: np.random.Generator) -> Table:
    table = Table(
        "objective", "rule", *(f"{rate}/h" for rate in RATES),
        title=f"False pages per tenant and 30 days, at half budget, {tenants} tenants a cell",
    )  # fmt: skip
    worst = 0.0
    for objective in OBJECTIVES:
        rows: dict[str, list[str]] = {"plain": [], "5 bad": [], "ours": []}
        derived = derive(objective, MONTH)
        eager = tuple(replace(tier, min_bad=1) for tier in derived)
        for rate in RATES:
            history = simulated(rate, allowance(objective) / 2, tenants, MINUTES, rng)
            for name, rule, tiers in (
                ("plain", plain, eager), ("5 bad", plain, derived), ("ours", ours, derived),
            ):  # fmt: skip
                each = onsets(pages(rule, tiers, objective, history)) / tenants
                worst = max(worst, each) if name == "ours" else worst
                rows[name].append(f"{each:.2f}")
        for name, cells in rows.items():
            table.add_row(f"{objective:.1%}" if name == "plain" else "", name, *cells)
    table.caption = f"worst of ours: {worst:.3f}"
    return table


class Weighed(History):
    """Minutes in which each request has tokens of its own.

    A request fails with a chance that grows as its tokens to the power of `skew`; `bad_share` is of
    the tokens.
    """

    def __init__(
        self, total: Ints, bad_share: Floats, tail: float, skew: float, rng: np.random.Generator
    ) -> None:
        counts = total.ravel()
        each = 100 * (1 + rng.pareto(tail, int(counts.sum())))
        each = np.minimum(each, MOST_TOKENS).astype(np.int64)
        chance = each.astype(np.float64) ** skew
        chance *= each.sum() / (each * chance).sum()
        share = np.repeat(np.broadcast_to(bad_share, total.shape).ravel(), counts)
        is_bad = rng.random(each.size) < np.where(share < 1, share * chance, 1)
        some = np.flatnonzero(counts)
        first = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts[some])[:-1]))

        def by_minute(values: Ints, of: np.ufunc = np.add) -> Ints:
            out = np.zeros(counts.size, np.int64)
            out[some] = of.reduceat(values, first)
            return out

        bad = by_minute(is_bad.astype(np.int64)).reshape(total.shape)
        super().__init__(total - bad, bad, rng)
        self._weights = [_running(by_minute(values)) for values in (each * is_bad, each)]
        self._heaviest = Greatest(by_minute(each, np.maximum))
        self._squares = _running(by_minute(each**2), np.float64)

    def window(self, length: timedelta, at: Ints) -> Tally:
        first, requests = self._first(length, at), super().window(length, at)
        bad, total = (sums[at + 1] - sums[first] for sums in self._weights)
        heaviest = self._heaviest.between(first, at + 1)
        squares = self._squares[at + 1] - self._squares[first]
        return Tally(bad, total, Behind(requests.total, requests.bad, heaviest, squares))


def as_counts(tier: Tier, objective: float, history: History, at: Ints) -> Flags:
    """Judge by a guard that takes tokens for requests; `min_bad` still counts requests."""
    lengths = {length for each in derive(objective, MONTH) for length in (each.long, each.short)}
    windows = {length: _alike(history.window(length, at)) for length in {*lengths, MONTH}}
    return judge_many(tier, objective, windows, history.run[at]).burning


def _alike(tally: Tally) -> Tally:
    assert tally.behind is not None
    one = np.ones_like(tally.total)
    return replace(tally, behind=replace(tally.behind, heaviest=one, squares=one * 0.0))


def false_pages_by_tokens(
    tenants: int, tail: float, skew: float, rng: np.random.Generator
) -> Table:
    table = Table(
        "objective", "guard", *(f"{rate}/h" for rate in WEIGHED_RATES),
        title=f"False pages per tenant and 30 days, by tokens, at half budget, {tenants} tenants",
    )  # fmt: skip
    worst = 0.0
    for objective in OBJECTIVES:
        found: dict[str, list[float]] = {"as counts": [], "ours": []}
        tiers = derive(objective, MONTH)
        for rate in WEIGHED_RATES:
            sums = dict.fromkeys(found, 0)
            for some in range(0, tenants, AT_ONCE):
                shape = (min(AT_ONCE, tenants - some), MINUTES)
                share = np.array(allowance(objective) / 2)
                history = Weighed(rng.poisson(rate / 60, shape), share, tail, skew, rng)
                sums["as counts"] += onsets(pages(as_counts, tiers, objective, history))
                sums["ours"] += onsets(pages(ours, tiers, objective, history))
            for name, count in sums.items():
                found[name].append(count / tenants)
        worst = max(worst, *found["ours"])
        for name, cells in found.items():
            title = f"{objective:.1%}" if name == "as counts" else ""
            table.add_row(title, name, *(f"{each:.2f}" for each in cells))
    table.caption = f"worst of ours: {worst:.3f}"
    return table


def time_to_page_by_tokens(tail: float, rng: np.random.Generator) -> Table:
    """Fail everything after two days: how long until the page, by tokens and by requests."""
    table = Table(
        "objective", "requests/h", "by tokens, median", "worst", "by requests, median", "worst",
        title="Minutes of total outage until the page (20 outages a row)",
    )  # fmt: skip
    before, after = 2 * 1440, 1440
    for objective in (0.9, 0.95, 0.99, 0.999):
        for rate in (30, 100, 1000, 3600):
            total = rng.poisson(rate / 60, (AT_ONCE, before + after))
            share = np.where(np.arange(before + after) >= before, 1, allowance(objective) / 2)
            bad = rng.binomial(total, share)
            tiers = derive(objective, MONTH)
            cells: list[str] = []
            for history in (
                Weighed(total, share, tail, 0, rng),
                History(total - bad, bad, rng),
            ):
                minutes, _ = until_page(ours, tiers, objective, history, before)
                cells += [f"{np.median(minutes):.0f}", f"{minutes.max()}"]
            table.add_row(f"{objective:.1%}", f"{rate:,}", *cells)
    return table


def until_page(
    rule: Burning, tiers: Sequence[Tier], objective: float, history: History, since: int
) -> tuple[Ints, Ints]:
    """Minutes from the start of an outage to the page, and how many after its fifth failure."""
    flags = pages(rule, tiers, objective, history)[:, since:]
    first = np.where(flags.any(axis=1), flags.argmax(axis=1), flags.shape[1])
    failed = np.cumsum(history.bad.reshape(-1, history.minutes)[:, since:], axis=1)
    return first + 1, np.maximum(first - (failed >= 5).argmax(axis=1), 0)


def time_to_page(rng: np.random.Generator) -> Table:
    table = Table(
        "objective", "requests/h", "ours, median", "ours, worst", "later than the 5th failure",
        "classic, median", "Sloth",
        title="Minutes of total outage until the page (64 outages a row, each minute judged)",
    )  # fmt: skip
    tenants, before, after = 64, 2 * 1440, 4 * 1440
    for objective in (0.9, 0.95, 0.99, 0.999, 0.9999):
        for rate in (1, 10, 100, 3600):
            shape = (tenants, before + after if rate < 100 else before + 1440)
            total = rng.poisson(rate / 60, shape)
            bad = np.where(np.arange(shape[1]) >= before, total, 0)
            failing = rng.binomial(total, allowance(objective) / 2)
            bad = np.where(np.arange(shape[1]) >= before, bad, failing)
            history = History(total - bad, bad, rng)
            derived, old = derive(objective, MONTH), classic(MONTH, min_bad=1)
            minutes, late = until_page(ours, derived, objective, history, before)
            slow, _ = until_page(plain, old, objective, history, before)
            table.add_row(
                f"{objective:.2%}", f"{rate:,}", f"{np.median(minutes):.0f}", f"{minutes.max()}",
                f"{np.mean(late > 0):.0%}" if rate < 3600 else "", f"{np.median(slow):.0f}",
                f"{SLOTH_MIN[objective]}" if rate == 3600 and objective in SLOTH_MIN else "",
            )  # fmt: skip
    return table


def worst_over_the_grid() -> str:
    """Steady traffic of 1 request/s or more: when the fastest page tier of each SLO fires."""
    worst = timedelta(0)
    for percent in (90, 91, 92.5, 94, 95, 97.5, 98, 99, 99.5, 99.9, 99.95, 99.99):
        for hours in (1, 3, 6, 12, 24, 72, 168, 336, 720, 1440, 2160):
            tiers = derive(percent / 100, timedelta(hours=hours))
            times = [outage_to_fire(t, percent / 100) for t in tiers if t.severity == "page"]
            worst = max(worst, min(each for each in times if each is not None))
    return f"Objectives 90-99.99 %, windows 1 h-90 d: a total outage pages after at most {worst}"


def flapping() -> Table:
    """Two bad minutes in twenty, for six hours, at 99.9 % and 60 requests a minute."""
    table = Table("rule", "changes in 6 h", "notifications", title="2 bad minutes in 20, 99.9 %")
    objective, minutes = 0.999, 1440 + 360
    at = np.arange(minutes)
    bad = np.where((at >= 1440) & ((at - 1440) % 20 < 2), 60, 0)[None, :]
    history = History(60 - bad, bad, np.random.default_rng(0))
    tiers = derive(objective, MONTH)
    for name, rule, used in (
        ("plain, 14.4 at 1h/5m alone", plain, [t for t in classic(MONTH, 1) if t.name == "fast"]),
        ("plain, classic pages", plain, classic(MONTH, 1)),
        ("ours", ours, tiers),
    ):
        flags = pages(rule, used, objective, history)[0]
        hold = used[0].hold // MINUTE if rule is ours else 0
        told = held(flags, hold)
        table.add_row(name, *(str(int(np.count_nonzero(np.diff(f)))) for f in (flags, told)))
    return table


def held(flags: Flags, hold: int) -> Flags:
    """Keep an incident open until nothing burned for `hold` minutes, as alerts do."""
    at = np.arange(flags.size)
    last = np.maximum.accumulate(np.where(flags, at, -hold - 1))
    return np.asarray(at - last <= hold)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenants", type=int, default=120)
    parser.add_argument("--tail", type=float, default=1.1)
    parser.add_argument("--skew", type=float, default=0.0)
    parser.add_argument("--only-weights", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng, console = np.random.default_rng(args.seed), Console(width=120)
    started = time.perf_counter()
    console.print(false_pages_by_tokens(args.tenants, args.tail, args.skew, rng))
    console.print(time_to_page_by_tokens(args.tail, rng))
    if args.only_weights:
        return
    console.print(false_pages(args.tenants, rng))
    console.print(time_to_page(rng))
    console.print(worst_over_the_grid())
    console.print(flapping())
    console.print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
