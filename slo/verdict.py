"""What the evaluator says about one SLO and one group at one instant.

Alerts, actuators and dashboards read verdicts; none of them reads the tables behind.
Unknown is None: a rate without traffic, a budget without data, a watermark without a source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

from slo.budget import Requests
from slo.forecast import Forecast
from slo.slices import Slices
from slo.weight import REQUESTS

Severity = Literal["page", "ticket"]


class State(StrEnum):
    """Exactly one holds; the first that applies, in the order of `slo.evaluator.state_of`."""

    OK = "OK"
    BURNING = "BURNING"
    """A tier burns now, whatever is left of the budget."""
    EXHAUSTED = "EXHAUSTED"
    """Nothing is left of the budget and nothing burns now."""
    NO_TRAFFIC = "NO_TRAFFIC"
    """The sources are alive and sent no eligible request in any tier's window."""
    STALE = "STALE"
    """The sources are silent, or were for too much of a window that decides: what is shown is
    frozen, nothing may fire, resolve or act on it."""
    ABSENT = "ABSENT"
    """No source has ever sent anything."""


@dataclass(frozen=True, slots=True)
class TierVerdict:
    """One alert tier: it burns when the long and the short window burn and enough is bad.

    `short_burn` is of the newest requests, which of a sparse group reach further back than the
    short window. Where the tier is not `known`, too little was heard to say whether it burns.
    An incident is over when the tier kept quiet for `hold`.
    """

    name: str
    severity: Severity
    factor: float
    long: timedelta
    short: timedelta
    long_burn: float | None
    short_burn: float | None
    burning: bool
    known: bool = True
    hold: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class Spend:
    """What was spent since an instant, and what may have been for the units that came of it.

    `spent_usd` None: nothing of it has a price.
    """

    since: datetime
    spent_usd: float | None
    allowed_usd: float
    units: float
    usd_per_unit: float | None


@dataclass(frozen=True, slots=True)
class CostVerdict:
    """The dollars of an SLO about cost; `whole` is of its window, `windows` of those it burns over.

    `at` is the instant as of which spending was read, up to a minute before the verdict's.
    Spending is a lower bound where requests are unpriced; unmeasured ones never reached an engine.
    """

    at_most_usd: float
    per: str
    idle: str
    at: datetime
    whole: Spend
    windows: Mapping[str, Spend]
    unpriced_requests: int = 0
    unpriced_share: float = 0.0
    unmeasured_requests: int = 0


@dataclass(frozen=True, slots=True)
class PeriodVerdict:
    """The budget of the calendar period that holds the verdict's instant, as spent so far."""

    period: str
    zone: str
    start: datetime
    end: datetime
    good: int
    bad: int
    excluded: int
    sli: float | None
    budget_remaining: float | None
    cost: Spend | None = None

    @property
    def total(self) -> int:
        return self.good + self.bad


@dataclass(frozen=True, slots=True)
class Suspect:
    """One value of a dimension, its share of the bad requests and of all of them, 0..1."""

    dimension: str
    value: str
    of_bad: float
    of_all: float


@dataclass(frozen=True, slots=True)
class Surge:
    """A value that sends far more than before the burn: `what` is requests or prompt_tokens."""

    dimension: str
    value: str
    what: str
    per_minute: float
    before_per_minute: float


@dataclass(frozen=True, slots=True)
class Causes:
    """Why a group burns. `suspects`: the strongest first; empty when the burn is everywhere.

    `surges`: what grew when the burn began, the largest part of the growth first.

    `reasons` are shares of the bad requests, the largest first; `traces` the newest bad requests
    of the strongest suspect, or of all.
    """

    since: datetime | None
    reasons: tuple[tuple[str, float], ...]
    suspects: tuple[Suspect, ...]
    traces: tuple[str, ...]
    surges: tuple[Surge, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Counts are of the budget window; `burn` is keyed by window as people write it ("5m").

    `unit` names what they count; where that is not requests, `requests` are those behind them.
    `bad_in_a_row` counts the bad requests that started after the last good one. `problem` says why
    the counts may lack something: events are asked for elsewhere, or much has no known weight.
    With `slices` all that is counted are slices of time. An SLO about cost has no objective and no
    SLI: its budget is dollars, its burn what was spent over what may be.
    """

    slo: str
    group: Mapping[str, str]
    objective: float | None
    window: timedelta
    good: int
    bad: int
    excluded: int
    sli: float | None
    budget_remaining: float | None
    burn: Mapping[str, float | None]
    coverage: float | None
    watermark: datetime | None
    state: State
    tiers: tuple[TierVerdict, ...]
    bad_reasons: Mapping[str, int]
    at: datetime
    expires_in: timedelta | None
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    periods: tuple[PeriodVerdict, ...] = ()
    bad_in_a_row: int = 0
    forecast: Forecast | None = None  # of one that spent some or burns
    causes: Causes | None = None  # of a burning one
    problem: str | None = None
    cost: CostVerdict | None = None
    unit: str = REQUESTS
    requests: Requests | None = None
    slices: Slices | None = None

    @property
    def total(self) -> int:
        """Count what is judged: excluded requests are apart."""
        return self.good + self.bad
