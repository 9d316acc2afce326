"""What the pages are given: where to read, and what time it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sqlalchemy

from base.clock import Clock
from cost.prices import PriceBook
from slo.exclusion import Exclusion
from slo.model import Slo
from slo.spending.model import CostSlo
from slo.verdict import Verdict
from store.engine import Engine


@dataclass(frozen=True, slots=True)
class Deps:
    """Everything the pages read. The callables are called from web threads, on every refresh.

    `engine` is the telemetry store, `db` the control database; `verdicts` answers with the newest
    evaluation, `slos` and `costs` with the documents it judged and `exclusions` with what does not
    count.
    """

    engine: Engine
    db: sqlalchemy.Engine
    clock: Clock
    prices: PriceBook
    verdicts: Callable[[], Sequence[Verdict]]
    slos: Callable[[], Sequence[Slo]]
    exclusions: Callable[[], Sequence[Exclusion]] = tuple
    costs: Callable[[], Sequence[CostSlo]] = tuple
