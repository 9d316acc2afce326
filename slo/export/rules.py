"""SLOs -> Prometheus recording and alerting rules that judge as tokenweir does. Pure.

A burn rate is a ratio of sums, never an average of ratios, and has no value without traffic: no
NaN can arise and none can linger in a window. The tiers are those of `slo.burn.judge_many` with
its guard; only the run of failures of a sparse group is not there, as counters do not say in which
order requests ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from base.durations import format_duration
from base.errors import BadInput
from slo.budget import allowance
from slo.evaluator import windows_of
from slo.export.events import LEAST, Events, events_of, quoted
from slo.guard import FALSE_PAGES, FEW, HEALTHY, SPARSE_PER_HOUR
from slo.model import Slo
from slo.tiers import Tier

ALERT = "SLOBudgetBurn"
RESERVED = ("slo", "tier", "severity", "alertname")

_OFTEN, _SELDOM = "30s", "2m"
_NOT_IN_A_LABEL = re.compile(r"[^a-zA-Z0-9_]")
_HOUR = timedelta(hours=1)
_COUNTED_HOURS = 720  # of 30 days: `slo.guard` counts false pages over these

Rule = dict[str, Any]


def to_rules(slos: Sequence[Slo]) -> dict[str, Any]:
    """Make one file of rules; BadInput for a group label that the rules themselves set."""
    return {"groups": [group for slo in slos for group in _groups(slo)]}


def _groups(slo: Slo) -> Iterator[dict[str, Any]]:
    taken = sorted(set(slo.group_by) & set(RESERVED))
    if taken:
        raise BadInput(
            f"slo {slo.name!r} is grouped by {', '.join(taken)}, which rules use for themselves: "
            "give the label another name in Prometheus first"
        )
    book = _Book(slo, events_of(slo))
    short = [window for window in book.windows if window <= book.events.longest]
    long = [window for window in book.windows if window > book.events.longest]
    yield {
        "name": f"slo-{slo.name}",
        "interval": _OFTEN,
        "rules": [
            book.record("slo:objective:ratio", f"vector({slo.objective!r})"),
            *(rule for window in short for rule in book.counts(window)),
            *([] if long else [book.remaining()]),
            *(rule for tier in slo.tiers for rule in book.tier(tier)),
        ],
    }
    if long:
        yield {
            "name": f"slo-{slo.name}-long",
            "interval": _SELDOM,
            "rules": [
                *(rule for window in long for rule in book.counts(window)),
                book.remaining(),
            ],
        }


@dataclass(frozen=True, slots=True)
class _Book:
    """The rules of one SLO; each series is named by what it holds and its window."""

    slo: Slo
    events: Events

    @property
    def windows(self) -> list[timedelta]:
        stated = {self._read(window) for window in windows_of(self.slo)}
        if any(window > self.events.longest for window in stated):
            stated.add(self.events.base)
        return sorted(stated)

    def counts(self, window: timedelta) -> Iterator[Rule]:
        """Record events, bad ones and burn of one window."""
        text, total, bad = format_duration(window), self._total(window), self._bad(window)
        if window <= self.events.longest:
            whole, part = self.events.total(window), self.events.bad(window)
        else:
            base, step = self.events.base, format_duration(self.events.base)
            whole = f"sum_over_time({self._total(base)}[{text}:{step}])"
            part = f"sum_over_time({self._bad(base)}[{text}:{step}])"
        yield self.record(f"slo:total:increase{text}", whole)
        yield self.record(f"slo:bad:increase{text}", part)
        rate = f"{total} / {window / _HOUR!r}"
        yield self.record("slo:requests_per_hour:rate", rate, {"window": text})
        spent = f"{bad} / ({total} > 0) / {allowance(self.slo.objective)!r}"
        yield self.record(f"slo:burn_rate:ratio{text}", spent)

    def remaining(self) -> Rule:
        burn = self._burn(self._read(self.slo.window))
        return self.record("slo:budget_remaining:ratio", f"1 - {burn}")

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
        return max(window, least)

    def _busiest(self, least: timedelta) -> str:
        """Write the busiest rate over any window of at least that length."""
        lengths = "|".join(format_duration(each) for each in self.windows if each >= least)
        return (
            f'max without (window) (slo:requests_per_hour:rate{{{self._mine},window=~"{lengths}"}})'
        )

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
        return f"({surplus} + {lost}) * ignoring (tier) group_left {self._total(long)}"

    @property
    def _healthy(self) -> float:
        return HEALTHY * allowance(self.slo.objective)

    def _total(self, window: timedelta) -> str:
        return f"slo:total:increase{format_duration(window)}{{{self._mine}}}"

    def _bad(self, window: timedelta) -> str:
        return f"slo:bad:increase{format_duration(window)}{{{self._mine}}}"

    def _burn(self, window: timedelta) -> str:
        return f"slo:burn_rate:ratio{format_duration(window)}{{{self._mine}}}"

    def _of_tier(self, name: str, tier: Tier) -> str:
        return f"{name}{{{self._mine},tier={quoted(tier.name)}}}"

    @property
    def _mine(self) -> str:
        return f"slo={quoted(self.slo.name)}"

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
