"""Label matchers as Alertmanager has them: equal, not equal, regular expression, not one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from base.errors import BadInput

_TEXT = re.compile(
    r"""^\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*(?:"((?:[^"\\]|\\.)*)"|(.*?))\s*$"""
)


@dataclass(frozen=True, slots=True)
class Matcher:
    """A missing label equals an empty one; a regular expression matches the whole value."""

    name: str
    value: str
    is_regex: bool = False
    is_equal: bool = True

    def __post_init__(self) -> None:
        if not self.name:
            raise BadInput("a matcher has an empty name")
        if self.is_regex:
            _compiled(self.value)

    def __str__(self) -> str:
        operator = ("=" if self.is_equal else "!") + ("~" if self.is_regex else "")
        operator = operator if operator != "!" else "!="
        return f"{self.name}{operator}{json.dumps(self.value, ensure_ascii=False)}"

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.name, "")
        if self.is_regex:
            return (_compiled(self.value).fullmatch(value) is not None) is self.is_equal
        return (value == self.value) is self.is_equal


def parse_matcher(text: str) -> Matcher:
    """Read name="value", name!="value", name=~"regex" or name!~"regex"; quotes are optional."""
    found = _TEXT.match(text)
    if found is None:
        raise BadInput(f'matcher {text!r} is not like name="value" or name=~"regex"')
    name, operator, quoted, bare = found.groups()
    value = bare if quoted is None else _unquoted(quoted)
    return Matcher(name, value, is_regex=operator.endswith("~"), is_equal=operator[0] == "=")


def _unquoted(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return text  # a regular expression written without doubling its backslashes


def all_match(matchers: Iterable[Matcher], labels: Mapping[str, str]) -> bool:
    return all(matcher.matches(labels) for matcher in matchers)


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise BadInput(f"regular expression {pattern!r}: {error}") from error
