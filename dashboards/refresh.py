"""Send a page only what changed: nothing flickers, and a quiet page costs nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from dash import Output, no_update
from dash.development.base_component import Component

Seen = Mapping[str, str]


def outputs(parts: Iterable[str]) -> list[Any]:
    """Name a callback's outputs, each written "id.property"."""
    return [Output(*part.split(".", 1)) for part in parts]  # type: ignore[arg-type]


def only_changed(seen: Seen | None, parts: Mapping[str, Any]) -> tuple[Any, ...]:
    """Answer a callback's outputs in order, then what the page has seen now.

    `seen` is a fingerprint per part, kept by the page; a part with the same fingerprint is left
    as it is.
    """
    known = seen or {}
    marks = {name: _fingerprint(part) for name, part in parts.items()}
    outputs = (
        no_update if marks[name] == known.get(name) else part for name, part in parts.items()
    )
    return (*outputs, marks)


def _fingerprint(part: Any) -> str:
    return hashlib.sha256(json.dumps(part, default=_component).encode()).hexdigest()[:16]


def _component(value: Any) -> Any:
    if isinstance(value, Component):
        return value.to_plotly_json()  # type: ignore[no-untyped-call]
    raise TypeError(f"a page cannot send a {type(value).__name__}")
