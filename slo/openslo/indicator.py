"""OpenSLO SLIs -> eligible and good.

A metric source of type `tokenweir` holds filter expressions over request facts:

    ratioMetric:
      good:  {metricSource: {type: tokenweir, spec: {expression: "outcome = 'good'"}}}
      total: {metricSource: {type: tokenweir, spec: {expression: "route = '/v1/chat/completions'"}}}

    thresholdMetric:
      metricSource: {type: tokenweir, spec: {expression: ttft_ms, dimensions: [tenant]}}

`bad` may stand for `good`; a threshold source may have `eligible`. `dimensions` of the total (or
threshold) source are the group. Every other type is a query that only its own server can answer,
and is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from base.errors import BadInput
from slo.checks import read_group_by
from slo.columns import Kind
from slo.expression import Comparison, Expression, Not, Value, kind_of
from slo.fields import Fields
from slo.located import Located
from slo.openslo.objects import Objects
from slo.parse import Clause, parse_clauses, parse_filter, parse_number

_OPERATORS: dict[str, Literal["<", "<=", ">", ">="]] = {
    "lt": "<", "lte": "<=", "gt": ">", "gte": ">=",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Indicator:
    """`threshold` is compared with each objective's value; None for a ratio."""

    eligible: Expression | None
    good: tuple[Clause, ...]
    group_by: tuple[str, ...]
    threshold: Expression | None = None
    threshold_text: str = ""


def read_indicator(spec: Located, what: str, objects: Objects) -> Indicator | None:
    """Read the spec of an SLI; None when it has problems, which the report then holds."""
    fields = Fields(spec, what, objects.report)
    ratio, threshold = fields.mapping("ratioMetric"), fields.mapping("thresholdMetric")
    if (ratio is None) == (threshold is None):
        fields.bad(spec, "an indicator has either ratioMetric or thresholdMetric")
        return None
    if ratio is not None:
        return _ratio(Fields(ratio, what, objects.report), objects)
    assert threshold is not None  # noqa: S101  one of the two is there
    return _threshold(Fields(threshold, what, objects.report), objects)


def threshold_clause(indicator: Indicator, objective: Fields) -> Clause | None:
    """Compare a threshold metric with the `op` and `value` of one objective."""
    operator = objective.text("op", required=True)
    value = objective.number("value")
    if operator is not None and operator not in _OPERATORS:
        objective.bad(objective.at, f"op {operator!r} is not one of {', '.join(_OPERATORS)}")
        return None
    if value is None:
        objective.bad(objective.at, "value is missing: a thresholdMetric needs one")
        return None
    if operator is None or indicator.threshold is None:
        return None
    sign = _OPERATORS[operator]
    return Clause(
        f"{indicator.threshold_text} {sign} {value:g}",
        Comparison(sign, indicator.threshold, Value(value)),
    )


def _ratio(fields: Fields, objects: Objects) -> Indicator | None:
    fields.flag("counter")
    fields.take("rawType")
    raw = fields.take("raw")
    if raw is not None:
        fields.bad(raw, "a raw ratio cannot be counted per request: write good and total")
        return None
    good, bad = fields.mapping("good"), fields.mapping("bad")
    total = fields.mapping("total", required=True)
    fields.refuse_unknown()
    part = good or bad
    if part is None or (good is not None and bad is not None):
        fields.bad(fields.at, "a ratio has either good or bad next to total")
        return None
    judged = _source(part, fields, objects)
    whole = _source(total, fields, objects) if total else None
    if judged is None or whole is None:
        return None
    clauses = _clauses(judged, negate=good is None)
    eligible = _filter(whole, "expression")
    group_by = read_group_by(whole, "dimensions")
    whole.refuse_unknown()
    return None if clauses is None else Indicator(eligible, clauses, group_by)


def _threshold(fields: Fields, objects: Objects) -> Indicator | None:
    source = _source(fields.at, fields, objects)
    if source is None:
        return None
    text = source.text("expression", required=True)
    eligible = _filter(source, "eligible")
    group_by = read_group_by(source, "dimensions")
    source.refuse_unknown()
    if text is None:
        return None
    try:
        number = parse_number(text)
    except BadInput as error:
        source.bad(source.at.get("expression") or source.at, f"expression: {error}")
        return None
    served = parse_clauses("outcome = 'good'")
    return Indicator(eligible, served, group_by, threshold=number, threshold_text=text.strip())


def _source(holder: Located, fields: Fields, objects: Objects) -> Fields | None:
    """Read a metricSource down to its spec, if its type is ours."""
    at = Fields(holder, fields.what, fields.report).mapping("metricSource", required=True)
    if at is None:
        return None
    source = Fields(at, fields.what, fields.report)
    reference, kind = source.text("metricSourceRef"), source.text("type")
    kind = kind or (objects.source_type(reference) if reference else None)
    spec = source.mapping("spec")
    source.refuse_unknown()
    if kind is None or kind.lower() != "tokenweir":
        fields.bad(
            at,
            f"a metric source of type {kind!r} cannot be read here: requests are judged from "
            "their own facts; write `type: tokenweir` with a filter in spec.expression, such as "
            "expression: outcome = 'good' and ttft_ms <= 2000, or convert the file by "
            "`tokenweir slo import`",
        )
        return None
    if spec is None:
        fields.bad(at, "metricSource of type tokenweir needs spec.expression")
        return None
    return Fields(spec, fields.what, fields.report)


def _clauses(source: Fields, *, negate: bool) -> tuple[Clause, ...] | None:
    text = source.text("expression", required=True)
    source.refuse_unknown(("dimensions",))
    if text is None:
        return None
    try:
        if not negate:
            return parse_clauses(text)
        return (Clause(f"not ({text.strip()})", Not(parse_filter(text))),)
    except BadInput as error:
        source.bad(source.at.get("expression") or source.at, f"expression: {error}")
        return None


def _filter(source: Fields, key: str) -> Expression | None:
    text = source.text(key)
    if text is None:
        return None
    try:
        found = parse_filter(text)
    except BadInput as error:
        source.bad(source.at.get(key) or source.at, f"{key}: {error}")
        return None
    return found if kind_of(found) is Kind.FLAG else None
