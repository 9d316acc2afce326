"""What the pages are given: where to read, and what time it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy

from base.clock import Clock
from cost.prices import PriceBook
from dashboards.intake import IntakePorts
from slo.exclusion import Exclusion
from slo.model import Slo
from slo.spending.model import CostSlo
from slo.verdict import Verdict
from store.engine import Engine

Spent = Mapping[tuple[str, ...], Sequence[tuple[datetime, float]]]


@dataclass(frozen=True, slots=True)
class Deps:
    """Everything the pages read. The callables are called from web threads, on every refresh.

    `engine` is the telemetry store, `db` the control database; `verdicts` answers with the newest
    evaluation, `slos` and `costs` with the documents it judged and `exclusions` with what does not
    count. `spending` says what groups of one about cost had spent by some instants of its window.
    `intake` is None where no receiver belongs to the pages: its counts are then unknown.
    """

    engine: Engine
    db: sqlalchemy.Engine
    clock: Clock
    prices: PriceBook
    verdicts: Callable[[], Sequence[Verdict]]
    slos: Callable[[], Sequence[Slo]]
    exclusions: Callable[[], Sequence[Exclusion]] = tuple
    costs: Callable[[], Sequence[CostSlo]] = tuple
    spending: Callable[[str, datetime], Spent] = lambda _name, _at: {}
    intake: IntakePorts | None = None
