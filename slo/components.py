"""Composites -> SLOs that ask what their components ask; what cannot be one is reported.

Components are SLOs over request facts of any of the files that are read together. A composite is no
component, so there is no circle to find: its own components can be named instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from slo.composite import Composite, Kind, Part
from slo.fields import Report
from slo.located import Located
from slo.model import Slo
from slo.slice_document import weighs
from slo.weight import Weight


def with_components(
    slos: Sequence[tuple[Slo, Located]], report: Report, about_cost: Collection[str] = ()
) -> Iterator[Slo]:
    """Yield every SLO, composites with what they ask; those with problems are left out.

    `about_cost` names the SLOs that are no components, as they judge spending and no requests.
    """
    known: dict[str, Slo | None] = {slo.name: slo for slo, _ in slos}
    known |= dict.fromkeys(about_cost)
    for slo, document in slos:
        if slo.composite is None:
            yield slo
        elif (made := _resolved(slo, slo.composite, document, known, report)) is not None:
            yield made


def _resolved(
    slo: Slo, written: Composite, document: Located, known: Mapping[str, Slo | None], report: Report
) -> Slo | None:
    found: list[Slo] = []
    for part in written.parts:
        component = known.get(part.name)
        said = _refused(slo, part, component)
        if component is None and part.name in known:
            said = (
                f"component {part.name!r} is about cost, which no single request is good or bad at"
            )
        if component is None or said:
            report.problem(f"slo {slo.name!r}", _place(document, written, part), said)
        else:
            found.append(component)
    if len(found) < len(written.parts):
        return None
    weights = [each.weight for each in found]
    if slo.weight is None and not _agree(written.kind, weights):
        units = ", ".join(f"{each.name} {each.unit}" for each in found)
        report.problem(
            f"slo {slo.name!r}", document.get("composite") or document,
            f"its components do not weigh alike ({units}): "
            + (
                "give the composite a weight of its own"
                if written.kind is Kind.ALL
                else "tokens and requests have no sum; take components of one unit"
            ),
        )  # fmt: skip
        return None
    parts = tuple(
        replace(part, eligible=each.eligible, good=each.good, weight=each.weight)
        for part, each in zip(written.parts, found, strict=True)
    )
    composite = Composite(written.kind, parts)
    weight = slo.weight
    if weight is None and written.kind is Kind.ALL:
        weight = weights[0]
    if slo.slices is not None and weight is not None:
        at = document.get("slices") or document
        report.problem(f"slo {slo.name!r}", at, weighs("the weight of its components"))
        return None
    return replace(
        slo, composite=composite, eligible=composite.eligible, good=composite.good, weight=weight
    )


def _refused(slo: Slo, part: Part, component: Slo | None) -> str:
    if part.name == slo.name:
        return "a composite cannot be its own component"
    if component is None:
        return (
            f"component {part.name!r} is not among the SLOs that are read: add its file, or mend "
            "the name or its own problems"
        )
    if component.composite is not None:
        return f"component {part.name!r} is a composite: name its components instead"
    if component.prometheus is not None:
        return (
            f"component {part.name!r} counts events of Prometheus, not requests: nothing says "
            "which of them are one request"
        )
    if component.slices is not None:
        return (
            f"component {part.name!r} counts slices of time, not requests: name an SLO that asks "
            "the same of requests"
        )
    return ""


def _agree(kind: Kind, weights: Sequence[Weight | None]) -> bool:
    if kind is Kind.ALL:
        return all(each == weights[0] for each in weights)
    return len({None if each is None else each.unit for each in weights}) == 1


def _place(document: Located, composite: Composite, part: Part) -> Located:
    at = document.get("composite") or document
    if composite.kind is Kind.SUM:
        return (at.get("sum") or at).get(part.name) or at
    named = (at.get("all") or at).data
    items = named if isinstance(named, list) else []
    return next((item for item in items if item.data == part.name), at)
