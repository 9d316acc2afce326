"""What groups did in each hour, counted from facts: requests by class, tokens, completed tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta

from slo.classify import EXCLUDED, FIRST_BAD, GOOD, INELIGIBLE, judgements_sql
from slo.spending.cell import Counted, Group
from slo.spending.model import CostSlo, Per
from slo.spending.source import Hour
from slo.windows import instant, nanoseconds
from store.engine import Engine

TASK_ENDS_AFTER = timedelta(hours=1)
"""A task is over when nothing of it follows for so long."""

_HOUR_NS = 3_600 * 10**9


def count_units(
    engine: Engine, slo: CostSlo, start: datetime, end: datetime, at: datetime
) -> Mapping[Hour, Mapping[Group, Counted]]:
    """Count requests that started within [start, end), by hour; nothing from `at` on is seen."""
    found: dict[Hour, dict[Group, Counted]] = defaultdict(dict)
    for row in engine.rows(_requests(slo, start, end)):
        found[row["hour"]][tuple(row["group"])] = Counted(
            good=row["good"],
            bad=row["bad"],
            excluded=row["excluded"],
            tokens=row["tokens"],
            unmetered=row["unmetered"],
            unseen=row["unseen"],
        )
    if slo.per is Per.TASK:
        for row in engine.rows(_tasks(slo, start, end, at)):
            counted = found[row["hour"]].setdefault(tuple(row["group"]), Counted())
            found[row["hour"]][tuple(row["group"])] = counted._replace(tasks=row["tasks"])
    return found


def _requests(slo: CostSlo, start: datetime, end: datetime) -> str:
    return f"""
SELECT hour, j.2 AS group, toInt64(countIf(j.3 = {GOOD})) AS good,
  toInt64(countIf(j.3 >= {FIRST_BAD})) AS bad, toInt64(countIf(j.3 = {EXCLUDED})) AS excluded,
  toInt64(sumIf(spent, is_metered)) AS tokens,
  toInt64(countIf(NOT is_metered AND (is_run OR j.3 = {GOOD}))) AS unmetered,
  toInt64(countIf(NOT is_metered AND NOT is_run AND j.3 = {GOOD})) AS unseen
FROM (
  SELECT toInt64(intDiv(toUnixTimestamp64Nano(start), {_HOUR_NS})) AS hour,
    isNotNull(prompt_tokens) AND isNotNull(completion_tokens) AS is_metered,
    ifNull(prompt_tokens, 0) + ifNull(completion_tokens, 0) AS spent,
    replica != '' AND ifNull(engine_s, 0) > 0 AS is_run, {judgements_sql([slo])}[1] AS j
  FROM facts FINAL WHERE {_within(slo, start, end)}
)
WHERE j.3 != {INELIGIBLE} GROUP BY hour, group"""


def _tasks(slo: CostSlo, start: datetime, end: datetime, at: datetime) -> str:
    """Count tasks by their last request, where that is good; seen as of `at`."""
    seen = min(end + TASK_ENDS_AFTER, at)
    quiet = round(TASK_ENDS_AFTER.total_seconds()) * 10**9
    return f"""
SELECT toInt64(intDiv(began, {_HOUR_NS})) AS hour, j.2 AS group, toInt64(count()) AS tasks
FROM (
  SELECT began, j, leadInFrame(began) OVER (
    PARTITION BY tenant, task_id ORDER BY began, request_id
    ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS next
  FROM (
    SELECT toUnixTimestamp64Nano(start) AS began, tenant, task_id, request_id,
      {judgements_sql([slo])}[1] AS j
    FROM facts FINAL WHERE {_within(slo, start, seen)}
  )
  WHERE j.3 != {INELIGIBLE}
)
WHERE began < {nanoseconds(end)} AND j.3 = {GOOD} AND (next = 0 OR next >= began + {quiet})
GROUP BY hour, group"""


def _within(slo: CostSlo, start: datetime, end: datetime) -> str:
    times = f"start >= {instant(nanoseconds(start))} AND start < {instant(nanoseconds(end))}"
    return f"{times} AND task_id != ''" if slo.per is Per.TASK else times
