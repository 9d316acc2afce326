"""How telemetry comes in: what the receiver, the log, the store and the dead letters say of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from base.durations import parse_instant
from collector.api import RECEIVER_SILENT_AFTER, PipelineView
from collector.dead_letter import DeadLetter
from collector.pipeline import Lag
from collector.refusal import Reason, Refused
from store.ingest_history import SenderActivity

Sender = tuple[str, str]
"""A credential's name and its tenant; '' where the data name their tenants."""

NOBODY = "unauthenticated"
_TRIED_AGAIN = {429, 502, 503, 504}  # OTLP 1.9, "Failures"


@dataclass(frozen=True, slots=True)
class IntakePorts:
    """Where the pages read what is not in the store."""

    status: Callable[[], Mapping[str, Any] | None]
    pipeline: PipelineView
    letters: Callable[[], Sequence[DeadLetter]]
    log_bytes: int


@dataclass(frozen=True, slots=True)
class Refusals:
    """Requests refused for one reason since the receiver started; `last` None: not known when."""

    reason: str
    requests: int
    last: datetime | None

    @property
    def is_tried_again(self) -> bool:
        """Tell whether senders try again; else the spans are lost."""
        try:
            answer = Refused(Reason(self.reason), "")
        except ValueError:  # a newer receiver's
            return False
        return answer.http_status in _TRIED_AGAIN


@dataclass(frozen=True, slots=True)
class Received:
    """What the receiver says of one sender, since it started."""

    spans: int
    rejected: int
    last: datetime | None
    refusals: tuple[Refusals, ...] = ()


@dataclass(frozen=True, slots=True)
class ReceiverState:
    """The receiver's report as of `at`."""

    at: datetime
    is_up: bool
    started: datetime | None
    otlp_http: str | None
    waiting_bytes: int | None
    disk_error: str | None
    senders: Mapping[Sender, Received] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SenderRow:
    """One sender: counts of the page's time range, then since the receiver started.

    What the receiver counts is None while none has reported.
    """

    source: str
    tenant: str
    accepted: int
    duplicate: int
    late: int
    last: datetime | None
    rejected: int | None
    refusals: tuple[Refusals, ...] | None
    letters: int | None

    @property
    def refused(self) -> int | None:
        return None if self.refusals is None else sum(each.requests for each in self.refusals)

    @property
    def lost(self) -> int:
        """Count what this sender will not get in by trying again."""
        gone = sum(each.requests for each in self.refusals or () if not each.is_tried_again)
        return gone + (self.rejected or 0) + (self.letters or 0)


def read_receiver(status: Mapping[str, Any] | None, now: datetime) -> ReceiverState | None:
    """Read the receiver's report; None: there is none."""
    if status is None or "at" not in status:
        return None
    at, log = parse_instant(status["at"]), status.get("log", {})
    return ReceiverState(
        at=at,
        is_up=now - at < RECEIVER_SILENT_AFTER,
        started=_instant(status.get("started")),
        otlp_http=status.get("otlp_http"),
        waiting_bytes=log.get("waiting_bytes"),
        disk_error=log.get("error"),
        senders={
            (each["source"], each["tenant"] or ""): _received(each)
            for each in status.get("sources", ())
        },
    )


def sender_rows(
    stored: Sequence[SenderActivity],
    heard: Mapping[Sender, datetime],
    receiver: ReceiverState | None,
    letters: Sequence[DeadLetter] | None,
    tenant: str | None,
) -> list[SenderRow]:
    """Join what is known of each sender; with a tenant, of those that may send its spans.

    `heard` says when each sender was last heard, also before the time range.
    """
    counts = {(each.source, each.tenant): each for each in stored}
    received = receiver.senders if receiver else {}
    dead: dict[Sender, int] = {}
    for letter in letters or ():
        dead[letter.source, letter.tenant] = dead.get((letter.source, letter.tenant), 0) + 1
    return [
        _row(
            sender,
            counts.get(sender),
            heard.get(sender),
            receiver,
            dead if letters is not None else None,
        )
        for sender in sorted({*counts, *heard, *received, *dead})
        if tenant is None or sender[1] in {tenant, ""}
    ]


def _row(
    sender: Sender,
    counts: SenderActivity | None,
    heard: datetime | None,
    receiver: ReceiverState | None,
    dead: Mapping[Sender, int] | None,
) -> SenderRow:
    seen = receiver.senders.get(sender) if receiver else None
    times = [at for at in (heard, counts and counts.last, seen and seen.last) if at]
    none_yet: tuple[Refusals, ...] | None = () if receiver else None
    return SenderRow(
        source=sender[0],
        tenant=sender[1],
        accepted=counts.accepted if counts else 0,
        duplicate=counts.duplicate if counts else 0,
        late=counts.late if counts else 0,
        last=max(times, default=None),
        rejected=seen.rejected if seen else 0 if receiver else None,
        refusals=seen.refusals if seen else none_yet,
        letters=None if dead is None else dead.get(sender, 0),
    )


def refusals_of(rows: Sequence[SenderRow]) -> list[Refusals]:
    """Sum refusals up by reason, the most frequent first."""
    found: dict[str, list[Refusals]] = {}
    for row in rows:
        for each in row.refusals or ():
            found.setdefault(each.reason, []).append(each)
    summed = [
        Refusals(
            reason,
            sum(each.requests for each in same),
            max((each.last for each in same if each.last), default=None),
        )
        for reason, same in found.items()
    ]
    return sorted(summed, key=lambda each: (-each.requests, each.reason))


def lag_age(lag: Lag | None) -> timedelta | None:
    """Say how old the oldest request is that waits; zero where none does, None where unknown."""
    return None if lag is None else lag.age or timedelta(0)


def _received(each: Mapping[str, Any]) -> Received:
    times = each.get("refused_last", {})
    return Received(
        spans=each["spans"],
        rejected=each["rejected_spans"],
        last=_instant(each.get("last")),
        refusals=tuple(
            Refusals(reason, number, _instant(times.get(reason)))
            for reason, number in each["refused"].items()
        ),
    )


def _instant(text: str | None) -> datetime | None:
    return parse_instant(text) if text else None
