"""Reading what counts and how much: `weight` and `composite` of a native document."""

from __future__ import annotations

from base.errors import BadInput
from slo.composite import HEAVIEST_PART, MOST_PARTS, Composite, Kind, Part
from slo.expression import Expression, columns_of
from slo.fields import Fields
from slo.located import Located
from slo.parse import parse_number
from slo.weight import UNITS, Unit, Weight, may_be_unknown, unit_of


def read_weight(fields: Fields) -> Weight | None:
    """Read `weight: completion_tokens`, or `weight: {by: reported_cost_usd, unit: usd}`."""
    at = fields.take("weight")
    if at is None:
        return None
    if fields.at.get("prometheus") is not None:
        fields.bad(at, "weight is of requests that tokenweir has seen: remove it, or prometheus")
    if not isinstance(at.data, dict):
        by = _number(fields, at)
        return None if by is None else _weight(fields, at, by, unit_of(by))
    each = Fields(at, fields.what, fields.report)
    by_at, unit = each.take("by"), each.text("unit")
    each.refuse_unknown()
    if unit is not None and unit not in UNITS:
        fields.bad(at.get("unit") or at, f"unit {unit!r} is not one of {', '.join(UNITS)}")
        return None
    by = _number(fields, by_at or at)
    return None if by is None else _weight(fields, at, by, UNITS[unit] if unit else unit_of(by))


def read_composite(fields: Fields) -> Composite | None:
    """Read `composite: {all: [a, b]}` or `composite: {sum: {a: 2, b: 1}}`."""
    at = fields.mapping("composite")
    if at is None:
        return None
    for key in ("eligible", "good", "prometheus"):
        beside = fields.at.get(key)
        if beside is not None:
            fields.bad(beside, f"{key} is what the components of a composite say: remove it")
    each = Fields(at, fields.what, fields.report)
    named, weighed = each.items("all"), each.mapping("sum")
    each.refuse_unknown()
    if (at.get("all") is None) == (weighed is None):
        fields.bad(at, "composite has either all: [names] or sum: {name: weight}")
        return None
    if weighed is None:
        parts = [Part(str(item.data)) for item in named if _is_name(fields, item)]
    else:
        factors = ((name, _factor(fields, name, item)) for name, item in weighed.data.items())
        parts = [Part(str(name), factor) for name, factor in factors if factor is not None]
        if fields.at.get("weight") is not None:
            fields.bad(at, "a sum weighs by its components: give those a weight, or take all")
    _check_names(fields, at, [part.name for part in parts])
    return Composite(Kind.ALL if weighed is None else Kind.SUM, tuple(parts))


def _number(fields: Fields, at: Located) -> Expression | None:
    if not isinstance(at.data, str):
        fields.bad(
            at, "weight is a number over request facts, such as completion_tokens, or {by, unit}"
        )
        return None
    try:
        return parse_number(at.data)
    except BadInput as error:
        fields.bad(at, f"weight: {error}")
        return None


def _weight(fields: Fields, at: Located, by: Expression, unit: Unit | None) -> Weight | None:
    if unit is None:
        fields.bad(
            at, f"say what weight counts: {{by: …, unit: …}}, where unit is {', '.join(UNITS)}"
        )
        return None
    if may_be_unknown(by):
        names = ", ".join(sorted(columns_of(by)))
        fields.report.warn(
            fields.what, at,
            f"a request of which {names} is not known is in no sum of weights, and failed ones "
            "often are: an outage may not weigh; write coalesce(…, what it weighs then)",
        )  # fmt: skip
    return Weight(by, unit)


def _is_name(fields: Fields, at: Located) -> bool:
    if isinstance(at.data, str):
        return True
    fields.bad(at, f"composite {at.plain()!r} is not the name of an SLO")
    return False


def _factor(fields: Fields, name: object, at: Located) -> int | None:
    if isinstance(at.data, int) and not isinstance(at.data, bool) and 0 < at.data <= HEAVIEST_PART:
        return at.data
    fields.bad(at, f"the weight of {name!r} is not a whole number from 1 to {HEAVIEST_PART}")
    return None


def _check_names(fields: Fields, at: Located, names: list[str]) -> None:
    if not 0 < len(names) <= MOST_PARTS:
        fields.bad(at, f"a composite has 1 to {MOST_PARTS} components")
    for name in sorted({name for name in names if names.count(name) > 1}):
        fields.bad(at, f"composite names {name!r} twice")
