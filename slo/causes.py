"""What burns a budget: since when, which clause, which replica, tenant, route..., which traces.

A value explains a burn when it has more of the bad requests than of all requests. The difference
of the two shares says how much: one replica of four that fails everything has all of the bad and a
quarter of the traffic, 75 points; a tenant that only sends most of both has none. The strongest
value of each dimension is named when it stands out.

Who floods makes everybody fail, not itself most: `slo.surges` finds what grew.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from slo.classify import FIRST_BAD, GOOD, judgements_sql, reason_sql
from slo.compile import literal
from slo.exclusion import Excluded
from slo.judged_rows import is_left_out
from slo.model import Slo
from slo.surges import read_surges
from slo.verdict import Causes, Suspect, Verdict
from slo.weighed import requests_sql
from slo.windows import instant, nanoseconds
from store.engine import Engine

DIMENSIONS = (
    "tenant", "route", "model", "replica", "app_version", "priority", "feature", "user_id",
)  # fmt: skip
LONGEST = timedelta(hours=6)
"""How far back causes are looked for: a burn of days is explained by its newest hours."""
SHORTEST = timedelta(hours=1)
"""What was before the burn is looked at too: a new version differs from the one before it."""

_STANDS_OUT = 0.25  # least difference of the shares
_MOST_OF_BAD = 0.5  # least share of the bad requests
_CALM = 3  # minutes with traffic and without burn that end a burn
_TRACES = 3
_VALUES = 50  # of a dimension, by bad requests: the rest cannot be the strongest

_MOST_GROUPS = 50  # explained at once, the fastest burning ones
_GOOD_FOR = timedelta(seconds=30)

Group = tuple[str, ...]


class CauseFinder:
    """Adds causes to burning verdicts; a burn that goes on is looked at again every half minute."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[str, tuple[datetime, dict[Group, Causes | None]]] = {}

    def explain(
        self,
        slo: Slo,
        verdicts: Sequence[Verdict],
        now: datetime,
        excluded: Sequence[Excluded] = (),
    ) -> list[Verdict]:
        """Return the verdicts of one SLO, those that burn with what they burn on."""
        burning = {tuple(each.group.values()): each for each in verdicts if _pace(each) is not None}
        if not burning:
            self._known.pop(slo.name, None)
            return list(verdicts)
        worst = sorted(burning, key=lambda group: -(_pace(burning[group]) or 0))[:_MOST_GROUPS]
        at, known = self._known.get(slo.name, (now, {}))
        if not timedelta(0) <= now - at < _GOOD_FOR or any(group not in known for group in worst):
            window = max(
                tier.long for each in burning.values() for tier in each.tiers if tier.burning
            )
            found = read_causes(self._engine, slo, worst, now, window, excluded)
            known = {group: found.get(group) for group in worst}
            self._known[slo.name] = now, known
        return [replace(each, causes=known.get(tuple(each.group.values()))) for each in verdicts]


def read_causes(
    engine: Engine,
    slo: Slo,
    groups: Iterable[Group],
    now: datetime,
    window: timedelta,
    excluded: Sequence[Excluded] = (),
) -> dict[Group, Causes]:
    """Explain the burns of some groups of one SLO over (now - window, now], from facts.

    A group of which no minute burned there has no entry.
    """
    wanted = sorted(set(groups))
    if not wanted:
        return {}
    judged = _judged(slo, wanted, now, max(SHORTEST, min(window, LONGEST)), excluded)
    reasons: dict[tuple[Group, int], dict[str, int]] = defaultdict(dict)
    minutes: dict[Group, list[tuple[int, int, int]]] = defaultdict(list)
    for row in engine.rows(_by_minute(judged)):
        group = tuple(row["group"])
        minutes[group].append((row["minute"], row["bad"], row["total"]))
        for reason, count in row["reasons"].items():
            reasons[group, row["minute"]][reason] = count
    since = {group: _since(found, _expected(slo, group)) for group, found in minutes.items()}
    burns = {group: begin for group, begin in since.items() if begin is not None}
    suspects = _suspects(engine, slo, judged, burns)
    traces = _traces(engine, judged, suspects)
    surges = read_surges(engine, slo, since, now)
    return {
        group: Causes(
            since=since[group],
            reasons=_shares(
                found
                for (whose, minute), found in reasons.items()
                if whose == group and minute >= burns[group].timestamp()
            ),
            suspects=suspects.get(group, ()),
            traces=traces.get(group, ()),
            surges=surges.get(group, ()),
        )
        for group in burns
    }


def _suspects(
    engine: Engine, slo: Slo, judged: str, burns: Mapping[Group, datetime]
) -> dict[Group, tuple[Suspect, ...]]:
    """Compare shares since the burn began; of a value that is alone since then, with before."""
    # A dimension that the SLO is grouped by has one value in each group.
    names = [name for name in DIMENSIONS if name not in slo.group_by]
    if not names or not burns:
        return {}
    burning = " OR ".join(
        f"(group = {_array(group)} AND at >= {nanoseconds(begin)})"
        for group, begin in burns.items()
    )
    pairs = ", ".join(f"({literal(name)}, toString({name}))" for name in names)
    rows = engine.rows(f"""
SELECT group, dimension, value, toInt64(bad) AS bad, toInt64(total) AS total, toInt64(ever) AS ever,
  toInt64(sum(bad) OVER w) AS all_bad, toInt64(sum(total) OVER w) AS everything,
  toInt64(sum(ever) OVER w) AS everything_ever
FROM (
  SELECT group, d.1 AS dimension, d.2 AS value, sumIf(b, burns) AS bad,
    sumIf(n, burns) AS total, sum(n) AS ever
  FROM (
    SELECT group, bad AS b, total AS n, ({burning}) AS burns, arrayJoin([{pairs}]) AS d
    FROM ({judged})
  )
  GROUP BY group, dimension, value
)
WINDOW w AS (PARTITION BY group, dimension)
ORDER BY group, dimension, bad DESC, value LIMIT {_VALUES} BY group, dimension""")
    best: dict[Group, dict[str, Suspect]] = defaultdict(dict)
    for row in rows:
        if not row["value"] or not row["all_bad"]:
            continue
        is_alone = row["total"] == row["everything"]
        of_all = (
            row["ever"] / row["everything_ever"] if is_alone else row["total"] / row["everything"]
        )
        found = Suspect(row["dimension"], row["value"], row["bad"] / row["all_bad"], of_all)
        if found.of_bad < _MOST_OF_BAD or found.of_bad - found.of_all < _STANDS_OUT:
            continue
        known = best[tuple(row["group"])].get(found.dimension)
        if known is None or _strength(found) > _strength(known):
            best[tuple(row["group"])][found.dimension] = found
    return {group: tuple(sorted(found.values(), key=_rank)) for group, found in best.items()}


def _traces(
    engine: Engine, judged: str, suspects: Mapping[Group, Sequence[Suspect]]
) -> dict[Group, tuple[str, ...]]:
    first = [
        f"(group = {_array(group)} AND {found[0].dimension} = {literal(found[0].value)})"
        for group, found in suspects.items()
    ]
    explained = " OR ".join(first) or "1"
    others = ", ".join(_array(group) for group in suspects)
    unexplained = f" OR group NOT IN ({others})" if suspects else ""
    rows = engine.rows(f"""
SELECT group, lower(hex(trace_id)) AS trace FROM ({judged})
WHERE is_bad = 1 AND ({explained}{unexplained})
ORDER BY at DESC, trace LIMIT {_TRACES} BY group""")
    out: dict[Group, tuple[str, ...]] = defaultdict(tuple)
    for row in rows:
        out[tuple(row["group"])] += (row["trace"],)
    return out


def _expected(slo: Slo, group: Group) -> float:
    """Say what share of a minute's requests should be good: of slices, what makes one good."""
    if slo.slices is not None:
        return float(slo.slices.share)
    return slo.for_group(group).objective


def _since(minutes: Sequence[tuple[int, int, int]], objective: float) -> datetime | None:
    """Find where the present burn began: before it, a few minutes with traffic did not burn."""
    allowed, calm, began = 1 - objective, 0, None
    for minute, bad, total in sorted(minutes, reverse=True):
        if bad > allowed * total:
            calm, began = 0, minute
        else:
            calm += 1
        if began is not None and calm >= _CALM:
            break
    return None if began is None else datetime.fromtimestamp(began, UTC)


def _shares(of_minutes: Iterable[Mapping[str, int]]) -> tuple[tuple[str, float], ...]:
    counts: Counter[str] = Counter()
    for found in of_minutes:
        counts.update(found)
    whole = counts.total()
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple((reason, count / whole) for reason, count in ordered)


def _strength(suspect: Suspect) -> float:
    return suspect.of_bad - suspect.of_all


def _rank(suspect: Suspect) -> tuple[float, int]:
    return -round(_strength(suspect), 6), DIMENSIONS.index(suspect.dimension)


def _by_minute(judged: str) -> str:
    return f"""
SELECT group, toInt64(intDiv(at, 60000000000) * 60) AS minute, toInt64(sum(j.bad)) AS bad,
  toInt64(sum(j.total)) AS total, sumMap(j.reasons) AS reasons
FROM ({judged}) AS j GROUP BY group, minute"""


def _pace(verdict: Verdict) -> float | None:
    """Say how fast it burns: by its fastest burning tier; None where none burns."""
    return max((tier.long_burn or 0.0 for tier in verdict.tiers if tier.burning), default=None)


def _judged(
    slo: Slo,
    groups: Sequence[Group],
    now: datetime,
    window: timedelta,
    excluded: Sequence[Excluded],
) -> str:
    """Select the judged requests of the groups, with every dimension; bad and total are weights."""
    end = nanoseconds(now)
    start = end - window // timedelta(microseconds=1) * 1000
    wanted = ", ".join(map(_array, groups))
    left_out = "".join(f" AND NOT {is_left_out(each)}" for each in excluded if each.slo == slo.name)
    if slo.is_weighted:
        within = f"start > {instant(start)} AND start <= {instant(end)}"
        requests = requests_sql([slo], "facts FINAL", within, ("trace_id", *DIMENSIONS))
        return f"""
SELECT {literal(slo.name)} AS slo, group, bad_requests AS is_bad, bad, good + bad AS total,
  bad_reasons AS reasons, at, trace_id, {", ".join(DIMENSIONS)}
FROM ({requests}) WHERE requests = 1 AND group IN ({wanted}){left_out}"""
    return f"""
SELECT {literal(slo.name)} AS slo, j.2 AS group, j.3 >= {FIRST_BAD} AS is_bad,
  toUInt64(is_bad) AS bad, toUInt64(1) AS total,
  if(is_bad, map(assumeNotNull({reason_sql([slo], "j.1", "j.3")}), toUInt64(1)),
    CAST(map(), 'Map(String, UInt64)')) AS reasons, at, trace_id, {", ".join(DIMENSIONS)}
FROM (
  SELECT toUnixTimestamp64Nano(start) AS at, outcome, outcome_reason, trace_id,
    {", ".join(DIMENSIONS)}, arrayJoin({judgements_sql([slo])}) AS j
  FROM facts FINAL
  WHERE start > {instant(start)} AND start <= {instant(end)}
)
WHERE (j.3 = {GOOD} OR j.3 >= {FIRST_BAD}) AND group IN ({wanted}){left_out}"""


def _array(group: Group) -> str:
    return f"CAST([{', '.join(map(literal, group))}], 'Array(String)')"
