"""Windows of SLOs from Prometheus: of whole buckets, because behind them are no facts. Pure.

A bucket counts as one event at its start, so it lies in exactly one of two windows that touch. The
tables of these SLOs are all written at once, up to now; only their age limits what is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

from slo.completeness import END_OF_TIME, Complete
from slo.schema import TABLES
from slo.windows import FACTS, NS, Span

_FINEST_FIRST = tuple(sorted(TABLES))


def all_written(complete: Mapping[timedelta, Complete]) -> dict[timedelta, Complete]:
    """Say what may be read from each table, given what is kept."""
    return {step: replace(each, until=END_OF_TIME) for step, each in complete.items()}


def without_facts(
    spans: Mapping[timedelta, Sequence[Span]], complete: Mapping[timedelta, Complete]
) -> dict[timedelta, tuple[Span, ...]]:
    """Read what would be read from facts from the finest table that is kept so far back."""
    found = {step: list(spans.get(step, ())) for step in TABLES}
    floors = [END_OF_TIME, *(complete[step].floor for step in _FINEST_FIRST[:-1]), 0]
    for start, end in spans.get(FACTS, ()):
        for step, (newer, older) in zip(_FINEST_FIRST, pairwise(floors), strict=True):
            size = round(step.total_seconds()) * NS
            first = -(-max(start, older * NS) // size) * size
            last = -(-min(end, newer * NS) // size) * size
            if first < last:
                found[step].append((first, last))
    return {step: tuple(each) for step, each in found.items()}
