"""Native documents -> OpenSLO v1, which import back to the same SLO. Pure.

What OpenSLO has no word for (seconds, `min_bad`, named clauses, a calendar beside a rolling window,
histograms) stands in one annotation. It is found by importing what was written and comparing: what
differs is what OpenSLO could not say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from base.durations import format_duration, parse_duration
from base.errors import BadInput
from slo.checks import DEFAULT_WINDOW
from slo.imports.draft import BEYOND, name_of
from slo.imports.openslo import import_plain
from slo.model import Slo

VERSION = "openslo/v1"
LONGEST_DESCRIPTION = 1050
LONGEST_NAME = 63

_DEFAULTS: dict[str, Any] = {"window": format_duration(DEFAULT_WINDOW), "good": "outcome = 'good'"}
_LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_UNITS = (("w", timedelta(weeks=1)), ("d", timedelta(days=1)), ("h", timedelta(hours=1)))
_MINUTE = timedelta(minutes=1)


def to_openslo(slo: Slo, document: Mapping[str, Any]) -> dict[str, Any]:
    """Write one SLO; `document` is the native one that it was read from."""
    document = _DEFAULTS | {key: value for key, value in document.items() if value is not None}
    if "prometheus" in document:
        del document["good"]
    written = _write(slo, document, {})
    back = import_plain(written)
    beyond = {
        key: document.get(key)
        for key in sorted({*document, *back})
        if _canonical(document.get(key)) != _canonical(back.get(key))
    }
    return _write(slo, document, beyond) if beyond else written


def _write(slo: Slo, document: Mapping[str, Any], beyond: Mapping[str, Any]) -> dict[str, Any]:
    name = name_of(slo.name)[:LONGEST_NAME].strip("-")
    labels = {key: value for key, value in slo.labels.items() if _LABEL.fullmatch(key)}
    notes = {key: text for key, text in slo.annotations.items() if key != BEYOND and _is_key(key)}
    if beyond:
        notes[BEYOND] = json.dumps(beyond, sort_keys=True, ensure_ascii=False)
    texts = {"labels": labels, "annotations": notes}
    metadata = {"name": name, **{key: found for key, found in texts.items() if found}}
    spec: dict[str, Any] = {}
    if slo.description:
        spec["description"] = slo.description[:LONGEST_DESCRIPTION]
    method, sliced = _method(slo)
    spec |= {
        "service": slo.labels.get("service") or name,
        "indicator": {"metadata": {"name": name}, "spec": {"ratioMetric": _ratio(slo, document)}},
        "timeWindow": [{"duration": _duration(slo.window), "isRolling": True}],
        "budgetingMethod": method,
        "objectives": [{"targetPercent": document["objective"], **sliced}],
    }
    if slo.tiers:
        spec["alertPolicies"] = [_policy(tier) for tier in slo.tiers]
    return {"apiVersion": VERSION, "kind": "SLO", "metadata": metadata, "spec": spec}


def _method(slo: Slo) -> tuple[str, dict[str, Any]]:
    if slo.slices is None:
        return "Occurrences", {}
    share = round(float(slo.slices.share), 12)
    return "Timeslices", {
        "timeSliceTarget": int(share) if share == int(share) else share,
        "timeSliceWindow": _duration(slo.slices.length),
    }


def _ratio(slo: Slo, document: Mapping[str, Any]) -> dict[str, Any]:
    section = document.get("prometheus")
    if section is None:
        good = document["good"]
        if isinstance(good, Mapping):
            good = " and ".join(f"({_text(condition)})" for condition in good.values())
        eligible = {"expression": _text(document.get("eligible", ""))}
        return {
            "counter": True,
            "good": _source("tokenweir", {"expression": _text(good)}),
            "total": _source("tokenweir", eligible | _dimensions(slo)),
        }
    part, judged, total = _queries(section)
    server = {"metricSourceRef": section["server"]} if section.get("server") else {}
    return {
        "counter": True,
        part: _source("Prometheus", {"query": judged}, server),
        "total": _source("Prometheus", {"query": total} | _dimensions(slo), server),
    }


def _queries(section: Mapping[str, Any]) -> tuple[str, str, str]:
    """Say in queries what a section counts: which part it is, the part, and all."""
    for part in ("bad", "good"):
        if part in section:
            return part, section[part], section["total"]
        if f"{part}_query" in section:
            return part, section[f"{part}_query"], section["total_query"]
    if "gauge" in section:
        gauge = section["gauge"]
        return (
            "bad",
            f"sum(sum_over_time(({gauge} == bool 0)[$window:1m]))",
            f"sum(count_over_time({gauge}[$window:1m]))",
        )
    if "error_ratio_query" in section:
        total = section["total_query"]
        return "bad", f"({total}) * ({section['error_ratio_query']})", total
    native = section.get("native_histogram")
    observed = f"sum(increase({native or section['histogram']}[$window]))"
    threshold = section["threshold"]
    if native:
        count = f"histogram_count({observed})"
        limit = _seconds(threshold)
        return "good", f"histogram_fraction(-Inf, {limit}, {observed}) * {count}", count
    name, brace, rest = str(section["histogram"]).partition("{")
    inside = f"{rest.removesuffix('}')}," if brace and rest != "}" else ""
    bucket = f'{name.strip()}_bucket{{{inside}le="{_seconds(threshold)}"}}'
    return "good", bucket, f"{name.strip()}_count{brace}{rest}"


def _seconds(threshold: Any) -> str:
    if isinstance(threshold, (int, float)):
        return f"{threshold:g}"
    return f"{parse_duration(str(threshold)).total_seconds():g}"


def _source(
    kind: str, spec: Mapping[str, Any], reference: Mapping[str, str] | None = None
) -> dict[str, Any]:
    return {"metricSource": {**(reference or {}), "type": kind, "spec": dict(spec)}}


def _dimensions(slo: Slo) -> dict[str, Any]:
    return {"dimensions": list(slo.group_by)} if slo.group_by else {}


def _policy(tier: Any) -> dict[str, Any]:
    """Write a tier as a policy: OpenSLO allows one condition each."""
    name = name_of(tier.name)[:LONGEST_NAME].strip("-") or "alert"
    condition = {
        "kind": "burnrate",
        "op": "gte",
        "threshold": tier.factor,
        "lookbackWindow": _duration(tier.long),
        "alertAfter": _duration(tier.short),
    }
    return {
        "kind": "AlertPolicy",
        "metadata": {"name": name},
        "spec": {
            "alertWhenBreaching": True,
            "conditions": [{
                "kind": "AlertCondition",
                "metadata": {"name": name},
                "spec": {"severity": tier.severity, "condition": condition},
            }],
        },
    }  # fmt: skip


def _duration(span: timedelta) -> str:
    """Write a duration in one unit, as OpenSLO wants; minutes are its finest."""
    for unit, size in _UNITS:
        if span >= size and span % size == timedelta(0):
            return f"{span // size}{unit}"
    return f"{max(1, -(-span // _MINUTE))}m"


def _is_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    return _LABEL.fullmatch(name) is not None and (
        not slash or re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", prefix) is not None
    )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _canonical(value: Any) -> Any:
    """Compare `30d` with `4w2d`, and a text with the same text."""
    if isinstance(value, Mapping):
        return {key: _canonical(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_canonical(each) for each in value]
    if not isinstance(value, str):
        return value
    try:
        return format_duration(parse_duration(value))
    except BadInput:
        return value
