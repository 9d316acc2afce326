"""Who sends far more since a burn began: a flood makes everybody fail, not itself most.

A surge is a value that sends at least three times as much as before the burn, and at least half of
all that is sent more. It is looked for over all eligible traffic, whatever the group: a tenant
suffers from another one's flood.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from slo.compile import is_true, literal
from slo.model import Slo
from slo.verdict import Surge
from slo.windows import instant, nanoseconds
from store.engine import Engine

Group = tuple[str, ...]

SENDERS = ("tenant", "user_id", "feature", "route", "model")
"""Dimensions that say who sends: only of those does more traffic explain anything."""

_TIMES_AS_MUCH = 3.0
_OF_GROWTH = 0.5
_LEAST_GROWTH = 0.2  # of all that was sent before: less than a fifth more overloads nothing
_CALM = timedelta(minutes=30)  # the least that is looked at before a burn


def read_surges(
    engine: Engine, slo: Slo, since: Mapping[Group, datetime | None], now: datetime
) -> dict[Group, tuple[Surge, ...]]:
    """Compare what is sent since a burn began with as long before it, at least half an hour.

    Everything is compared, whatever the group: a tenant suffers from another one's flood.
    """
    out: dict[Group, tuple[Surge, ...]] = {}
    for begin in {moment for moment in since.values() if moment is not None}:
        found = _surges_since(engine, slo, begin, now)
        out |= {group: found for group, moment in since.items() if moment == begin}
    return out


def _surges_since(engine: Engine, slo: Slo, begin: datetime, now: datetime) -> tuple[Surge, ...]:
    burning = max(now - begin, timedelta(minutes=1))
    calm = max(burning, _CALM)
    edge = instant(nanoseconds(begin))
    pairs = ", ".join(f"({literal(name)}, toString({name}))" for name in SENDERS)
    sums = ", ".join(
        f"toInt64(sumIf({value}, {when})) AS {name}"
        for name, value, when in (
            ("requests", "1", "is_now"),
            ("requests_before", "1", "NOT is_now"),
            ("prompt_tokens", "tokens", "is_now"),
            ("prompt_tokens_before", "tokens", "NOT is_now"),
        )
    )
    rows = engine.rows(f"""
SELECT d.1 AS dimension, d.2 AS value, {sums}
FROM (
  SELECT start >= {edge} AS is_now, ifNull(prompt_tokens, 0) AS tokens, arrayJoin([{pairs}]) AS d
  FROM facts FINAL
  WHERE start > {instant(nanoseconds(begin - calm))} AND start <= {instant(nanoseconds(now))}
    AND {_eligible(slo)}
)
GROUP BY dimension, value""")
    out: list[tuple[float, Surge]] = []
    for dimension in SENDERS:
        mine = [row for row in rows if row["dimension"] == dimension]
        for what in ("requests", "prompt_tokens"):
            rates = {
                row["value"]: (
                    row[what] / (burning / timedelta(minutes=1)),
                    row[f"{what}_before"] / (calm / timedelta(minutes=1)),
                )
                for row in mine
            }
            before = sum(was for _, was in rates.values())
            growth = sum(is_now - was for is_now, was in rates.values())
            if growth <= _LEAST_GROWTH * before:
                continue
            for value, (is_now, was) in rates.items():
                share = (is_now - was) / growth
                if value and share >= _OF_GROWTH and is_now >= _TIMES_AS_MUCH * was:
                    out.append((share, Surge(dimension, value, what, is_now, was)))
    out.sort(key=lambda pair: (SENDERS.index(pair[1].dimension), -pair[0], pair[1].what))
    return tuple(surge for _, surge in out)


def _eligible(slo: Slo) -> str:
    return "1" if slo.eligible is None else is_true(slo.eligible)
