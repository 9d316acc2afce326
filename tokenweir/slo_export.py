"""`tokenweir slo export`: documents as Prometheus rules or OpenSLO."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from base.errors import ConfigError
from slo.documents import Loaded, read
from slo.export import apart, to_openslo, to_rules
from slo.imports.text import as_yaml
from slo.located import read_documents

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
    if form == "prometheus":
        head = "# Made by `tokenweir slo export --format prometheus`: change the SLOs instead.\n"
        return head + as_yaml(to_rules(found.slos)), warnings
    documents = _documents(found)
    return "---\n".join(as_yaml(each) for each in documents), warnings


def _documents(found: Loaded) -> list[dict[str, object]]:
    written: list[dict[str, object]] = []
    for slo in found.slos:
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
