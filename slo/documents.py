"""SLO documents: files and folders -> SLOs, or every problem at once with file, line and cure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from base.errors import ConfigError
from base.selfmon import Log
from slo.components import with_components
from slo.fields import Report
from slo.located import Located, read_documents
from slo.model import Slo
from slo.native import read_native
from slo.openslo import OpenSloReader
from slo.spending.document import read_cost_slo
from slo.spending.model import CostSlo

_SUFFIXES = {".yaml", ".yml", ".json"}
_LOG = Log("slo.documents")


@dataclass(frozen=True, slots=True)
class Loaded:
    """What reading found. A file with problems gives no SLO from the documents that have them."""

    slos: tuple[Slo, ...]
    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    costs: tuple[CostSlo, ...] = ()

    @property
    def every(self) -> tuple[Slo | CostSlo, ...]:
        return *self.slos, *self.costs


def load(paths: Sequence[Path | str]) -> list[Slo]:
    """Read SLOs over events, without those about cost; raise one ConfigError, as `load_all`."""
    return list(load_all(paths).slos)


def load_all(paths: Sequence[Path | str]) -> Loaded:
    """Read SLOs; raise one ConfigError that lists every problem, one a line."""
    found = read(paths)
    for warning in found.warnings:
        _LOG.warning("slo_document_warning", message=warning)
    if found.problems:
        raise ConfigError("\n".join(found.problems))
    return found


def read(paths: Sequence[Path | str]) -> Loaded:
    """Read SLOs and what is wrong with the rest; a folder is read with all below it."""
    report = Report()
    openslo = OpenSloReader(report)
    slos: list[tuple[Slo | CostSlo, Located]] = []
    for path in _files(paths, report):
        for document in _objects(path, report):
            if openslo.takes(document):
                openslo.add(document)
            elif (document.get("kind") or document).data == "slo":
                slo = read_document(document, report)
                if slo is not None:
                    slos.append((slo, document))
            else:
                report.problem(
                    "document", document,
                    "not an SLO: write `kind: slo`, or `apiVersion: openslo/v1`",
                )  # fmt: skip
    slos += openslo.finish()
    found = tuple(_without_twins(slos, report))
    costs = tuple(each for each, _ in found if isinstance(each, CostSlo))
    judged = [(each, at) for each, at in found if isinstance(each, Slo)]
    made = tuple(with_components(judged, report, {each.name for each in costs}))
    return Loaded(made, tuple(report.problems), tuple(report.warnings), costs)


def read_document(document: Located, report: Report) -> Slo | CostSlo | None:
    """Read one native document; None when it has problems, which `report` then holds."""
    about_cost = document.get("cost") is not None
    return (read_cost_slo if about_cost else read_native)(document, report)


def files_of(paths: Sequence[Path | str]) -> list[Path]:
    """List the files that reading these paths reads."""
    return list(_files(paths, Report()))


def _files(paths: Sequence[Path | str], report: Report) -> Iterator[Path]:
    for path in map(Path, paths):
        if path.is_dir():
            yield from sorted(
                file for file in path.rglob("*") if file.suffix in _SUFFIXES and file.is_file()
            )
        elif path.exists():
            yield path
        else:
            report.problems.append(f"{path}: no such file or folder")


def _objects(path: Path, report: Report) -> Iterator[Located]:
    try:
        documents = read_documents(path)
    except ConfigError as error:
        report.problems.append(str(error))
        return
    for document in documents:
        yield from _flat(document)


def _flat(document: Located) -> Iterable[Located]:
    """Unfold a list at the top of a document, as OpenSLO files have."""
    return document.data if isinstance(document.data, list) else (document,)


def _without_twins(
    slos: list[tuple[Slo | CostSlo, Located]], report: Report
) -> Iterator[tuple[Slo | CostSlo, Located]]:
    first: dict[str, Located] = {}
    for slo, at in slos:
        if slo.name in first:
            other = first[slo.name]
            report.problem(
                f"slo {slo.name!r}", at,
                f"the name is taken by {Path(other.file).name} line {other.line}: rename one",
            )  # fmt: skip
        else:
            first[slo.name] = at
            yield slo, at
