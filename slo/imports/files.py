"""Files of SLOs in any format that is known -> native documents, each with its account."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from base.errors import BadInput, ConfigError
from slo.fields import Report
from slo.imports.draft import Draft, string_of
from slo.imports.openslo import import_slo
from slo.imports.openslo_alerts import read_condition, read_policy
from slo.imports.openslo_objects import Objects, check_object, is_openslo
from slo.imports.outcome import Imported, Imports, Note, PassedOver, Refusal, Refused
from slo.imports.pyrra import import_pyrra, is_pyrra
from slo.imports.slo_generator import import_slo_generator, is_slo_generator
from slo.imports.sloth import AlertWindows, import_sloth, is_sloth, is_windows, read_windows
from slo.located import Located, locate, read_documents
from slo.native import read_native

MOST_BYTES = 2 << 20
_SUFFIXES = {".yaml", ".yml", ".json"}
_SIGNS = (
    ({"groups", "PrometheusRule", "recordingrule", "alerts"}, "Prometheus rules"),
    ({"gap", "sli_measurement", "error_budget_burn_rate"}, "a report of slo-generator"),
    ({"backends", "error_budget_policies", "exporters"}, "a configuration of slo-generator"),
    ({"$schema"}, "a JSON schema"),
)
_USES = {
    "Service": "its name is the label `service` of its SLOs, the rest has no counterpart",
    "DataSource": "its type says how queries are read; servers are set in tokenweir.yaml",
    "AlertNotificationTarget": "receivers are set in tokenweir.yaml",
    "SLI": "is no SLO itself: those that name it take it in",
    "AlertPolicy": "is no SLO itself: those that name it take it in",
    "AlertCondition": "is no SLO itself: those that name it take it in",
}
_KNOWN = "Sloth, Pyrra, OpenSLO and slo-generator are read"


def import_files(paths: Sequence[Path | str]) -> Imports:
    """Import every SLO of files and folders; objects of one may refer to those of another."""
    return _Importer().run(paths)


class _Importer:
    def __init__(self) -> None:
        self._imported: list[Imported] = []
        self._refused: list[Refused] = []
        self._passed: list[PassedOver] = []
        self._objects = Objects()
        self._windows: list[AlertWindows] = []

    def run(self, paths: Sequence[Path | str]) -> Imports:
        documents = [document for path in paths for document in self._read(Path(path))]
        for document in documents:
            if is_openslo(document):
                self._objects.add(document)
            elif is_windows(document):
                self._try(document, "AlertWindows", self._take_windows)
        for document in documents:
            self._import(document)
        return Imports(
            tuple(_apart(self._imported, self._passed)), tuple(self._refused), tuple(self._passed)
        )

    def _read(self, path: Path) -> Iterator[Located]:
        for file in _files(path):
            before = len(self._refused)
            found = list(self._documents(file))
            if not found and len(self._refused) == before:
                self._refused.append(Refused(str(file), 1, "file", "holds no document"))
            yield from found

    def _documents(self, file: Path) -> Iterator[Located]:
        try:
            _check_size(file)
            for document in read_documents(file, merge=True):
                yield from _unfold(document)
        except (ConfigError, OSError) as error:
            text = str(error).removeprefix(f"{file}").lstrip(": ")
            if _holds_templates(file):
                text += " (it holds templates: fill them in first)"
            line, _, rest = text.removeprefix("line ").partition(": ")
            located = text.startswith("line ") and line.isdigit()
            self._refused.append(
                Refused(str(file), int(line) if located else 1, "file", rest if located else text)
            )

    def _import(self, document: Located) -> None:
        kind = string_of(document.get("kind"))
        if kind == "slo" and document.get("apiVersion") is None:
            self._pass(document, "SLO document", "is in tokenweir's own format already")
        elif is_windows(document):
            self._pass(document, "AlertWindows", "its period and alerts are those of Sloth's SLOs")
        elif is_sloth(document):
            self._try(
                document, "Sloth spec", lambda at: self._each(import_sloth(at, self._windows))
            )
        elif is_pyrra(document):
            self._try(document, _what("Pyrra SLO", document), self._one(import_pyrra))
        elif is_slo_generator(document):
            self._try(
                document, _what("slo-generator SLO", document), self._one(import_slo_generator)
            )
        elif is_openslo(document):
            self._try(document, _what(f"OpenSLO {kind}", document), self._openslo)
        else:
            self._refused.append(
                Refused(document.file, document.line, "document", _not_an_slo(document))
            )

    def _openslo(self, document: Located) -> None:
        kind = string_of(document.get("kind"))
        if kind == "SLO":
            self._each(import_slo(document, self._objects))
            return
        check_object(document)
        scratch = Draft(_what(f"OpenSLO {kind}", document), document)
        if kind == "AlertPolicy":
            read_policy(scratch, document, self._objects)
        elif kind == "AlertCondition":
            read_condition(scratch, document)
        self._pass(document, scratch.what, _USES[kind])

    def _take(self, found: Imported) -> None:
        """Take a document in that the reader takes; what it says against one is a refusal."""
        report = Report()
        if read_native(locate(dict(found.document), found.file, found.line), report) is None:
            reason = "; ".join(each.partition(": ")[2] for each in report.problems)
            self._refused.append(Refused(found.file, found.line, found.what, reason))
        else:
            self._imported.append(found)

    def _each(self, found: Iterable[Imported | Refusal]) -> None:
        for each in found:
            if isinstance(each, Imported):
                self._take(each)
            else:
                self._refuse(each, each.what)

    def _one(self, read: Callable[[Located], Imported]) -> Callable[[Located], None]:
        return lambda document: self._take(read(document))

    def _take_windows(self, document: Located) -> None:
        self._windows.append(read_windows(document))

    def _try(self, document: Located, what: str, read: Callable[[Located], Any]) -> None:
        try:
            read(document)
        except Refusal as refusal:
            self._refuse(refusal, what)
        except (BadInput, AttributeError, TypeError) as error:
            # A mapping where a list belongs, or the other way round, anywhere below.
            reason = (
                str(error) if isinstance(error, BadInput) else "is not shaped as its format says"
            )
            self._refused.append(Refused(document.file, document.line, what, reason))

    def _refuse(self, refusal: Refusal, what: str) -> None:
        self._refused.append(Refused(refusal.at.file, refusal.at.line, what, str(refusal)))

    def _pass(self, at: Located, what: str, reason: str) -> None:
        self._passed.append(PassedOver(at.file, at.line, what, reason))


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(
            file for file in path.rglob("*") if file.suffix in _SUFFIXES and file.is_file()
        )
    return [path]


def _unfold(document: Located) -> Iterator[Located]:
    """Take lists apart: at the top, and of Kubernetes (`kind: List` with `items`)."""
    if isinstance(document.data, list):
        for item in document.data:
            yield from _unfold(item)
        return
    items = document.get("items")
    if items is not None and string_of(document.get("kind")).endswith("List"):
        yield from _unfold(items)
        return
    yield document


def _check_size(file: Path) -> None:
    size = file.stat().st_size
    if size > MOST_BYTES:
        raise ConfigError(f"is {size:,} bytes long, more than {MOST_BYTES:,}: cut it up")


def _holds_templates(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            text = opened.read(MOST_BYTES)
    except OSError:
        return False
    return any(left in text for left in (b": {{", b"{{-", b"{%")) or file.suffix == ".tpl"


def _what(kind: str, document: Located) -> str:
    metadata = document.get("metadata")
    name = string_of(metadata.get("name")) if metadata else ""
    return f"{kind} {name!r}" if name else kind


def _not_an_slo(document: Located) -> str:
    """Say what a document is if not an SLO, as far as it can be told."""
    if not isinstance(document.data, dict):
        return f"not an SLO: {_KNOWN}"
    keys, kind = set(document.data), string_of(document.get("kind"))
    for signs, what in _SIGNS:
        if keys & signs or kind in signs:
            return f"{what}, not an SLO"
    named = " ".join(filter(None, (string_of(document.get("apiVersion")), kind)))
    return (
        f"{named} is no format of SLOs that is known: {_KNOWN}"
        if named
        else f"not an SLO: {_KNOWN}"
    )


def _apart(found: Sequence[Imported], passed: list[PassedOver]) -> Iterator[Imported]:
    """Give each document a name of its own, and the same document once."""
    taken: dict[str, Imported] = {}
    for each in found:
        name, number = each.name, 2
        twin = taken.get(name)
        if twin is not None and twin.document == each.document:
            passed.append(
                PassedOver(
                    each.file, each.line, each.what, f"is the same as {twin.file} line {twin.line}"
                )
            )
            continue
        while name in taken:
            name = f"{each.name[:60]}-{number}"
            number += 1
        if name != each.name:
            note = Note("fixed", each.line, f"the name {each.name!r} is taken: {name!r}")
            each = replace(  # noqa: PLW2901  the same document under a free name
                each, name=name, document={**each.document, "name": name}, notes=(*each.notes, note)
            )
        taken[name] = each
        yield each
