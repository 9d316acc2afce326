"""Label sets: canonical form and fingerprint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from urllib.parse import unquote

Labels = Mapping[str, str]


def canonical(labels: Labels) -> str:
    """One text per label set, whatever the order of its keys."""
    return json.dumps(dict(sorted(labels.items())), separators=(",", ":"), ensure_ascii=False)


def fingerprint(labels: Labels) -> str:
    """Name a label set by 16 hex digits (64 bits)."""
    return hashlib.sha256(canonical(labels).encode()).hexdigest()[:16]


def in_address(labels: Labels) -> str:
    """Write labels for an address that people read: `tenant:acme,route:/v1/chat/completions`."""
    pairs = (f"{name}:{_escaped(value)}" for name, value in labels.items())
    return ",".join(pairs)


def from_address(text: str) -> dict[str, str]:
    """Read what `in_address` writes; what is not like it is left out."""
    pairs = (part.partition(":") for part in text.split(","))
    return {name: unquote(value) for name, colon, value in pairs if colon}


def _escaped(value: str) -> str:
    return value.replace("%", "%25").replace(",", "%2C")
