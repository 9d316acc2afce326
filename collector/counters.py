"""What the receiver has taken and refused: as metrics, and as one JSON document for the server."""

from __future__ import annotations

import json
import os
from bisect import bisect_left
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

from prometheus_client import Counter as Metric
from prometheus_client import Histogram

from base.clock import Clock
from base.durations import format_instant
from base.selfmon import REGISTRY
from collector.keys import Identity
from collector.refusal import Reason

STATUS_FILE = "receiver.json"
ACK_BOUNDS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000)

_spans = Metric(
    "tokenweir_collector_spans_accepted", "Spans acknowledged", ["transport"], registry=REGISTRY
)
_bytes = Metric(
    "tokenweir_collector_bytes_accepted",
    "Bytes of acknowledged requests, decompressed",
    ["transport"],
    registry=REGISTRY,
)
_refused = Metric(
    "tokenweir_collector_requests_refused",
    "Requests refused, by reason",
    ["transport", "reason"],
    registry=REGISTRY,
)
_rejected = Metric(
    "tokenweir_collector_spans_rejected",
    "Invalid spans left out of accepted requests",
    ["transport"],
    registry=REGISTRY,
)
_ack = Histogram(
    "tokenweir_collector_ack_seconds",
    "From a whole request to its acknowledgement",
    ["transport"],
    registry=REGISTRY,
    buckets=tuple(bound / 1000 for bound in ACK_BOUNDS_MS),
)

_Sender = tuple[str, str]  # source, tenant
_NOBODY: _Sender = ("unauthenticated", "")


class Counters:
    """Counts per sender. Used from the event loop only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: dict[_Sender, datetime] = {}
        self._refused_last: dict[tuple[_Sender, Reason], datetime] = {}
        self._requests: Counter[_Sender] = Counter()
        self._spans: Counter[_Sender] = Counter()
        self._bytes: Counter[_Sender] = Counter()
        self._rejected: Counter[_Sender] = Counter()
        self._refused: Counter[tuple[_Sender, Reason]] = Counter()
        self._acks = [0] * (len(ACK_BOUNDS_MS) + 1)

    def accepted(
        self,
        identity: Identity,
        transport: str,
        *,
        spans: int,
        size: int,
        rejected: int,
        ack_s: float,
    ) -> None:
        sender = (identity.source, identity.tenant)
        self._requests[sender] += 1
        self._last[sender] = self._clock.now()
        self._spans[sender] += spans
        self._bytes[sender] += size
        self._acks[bisect_left(ACK_BOUNDS_MS, ack_s * 1000)] += 1
        _spans.labels(transport).inc(spans)
        _bytes.labels(transport).inc(size)
        _ack.labels(transport).observe(ack_s)
        if rejected:
            self._rejected[sender] += rejected
            _rejected.labels(transport).inc(rejected)

    def refused(self, identity: Identity | None, transport: str, reason: Reason) -> None:
        sender = _NOBODY if identity is None else (identity.source, identity.tenant)
        self._refused[sender, reason] += 1
        self._refused_last[sender, reason] = self._clock.now()
        _refused.labels(transport, reason.value).inc()

    def snapshot(self) -> dict[str, Any]:
        """Describe everything since the start of the process."""
        senders = sorted({*self._requests, *(sender for sender, _ in self._refused)})
        return {
            "sources": [self._sender(sender) for sender in senders],
            "ack_ms": {
                "le": [*ACK_BOUNDS_MS, None],
                "count": list(self._acks),
                "p50": self._quantile(0.5),
                "p99": self._quantile(0.99),
            },
        }

    def _sender(self, sender: _Sender) -> dict[str, Any]:
        last = self._last.get(sender)
        return {
            "source": sender[0],
            "tenant": sender[1] or None,
            "requests": self._requests[sender],
            "spans": self._spans[sender],
            "bytes": self._bytes[sender],
            "rejected_spans": self._rejected[sender],
            "refused": {r.value: n for (s, r), n in sorted(self._refused.items()) if s == sender},
            "last": None if last is None else format_instant(last),
            "refused_last": {
                r.value: format_instant(at)
                for (s, r), at in sorted(self._refused_last.items())
                if s == sender
            },
        }

    def _quantile(self, share: float) -> int | None:
        """Return the upper bound of the bucket that holds a quantile; None beyond the last."""
        wanted, seen = share * sum(self._acks), 0
        for bound, count in zip(ACK_BOUNDS_MS, self._acks, strict=False):
            seen += count
            if seen and seen >= wanted:
                return bound
        return None


def write_status(path: Path, status: dict[str, Any]) -> None:
    """Replace the status file as a whole, so that a reader never sees half of one."""
    draft = path.with_suffix(".tmp")
    fd = os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        json.dump(status, file)
    draft.replace(path)


def read_status(path: Path) -> dict[str, Any] | None:
    """Read it; None when no receiver has written one yet."""
    try:
        status = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return status if isinstance(status, dict) else None
