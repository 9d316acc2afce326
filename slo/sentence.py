"""What an SLO asks for, as one sentence that somebody reads aloud. Pure."""

from __future__ import annotations

from datetime import timedelta

from base.durations import format_duration
from slo.composite import Composite, Kind
from slo.expression import All
from slo.expression_text import write
from slo.model import Slo
from slo.prometheus.sli import Counters, Events, Gauge, Histogram
from slo.slices import percent_of
from slo.spending.model import CostSlo, Idle, Per, usd

_UNITS = {
    Per.REQUEST: "A request",
    Per.GOOD_REQUEST: "An accepted request",
    Per.TASK: "A finished task",
    Per.MILLION_TOKENS: "A million tokens of requests",
}
_LENGTHS = (
    (timedelta(days=1), "day"),
    (timedelta(hours=1), "hour"),
    (timedelta(minutes=1), "minute"),
)


def sentence(slo: Slo | CostSlo) -> str:
    """Say who is asked about, what must hold, how often and over which time.

    Overrides are not said: ask for the SLO as it is `for_group`.
    """
    if isinstance(slo, CostSlo):
        said = _price(slo)
    else:
        said = f"{slo.objective * 100:.10g} % of {_sliced(slo)}{_asked(slo)}"
    return f"{said}, over {in_words(slo.window)}{_calendars(slo)}{_groups(slo)}."


def in_words(length: timedelta) -> str:
    """Write 30 days, 1 hour, 90 minutes; what is no whole number of those as 1h30s."""
    for size, name in _LENGTHS:
        if length >= size and length % size == timedelta(0):
            number = length // size
            return f"{number} {name}{'s' * (number != 1)}"
    return format_duration(length)


def _sliced(slo: Slo) -> str:
    if slo.slices is None:
        return ""
    length, share = in_words(slo.slices.length), percent_of(slo.slices.share)
    return f"slices of {length} must be good: in each, at least {share} % of "


def _asked(slo: Slo) -> str:
    if slo.prometheus is not None:
        return _events(slo.prometheus.events)
    if slo.composite is not None:
        return _components(slo.composite)
    weighed = "" if slo.weight is None else f"{slo.weight.unit.name} ({write(slo.weight.by)}) of "
    asked = "" if slo.eligible is None else f" where {write(slo.eligible)}"
    conditions = write(All(tuple(clause.expression for clause in slo.good)))
    return f"{weighed}requests{asked} must have {conditions}"


def _components(composite: Composite) -> str:
    if composite.kind is Kind.ALL:
        names = ", ".join(part.name for part in composite.parts)
        return f"requests that any of {names} asks about must be good for each that does"
    named = ", ".join(
        part.name if part.factor == 1 else f"{part.factor} × {part.name}"
        for part in composite.parts
    )
    return f"the verdicts of {named} must be good"


def _price(slo: CostSlo) -> str:
    asked = "" if slo.eligible is None else f" where {write(slo.eligible)}"
    good = [clause.expression for clause in slo.good]
    kept = f" with {write(All(tuple(good)))}" if good else ""
    idle = ", idle GPUs and overhead included" if slo.idle is Idle.SHARED else ""
    return f"{_UNITS[slo.per]}{asked}{kept} may cost at most ${usd(slo.at_most):.15g}{idle}"


def _events(events: Events) -> str:
    match events:
        case Histogram(selector, threshold):
            return f"observations of {selector} must be at most {threshold:g}"
        case Gauge(selector):
            return f"samples of {selector} must not be 0"
        case Counters(total, part, part_is):
            return f"what {total} counts must {_be(part_is)} counted by {part}"
        case _ if events.part_is == "ratio":
            return f"what {events.total} counts must be good; {events.part} is the bad share"
        case _:
            return f"what {events.total} counts must {_be(events.part_is)} counted by {events.part}"


def _be(part_is: str) -> str:
    return "be" if part_is == "good" else "not be"


def _calendars(slo: Slo | CostSlo) -> str:
    return "".join(f" and in each {each.period} of {each.zone}" for each in slo.calendars)


def _groups(slo: Slo | CostSlo) -> str:
    return f", for each {' and '.join(slo.group_by)}" if slo.group_by else ""
