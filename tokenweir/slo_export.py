"""`tokenweir slo export`: documents as Prometheus rules or OpenSLO."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from base.errors import ConfigError
from slo.documents import read
from slo.export import apart, to_openslo, to_rules, why_not, why_not_apart
from slo.imports.text import as_yaml
from slo.located import read_documents
from slo.model import Slo

FORMATS = ("prometheus", "openslo")


def export_slos(files: Sequence[Path], form: str) -> tuple[str, list[str]]:
    """Write SLOs in another format; return the text and what was said while reading."""
    if form not in FORMATS:
        raise ConfigError(f"format {form!r} is not one of {', '.join(FORMATS)}")
    found = read(files)
    if found.problems:
        raise ConfigError("\n".join(found.problems))
    warnings = [
        *found.warnings,
        *(f"slo {slo.name!r} is not written: {form} has no word for cost" for slo in found.costs),
    ]
    if not found.slos:
        raise ConfigError(
            "no SLO to export: name files or folders of SLO documents"
            + (", other than those about cost" if found.costs else "")
        )
    refused = {slo.name: said for slo in found.slos if (said := _counted_otherwise(slo, form))}
    notes = [f"slo {name!r} is left out: it {said}" for name, said in refused.items()]
    slos = [slo for slo in found.slos if slo.name not in refused]
    if not slos:
        raise ConfigError("\n".join(notes))
    if form == "prometheus":
        head = "# Made by `tokenweir slo export --format prometheus`: change the SLOs instead.\n"
        head += "".join(f"# {note}\n" for note in notes)
        return head + as_yaml(to_rules(slos)), [*warnings, *notes]
    documents = _documents(slos)
    return "---\n".join(as_yaml(each) for each in documents), [*warnings, *notes]


def _counted_otherwise(slo: Slo, form: str) -> str:
    """Say why the other format has no way to count this SLO; '' where it has."""
    if form == "prometheus":
        return why_not(slo) if slo.is_weighted else ""
    if slo.composite is not None:
        return "is a composite, and OpenSLO does not say how those add up: it has its components"
    return why_not_apart(slo)


def _documents(slos: Sequence[Slo]) -> list[dict[str, object]]:
    written: list[dict[str, object]] = []
    for slo in slos:
        file, _, line = slo.source.rpartition(":")
        natives = {
            document.line: document
            for document in read_documents(Path(file))
            if document.get("kind") is not None and document.get("apiVersion") is None
        }
        native = natives.get(int(line))
        if native is None:
            raise ConfigError(
                f"slo {slo.name!r} is OpenSLO already: only native documents are written as such"
            )
        written += [to_openslo(own, said) for own, said in apart(slo, native.plain())]
    return written
