"""Imported documents and their account, as text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from slo.imports.outcome import Imported, Imports

_BREAKS = frozenset("\r\x85\u2028\u2029")
"""Line breaks to YAML: written as they are they would be read as others."""


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = '"' if _BREAKS & set(value) else "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def as_yaml(document: Any) -> str:
    """Write plain data as YAML that keeps the order of its fields."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True)


def document_text(imported: Imported) -> str:
    """Write one document, headed by where it comes from and what was changed."""
    lines = [f"# From {Path(imported.file).name} line {imported.line}: {imported.what}."]
    lines += [
        f"# {note.kind}: {_one_line(note.text)}" for note in imported.notes if note.kind != "kept"
    ]
    return "\n".join(lines) + "\n" + as_yaml(dict(imported.document))


def report_lines(imports: Imports) -> Iterator[str]:
    """Tell what became of every document, one line each and one for each change."""
    for done in imports.imported:
        kind = "draft   " if done.draft else "imported"
        yield f"{kind} {done.name}: {done.what}, {done.file} line {done.line}"
        for note in done.notes:
            yield f"    {note.kind:<5} line {note.line}: {_one_line(note.text)}"
    for passed in imports.passed_over:
        yield f"passed   {passed.file} line {passed.line}: {passed.what}: {passed.reason}"
    for refused in imports.refused:
        reason = _one_line(refused.reason)
        yield f"refused  {refused.file} line {refused.line}: {refused.what}: {reason}"
    drafts = sum(done.draft for done in imports.imported)
    kept, lost = (
        sum(done.slices == what and not done.draft for done in imports.imported)
        for what in ("kept", "lost")
    )
    parts = [
        f"{drafts} as drafts, without an indicator" if drafts else "",
        f"{kept} by time slices" if kept else "",
        f"{lost} by events where slices were meant" if lost else "",
    ]
    of_these = "; ".join(filter(None, parts))
    yield (
        f"{len(imports.imported)} imported"
        + (f" ({of_these})" if of_these else "")
        + f", {len(imports.refused)} refused, {len(imports.passed_over)} passed over"
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())
