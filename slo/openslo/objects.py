"""OpenSLO v1 objects: the envelope that all kinds share, and how they refer to each other."""

from __future__ import annotations

from dataclasses import dataclass

from slo.checks import check_name
from slo.fields import Fields, Report
from slo.located import Located

SPEC_FIELDS = {
    "Service": {"description"},
    "DataSource": {"description", "type", "connectionDetails"},
    "SLI": {"description", "thresholdMetric", "ratioMetric"},
    "SLO": {
        "description", "service", "indicator", "indicatorRef", "timeWindow", "budgetingMethod",
        "objectives", "alertPolicies",
    },
    "AlertPolicy": {
        "description", "alertWhenNoData", "alertWhenResolved", "alertWhenBreaching",
        "conditions", "notificationTargets",
    },
    "AlertCondition": {"description", "severity", "condition"},
    "AlertNotificationTarget": {"description", "target"},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class OpenSloObject:
    kind: str
    name: str
    spec: Located
    display_name: str
    labels: dict[str, str]
    annotations: dict[str, str]
    at: Located

    @property
    def what(self) -> str:
        return f"{self.kind} {self.name!r}"


class Objects:
    """Every object of the files read together; references cross files."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self._found: dict[tuple[str, str], OpenSloObject] = {}

    def add(self, found: OpenSloObject) -> None:
        key = (found.kind, found.name)
        if key in self._found:
            first = self._found[key].at.line
            self.report.warn(
                found.what, found.at, f"the name is taken by line {first}, which is used"
            )
            return
        self._found[key] = found

    def of_kind(self, kind: str) -> list[OpenSloObject]:
        return [found for (each, _), found in self._found.items() if each == kind]

    def refer(self, kind: str, at: Located, what: str) -> OpenSloObject | None:
        """Follow a reference; a missing target is a problem at the place that names it."""
        found = self._found.get((kind, str(at.data)))
        if found is None:
            self.report.problem(
                what, at, f"{kind} {at.data!r} is not in any file read: add it or pass its file"
            )
        return found

    def source_type(self, name: str) -> str | None:
        """Say the type of a DataSource by name."""
        found = self._found.get(("DataSource", name))
        kind = found.spec.get("type") if found else None
        return str(kind.data) if kind else None


def read_object(document: Located, report: Report, kind: str | None = None) -> OpenSloObject | None:
    """Read the envelope; `kind` is given where an object is written inside another."""
    kind_at = document.get("kind")
    kind = kind or (str(kind_at.data) if kind_at else "")
    if kind not in SPEC_FIELDS:
        report.problem(
            "OpenSLO document", kind_at or document,
            f"kind {kind!r} is not one of {', '.join(SPEC_FIELDS)}",
        )  # fmt: skip
        return None
    before = len(report.problems)
    envelope = Fields(document, kind, report)
    for key in ("apiVersion", "kind"):
        envelope.take(key)
    metadata_at = envelope.mapping("metadata", required=True)
    spec = envelope.mapping("spec") or Located({}, document.line, document.file)
    envelope.refuse_unknown()
    if metadata_at is None:
        return None
    name_at = metadata_at.get("name")
    what = f"{kind} {name_at.data!r}" if name_at else kind
    metadata = Fields(metadata_at, what, report)
    name = metadata.take("name")
    check_name(name.data if name else None, name or metadata_at, metadata)
    display_name = metadata.text("displayName") or ""
    labels, annotations = metadata.texts("labels"), metadata.texts("annotations")
    metadata.refuse_unknown()
    fields = Fields(spec, what, report)
    for key in SPEC_FIELDS[kind]:
        fields.take(key)
    fields.refuse_unknown()
    if len(report.problems) > before or name is None:
        return None
    return OpenSloObject(kind, name.data, spec, display_name, labels, annotations, document)
