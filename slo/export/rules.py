"""SLOs -> Prometheus recording and alerting rules that judge as tokenweir does. Pure.

A burn rate is a ratio of sums, never an average of ratios, and has no value without traffic: no
NaN can arise and none can linger in a window. The tiers are those of `slo.burn.judge_many` with
its guard; only the run of failures of a sparse group is not there, as counters do not say in which
order requests ended.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from base.durations import format_duration
from base.errors import BadInput
from slo.budget import allowance
from slo.evaluator import windows_of
from slo.export.events import LEAST, Events, events_of
from slo.export.selection import Selection, selections
from slo.guard import FALSE_PAGES, FEW, HEALTHY, SPARSE_PER_HOUR
from slo.model import Slo
from slo.prometheus.selector import Matcher, Selector
from slo.tiers import Tier

ALERT = "SLOBudgetBurn"
RESERVED = ("slo", "tier", "severity", "alertname")

_OFTEN, _SELDOM = "30s", "2m"
_NOT_IN_A_LABEL = re.compile(r"[^a-zA-Z0-9_]")
_HOUR = timedelta(hours=1)
_COUNTED_HOURS = 720  # of 30 days: `slo.guard` counts false pages over these

Rule = dict[str, Any]


def to_rules(slos: Sequence[Slo]) -> dict[str, Any]:
    """Make one file of rules; BadInput for what rules cannot say (`why_not`)."""
    for slo in slos:
        if said := why_not(slo):
            raise BadInput(f"slo {slo.name!r} {said}")
    return {"groups": [group for slo in slos for group in _groups(slo)]}


def why_not(slo: Slo) -> str:
    """Say why an SLO cannot be written as rules; '' where it can."""
    taken = sorted(set(slo.group_by) & set(RESERVED))
    if taken:
        return (
            f"is grouped by {', '.join(taken)}, which rules use for themselves: give the label "
            "another name in Prometheus first"
        )
    if slo.is_weighted:
        return (
            f"counts {slo.unit}: its tiers are held against the heaviest request of each window, "
            "which counters do not say, so rules would page for one long answer"
        )
    return ""


def _groups(slo: Slo) -> Iterator[dict[str, Any]]:
    events = events_of(slo)
    books = [
        _Book(own, events, chosen)
        for own, chosen in zip(slo.variants, selections(slo), strict=True)
    ]
    windows = sorted({window for book in books for window in book.windows})
    short = [window for window in windows if window <= events.longest]
    long = [window for window in windows if window > events.longest]
    budgets = [rule for book in books for rule in book.budget(has_others=bool(slo.overrides))]
    yield {
        "name": f"slo-{slo.name}",
        "interval": _OFTEN,
        "rules": _once(
            [
                *([] if slo.overrides else [books[0].objective()]),
                *(rule for window in short for rule in _counts(books, window)),
                *([] if long else budgets),
                *(rule for book in books for tier in book.slo.tiers for rule in book.tier(tier)),
            ]
        ),
    }
    if long:
        yield {
            "name": f"slo-{slo.name}-long",
            "interval": _SELDOM,
            "rules": _once(
                [
                    *(rule for window in long for rule in _counts(books, window)),
                    *budgets,
                ]
            ),
        }


def _counts(books: Sequence[_Book], window: timedelta) -> Iterator[Rule]:
    """Count all groups at once; what burns depends on the objective."""
    yield from books[0].counts(window)
    for book in books:
        if window in book.windows:
            yield book.burn(window)


def _once(rules: Sequence[Rule]) -> list[Rule]:
    """Make one rule of those that only ask about other groups: what is named twice looks wrong."""
    found: dict[str, list[Rule]] = {}
    for rule in rules:
        asked = {key: value for key, value in rule.items() if key != "expr"}
        key = json.dumps(asked, sort_keys=True)
        found.setdefault(key, []).append(rule)
    return [
        alike[0]
        if len(alike) == 1
        else alike[0] | {"expr": "\nor ".join(f"({each['expr']})" for each in alike)}
        for alike in found.values()
    ]


@dataclass(frozen=True, slots=True)
class _Book:
    """The rules of one SLO for the groups it holds for; a series is named by what it holds."""

    slo: Slo
    events: Events
    chosen: Selection

    @property
    def windows(self) -> list[timedelta]:
        stated = {self._read(window) for window in windows_of(self.slo)}
        if any(window > self.events.longest for window in stated):
            stated.add(self.events.base)
        return sorted(stated)

    def counts(self, window: timedelta) -> Iterator[Rule]:
        """Record events and bad ones of one window, of every group."""
        text = format_duration(window)
        if window <= self.events.longest:
            whole, part = self.events.total(window), self.events.bad(window)
        else:
            base, step = self.events.base, format_duration(self.events.base)
            named = format_duration(base)
            whole = f"sum_over_time({self._every('slo:total:increase' + named)}[{text}:{step}])"
            part = f"sum_over_time({self._every('slo:bad:increase' + named)}[{text}:{step}])"
        yield self.record(f"slo:total:increase{text}", whole)
        yield self.record(f"slo:bad:increase{text}", part)
        rate = f"{self._every('slo:total:increase' + text)} / {window / _HOUR!r}"
        yield self.record("slo:requests_per_hour:rate", rate, {"window": text})

    def burn(self, window: timedelta) -> Rule:
        total, bad = self._total(window), self._bad(window)
        spent = f"{bad} / ({total} > 0) / {allowance(self.slo.objective)!r}"
        return self.record(f"slo:burn_rate:ratio{format_duration(window)}", spent)

    def objective(self) -> Rule:
        return self.record("slo:objective:ratio", f"vector({self.slo.objective!r})")

    def budget(self, *, has_others: bool) -> Iterator[Rule]:
        """Record what is left and, where objectives differ by group, each group's."""
        window = self._read(self.slo.window)
        if has_others:
            of_each = f"{self._total(window)} * 0 + {self.slo.objective!r}"
            yield self.record("slo:objective:ratio", of_each)
        yield self.record("slo:budget_remaining:ratio", f"1 - {self._burn(window)}")

    def tier(self, tier: Tier) -> Iterator[Rule]:
        """Record what the guard looks at, and alert when it agrees."""
        long = self._read(tier.long)
        named = {"tier": tier.name}
        yield self.record("slo:tier_requests_per_hour:max", self._busiest(long), named)
        yield self.record("slo:tier_recent_burn_rate:ratio", self._recent(tier), named)
        yield self.record("slo:tier_bad_share:clamped", self._share(long), named)
        yield self.record("slo:tier_evidence:nats", self._evidence(long, tier), named)
        busiest = self._of_tier("slo:tier_requests_per_hour:max", tier)
        needed = f"ln(clamp_min({busiest} * {_COUNTED_HOURS}, 1) / {FALSE_PAGES!r})"
        expression = (
            f"{self._burn(long)} >= {tier.factor!r}\n"
            f"and {self._bad(long)} >= {tier.min_bad}\n"
            f"and ignoring (tier) {self._of_tier('slo:tier_recent_burn_rate:ratio', tier)}"
            f" >= {tier.factor!r}\n"
            f"and ignoring (tier) {self._of_tier('slo:tier_evidence:nats', tier)} >= {needed}"
        )
        alert: Rule = {"alert": ALERT, "expr": expression}
        if tier.hold > timedelta(0):
            alert["keep_firing_for"] = format_duration(tier.hold)
        yield alert | {"labels": self._labels(tier), "annotations": self._annotations()}

    def record(self, name: str, expression: str, labels: dict[str, str] | None = None) -> Rule:
        return {
            "record": name,
            "expr": expression,
            "labels": {"slo": self.slo.name} | (labels or {}),
        }

    def _read(self, window: timedelta) -> timedelta:
        """Say what stands for a window that is too short to be read."""
        least = self.events.base if self.events.base == self.events.longest else LEAST
        if self.slo.slices is not None:  # in two of them, at least one whole slice ends
            least = max(least, 2 * self.slo.slices.length)
        return max(window, least)

    def _busiest(self, least: timedelta) -> str:
        """Write the busiest rate over any window of at least that length."""
        lengths = "|".join(format_duration(each) for each in self.windows if each >= least)
        rates = self._mine("slo:requests_per_hour:rate", Matcher("window", "=~", lengths))
        return f"max without (window) ({rates})"

    def _recent(self, tier: Tier) -> str:
        """Write the burn of the newest window that says how things are now."""
        long, short = self._read(tier.long), self._read(tier.short)
        busy = f"{self._of_tier('slo:tier_requests_per_hour:max', tier)} > {SPARSE_PER_HOUR}"
        enough = f"({self._total(short)} >= {FEW} or ignoring (tier) {busy})"
        choices = [f"({self._burn(short)} and ignoring (tier) {enough})"]
        for window in self.windows:
            if short < window < long:
                told = f"{self._burn(window)} and {self._total(window)} >= {FEW}"
                choices.append(f"({told} unless ignoring (tier) {busy})")
        choices.append(f"({self._burn(long)} unless ignoring (tier) {busy})")
        return "\nor ".join(choices)

    def _share(self, long: timedelta) -> str:
        """Write the share of bad events, at least that of a healthy service."""
        return f"clamp({self._bad(long)} / ({self._total(long)} > 0), {self._healthy!r}, 1)"

    def _evidence(self, long: timedelta, tier: Tier) -> str:
        """Write `slo.guard.evidence` of a window: the Chernoff bound, in nats."""
        share = self._of_tier("slo:tier_bad_share:clamped", tier)
        lost = f"(1 - {share}) * ln(clamp_min(1 - {share}, 1e-12) / {(1 - self._healthy)!r})"
        surplus = f"{share} * ln({share} / {self._healthy!r})"
        total = self._total(long)
        one = "group_left ()" if total.startswith("(") else "group_left"  # or it would be labels
        return f"({surplus} + {lost}) * ignoring (tier) {one} {total}"

    @property
    def _healthy(self) -> float:
        return HEALTHY * allowance(self.slo.objective)

    def _total(self, window: timedelta) -> str:
        return self._mine(f"slo:total:increase{format_duration(window)}")

    def _bad(self, window: timedelta) -> str:
        return self._mine(f"slo:bad:increase{format_duration(window)}")

    def _burn(self, window: timedelta) -> str:
        return self._mine(f"slo:burn_rate:ratio{format_duration(window)}")

    def _of_tier(self, name: str, tier: Tier) -> str:
        return self._mine(name, Matcher("tier", "=", tier.name))

    def _mine(self, name: str, *more: Matcher) -> str:
        return self.chosen.of(self._every(name, *more))

    def _every(self, name: str, *more: Matcher) -> Selector:
        return Selector(name, (Matcher("slo", "=", self.slo.name), *more))

    def _labels(self, tier: Tier) -> dict[str, str]:
        own = {"slo": self.slo.name, "tier": tier.name, "severity": tier.severity}
        others = (*RESERVED, *self.slo.group_by)
        stated = {_label(name, others): _literal(text) for name, text in self.slo.labels.items()}
        return stated | own

    def _annotations(self) -> dict[str, str]:
        group = "".join(f" {name}={{{{ $labels.{name} }}}}" for name in self.slo.group_by)
        said = {
            "summary": f"{self.slo.name}{group} spends its error budget "
            "{{ $value | humanize }} times faster than allowed",
        }
        if self.slo.description:
            said["description"] = _literal(self.slo.description)
        stated = {_label(name, ()): _literal(text) for name, text in self.slo.annotations.items()}
        return said | stated


def _label(name: str, others: Sequence[str]) -> str:
    """Write a label's name as Prometheus has it, apart from those that are taken."""
    tidy = _NOT_IN_A_LABEL.sub("_", name) or "_"
    tidy = f"_{tidy}" if tidy[0].isdigit() else tidy
    return f"slo_{tidy}" if tidy in others else tidy


def _literal(text: str) -> str:
    """Keep Prometheus from reading a template out of a text."""
    return text.replace("{{", '{{"{{"}}')
