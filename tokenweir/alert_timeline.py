"""Alerts over a history: the live state machine, moved at the live instants by what a backtest saw.

`alerts.subject` makes the reading and `alerts.machine` the step, as in the server. Evaluations at
which nothing moves are skipped: the reading is the one before, and no timer has run out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from alerts.machine import step
from alerts.model import AlertState, Reading, Severity, Turn, Unknown
from alerts.settings import AlertSettings
from alerts.subject import BURN_ALERT, identity, subject_of
from alerts.wording import describe
from slo.backtest.history import History
from slo.backtest.sweep import Change, Sight
from slo.budget import Count, budget_remaining, sli
from slo.burn import NO_COUNT, burn_rate
from slo.evaluator import state_of, windows_of
from slo.liveness import Layer
from slo.model import Slo
from slo.verdict import TierVerdict, Verdict

NO_VERDICT = Unknown("no verdict in this tick")
_SILENT = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Turned:
    """Something that happened to an alert, and how loud it was from then on."""

    evaluation: int
    turn: Turn
    severity: Severity
    tier: str


@dataclass(slots=True)
class TimedAlert:
    """One run of an alert, from firing to resolved (None: it fires still), in evaluations.

    `severity` is the loudest it got, `tier` the one that fired it, `paged` when it became a page.
    """

    fired: int
    tier: str
    severity: Severity
    paged: int | None = None
    resolved: int | None = None
    summary: str = ""
    turns: list[Turned] = field(default_factory=list)

    @property
    def page_tier(self) -> str:
        """Name the tier that made it a page, or the one that fired where none did."""
        paged = (turn.tier for turn in self.turns if turn.evaluation == self.paged)
        return next(paged, self.tier)


class AlertTimeline:
    """Plays one SLO's alerts over a history."""

    def __init__(self, slo: Slo, history: History, settings: AlertSettings) -> None:
        self._slo = slo
        self._history = history
        self._settings = settings

    def play(self, group: tuple[str, ...], changes: Sequence[Change]) -> list[TimedAlert]:
        """Move the alert of one group; returns its runs in order of time."""
        if not any(any(change.sight.burning) for change in changes):
            return []
        members = dict(zip(self._slo.group_by, group, strict=True))
        name = identity(BURN_ALERT, self._slo.name, members)
        readings: dict[Sight, Reading] = {}
        found: list[TimedAlert] = []
        state = AlertState()
        ends = [*(change.evaluation for change in changes[1:]), self._history.span.end]
        for change, end in zip(changes, ends, strict=True):
            sight = change.sight
            if sight not in readings:
                readings[sight] = self._reading(members, sight)
            reading, evaluation = readings[sight], change.evaluation
            while evaluation < end:
                at = self._history.grid.at(evaluation)
                moved, turns = step(state, reading, at, fingerprint=name)
                for turn in turns:
                    self._note(found, turn, moved, evaluation)
                    if turn is Turn.FIRED:
                        found[-1].summary = self._summary(group, members, sight, evaluation)
                rests = moved == state and not turns
                state = moved
                evaluation = (
                    self._next(state, reading, evaluation, end) if rests else evaluation + 1
                )
        return found

    def verdict(
        self, group: tuple[str, ...], members: Mapping[str, str], sight: Sight, evaluation: int
    ) -> Verdict:
        """Make the verdict of an evaluation out of counts."""
        slo, count = self._slo, self._history.count
        counts = {length: count(slo, group, length, evaluation)[0] for length in windows_of(slo)}
        _, excluded = count(slo, group, slo.window, evaluation)
        return self._verdict(members, sight, self._history.grid.at(evaluation), counts, excluded)

    def _next(self, state: AlertState, reading: Reading, at: int, end: int) -> int:
        """Find the next evaluation before `end` at which the same reading moves the alert.

        Only a timer can, and one that has run out stays so: every later evaluation would move it.
        """
        if not self._moves(state, reading, end - 1):
            return end
        stays, moves = at, end - 1
        while moves - stays > 1:
            middle = (stays + moves) // 2
            if self._moves(state, reading, middle):
                moves = middle
            else:
                stays = middle
        return moves

    def _moves(self, state: AlertState, reading: Reading, evaluation: int) -> bool:
        moved, turns = step(state, reading, self._history.grid.at(evaluation), fingerprint="")
        return moved != state or bool(turns)

    def _reading(self, members: Mapping[str, str], sight: Sight) -> Reading:
        if not sight.is_there:
            return NO_VERDICT
        at = self._history.grid.at(self._history.span.first)
        return subject_of(self._verdict(members, sight, at, {}, 0), self._settings).reading

    def _summary(
        self, group: tuple[str, ...], members: Mapping[str, str], sight: Sight, evaluation: int
    ) -> str:
        subject = subject_of(self.verdict(group, members, sight, evaluation), self._settings)
        severity = Severity.PAGE if self._is_page(sight) else Severity.TICKET
        said = describe(self._slo.name, members, severity, subject.facts, ())
        return said["summary"]

    def _is_page(self, sight: Sight) -> bool:
        tiers = zip(self._slo.tiers, sight.burning, strict=True)
        return any(is_on and tier.severity == "page" for tier, is_on in tiers)

    def _verdict(
        self,
        members: Mapping[str, str],
        sight: Sight,
        at: datetime,
        counts: Mapping[timedelta, Count],
        excluded: int,
    ) -> Verdict:
        slo = self._slo
        whole = counts.get(slo.window, NO_COUNT)
        remaining = budget_remaining(whole, slo.objective)
        tiers = tuple(
            TierVerdict(
                name=tier.name,
                severity=tier.severity,
                factor=tier.factor,
                long=tier.long,
                short=tier.short,
                long_burn=burn_rate(counts.get(tier.long, NO_COUNT), slo.objective),
                short_burn=burn_rate(counts.get(tier.short, NO_COUNT), slo.objective),
                burning=is_burning,
                known=is_known,
                hold=tier.hold,
            )
            for tier, is_burning, is_known in zip(
                slo.tiers, sight.burning, sight.known, strict=True
            )
        )
        layer = Layer("", at, at, {})
        return Verdict(
            slo=slo.name,
            group=members,
            objective=slo.objective,
            window=slo.window,
            good=whole.good,
            bad=whole.bad,
            excluded=excluded,
            sli=sli(whole),
            budget_remaining=remaining,
            burn={},
            coverage=None,
            watermark=None,
            state=state_of(layer, at + _SILENT if sight.is_frozen else at, tiers, remaining),
            tiers=tiers,
            bad_reasons={},
            at=at,
            expires_in=None,
            labels=slo.labels,
            annotations=slo.annotations,
            unit=slo.unit,
            slices=slo.slices,
        )

    @staticmethod
    def _note(found: list[TimedAlert], turn: Turn, state: AlertState, evaluation: int) -> None:
        if turn is Turn.FIRED and state.severity is not None:
            found.append(TimedAlert(evaluation, state.tier, state.severity))
        if not found or found[-1].resolved is not None:
            return  # pending, or calmed before it fired: nobody hears of it
        alert = found[-1]
        severity = state.severity or alert.severity
        alert.turns.append(Turned(evaluation, turn, severity, state.tier or alert.tier))
        alert.severity = max(alert.severity, severity, key=lambda each: each.rank)
        if severity is Severity.PAGE and alert.paged is None:
            alert.paged = evaluation
        if turn is Turn.RESOLVED:
            alert.resolved = evaluation
