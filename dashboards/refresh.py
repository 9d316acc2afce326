"""Send a page only what changed: nothing flickers, and a quiet page costs nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from dash import no_update
from plotly.utils import PlotlyJSONEncoder

Seen = Mapping[str, str]


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
    return hashlib.sha256(json.dumps(part, cls=PlotlyJSONEncoder).encode()).hexdigest()[:16]
