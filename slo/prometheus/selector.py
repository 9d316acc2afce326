"""Series selectors: `name{label="value"}`, the only PromQL that is taken apart. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace

from base.errors import BadInput

MOST_CHARACTERS = 4000

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_SPACE = re.compile(r"(?:\s+|#[^\n]*)*")
_OPERATOR = re.compile(r"=~|!~|!=|=")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|`[^`]*`')
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{3}|.)", re.DOTALL)
_PLAIN_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition on a label; `operator` is =, !=, =~ or !~."""

    label: str
    operator: str
    value: str

    def __str__(self) -> str:
        return f"{_label(self.label)}{self.operator}{_quoted(self.value)}"


@dataclass(frozen=True, slots=True)
class Selector:
    """Series of one metric; matchers in the order they were written."""

    metric: str
    matchers: tuple[Matcher, ...] = ()

    def __str__(self) -> str:
        inside = ",".join(str(each) for each in self.matchers)
        if not _NAME.fullmatch(self.metric):
            return f"{{{_quoted(self.metric)}{',' if inside else ''}{inside}}}"
        return f"{self.metric}{{{inside}}}" if inside else self.metric

    def of(self, metric: str, *more: Matcher) -> Selector:
        """Select the series of another metric with the same labels, and more."""
        return replace(self, metric=metric, matchers=(*self.matchers, *more))


def parse_selector(text: str) -> Selector:
    """Read a selector. BadInput says what else was found."""
    if len(text) > MOST_CHARACTERS:
        raise BadInput(f"the selector has {len(text)} characters: at most {MOST_CHARACTERS}")
    return _Parser(text).selector()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def selector(self) -> Selector:
        self._skip()
        name = self._take(_NAME)
        matchers: list[Matcher] = []
        if self._next("{"):
            while not self._next("}"):
                found = self._matcher()
                if isinstance(found, Matcher) and found.label != "__name__":
                    matchers.append(found)
                else:
                    name = self._named(name, found)
                if not self._next(",") and not self._sees("}"):
                    raise self._unexpected("a comma or }")
        self._skip()
        if self._at < len(self._text):
            raise self._unexpected("nothing more")
        if name is None:
            raise BadInput(f"{self._text!r} names no metric: write one such as http_requests_total")
        return Selector(name, tuple(matchers))

    def _named(self, name: str | None, found: Matcher | str) -> str:
        """Take the metric's name out of the braces; one name is needed and enough."""
        if isinstance(found, Matcher):
            if found.operator != "=":
                raise BadInput(f"{self._text!r} matches several metrics: name one")
            found = found.value
        if name is not None or not found:
            raise BadInput(f"{self._text!r} names a metric twice, or none")
        return found

    def _matcher(self) -> Matcher | str:
        self._skip()
        quoted = self._take(_STRING)
        label = self._take(_NAME) if quoted is None else self._unquoted(quoted)
        if label is None:
            raise self._unexpected("a label")
        self._skip()
        operator = self._take(_OPERATOR)
        if operator is None and quoted is not None:
            return label  # a metric's name in quotes
        if operator is None:
            raise self._unexpected("one of = != =~ !~")
        self._skip()
        value = self._take(_STRING)
        if value is None:
            raise self._unexpected("a quoted value")
        return Matcher(label, operator, self._unquoted(value))

    def _unquoted(self, literal: str) -> str:
        if literal[0] == "`":
            return literal[1:-1]
        return _ESCAPE.sub(_escaped, literal[1:-1])

    def _skip(self) -> None:
        found = _SPACE.match(self._text, self._at)
        self._at = found.end() if found else self._at

    def _take(self, pattern: re.Pattern[str]) -> str | None:
        found = pattern.match(self._text, self._at)
        if found is None:
            return None
        self._at = found.end()
        return found.group()

    def _sees(self, char: str) -> bool:
        self._skip()
        return self._text.startswith(char, self._at)

    def _next(self, char: str) -> bool:
        if not self._sees(char):
            return False
        self._at += 1
        return True

    def _unexpected(self, wanted: str) -> BadInput:
        found = self._text[self._at : self._at + 20] or "the end"
        return BadInput(
            f'{self._text!r} is not a selector such as http_requests_total{{code="200"}}: '
            f"expected {wanted}, found {found!r}"
        )


def _escaped(found: re.Match[str]) -> str:
    code = found.group(1)
    if code[0] in "xuU" and len(code) > 1:
        return chr(min(int(code[1:], 16), 0x10FFFF))
    if len(code) == 3:
        return chr(int(code, 8))
    return _PLAIN_ESCAPES.get(code, code)


def _label(name: str) -> str:
    return name if re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name) else _quoted(name)


def _quoted(text: str) -> str:
    """Quote as JSON does, which PromQL reads the same; nothing outside ASCII is escaped."""
    return json.dumps(text, ensure_ascii=False)
