"""The SLO documents in force, and taking them anew without a restart."""

from __future__ import annotations

import getpass
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Engine

from base.clock import Clock
from base.db import transaction
from base.selfmon import Log
from slo import version_book
from slo.counts import SloCounts
from slo.documents import load_all
from slo.evaluator import Evaluator
from slo.model import Slo
from slo.prometheus.source import PrometheusSource
from slo.spending.judge import CostJudge
from slo.spending.model import CostSlo
from slo.version_book import Version

log = Log(__name__)


class SloDocuments:
    """Keeps counts, pollers and evaluator at the same documents, and writes their versions down."""

    def __init__(
        self,
        paths: Sequence[Path],
        counts: SloCounts,
        prometheus: PrometheusSource,
        evaluator: Evaluator,
        costs: CostJudge,
        db: Engine,
        clock: Clock,
    ) -> None:
        self._paths = tuple(paths)
        self._counts = counts
        self._prometheus = prometheus
        self._evaluator = evaluator
        self._costs = costs
        self._db = db
        self._clock = clock
        self._lock = threading.Lock()

    def record_start(self, slos: Sequence[Slo | CostSlo]) -> None:
        """Write down what the documents say at the start; the author is who started us."""
        self._record(slos, _user())

    def reload(self, by: str) -> list[Version]:
        """Read the documents again; returns what changed.

        ConfigError lists every problem, and then nothing has changed. Counting what is counted
        differently takes seconds for a month; acknowledgements, pages and judging go on meanwhile.
        """
        with self._lock:
            found = load_all(self._paths)
            slos = found.slos
            self._prometheus.replace(slos)
            counted = self._counts.replace(slos, lambda: self._evaluator.replace(slos))
            self._costs.replace(found.costs)
            changed = self._record(found.every, by)
            log.info("slo_documents_reloaded", by=by, slos=len(found.every), counted=counted)
            return changed

    def _record(self, slos: Sequence[Slo | CostSlo], author: str) -> list[Version]:
        with transaction(self._db) as connection:
            return version_book.record(connection, slos, author, self._clock.now())


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user often has a number only
        return f"uid {os.getuid()}"
