"""OpenSLO indicators -> native ones, by what their metric source is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from base.errors import BadInput
from slo.columns import GROUP_COLUMNS
from slo.imports import promql
from slo.imports.draft import Draft, number_of, string_of
from slo.imports.openslo_objects import Objects
from slo.imports.outcome import Refusal
from slo.imports.sli import Sli, foreign, ratio, raw, threshold
from slo.located import Located
from slo.parse import parse_clauses, parse_filter, parse_number

_PROMETHEUS = (
    "prometheus", "promql", "thanos", "mimir", "cortex", "victoria", "chronosphere", "levitate",
)  # fmt: skip
_FOREIGN = (
    "datadog", "newrelic", "dynatrace", "splunk", "loki", "influx", "elastic", "opensearch",
    "cloudwatch", "bigquery", "appdynamics", "lightstep", "stackdriver", "cloudmonitoring",
    "graphite", "honeycomb", "instana", "opentsdb", "pingdom", "redshift", "sumologic", "azure",
    "thousandeyes", "wavefront", "zabbix", "nobl9",
)  # fmt: skip
_QUERY_FIELDS = ("query", "promql", "expression", "expr", "queryString", "metric")
_OWN = "tokenweir"
_SIGNS = {"lt": "<", "lte": "<=", "gt": ">", "gte": ">="}


@dataclass(frozen=True, slots=True)
class Indicator:
    """An indicator as an SLO or an objective names it."""

    inline: Located | None
    reference: Located | None
    at: Located


@dataclass(frozen=True, slots=True)
class Source:
    """One query: in PromQL, in tokenweir's filters, or in a language of another system."""

    language: Literal["promql", "own", "foreign"]
    system: str
    query: str
    by: tuple[str, ...]
    spec: Located
    at: Located


def read_sli(draft: Draft, indicator: Indicator, objects: Objects, *, name: str) -> Sli:
    """Read the indicator of one objective."""
    holder = indicator.inline
    if holder is None:
        assert indicator.reference is not None  # noqa: S101  one of the two is there
        holder = objects.refer("SLI", indicator.reference)
    spec = holder.get("spec") or holder
    names = ("ratioMetric", "ratioMetrics", "thresholdMetric")
    kinds = [key for key in names if spec.get(key) is not None]
    if len(kinds) != 1:
        raise Refusal(spec, "an indicator has either ratioMetric or thresholdMetric")
    if spec is not draft.at:
        draft.lose_rest(spec, "ratioMetric", "ratioMetrics", "thresholdMetric")
    at = spec.get(kinds[0])
    assert at is not None  # noqa: S101  it is the one that was found
    try:
        if kinds[0] == "thresholdMetric":
            return _threshold(draft, at, objects, name)
        return _ratio(draft, at, objects, name)
    except BadInput as error:
        raise error if isinstance(error, Refusal) else Refusal(at, str(error)) from error


def _ratio(draft: Draft, at: Located, objects: Objects, name: str) -> Sli:
    for key in ("op", "value"):
        stray = draft.at.get(key)
        if stray is not None:
            draft.fixed(f"{key} means nothing on a ratio objective and is left out", stray)
    raw_at = at.get("raw")
    if raw_at is not None:
        return _raw(draft, at, raw_at, objects, name)
    good, bad, total = at.get("good"), at.get("bad"), at.get("total")
    if (good is None) == (bad is None) or total is None:
        raise Refusal(at, "a ratio has good or bad, and total; or raw")
    kind: Literal["good", "bad"] = "good" if bad is None else "bad"
    part, whole = _source(good or bad or at, objects), _source(total, objects)
    if {part.language, whole.language} == {"own"}:
        return _own_ratio(kind, part, whole)
    if {part.language, whole.language} != {"promql"}:
        return _foreign(draft, at, part if part.language == "foreign" else whole, name)
    counter = at.get("counter") or at.get("incremental")
    by = whole.by or part.by
    return ratio(kind, part.query, whole.query, by, counter=counter is None or counter.data is True)


def _raw(draft: Draft, at: Located, raw_at: Located, objects: Objects, name: str) -> Sli:
    stated = at.get("rawType")
    if stated is None:
        draft.fixed("rawType is missing: success is taken", at)
    elif string_of(stated) not in {"success", "failure"}:
        raise Refusal(stated, f"rawType {string_of(stated)!r} is neither success nor failure")
    source = _source(raw_at, objects)
    if source.language != "promql":
        return _foreign(draft, at, source, name)
    return raw(source.query, source.by, success=string_of(stated) != "failure")


def _threshold(draft: Draft, at: Located, objects: Objects, name: str) -> Sli:
    operator, value = string_of(draft.at.get("op")), number_of(draft.at.get("value"))
    source = _source(at, objects)
    if source.language == "foreign" and draft.at.get("op") is None:
        return _foreign(draft, at, source, name)
    if operator not in _SIGNS:
        where = draft.at.get("op") or draft.at
        raise Refusal(
            where, f"op {operator or 'missing'!r}: a thresholdMetric needs lt, lte, gt or gte"
        )
    if value is None:
        value_at = draft.at.get("value")
        if value_at is not None:
            raise Refusal(value_at, f"value {string_of(value_at)!r} is not a number")
        draft.fixed("value is missing on a threshold objective: 0 is taken", draft.at)
        value = 0.0
    if source.language == "promql":
        return threshold(source.query, operator, value, source.by)
    if source.language == "foreign":
        return _foreign(draft, at, source, name, compared=f"{operator} {value:g}")
    parse_number(source.query)
    fields = _eligible(source, "eligible")
    condition = f"{source.query} {_SIGNS[operator]} {value:g}"
    fields["good"] = {"answered": "outcome = 'good'", condition: condition}
    return Sli(fields, _columns(source), over_facts=True)


def _own_ratio(kind: Literal["good", "bad"], part: Source, whole: Source) -> Sli:
    parse_clauses(part.query)
    fields = {"eligible": whole.query} if whole.query else {}
    if whole.query:
        parse_filter(whole.query)
    fields["good"] = part.query if kind == "good" else f"not ({part.query})"
    return Sli(fields, _columns(whole), over_facts=True)


def _eligible(source: Source, key: str) -> dict[str, object]:
    text = string_of(source.spec.get(key))
    if not text:
        return {}
    parse_filter(text)
    return {"eligible": text}


def _columns(source: Source) -> tuple[str, ...]:
    for column in source.by:
        if column not in GROUP_COLUMNS:
            raise Refusal(
                source.at, f"dimension {column!r} is not one of {', '.join(GROUP_COLUMNS)}"
            )
    return source.by


def _foreign(draft: Draft, at: Located, source: Source, name: str, *, compared: str = "") -> Sli:
    origin = {"of": at.plain(), **({"is good when": compared} if compared else {})}
    draft.annotations["sli_origin"] = json.dumps(origin, sort_keys=True, default=str)
    return foreign(name, source.system)


def _source(holder: Located, objects: Objects) -> Source:
    """Find what system a metric is asked of, and what it is asked."""
    at = holder.get("metricSource") or holder
    spec = at.get("spec") or at
    reference = at.get("metricSourceRef") or at.get("dataSourceRef")
    kind = string_of(at.get("type")) or string_of(at.get("queryType"))
    inline = at.get("dataSourceSpec")
    if not kind and inline is not None:
        kind = string_of(inline.get("type"))
    if not kind and reference is not None:
        source = objects.get("DataSource", string_of(reference))
        source_spec = source.get("spec") if source else None
        kind = string_of(source_spec.get("type")) if source_spec else ""
    kind = kind or string_of(at.get("source"))
    if isinstance(spec.data, str):  # the query alone
        query, spec = spec.data, Located({}, spec.line, spec.file)
    else:
        query = next((string_of(spec.get(key)) for key in _QUERY_FIELDS if spec.get(key)), "")
    dimensions = spec.get("dimensions")
    by = (
        tuple(string_of(item) for item in dimensions.data)
        if dimensions is not None and isinstance(dimensions.data, list)
        else ()
    )
    language = _language(kind or string_of(reference), query)
    system = kind or string_of(reference) or "another system"
    if language == "promql" and not query:
        raise Refusal(at, f"a {system} source without a query: write spec.query")
    return Source(language, system, query, by, spec, at)


def _language(system: str, query: str) -> Literal["promql", "own", "foreign"]:
    """Tell by the name of the system; where that says nothing, by the form of the query."""
    name = system.lower().replace("-", "").replace("_", "").replace(" ", "")
    if name == _OWN:
        return "own"
    if any(each in name for each in _PROMETHEUS):
        return "promql"
    if any(each in name for each in _FOREIGN) or not {"(", "{"} & set(query):
        return "foreign"
    try:
        promql.tidy(query)
    except BadInput:
        return "foreign"
    return "promql"
