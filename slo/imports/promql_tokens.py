"""PromQL cut into tokens and written again; what cannot be PromQL is refused. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from base.errors import BadInput

WINDOW, SECONDS = "$window", "$window_seconds"
LONGEST = 20_000
WORDS = frozenset({
    "and", "or", "unless", "by", "without", "on", "ignoring", "group_left", "group_right", "bool",
    "offset", "atan2",
})  # fmt: skip
COMPARE = frozenset({"==", "!=", ">", "<", ">=", "<="})
CLOSING = frozenset({")", "]", "}"})
PAIRS = {"(": ")", "[": "]", "{": "}"}

# What the tools write where the window goes: Sloth and OpenSLO, slo-generator, Grafana.
_PLACEHOLDERS = re.compile(
    r"\{\{-?\s*\.?\s*[Ww]indow\s*-?\}\}|\$window\b|\$\{window\}|\[\s*window\s*(?=[\]:])"
    r"|\$__(?:rate_)?interval|\$__range|\$\{__range\}"
)
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\$\{?[A-Za-z_]\w*\}?", re.DOTALL)
_TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)
      | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)
      | (?P<window>\$window(?:_seconds)?\b)
      | (?P<number>(?:\d+(?:ms|[smhdwy]))+\b|0x[0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<name>[A-Za-z_][A-Za-z0-9_:]*)
      | (?P<sign>=~|!~|!=|==|>=|<=|[-+*/%^=<>(){}\[\],:@])
    """,
    re.VERBOSE,
)
_COMMENT = re.compile(
    r"""[ \t]*\#[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`""", re.VERBOSE
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_:]*")
_MATCH = frozenset({"=", "!=", "=~", "!~"})
_BINARY = frozenset("+-*/%^") | COMPARE
_LISTS = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_QUOTES = "\"'`"


def tidy(text: str) -> str:
    """Write the window as `$window` and refuse what is no query; BadInput says why."""
    if len(text) > LONGEST:
        raise BadInput(f"the query is longer than {LONGEST:,} characters")
    query = _PLACEHOLDERS.sub(
        lambda found: "[" + WINDOW if found[0].startswith("[") else WINDOW,
        without_comments(text),
    ).strip()
    left = next((each for each in _TEMPLATE.findall(_bare_of_text(query)) if each not in {
        WINDOW, SECONDS,
    }), None)  # fmt: skip
    if left is not None:
        raise BadInput(f"the query holds the template {left!r}: fill it in first")
    if not tokens(query):
        raise BadInput("the query is empty")
    return query


def without_comments(query: str) -> str:
    """Leave out what follows a #: queries are put in brackets, whose end it would swallow."""
    return _COMMENT.sub(lambda found: found[0] if found[0][0] in _QUOTES else "", query)


def tokens(query: str) -> list[str]:
    """Cut a query; BadInput if its brackets or characters cannot be PromQL."""
    found: list[str] = []
    expected: list[str] = []
    at = 0
    while at < len(query):
        match = _TOKEN.match(query, at)
        if match is None:
            raise BadInput(f"the query is not PromQL at {query[at : at + 20]!r}")
        at = match.end()
        if match.lastgroup == "space":
            continue
        word = match[0]
        if word in PAIRS:
            expected.append(PAIRS[word])
        elif word in CLOSING and (not expected or expected.pop() != word):
            raise BadInput(f"the query is not PromQL: {word!r} closes nothing")
        found.append(word)
    if expected:
        raise BadInput(f"the query is not PromQL: {expected[-1]!r} is missing at its end")
    _check_neighbours(found)
    return found


def write(found: Sequence[str]) -> str:
    """Write tokens as people do: `sum by (a) (increase(x{b="c"}[$window])) / 2`."""
    out = ""
    braces = 0
    for at, word in enumerate(found):
        braces += (word == "{") - (word == "}")
        before = found[at - 1] if at else ""
        out += word if braces else _spaced(out, before, word, found, at)
    return out


def closing(found: Sequence[str], at: int) -> int:
    """Find where the bracket at `at` is closed."""
    depth = 0
    for here in range(at, len(found)):
        depth += (found[here] in PAIRS) - (found[here] in CLOSING)
        if depth == 0:
            return here
    return -1


def is_name(word: str) -> bool:
    return _NAME.fullmatch(word) is not None and word.lower() not in WORDS


def is_text(word: str) -> bool:
    return word[:1] in _QUOTES if word else False


def _spaced(out: str, before: str, word: str, found: Sequence[str], at: int) -> str:
    """Write one token outside of braces with the space that belongs before it."""
    after_operand = before in CLOSING or _is_operand(before)
    if word in _BINARY and after_operand:
        return f" {word} "
    if word.lower() in WORDS:
        return word if out.endswith((" ", "(")) else f" {word}"
    if before.lower() in WORDS or (word == "(" and before == ")" and _is_list(found, at - 1)):
        return f" {word}"
    if word == ",":
        return ", "
    if before in CLOSING and (_is_operand(word) or word == "@"):
        return f" {word}"
    return word


def _bare_of_text(query: str) -> str:
    """Leave out quoted texts, in which a dollar sign is a regular expression's."""
    return re.sub(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|`[^`]*`', '""', query)


def _check_neighbours(found: Sequence[str]) -> None:
    """Refuse prose and the query languages of others, whose words stand side by side."""
    for at, word in enumerate(found):
        if word == "{" and not _are_matchers(found[at + 1 : closing(found, at)]):
            raise BadInput(f"the query is not PromQL: {write(found[at : at + 8])!r}")
        before = found[at - 1] if at else ""
        if (
            _is_operand(word)
            and (_is_operand(before) or before in {")", "}"})
            and not (before == ")" and _is_list(found, at - 1))
        ):
            raise BadInput(f"the query is not PromQL: {before!r} stands beside {word!r}")


def _are_matchers(inner: Sequence[str]) -> bool:
    """Say whether braces hold a quoted metric name or name, operator, text, each apart."""
    parts = [word for word in inner if word != ","]
    at = 0
    while at < len(parts):
        size = 3 if parts[at + 1 : at + 2] and parts[at + 1] in _MATCH else 1
        each = parts[at : at + size]
        is_label = is_text(each[0]) or _NAME.fullmatch(each[0]) is not None
        if not is_text(each[-1]) or not is_label:
            return False
        at += size
    return True


def _is_operand(word: str) -> bool:
    return bool(word) and (
        word[0].isdigit() or is_text(word) or is_name(word) or word in {WINDOW, SECONDS}
    )


def _is_list(found: Sequence[str], end: int) -> bool:
    """Say whether the bracket closed here holds the labels of `by`, `on` and their like."""
    opened = end - list(reversed(found[: end + 1])).index("(")
    return opened > 0 and found[opened - 1].lower() in _LISTS
