"""The `prometheus:` section of an SLO document."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Literal

from base.durations import parse_duration
from base.errors import BadInput
from slo.fields import Fields
from slo.located import Located
from slo.prometheus.selector import Selector, parse_selector
from slo.prometheus.sli import Counters, Events, Gauge, Histogram, Part, PrometheusSli, Queries

BLOCK = timedelta(minutes=10)
"""A resolution divides this, so that every answer lies in one stretch that is counted at once."""

WINDOW, WINDOW_SECONDS = "$window", "$window_seconds"

_MINUTE = timedelta(minutes=1)
_OF_ALERTS = frozenset({"alertname", "severity", "slo"})
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_SHAPES = (
    ("total",), ("histogram", "threshold"), ("native_histogram", "threshold"), ("gauge",),
    ("total_query",),
)  # fmt: skip
_WAYS = (
    "total with bad or good, histogram or native_histogram with threshold, gauge, or total_query "
    "with bad_query, good_query or error_ratio_query"
)


def read_prometheus(fields: Fields) -> PrometheusSli | None:
    """Read `prometheus:` of a document; None where there is none, or problems are reported."""
    at = fields.mapping("prometheus")
    if at is None:
        return None
    for key in ("eligible", "good"):
        beside = fields.at.get(key)
        if beside is not None:
            fields.bad(
                beside,
                f"{key} filters requests that tokenweir has seen; beside prometheus it means "
                "nothing: remove it, or say it in the selectors",
            )
    inner = Fields(at, f"{fields.what} prometheus", fields.report)
    server = inner.text("server")
    events = _events(inner)
    inner.refuse_unknown(_KEYS)
    return None if events is None else PrometheusSli(events, server)


def read_labels(fields: Fields, key: str) -> tuple[str, ...]:
    """Read label names to group by."""
    labels: list[str] = []
    for item in fields.items(key):
        if not isinstance(item.data, str) or not _LABEL.fullmatch(item.data):
            fields.bad(item, f"{key} {item.plain()!r} is not a label's name")
        elif item.data in {"le", "__name__"}:
            fields.bad(item, f"{key} {item.data!r} is not a label that events are told apart by")
        elif item.data in _OF_ALERTS:
            fields.bad(
                item,
                f"{key} {item.data!r} would hide the label {item.data!r} of its alerts: give the "
                "series another label, or leave it out",
            )
        elif item.data in labels:
            fields.bad(item, f"{key} names {item.data!r} twice")
        else:
            labels.append(item.data)
    return tuple(labels)


def _events(fields: Fields) -> Events | None:
    given = [shape for shape in _SHAPES if fields.at.get(shape[0]) is not None]
    if len(given) != 1:
        found = " and ".join(shape[0] for shape in given) or "none of them"
        fields.bad(fields.at, f"give one of {_WAYS}; found {found}")
        return None
    match given[0][0]:
        case "total":
            return _counters(fields)
        case "gauge":
            selector = _selector(fields, "gauge")
            _only(fields, "gauge")
            return None if selector is None else Gauge(selector)
        case "total_query":
            return _queries(fields)
        case kind:
            return _histogram(fields, kind)


def _counters(fields: Fields) -> Counters | None:
    total = _selector(fields, "total")
    part_is = _one_of(fields, _PARTS, "total")
    part = None if part_is is None else _selector(fields, part_is)
    _only(fields, "total", *_PARTS)
    if total is None or part_is is None or part is None:
        return None
    if total == part:
        fields.bad(fields.at, f"total and {part_is} select the same series")
        return None
    which: Part = "bad" if part_is == "bad" else "good"
    return Counters(total, part, which)


def _histogram(fields: Fields, kind: str) -> Histogram | None:
    selector = _selector(fields, kind)
    threshold = _threshold(fields, selector)
    _only(fields, kind, "threshold")
    if selector is None or threshold is None:
        return None
    if any(matcher.label == "le" for matcher in selector.matchers):
        fields.bad(
            fields.take(kind) or fields.at,
            f"{kind} names the histogram without le: the bucket is chosen by threshold",
        )
        return None
    for suffix in ("_bucket", "_count", "_sum"):
        if selector.metric.endswith(suffix):
            fields.bad(
                fields.take(kind) or fields.at,
                f"{kind} names the histogram, not one of its series: write "
                f"{selector.metric.removesuffix(suffix)}",
            )
            return None
    return Histogram(selector, threshold, native=kind == "native_histogram")


def _threshold(fields: Fields, selector: Selector | None) -> float | None:
    at = fields.take("threshold")
    if at is None:
        fields.bad(fields.at, "threshold is missing: write one such as 500ms")
        return None
    if isinstance(at.data, (int, float)) and not isinstance(at.data, bool):
        if math.isfinite(at.data):
            return float(at.data)
        fields.bad(at, "threshold is not finite")
        return None
    try:
        seconds = parse_duration(str(at.data)).total_seconds()
    except BadInput as error:
        fields.bad(at, f"threshold: {error}; a plain number is in the metric's own unit")
        return None
    name = selector.metric if selector else ""
    if name.endswith(("_milliseconds", "_ms")):
        return seconds * 1000
    if selector is not None and not name.endswith("_seconds"):
        fields.report.warn(
            fields.what, at,
            f"threshold {at.data} is taken as {seconds:g} of whatever unit {name} has: a plain "
            "number says it in that unit",
        )  # fmt: skip
    return seconds


def _queries(fields: Fields) -> Queries | None:
    part_key = _one_of(fields, _PART_QUERIES, "total_query")
    total = _query(fields, "total_query")
    part = None if part_key is None else _query(fields, part_key)
    resolution = fields.duration("resolution") or _MINUTE
    if resolution < _MINUTE or resolution % _MINUTE or BLOCK % resolution:
        fields.bad(
            fields.take("resolution") or fields.at, "resolution is one of 1m, 2m, 5m and 10m"
        )
        return None
    _only(fields, "total_query", *_PART_QUERIES, "resolution")
    if total is None or part is None or part_key is None:
        return None
    kinds: dict[str, Literal["good", "bad", "ratio"]] = {
        "bad_query": "bad", "good_query": "good", "error_ratio_query": "ratio",
    }  # fmt: skip
    return Queries(total, part, kinds[part_key], resolution)


def _selector(fields: Fields, key: str) -> Selector | None:
    text = fields.text(key)
    if text is None:
        return None
    try:
        return parse_selector(text)
    except BadInput as error:
        advice = "" if key.startswith(("histogram", "native", "gauge")) else _ADVICE
        fields.bad(fields.take(key) or fields.at, f"{key}: {error}{advice}")
        return None


def _query(fields: Fields, key: str) -> str | None:
    text = fields.text(key)
    if text is None:
        return None
    if WINDOW not in text:
        fields.bad(
            fields.take(key) or fields.at,
            f"{key} does not say {WINDOW}: write one such as "
            f"sum(increase(http_requests_total[{WINDOW}]))",
        )
        return None
    return text.strip()


def _one_of(fields: Fields, keys: tuple[str, ...], beside: str) -> str | None:
    given = [key for key in keys if fields.at.get(key) is not None]
    if len(given) == 1:
        return given[0]
    wrong: Located = fields.at if not given else fields.take(given[1]) or fields.at
    found = " and ".join(given) or "none"
    fields.bad(wrong, f"{beside} needs exactly one of {', '.join(keys)} beside it; found {found}")
    return None


def _only(fields: Fields, shape: str, *beside: str) -> None:
    for key in sorted(_KEYS - {"server", shape, *beside}):
        other = fields.take(key)
        if other is not None:
            fields.bad(other, f"{key} does not go with {shape}")


_PARTS = ("bad", "good")
_PART_QUERIES = ("bad_query", "good_query", "error_ratio_query")
_KEYS = frozenset(
    {"server", "resolution", *_PARTS, *_PART_QUERIES, *(key for shape in _SHAPES for key in shape)}
)
_ADVICE = "; for what only PromQL can say use total_query"
