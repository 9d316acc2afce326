"""SLOs about cost at one instant -> verdicts."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from base.durations import floor_to, format_duration
from slo.evaluator import state_of
from slo.liveness import Layer, deciding_layer, read_layers
from slo.settings import SloSettings
from slo.spending.account import Account, accounts, budget_left, doubts, judge_tier, lasts
from slo.spending.cell import NOTHING, Cell, Counted, Group
from slo.spending.hours import HourBook, Sums
from slo.spending.model import CostSlo, usd
from slo.spending.source import Hour, Spending
from slo.spending.units import count_units
from slo.verdict import CostVerdict, PeriodVerdict, State, Verdict
from store.engine import Engine

EVERY = timedelta(minutes=1)
"""Spending is read as of whole minutes."""
SHOWN = (timedelta(hours=1), timedelta(hours=6), timedelta(days=1), timedelta(days=7))
"""Burn windows shown for every SLO whose window holds them, next to those of its tiers."""
ALIGNED = timedelta(days=1)
"""Windows from here on begin at a whole hour, so that their edges need not be read each minute."""
_READS_A_TICK = 1
_OLD = timedelta(minutes=10)
"""So old a spending is shown while hours that changed are being read anew."""
_MOST_POINTS = 400
_RUNS_AT_MOST = 6  # hours, as the ledger has it (`cost.read.LONGEST_REQUEST`)


@dataclass(frozen=True, slots=True)
class Drawn:
    """Accounts of one SLO drawn up as of one minute: of each window, and of each period by start.

    `unread` windows, and periods without accounts, were not read whole; all since `since` was.
    """

    found: Mapping[timedelta, Mapping[Group, Account]]
    by_period: Mapping[datetime, Mapping[Group, Account] | None]
    unread: frozenset[timedelta]
    since: datetime
    groups: Sequence[Group]

    @property
    def is_whole(self) -> bool:
        return not self.unread and None not in self.by_period.values()


class CostJudge:
    """Judges every group of every SLO about cost; spending is remembered by hour, nothing else.

    A listener of the ingest pipeline: it is told which requests changed.
    """

    def __init__(
        self,
        engine: Engine,
        slos: Sequence[CostSlo],
        spending: Spending,
        settings: SloSettings,
        kept: timedelta | None = None,
    ) -> None:
        self._engine = engine
        self._slos = tuple(slos)
        self._spending = spending
        self._settings = settings
        self._kept = kept  # requests older than that are gone
        self._books: dict[str, HourBook] = {}
        self._lock = threading.Lock()
        self._last: tuple[datetime, dict[str, Drawn]] | None = None
        self._is_fresh = False  # no closed hour changed since the last

    @property
    def slos(self) -> tuple[CostSlo, ...]:
        return self._slos

    def replace(self, slos: Sequence[CostSlo]) -> None:
        """Judge other SLOs from the next evaluation on."""
        self._slos = tuple(slos)
        self._last = None

    def refresh(self, buckets: Sequence[datetime], version: int) -> None:  # noqa: ARG002
        """Forget the hours that changed requests may have touched, by the buckets they began in.

        Theirs, those that they ran in, and one to each side: a replica without alive records
        exists from its first request of an hour to its last, or to the edge if it had some beside.
        """
        for hour in {int(bucket.timestamp()) // 3600 for bucket in buckets}:
            self._forget(hour - 1, hour + _RUNS_AT_MOST + 2)

    def evaluate(self, now: datetime, *, is_tick: bool = False) -> list[Verdict]:
        """Judge as of `now`, with spending as of its whole minute.

        A tick is made every few seconds by who must not wait: it takes the spending of the last
        tick of that minute, and of a history that was not read yet a little each time. So does a
        question about that minute, unless a closed hour changed since.
        """
        slos = self._slos
        if not slos:
            return []
        at = floor_to(now, EVERY)
        last = self._last
        if last is not None and last[0] == at and (is_tick or self._is_fresh) and _has(last, slos):
            drawn = last[1]
        elif is_tick:
            at, drawn = self._tick(slos, at)
        else:
            drawn = self._read(slos, at, None)
        lengths = {length for slo in slos for length in windows_of_all(slo)}
        layers = read_layers(self._engine, lengths, now)
        return [
            verdict
            for slo in slos
            for verdict in self._judge(
                slo, drawn[slo.name], deciding_layer(layers, now - slo.window), at, now
            )
        ]

    def history(self, name: str, at: datetime) -> Mapping[Group, Sequence[tuple[datetime, float]]]:
        """Say what each group of an SLO had spent by some instants of its window, in dollars.

        Midnights of UTC, or whole hours of a window of few days: what is remembered anyway. What
        was not read yet is left out.
        """
        slo = next((each for each in self._slos if each.name == name), None)
        if slo is None:
            return {}
        at = floor_to(at, EVERY)
        start, step = start_of(slo.window, at), timedelta(days=1)
        if slo.window <= 3 * step:
            step = timedelta(hours=1)
        points = [floor_to(start, step) + step * number for number in range(1, _MOST_POINTS)]
        points = [point for point in points if start < point < at]
        with self._lock:
            book = self._books.get(slo.counted)
        if book is None:
            return {}
        cells = book.sums([start, *points], at, _READS_A_TICK).cells
        whole = cells[start]
        if whole is None:
            return {}
        all_of_it = accounts(slo, start, whole)
        found: dict[Group, list[tuple[datetime, float]]] = {group: [] for group in all_of_it}
        for point in points:
            since = accounts(slo, point, cells[point] or Cell())
            for group, account in all_of_it.items():
                later = since[group].spent if group in since else 0
                found[group].append((point, usd(account.spent - later)))
        return found

    def _tick(self, slos: Sequence[CostSlo], at: datetime) -> tuple[datetime, dict[str, Drawn]]:
        last = self._last
        self._is_fresh = True
        drawn = self._read(slos, at, _READS_A_TICK)
        if all(each.is_whole for each in drawn.values()):
            self._last = at, drawn
            return at, drawn
        self._is_fresh = False
        if last is not None and _has(last, slos) and timedelta(0) <= at - last[0] <= _OLD:
            return last
        return at, drawn

    def _read(
        self, slos: Sequence[CostSlo], at: datetime, most_reads: int | None
    ) -> dict[str, Drawn]:
        for hours in self._spending.changed():
            self._forget(*hours)
        starts: dict[str, set[datetime]] = {}
        for slo in slos:
            wanted = starts.setdefault(slo.counted, set())
            wanted |= {start_of(length, at) for length in windows_of_all(slo)}
            wanted |= {calendar.bounds(at)[0] for calendar in slo.calendars}
        with self._lock:
            for slo in slos:
                if slo.counted not in self._books:
                    self._books[slo.counted] = HourBook(_Reader(self._engine, slo, self._spending))
            books = {key: self._books[key] for key in starts}
            if slos == self._slos:
                self._books = dict(books)
        found = {key: book.sums(starts[key], at, most_reads) for key, book in books.items()}
        return {slo.name: _drawn(slo, found[slo.counted], at) for slo in slos}

    def _forget(self, first: Hour, end: Hour) -> None:
        last = self._last
        if last is not None and first < int(last[0].timestamp()) // 3600 - 2:
            self._is_fresh = False
        with self._lock:
            books = list(self._books.values())
        for book in books:
            book.forget((first, end))

    def _judge(
        self, slo: CostSlo, drawn: Drawn, layer: Layer | None, at: datetime, now: datetime
    ) -> list[Verdict]:
        heard = {id(own): _heard(own, layer, self._settings) for own in slo.variants}
        return [
            self._verdict(own, group, drawn, heard[id(own)], layer, at, now)
            for group in drawn.groups or [()]
            for own in [slo.for_group(group)]
        ]

    def _verdict(
        self,
        slo: CostSlo,
        group: Group,
        drawn: Drawn,
        heard: Mapping[timedelta, float],
        layer: Layer | None,
        at: datetime,
        now: datetime,
    ) -> Verdict:
        found, lengths = drawn.found, windows_of(slo)
        mine = {length: found[length][group] for length in lengths if group in found[length]}
        unread = drawn.unread & set(lengths)
        whole = mine.get(slo.window) or _nothing(slo, at)
        heard = {**heard, **dict.fromkeys(unread, 0.0)}
        floor = self._settings.coverage_floor
        tiers = tuple(judge_tier(slo, tier, mine, heard, floor) for tier in slo.tiers)
        left = None if slo.window in unread else budget_left(whole)
        quiet_since = now - self._settings.stale_after
        state = state_of(layer, quiet_since, tiers, left)
        if state is State.NO_TRAFFIC and (unread or not whole.is_known):
            # Every tier may be judged before all of the budget window was read.
            judged = any(tier.long_burn is not None for tier in tiers)
            state = State.OK if judged else State.STALE
        said = [doubts(slo, whole), self._missing(slo, at, drawn)]
        return Verdict(
            slo=slo.name,
            group=dict(zip(slo.group_by, group, strict=False)),
            objective=None,
            window=slo.window,
            good=whole.counted.good,
            bad=whole.counted.bad,
            excluded=whole.counted.excluded,
            sli=None,
            budget_remaining=left,
            burn={
                format_duration(length): mine[length].burn
                if length in mine and length not in unread
                else None
                for length in windows_of(slo)
            },
            coverage=layer.coverage.get(slo.window) if layer else None,
            watermark=layer.last if layer else None,
            state=state,
            tiers=tiers,
            bad_reasons={},
            at=now,
            expires_in=lasts(left, _present(slo, mine), slo.window),
            labels=slo.labels,
            annotations=({"description": slo.description} if slo.description else {})
            | dict(slo.annotations),
            periods=tuple(
                _period(
                    slo, calendar.period, calendar.zone, calendar.bounds(at), drawn.by_period, group
                )
                for calendar in slo.calendars
            ),
            problem="; ".join(each for each in said if each) or None,
            cost=CostVerdict(
                at_most_usd=usd(slo.at_most),
                per=slo.per.value,
                idle=slo.idle.value,
                at=at,
                whole=whole.spend(),
                windows={
                    format_duration(length): mine[length].spend()
                    for length in windows_of(slo)
                    if length in mine and length not in unread
                },
                unpriced_requests=whole.counted.unpriced,
                unpriced_share=whole.unpriced_share,
                unmeasured_requests=whole.counted.unmeasured,
            ),
        )

    def _missing(self, slo: CostSlo, at: datetime, drawn: Drawn) -> str | None:
        if drawn.unread:
            return f"spending before {drawn.since:%Y-%m-%d %H:%M} UTC is still being read"
        since = min([start_of(slo.window, at), *(each.bounds(at)[0] for each in slo.calendars)])
        if self._kept is not None and since < at - self._kept - timedelta(days=1):
            return (
                f"requests are kept for {format_duration(self._kept)} (store.keep_facts): what was "
                f"spent before, back to {since:%Y-%m-%d}, is missing"
            )
        return None


class _Reader:
    """Reads cells: dollars from the ledger, units from facts."""

    def __init__(self, engine: Engine, slo: CostSlo, spending: Spending) -> None:
        self._engine = engine
        self._slo = slo
        self._spending = spending

    def __call__(self, start: datetime, end: datetime, at: datetime) -> Mapping[Hour, Cell]:
        spent = self._spending.read(self._slo.ask, start, end)
        units = count_units(self._engine, self._slo, start, end, at)
        found: dict[Hour, Cell] = {}
        for hour in {*spent, *units}:
            counted = dict(units.get(hour, {}))
            known = spent.get(hour)
            for field in ("unpriced", "unmeasured") if known is not None else ():
                for group, number in getattr(known, field).items():
                    before = counted.get(group, Counted())
                    counted[group] = before._replace(**{field: number})
            found[hour] = (
                Cell({}, {}, counted)
                if known is None
                else Cell(dict(known.charged), dict(known.unused), counted)
            )
        return found


def _has(last: tuple[datetime, Mapping[str, Drawn]], slos: Sequence[CostSlo]) -> bool:
    return all(slo.name in last[1] for slo in slos)


def _drawn(slo: CostSlo, sums: Sums, at: datetime) -> Drawn:
    starts = {length: start_of(length, at) for length in windows_of_all(slo)}
    found = {
        length: accounts(slo, start, sums.cells[start] or Cell())
        for length, start in starts.items()
    }
    by_period: dict[datetime, Mapping[Group, Account] | None] = {}
    for calendar in slo.calendars:
        start = calendar.bounds(at)[0]
        cell = sums.cells[start]
        by_period[start] = None if cell is None else accounts(slo, start, cell)
    return Drawn(
        found=found,
        by_period=by_period,
        unread=frozenset(n for n, start in starts.items() if sums.cells[start] is None),
        since=sums.since,
        groups=sorted({g for each in (*found.values(), *by_period.values()) for g in each or ()}),
    )


def windows_of_all(slo: CostSlo) -> list[timedelta]:
    """Name every window that an SLO and its overrides need, shortest first."""
    return sorted({length for own in slo.variants for length in windows_of(own)})


def windows_of(slo: CostSlo) -> list[timedelta]:
    """Name every window an SLO needs, shortest first; its overrides have their own."""
    tiers = {length for tier in slo.tiers for length in (tier.long, tier.short)}
    return sorted({slo.window, *tiers, *(length for length in SHOWN if length <= slo.window)})


def start_of(length: timedelta, at: datetime) -> datetime:
    """Say when a window that ends at `at` begins."""
    start = at - length
    return floor_to(start, timedelta(hours=1)) if length >= ALIGNED else start


def _heard(slo: CostSlo, layer: Layer | None, settings: SloSettings) -> dict[timedelta, float]:
    """Say which share of a window was heard, of those in which that is too little to tell."""
    heard = {}
    for length in windows_of(slo):
        share = (layer.coverage.get(length) if layer else None) or 0.0
        if share < settings.coverage_floor and (1 - share) * length > settings.stale_after:
            heard[length] = share
    return heard


def _present(slo: CostSlo, mine: Mapping[timedelta, Account]) -> float | None:
    """Burn over the last day of a 30-day window, and as much less of a shorter one."""
    length = next(each for each in windows_of(slo) if each >= slo.window / 30)
    return mine[length].burn if length in mine else None


def _period(
    slo: CostSlo,
    period: str,
    zone: str,
    bounds: tuple[datetime, datetime],
    by_period: Mapping[datetime, Mapping[Group, Account] | None],
    group: Group,
) -> PeriodVerdict:
    start, end = bounds
    found = by_period[start]
    known = _nothing(slo, start) if found is None else found.get(group, _nothing(slo, start))
    return PeriodVerdict(
        period=period,
        zone=zone,
        start=start,
        end=end,
        good=known.counted.good,
        bad=known.counted.bad,
        excluded=known.counted.excluded,
        sli=None,
        budget_remaining=None if found is None else budget_left(known),
        cost=None if found is None else known.spend(),
    )


def _nothing(slo: CostSlo, since: datetime) -> Account:
    return Account(since, 0, slo.at_most, 0, NOTHING)
