"""SLO documents held against requests: dead filters, values that never occur, groups too quiet.

Filters are counted by the engine, compiled as judging compiles them.
"""

from __future__ import annotations

import difflib
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from statistics import median

import numpy as np

from base.durations import format_duration
from slo.backtest.cells import Group
from slo.backtest.history import History
from slo.columns import COLUMNS
from slo.compile import is_true, literal, to_sql
from slo.expression import (
    All,
    AnyOf,
    Column,
    Comparison,
    Expression,
    Not,
    OneOf,
    Value,
    columns_of,
)
from slo.lint import Finding, Level, Places, minutes, place, variants_of
from slo.model import Slo
from slo.outage import time_to_fire
from slo.slices import percent_of
from slo.tiers import Tier
from slo.weight import weight_sql
from store.engine import Engine

MOST_VALUES = 200
_MUCH_UNKNOWN = 0.1
_SECOND = timedelta(seconds=1)


@dataclass(slots=True)
class Seen:
    """What requests show of one SLO. `met`, `undecided`: by clause, of judged requests.

    Of those `unweighed` have no known weight, and `weightless` one that is rounded to 0.
    """

    requests: int = 0
    eligible: int = 0
    judged: int = 0
    good: int = 0
    good_anywhere: int = 0
    met: list[int] = field(default_factory=list)
    undecided: list[int] = field(default_factory=list)
    unweighed: int = 0
    weightless: int = 0


class Sightings:
    """Gathers what requests show, batch by batch."""

    def __init__(self, slos: Sequence[Slo]) -> None:
        self._slos = tuple(slos)
        self._values = sorted({pair for slo in slos for pair in values_named(slo)})
        columns = {name for slo in slos for name in _columns(slo)}
        self._columns = sorted(columns)
        self.seen = {slo.name: Seen() for slo in slos}
        self.occurs: Counter[tuple[str, str]] = Counter()
        self.known: Counter[str] = Counter()
        self.there: dict[str, Counter[str]] = {column: Counter() for column, _ in self._values}

    def look(self, engine: Engine, facts: str) -> None:
        """Count one batch; `facts` is where it is read from."""
        wanted: list[str] = ["count()"]
        for number, slo in enumerate(self._slos):
            wanted += _counts(slo, f"w{number}")
        wanted += [
            f"countIf(ifNull({COLUMNS[column].sql} = {literal(value)}, 0))"
            for column, value in self._values
        ]
        wanted += [f"countIf({COLUMNS[name].sql} IS NOT NULL)" for name in self._columns]
        named = ", ".join(f"toInt64({each}) AS c{n}" for n, each in enumerate(wanted))
        (row,) = engine.rows(f"SELECT {named} FROM {facts}")
        numbers = iter([row[f"c{n}"] for n in range(len(wanted))])
        requests = next(numbers)
        for slo in self._slos:
            seen = self.seen[slo.name]
            seen.requests += requests
            seen.eligible += next(numbers)
            seen.judged += next(numbers)
            seen.good += next(numbers)
            seen.good_anywhere += next(numbers)
            clauses = [(next(numbers), next(numbers)) for _ in slo.good]
            seen.met = _sums(seen.met, [met for met, _ in clauses])
            seen.undecided = _sums(seen.undecided, [undecided for _, undecided in clauses])
            if slo.weight is not None:
                seen.unweighed += next(numbers)
                seen.weightless += next(numbers)
        for pair in self._values:
            self.occurs[pair] += next(numbers)
        for name in self._columns:
            self.known[name] += next(numbers)
        for column, counts in self.there.items():
            for each in engine.rows(
                f"SELECT toString({COLUMNS[column].sql}) AS v, count() AS n FROM {facts} "
                f"WHERE {COLUMNS[column].sql} IS NOT NULL GROUP BY v ORDER BY n DESC "
                f"LIMIT {MOST_VALUES}"
            ):
                counts[each["v"]] += each["n"]


def check_data(slos: Sequence[Slo], sightings: Sightings, history: History | None) -> list[Finding]:
    """Find what requests show to be wrong with documents."""
    places = Places(slos)
    found: list[Finding] = []
    for slo in slos:
        if slo.composite is None:  # else its components have been looked at
            found += _filters(slo, sightings.seen[slo.name], places)
            found += _values(slo, sightings, places)
        found += _weights(slo, sightings.seen[slo.name], places)
        if history is not None:
            rates: dict[int, dict[Group, float]] = defaultdict(dict)
            for group, rate in _rates(slo, history).items():
                rates[slo.variant_of(group)][group] = rate
            found += _unseen_overrides(slo, rates, places)
            for number, (own, path) in enumerate(variants_of(slo)):
                found += _traffic(own, rates[number], places, path)
            found += _slices(slo, history, places)
    return found


def values_named(slo: Slo) -> set[tuple[str, str]]:
    """List the texts that filters compare columns with: (column, value)."""
    found: set[tuple[str, str]] = set()
    waiting = [clause.expression for clause in slo.good]
    if slo.eligible is not None:
        waiting.append(slo.eligible)
    while waiting:
        match waiting.pop():
            case Comparison("=" | "!=", Column(column), Value(str() as value)) | Comparison(
                "=" | "!=", Value(str() as value), Column(column)
            ):
                found.add((column.name, value))
            case OneOf(Column(column), values):
                found |= {(column.name, v.value) for v in values if isinstance(v.value, str)}
            case All(operands) | AnyOf(operands):
                waiting += operands
            case Not(operand):
                waiting.append(operand)
            case _:
                pass
    return {pair for pair in found if pair[0] != "outcome" and pair[1]}


def _columns(slo: Slo) -> set[str]:
    expressions = [clause.expression for clause in slo.good]
    if slo.eligible is not None:
        expressions.append(slo.eligible)
    if slo.weight is not None:
        expressions.append(slo.weight.by)
    return set().union(*(columns_of(each) for each in expressions), slo.group_by)


def _counts(slo: Slo, alias: str) -> Iterator[str]:
    eligible = "1" if slo.eligible is None else is_true(slo.eligible)
    judged = f"({eligible}) AND ifNull(outcome != 'excluded', 1)"
    good = " AND ".join(is_true(clause.expression) for clause in slo.good)
    yield f"countIf({eligible})"
    yield f"countIf({judged})"
    yield f"countIf({judged} AND {good})"
    yield f"countIf({good})"
    for clause in slo.good:
        yield f"countIf({judged} AND {is_true(clause.expression)})"
        yield f"countIf({judged} AND ({to_sql(clause.expression)}) IS NULL)"
    if slo.weight is not None:
        is_known, weight = weight_sql(slo.weight, alias)
        yield f"countIf({judged} AND {is_known} = 0)"
        yield f"countIf({judged} AND {alias}_known = 1 AND {weight} = 0)"


def _filters(slo: Slo, seen: Seen, places: Places) -> Iterator[Finding]:
    if not seen.requests:
        return
    if not seen.eligible:
        yield places.finding(
            slo, "eligible-matches-nothing", Level.WARNING,
            f"eligible matches none of {seen.requests:,} requests: nothing is ever judged",
            "compare it with GET /api/v1/requests, or remove the SLO", "eligible",
        )  # fmt: skip
        return
    if slo.eligible is not None and seen.eligible == seen.requests:
        yield places.finding(
            slo, "eligible-matches-everything", Level.INFO,
            f"eligible matches all {seen.requests:,} requests: it leaves nothing out",
            "remove it if nothing is to be left out", "eligible",
        )  # fmt: skip
    for clause, met, undecided in zip(slo.good, seen.met, seen.undecided, strict=True):
        path = ("good", clause.name)
        if seen.judged and not met:
            yield places.finding(
                slo, "good-matches-nothing", Level.WARNING,
                f"{clause.name!r} holds for none of {seen.judged:,} judged requests: all are bad",
                "mend its limit or its values", *path,
            )  # fmt: skip
        elif seen.judged and met == seen.judged:
            yield places.finding(
                slo, "good-matches-everything", Level.INFO,
                f"{clause.name!r} holds for all {seen.judged:,} judged requests: it never decided",
                "tighten it, or keep it if that is as hoped", *path,
            )  # fmt: skip
        if seen.judged and undecided > _MUCH_UNKNOWN * seen.judged:
            yield places.finding(
                slo, "good-undecided", Level.WARNING,
                f"{clause.name!r} cannot be decided for {undecided / seen.judged:.0%} of judged "
                "requests, which count as bad: a column that it reads is unknown there",
                "narrow eligible to requests that have it, or say `… is null or …`", *path,
            )  # fmt: skip
    if not places.is_native(slo) and seen.good_anywhere > seen.eligible:
        yield places.finding(
            slo, "ratio-above-one", Level.WARNING,
            f"good matches {seen.good_anywhere:,} requests and total {seen.eligible:,}: elsewhere "
            "this ratio would be above 1; here good is counted within total",
            "let good ask for what total asks for",
        )  # fmt: skip


def _weights(slo: Slo, seen: Seen, places: Places) -> Iterator[Finding]:
    if slo.weight is None or not seen.judged:
        return
    if seen.unweighed > _MUCH_UNKNOWN * seen.judged:
        yield places.finding(
            slo, "weight-unknown", Level.WARNING,
            f"{seen.unweighed / seen.judged:.0%} of {seen.judged:,} judged requests have no known "
            "weight and are in no sum: if they are the failed ones, an outage does not weigh",
            "write coalesce(…, what such a request weighs)", "weight",
        )  # fmt: skip
    if seen.weightless > _MUCH_UNKNOWN * seen.judged:
        yield places.finding(
            slo, "weight-zero", Level.WARNING,
            f"{seen.weightless / seen.judged:.0%} of {seen.judged:,} judged requests weigh 0 "
            f"{slo.unit}: they spend no budget when they are bad",
            "weigh what they cost too, or take a finer unit", "weight",
        )  # fmt: skip


def _values(slo: Slo, sightings: Sightings, places: Places) -> Iterator[Finding]:
    if not sightings.seen[slo.name].requests:
        return
    for name in sorted(_columns(slo)):
        if not sightings.known[name] and name != "outcome":
            yield places.finding(
                slo, "column-never-known", Level.WARNING,
                f"{name} is unknown in every request",
                "see that the sources send it, or do not ask for it", *_where(slo, name),
            )  # fmt: skip
    for column, value in sorted(values_named(slo)):
        if sightings.occurs[column, value] or not sightings.known[column]:
            continue
        there = [text for text, _ in sightings.there[column].most_common(MOST_VALUES)]
        near = difflib.get_close_matches(value, there, 3) or there[:3]
        meant = f"; there are {', '.join(map(repr, near))}" if near else ""
        yield places.finding(
            slo, "unknown-value", Level.WARNING,
            f"{column} is never {value!r}{meant}", "write a value that occurs",
            *_where(slo, column, value),
        )  # fmt: skip


def _where(slo: Slo, column: str, value: str | None = None) -> tuple[str, ...]:
    """Find the part that reads a column, or names a value of it."""

    def reads(expression: Expression) -> bool:
        if value is None:
            return column in columns_of(expression)
        return (column, value) in values_named(_only(slo, expression))

    if slo.eligible is not None and reads(slo.eligible):
        return ("eligible",)
    clause = next((each for each in slo.good if reads(each.expression)), None)
    if clause is not None:
        return ("good", clause.name)
    if slo.weight is not None and column in columns_of(slo.weight.by):
        return ("weight",)
    return ("group_by",) if column in slo.group_by else ()


def _only(slo: Slo, expression: Expression) -> Slo:
    return Slo(slo.name, slo.objective, slo.window, (), (), eligible=expression)


def _unseen_overrides(
    slo: Slo, seen: Mapping[int, Collection[Group]], places: Places
) -> Iterator[Finding]:
    groups = [group for some in seen.values() for group in some]
    for number, override in enumerate(slo.overrides):
        if not groups or number + 1 in seen:
            continue
        near = ""
        for name, values in override.match:
            there = sorted({group[slo.group_by.index(name)] for group in groups})
            if not set(values) & set(there):
                like = difflib.get_close_matches(values[0], there, 3) or there[:3]
                near = f": {name} is never {values[0]!r}; there are {', '.join(map(repr, like))}"
        yield places.finding(
            slo, "override-unseen", Level.WARNING,
            f"the override for {override} holds for none of {len(groups):,} groups{near}",
            "write a value that occurs, or put it before an override that takes its groups",
            "overrides", place(number), "match",
        )  # fmt: skip


def _traffic(
    slo: Slo, rates: dict[Group, float], places: Places, path: tuple[str, ...]
) -> Iterator[Finding]:
    if not rates or not slo.tiers:
        return
    unit = "requests" if slo.slices is None else "slices with traffic"
    starved = {
        tier: sum(rate * (tier.long / _SECOND) < tier.min_bad for rate in rates.values())
        for tier in slo.tiers
    }
    paging = [tier for tier in slo.tiers if tier.severity == "page"]
    quiet = [
        rate for rate in rates.values()
        if all(rate * (tier.long / _SECOND) < tier.min_bad for tier in paging)
    ]  # fmt: skip
    shares = ", ".join(
        f"{tier.name} {count / len(rates):.0%}" for tier, count in starved.items() if count
    )
    if paging and quiet:
        slowest = [time_to_fire(slo, tier, median(quiet)) for tier in paging]
        after = min((each for each in slowest if each is not None), default=None)
        helped = (
            f"only a run of failures pages them, after {minutes(after)} for the median one"
            if after
            else "nothing pages them"
        )
        yield places.finding(
            slo, "low-traffic", Level.WARNING,
            f"{len(quiet):,} of {len(rates):,} groups ({len(quiet) / len(rates):.0%}) send fewer "
            f"{unit} in every page tier's long window than min_bad: even when all fail, "
            f"{helped} (starved tiers by share of groups: {shares})",
            "group by less, lower min_bad, or take longer windows", *(path or ("group_by",)),
        )  # fmt: skip
    elif shares:
        yield places.finding(
            slo, "tier-starved", Level.INFO,
            f"some groups send too little for a tier to fire at all: {shares} of "
            f"{len(rates):,} groups",
            "nothing, if the other tiers are quick enough for them", *path, "tiers",
        )  # fmt: skip
    for tier in slo.tiers:
        yield _time_to_fire(slo, tier, rates, places, path)


def _slices(slo: Slo, history: History, places: Places) -> Iterator[Finding]:
    """Find slices so small that a single failed request makes them bad."""
    if slo.slices is None or slo.slices.share == 1:  # all must be good: that is what it asks
        return
    every = [cells for group in history.groups(slo) if (cells := history.of(slo, group))]
    sizes = [each.sizes for each in every if each.sizes is not None and each.sizes.size]
    if not sizes:
        return
    held = np.concatenate(sizes)
    typical = int(np.median(held))
    tolerant = math.ceil(1 / (1 - slo.slices.share))
    fragile = int(np.count_nonzero(held < tolerant))
    if typical >= tolerant:
        return
    yield places.finding(
        slo, "slice-few-requests", Level.WARNING,
        f"the median slice of {format_duration(slo.slices.length)} holds {typical:,} requests, and "
        f"{fragile / held.size:.0%} hold fewer than the {tolerant:,} of which one may fail at "
        f"{percent_of(slo.slices.share)} %: there one failed request makes a slice bad",
        "take longer slices, a lower good, group by less, or count requests", "slices",
    )  # fmt: skip


def _time_to_fire(
    slo: Slo, tier: Tier, rates: dict[Group, float], places: Places, path: tuple[str, ...]
) -> Finding:
    times = [time_to_fire(slo, tier, rate) for rate in rates.values()]
    known = sorted(each for each in times if each is not None)
    typical = time_to_fire(slo, tier, median(rates.values()))
    never = len(times) - len(known)
    what = "pages" if tier.severity == "page" else "opens a ticket"
    when = f"{what} after {minutes(typical)}" if typical else "does not fire in all the time"
    worst = f", at the latest {minutes(known[-1])}" if known and len(times) > 1 else ""
    rest = f", never for {never:,} of {len(times):,} groups" if never else ""
    return places.finding(
        slo, "time-to-page", Level.INFO,
        f"tier {tier.name!r} ({format_duration(tier.long)}) {when} of total outage in the median "
        f"group{worst}{rest}",
        "", *path, "tiers", tier.name,
    )  # fmt: skip


def _rates(slo: Slo, history: History) -> dict[Group, float]:
    """Work out the requests, or slices, a second of every group, over the whole history."""
    grid, span = history.grid, history.span
    seconds = (grid.at(span.end - 1) - grid.at(span.first)) / _SECOND
    found: dict[Group, float] = {}
    for group in history.groups(slo):
        cells = history.of(slo, group)
        if cells is not None and cells.requests[-1]:
            found[group] = int(cells.requests[-1]) / max(seconds, 1.0)
    return found


def _sums(before: list[int], new: list[int]) -> list[int]:
    return [a + b for a, b in zip(before or [0] * len(new), new, strict=True)]
