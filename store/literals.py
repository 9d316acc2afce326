"""Values of typed placeholders, written as the engine reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any


def instant_text(moment: datetime) -> str:
    """Write a time for DateTime or DateTime64 parameters: UTC, microseconds only where needed."""
    if moment.tzinfo is None:
        raise ValueError("a naive datetime was about to be sent to the store: pass an aware one")
    text = moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    return text.removesuffix(".000000")


_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}


def quoted(text: str) -> str:
    """Write a text as it stands in SQL."""
    return "'" + "".join(_ESCAPES.get(char, char) for char in text) + "'"


def rendered(params: Mapping[str, Any]) -> dict[str, str]:
    """Write every parameter as the text the engine's own parameter parser expects."""
    return {name: _top(value) for name, value in params.items()}


def plain(params: Mapping[str, Any]) -> dict[str, Any]:
    """Replace what a ClickHouse client would format differently: times only."""
    return {name: _without_times(value) for name, value in params.items()}


def _top(value: Any) -> str:
    if value is None:
        return "\\N"
    if isinstance(value, str):
        return _escaped(value)
    if isinstance(value, bytes):
        return "".join(f"\\x{byte:02x}" for byte in value)
    return _nested(value)


def _nested(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case datetime():
            return instant_text(value)
        case timedelta():
            return repr(value.total_seconds())
        case Sequence():
            return "[" + ",".join(_element(item) for item in value) + "]"
        case _:
            raise TypeError(f"a {type(value).__name__} can't be a query parameter")


def _element(value: Any) -> str:
    if isinstance(value, str):
        return f"'{_escaped(value)}'"
    if isinstance(value, datetime):
        return f"'{instant_text(value)}'"
    return _nested(value)


def _escaped(text: str) -> str:
    return (
        text.replace("\\", "\\\\")
        .replace("'", "\\'")
        .replace("\t", "\\t")
        .replace("\n", "\\n")
        .replace("\r", "\\r")
        .replace("\0", "\\0")
    )


def _without_times(value: Any) -> Any:
    if isinstance(value, datetime):
        return instant_text(value)
    if isinstance(value, (list, tuple)):
        return [_without_times(item) for item in value]
    return value
