"""YAML (and JSON, its subset) read with the line of every value.

Only plain data comes out: no tags, no repeated keys, a bounded number of nodes, and no merge keys
unless they are asked for. Times stay text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from base.errors import ConfigError

MAX_NODES = 200_000

_PLAIN = {
    "tag:yaml.org,2002:str", "tag:yaml.org,2002:int", "tag:yaml.org,2002:float",
    "tag:yaml.org,2002:bool", "tag:yaml.org,2002:null", "tag:yaml.org,2002:map",
    "tag:yaml.org,2002:seq", "tag:yaml.org,2002:timestamp",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Located:
    """A value with the place it was written at.

    `data` is a dict[str, Located], a list[Located], or a scalar.
    """

    data: Any
    line: int
    file: str
    keys: dict[str, int] = field(default_factory=dict)  # the line of each key of a mapping

    def get(self, key: str) -> Located | None:
        """Return a field of a mapping; a null counts as absent."""
        found = self.data.get(key) if isinstance(self.data, dict) else None
        return found if isinstance(found, Located) and found.data is not None else None

    def plain(self) -> Any:
        """Return the data without places."""
        if isinstance(self.data, dict):
            return {key: value.plain() for key, value in self.data.items()}
        if isinstance(self.data, list):
            return [item.plain() for item in self.data]
        return self.data


def locate(value: Any, file: str = "", line: int = 1) -> Located:
    """Give plain data a place, all of it the same."""
    if isinstance(value, dict):
        data = {str(key): locate(each, file, line) for key, each in value.items()}
        return Located(data, line, file, dict.fromkeys(data, line))
    if isinstance(value, (list, tuple)):
        return Located([locate(each, file, line) for each in value], line, file)
    return Located(value, line, file)


def read_documents(path: Path, *, merge: bool = False) -> list[Located]:
    """Read every document of a file; ConfigError names file, line and what is wrong.

    `merge` lets `<<: *anchor` take in the fields of another mapping.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    loader = yaml.SafeLoader(text)
    try:
        return list(_documents(loader, str(path), merge=merge))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" line {mark.line + 1}" if mark else ""
        raise ConfigError(f"{path}{line}: not YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: nested too deeply to be read") from error
    finally:
        loader.dispose()


def _documents(loader: yaml.SafeLoader, file: str, *, merge: bool) -> Iterator[Located]:
    reader = _Reader(loader, file, merge=merge)
    while loader.check_node():
        node = loader.get_node()
        if node is not None:
            document = reader.located(node)
            if document.data is not None:
                yield document


class _Reader:
    def __init__(self, loader: yaml.SafeLoader, file: str, *, merge: bool) -> None:
        self._loader = loader
        self._merge = merge
        self._file = file
        self._count = 0

    def located(self, node: yaml.Node) -> Located:
        self._count += 1
        line = node.start_mark.line + 1
        if self._count > MAX_NODES:
            raise ConfigError(f"{self._file} line {line}: more than {MAX_NODES} values")
        if node.tag not in _PLAIN:
            raise ConfigError(f"{self._file} line {line}: the tag {node.tag} is not allowed")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, line)
        if isinstance(node, yaml.SequenceNode):
            return Located([self.located(item) for item in node.value], line, self._file)
        return Located(self._scalar(node, line), line, self._file)

    def _mapping(self, node: yaml.MappingNode, line: int) -> Located:
        data: dict[str, Located] = {}
        keys: dict[str, int] = {}
        merged: list[Located] = []
        for key_node, value_node in node.value:
            key_line = key_node.start_mark.line + 1
            if self._merge and key_node.tag == "tag:yaml.org,2002:merge":
                merged += self._merged(value_node)
                continue
            if not isinstance(key_node, yaml.ScalarNode) or key_node.value == "<<":
                raise ConfigError(f"{self._file} line {key_line}: a key must be plain text")
            key = self._text(str(key_node.value), key_line)
            if key in data:
                raise ConfigError(
                    f"{self._file} line {key_line}: {key!r} is written twice "
                    f"(first on line {keys[key]}): keep one"
                )
            data[key], keys[key] = self.located(value_node), key_line
        for other in merged:
            data = {**other.data, **data}
            keys = {**other.keys, **keys}
        return Located(data, line, self._file, keys)

    def _merged(self, node: yaml.Node) -> list[Located]:
        """Read what a merge key names; of several the first wins."""
        found = self.located(node)
        several = found.data if isinstance(found.data, list) else [found]
        if not all(isinstance(each.data, dict) for each in several):
            raise ConfigError(f"{self._file} line {found.line}: << merges mappings only")
        return several

    def _scalar(self, node: yaml.Node, line: int) -> Any:
        if node.tag == "tag:yaml.org,2002:timestamp":
            return node.value
        try:
            value = self._loader.construct_object(node)
        except ValueError as error:
            raise ConfigError(f"{self._file} line {line}: {node.value!r}: {error}") from error
        return self._text(value, line) if isinstance(value, str) else value

    def _text(self, text: str, line: int) -> str:
        """Join the halves that JSON's escapes write a rare character in; YAML leaves them apart."""
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError as error:
            raise ConfigError(f"{self._file} line {line}: {text!r} is not text") from error
