"""The JSON Schema of native documents, by which editors complete and check them.

A document that the reader takes is valid here; what only the reader can tell (the grammar of
filters, tiers that could never fire) is left to `tokenweir check`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from base.durations import format_duration
from slo.calendar import Period
from slo.columns import GROUP_COLUMNS
from slo.composite import HEAVIEST_PART, MOST_PARTS
from slo.prometheus.selector import MOST_CHARACTERS
from slo.slices import LENGTHS
from slo.spending.model import Idle, Per
from slo.weight import UNITS

FILE = Path(__file__).parent / "slo.schema.json"
"""The schema as it is shipped and served; `text` makes it."""

Schema = dict[str, Any]

_DURATION = r"^([0-9]+(\.[0-9]+)?(ms|[smhdw]))+$"
_NAME = r"^[a-z0-9]([-a-z0-9]{0,62}[a-z0-9])?$"
_LABEL = r"^[a-zA-Z_][a-zA-Z0-9_]*$"


def schema() -> Schema:
    """Make the schema (2020-12) of one document."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tokenweir SLO document",
        "type": "object",
        "required": ["kind", "name"],
        "additionalProperties": False,
        "properties": _fields(),
        "allOf": [_where("prometheus", {"properties": {
            "group_by": _optional(_list(_text("A label's name.", pattern=_LABEL))),
            "eligible": {"type": "null"},
            "good": {"type": "null"},
            "composite": {"type": "null"},
            "weight": {"type": "null"},
        }}, {"properties": {
            "group_by": _optional(_list({"type": "string", "enum": list(GROUP_COLUMNS)})),
        }}), _where("cost", {"properties": {
            "objective": {"type": "null"},
            "min_bad": {"type": "null"},
            "prometheus": {"type": "null"},
            "weight": {"type": "null"},
            "composite": {"type": "null"},
            "slices": {"type": "null"},
            "overrides": {"items": {"properties": {
                "objective": {"type": "null"},
                "min_bad": {"type": "null"},
                "tiers": {"not": {"const": "classic"}},
            }}},
            "tiers": {"not": {"const": "classic"}},
        }}, {"required": ["objective"], "properties": {
            "objective": {"type": "number"},
            "overrides": {"items": {"properties": {"cost": {"type": "null"}}}},
        }}),
        _where("slices", {"properties": {
            "weight": {"type": "null"},
            "composite": {"properties": {"sum": {"type": "null"}}},
        }}, {})],
    }  # fmt: skip


def text() -> str:
    """Write the schema as it is committed."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"


def _fields() -> Schema:
    return {
        "kind": {"const": "slo", "description": "What the document is."},
        "name": _text("Lower-case letters, digits and dashes.", pattern=_NAME, maxLength=64),
        "description": _optional(_text("Shown, and sent with alerts.")),
        "objective": _optional(_objective()),
        "cost": _optional(_cost()),
        "window": _optional(_duration("Rolling budget window, 1m to 366d.", default="30d")),
        "calendar": _optional({
            "description": "Budgets that begin anew with a period of the calendar.",
            "anyOf": [_calendar(), _list(_calendar())],
        }),
        "slices": _optional(_slices()),
        "group_by": {"description": "A budget for each value of these.", "default": []},
        "prometheus": _optional(_prometheus()),
        "composite": _optional(_composite()),
        "weight": _optional(_weight()),
        "eligible": _optional(_filter("Which requests are asked about; left out: all.")),
        "good": _optional({
            "description": "A filter, or named filters that must all hold.",
            "default": "outcome = 'good'",
            "anyOf": [
                _filter("A filter."),
                {
                    "type": "object", "minProperties": 1,
                    "additionalProperties": _filter("A clause."),
                },
            ],
        }),
        "min_bad": _optional(_whole("Bad requests that a tier's long window must hold.", 5)),
        "tiers": _optional(_tiers("Alert tiers; left out: derived from objective and window.")),
        "overrides": _optional(_list(_override())
            | {"description": "Another objective for some of the groups; the first that matches."}),
        "labels": _optional(_texts("Added to the labels of alerts.")),
        "annotations": _optional(_texts("Added to the annotations of alerts.")),
    }  # fmt: skip


def _objective() -> Schema:
    return {
        "type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 100,
        "description": "Percentage of requests that must be good.",
    }  # fmt: skip


def _override() -> Schema:
    value = _text("A member's value.")
    return {
        "type": "object",
        "required": ["match"],
        "additionalProperties": False,
        "properties": {
            "match": {
                "type": "object", "minProperties": 1,
                "description": "Members of the groups that it is for, each with its values.",
                "additionalProperties": {"anyOf": [value, _list(value) | {"minItems": 1}]},
            },
            "objective": _optional(_objective()),
            "cost": _optional({
                "type": "object", "additionalProperties": False,
                "description": "Another price; left out: the SLO's.",
                "properties": {
                    "at_most_usd": _optional(_price()),
                    "min_overspend_usd": _optional(_least()),
                },
            }),
            "min_bad": _optional(_whole("Bad requests that a tier's long window must hold.")),
            "tiers": _optional(_tiers("Alert tiers; left out: the SLO's.")),
            "labels": _optional(_texts("Added to the SLO's.")),
            "annotations": _optional(_texts("Added to the SLO's.")),
        },
    }  # fmt: skip


def _where(field: str, then: Schema, otherwise: Schema) -> Schema:
    """Say what else holds where a mapping is given, and where it is not."""
    given = {"required": [field], "properties": {field: {"not": {"type": "null"}}}}
    return {"if": given, "then": then, "else": otherwise}


def _price() -> Schema:
    return {
        "type": "number", "exclusiveMinimum": 0, "maximum": 10**6,
        "description": "Dollars that a unit may cost.",
    }  # fmt: skip


def _least() -> Schema:
    return {
        "type": "number", "minimum": 0, "maximum": 10**6,
        "description": "Overspend that a tier's long window must hold.",
    }  # fmt: skip


def _cost() -> Schema:
    return {
        "type": "object",
        "description": "What a unit of work may cost, in place of an objective.",
        "required": ["at_most_usd", "per"],
        "additionalProperties": False,
        "properties": {
            "at_most_usd": _price(),
            "per": {
                "type": "string", "enum": [each.value for each in Per],
                "description": "What a unit is.",
            },
            "idle": _optional({
                "type": "string", "enum": [*(each.value for each in Idle), ""], "default": "apart",
                "description": "Idle GPUs and overhead: apart, or shared by use.",
            }),
            "min_overspend_usd": _optional(_least() | {"default": 1}),
        },
    }  # fmt: skip


def _tiers(description: str) -> Schema:
    return {
        "description": description,
        "anyOf": [{"type": "string", "enum": ["derived", "classic"]}, _list(_tier())],
    }


def _calendar() -> Schema:
    period = {"type": "string", "enum": [each.value for each in Period]}
    return {"anyOf": [
        period,
        {
            "type": "object", "required": ["period"], "additionalProperties": False,
            "properties": {
                "period": period,
                "zone": _optional(_text("An IANA time zone such as Europe/Berlin.", default="UTC")),
            },
        },
    ]}  # fmt: skip


def _slices() -> Schema:
    lengths = [format_duration(each) for each in LENGTHS]
    return {
        "type": "object",
        "description": "Count slices of time instead of requests.",
        "required": ["length", "good"],
        "additionalProperties": False,
        "properties": {
            "length": _duration("How long a slice is.", examples=lengths),
            "good": {
                "type": "number", "exclusiveMinimum": 0, "maximum": 100,
                "description": "Percentage of its requests that make a slice good.",
            },
        },
    }  # fmt: skip


def _tier() -> Schema:
    return {
        "type": "object",
        "required": ["name", "factor", "long", "short"],
        "additionalProperties": False,
        "properties": {
            "name": _text("Each name once in an SLO."),
            "severity": _optional({"type": "string", "enum": ["page", "ticket", ""]}),
            "factor": {
                "type": "number", "exclusiveMinimum": 0,
                "description": "Burn rate at which both windows must burn.",
            },
            "long": _duration("Long window."),
            "short": _duration("Short window, shorter than the long one."),
            "hold": _optional(_duration("How long it must keep quiet before it is over.")),
            "min_bad": _optional(_whole("Bad requests needed; left out: the SLO's.")),
        },
    }  # fmt: skip


def _weight() -> Schema:
    by = _text("A number over request facts, such as completion_tokens.", maxLength=4000)
    return {
        "description": "What a request counts as; left out: each counts as one.",
        "anyOf": [
            by,
            {
                "type": "object", "required": ["by"], "additionalProperties": False,
                "properties": {
                    "by": by,
                    "unit": _optional({"type": "string", "enum": [*UNITS]}),
                },
            },
        ],
    }  # fmt: skip


def _composite() -> Schema:
    name = _text("An SLO over requests, of any file read along.")
    factor = _whole("What its verdict weighs.") | {"maximum": HEAVIEST_PART}
    names = _list(name) | {"minItems": 1, "maxItems": MOST_PARTS, "uniqueItems": True}
    return {
        "type": "object",
        "description": "Made of other SLOs, in place of eligible and good.",
        "oneOf": [
            _either({"all": names}),
            _either({"sum": {
                "type": "object", "minProperties": 1, "maxProperties": MOST_PARTS,
                "additionalProperties": factor,
            }}),
        ],
    }  # fmt: skip


def _either(needed: Schema) -> Schema:
    return {
        "type": "object",
        "required": list(needed),
        "properties": needed,
        "additionalProperties": {"type": "null"},
    }


def _prometheus() -> Schema:
    selector = _text('A selector such as x_total{job="api"}.', maxLength=MOST_CHARACTERS)
    query = _text("PromQL that says $window.", pattern=r"\$window")
    threshold = {
        "description": "A duration, or a number in the metric's own unit.",
        "anyOf": [{"type": "number"}, {"type": "string", "pattern": _DURATION}],
    }
    resolution = {"resolution": _optional(_duration("How often queries are asked.", default="1m"))}
    return {
        "type": "object",
        "description": "Events counted from the samples of a Prometheus-compatible server.",
        "oneOf": [
            *(_shape({"total": selector, part: selector}) for part in ("bad", "good")),
            *(
                _shape({kind: selector, "threshold": threshold})
                for kind in ("histogram", "native_histogram")
            ),
            _shape({"gauge": selector}),
            *(
                _shape({"total_query": query, part: query}, resolution)
                for part in ("bad_query", "good_query", "error_ratio_query")
            ),
        ],
    }


def _shape(needed: Schema, optional: Schema | None = None) -> Schema:
    """Make one way to say what is counted; nulls stand for fields that are left out."""
    server = {"server": _optional(_text("One of `slo.prometheus`, where there are several."))}
    return {
        "type": "object",
        "required": list(needed),
        "properties": needed | (optional or {}) | server,
        "additionalProperties": {"type": "null"},
    }


def _filter(description: str) -> Schema:
    return {"type": ["string", "boolean"], "maxLength": 4000, "description": description}


def _duration(description: str, **more: Any) -> Schema:
    return _text(description, pattern=_DURATION, **more)


def _text(description: str, **more: Any) -> Schema:
    return {"type": "string", "description": description, **more}


def _texts(description: str) -> Schema:
    return {"type": "object", "description": description}


def _whole(description: str, default: int | None = None) -> Schema:
    stated = {} if default is None else {"default": default}
    return {"type": "integer", "minimum": 1, "description": description, **stated}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _optional(found: Schema) -> Schema:
    """Let null stand for a field that is left out, as the reader does."""
    kind = found.get("type")
    if kind is None:
        ways = found["anyOf"] if "anyOf" in found else found["oneOf"]
        key = "anyOf" if "anyOf" in found else "oneOf"
        return found | {key: [*ways, {"type": "null"}]}
    kinds = kind if isinstance(kind, list) else [kind]
    widened = found | {"type": [*kinds, "null"]}
    if "enum" in found:
        widened["enum"] = [*found["enum"], None]
    if "oneOf" in found:
        widened["oneOf"] = [*found["oneOf"], {"type": "null"}]
    return widened
