"""Label sets: canonical form and fingerprint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

Labels = Mapping[str, str]


def canonical(labels: Labels) -> str:
    """One text per label set, whatever the order of its keys."""
    return json.dumps(dict(sorted(labels.items())), separators=(",", ":"), ensure_ascii=False)


def fingerprint(labels: Labels) -> str:
    """Name a label set by 16 hex digits (64 bits)."""
    return hashlib.sha256(canonical(labels).encode()).hexdigest()[:16]
