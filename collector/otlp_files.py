"""Recorded OTLP on disk: which files of a folder are it, and the requests in them.

`.binpb`: one protobuf ExportTraceServiceRequest. `.json` and `.jsonl`: OTLP/JSON, one document or
one a line; a line may also be a capture, `{"request": {…}}`. Each also as `.gz`.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from base.errors import BadInput
from collector.otlp_json import document_to_protobuf

_BINARY = ".binpb"
_TEXT = (".json", ".jsonl")
_OTHER_SIGNALS = ("resourceMetrics", "resourceLogs")


class NotOtlp(BadInput):
    """The file holds something else; in a folder that is no error."""


@dataclass(frozen=True, slots=True)
class OtlpFile:
    """A file to read. `named`: it was asked for by name, so it must be readable."""

    path: Path
    named: bool


@dataclass(frozen=True, slots=True)
class Skipped:
    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class BadLine:
    """A part of a file that could not be read; the other parts can."""

    reason: str


def find(paths: Sequence[Path]) -> tuple[list[OtlpFile], list[Skipped]]:
    """List the files to read, in order, and those in folders that are left out.

    Raises BadInput for a path that does not exist.
    """
    files: list[OtlpFile] = []
    skipped: list[Skipped] = []
    for path in paths:
        if path.is_dir():
            _find_in(path, files, skipped)
        elif path.exists():
            files.append(OtlpFile(path, named=True))
        else:
            raise BadInput(f"{path} does not exist")
    return files, skipped


def read(path: Path) -> Iterator[bytes | BadLine]:
    """Read the requests of a file, each as protobuf that is not checked yet.

    Raises NotOtlp when it holds something else, BadInput or OSError when it cannot be read at all.
    """
    kind = _kind(path)
    if kind is None:
        raise NotOtlp("its name ends in none of .binpb, .json, .jsonl (or these with .gz)")
    try:
        with _open(path) as file:
            if kind == _BINARY:
                yield file.read()
            else:
                yield from _documents(file, whole=kind == ".json")
    except (gzip.BadGzipFile, EOFError) as error:
        raise BadInput(f"it cannot be decompressed: {error}") from error


def _find_in(folder: Path, files: list[OtlpFile], skipped: list[Skipped]) -> None:
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        if _kind(path) is None:
            skipped.append(Skipped(path, "not an OTLP file name"))
        elif _kind(path) != _BINARY and _is_copy(path):
            skipped.append(Skipped(path, "the same requests as the .binpb files beside it"))
        else:
            files.append(OtlpFile(path, named=False))


def _kind(path: Path) -> str | None:
    name = path.name.removesuffix(".gz")
    return next((kind for kind in (_BINARY, *_TEXT) if name.endswith(kind)), None)


def _is_copy(path: Path) -> bool:
    """Say whether every request of a capture is in a .binpb file of the same folder."""
    binaries = {each.name.removesuffix(".gz") for each in path.parent.glob(f"*{_BINARY}*")}
    if not binaries:
        return False
    try:
        with _open(path) as file:
            names = {json.loads(line).get("file") for line in file if line.strip()}
    except (ValueError, AttributeError, OSError, EOFError):
        return False
    return bool(names) and names <= binaries


def _open(path: Path) -> BufferedIOBase:
    return gzip.open(path) if path.name.endswith(".gz") else path.open("rb")


def _documents(file: BufferedIOBase, *, whole: bool) -> Iterator[bytes | BadLine]:
    if whole:
        data = file.read()
        try:
            document = json.loads(data)
        except ValueError as error:
            # The collector's file exporter writes one document a line into a file named .json.
            lines = data.splitlines()
            if len(lines) < 2 or not _is_json(lines[0]):
                raise BadInput(f"it is not JSON: {error}") from error
            yield from _lines(lines)
        else:
            documents = document if isinstance(document, list) else [document]
            for each in documents:
                yield from _requests(each)
    else:
        yield from _lines(file)


def _lines(lines: Iterable[bytes]) -> Iterator[bytes | BadLine]:
    seen = False
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield from _requests(json.loads(line))
        except NotOtlp as error:
            if not seen:
                raise
            yield BadLine(f"line {number}: {error}")
        except (BadInput, ValueError) as error:
            yield BadLine(f"line {number}: {error}")
        seen = True


def _requests(document: Any) -> Iterator[bytes]:
    if isinstance(document, dict):
        request = document.get("request", document)
        if isinstance(request, dict) and "resourceSpans" in request:
            yield document_to_protobuf(request)
            return
        if isinstance(request, dict) and any(name in request for name in _OTHER_SIGNALS):
            return
    raise NotOtlp("it holds no OTLP traces")


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
