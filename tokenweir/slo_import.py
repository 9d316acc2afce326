"""`tokenweir slo import`: documents of others, written as native ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from base.errors import ConfigError
from slo.imports import Imports, import_files
from slo.imports.text import document_text, report_lines

WHOLE, UNFINISHED, REFUSED = 0, 1, 2


def import_slos(
    files: Sequence[Path], out: Path | None, *, overwrite: bool
) -> tuple[str, list[str], int]:
    """Import files; return the documents to print, the report, and the exit status."""
    imports = import_files(files)
    printed = ""
    if out is None:
        printed = "---\n".join(document_text(each) for each in imports.imported)
    else:
        _write(imports, out, overwrite=overwrite)
    return printed, list(report_lines(imports)), _status(imports)


def _status(imports: Imports) -> int:
    if imports.refused:
        return REFUSED
    return WHOLE if all(each.is_whole for each in imports.imported) else UNFINISHED


def _write(imports: Imports, out: Path, *, overwrite: bool) -> None:
    texts = {out / f"{each.name}.yaml": document_text(each) for each in imports.imported}
    taken = [
        path for path, text in texts.items()
        if not overwrite and path.exists() and path.read_text(encoding="utf-8") != text
    ]  # fmt: skip
    if taken:
        names = ", ".join(path.name for path in taken)
        raise ConfigError(f"{out} holds other documents of these names: {names}; --overwrite them")
    out.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
