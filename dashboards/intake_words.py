"""How intake is told: where it stands, what each refusal means, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from collector.pipeline import Lag, PipelineStatus
from dashboards.intake import ReceiverState, Refusals, lag_age
from dashboards.wording import UNKNOWN, moment, span

RECENT = timedelta(minutes=1)
"""A refusal of less than this ago is going on."""
SILENT = timedelta(minutes=2)
BEHIND = timedelta(seconds=10)  # a batch may take a second or two


@dataclass(frozen=True, slots=True)
class Words:
    """A state in one word, its tone, a sentence, and what to do."""

    badge: str
    tone: str
    says: str
    advice: str = ""


REASONS: Mapping[str, tuple[str, str]] = {
    "undecodable": (
        "not OTLP",
        (
            "The body is not an ExportTraceServiceRequest, or not what its content-type and"
            " content-encoding say. Is a proxy changing it?"
        ),
    ),
    "too_large": (
        "too large",
        (
            "Send smaller batches (OTEL_BSP_MAX_EXPORT_BATCH_SIZE), or raise"
            " collector.max_request_bytes."
        ),
    ),
    "unsupported_type": (
        "unknown content type",
        "Send application/x-protobuf or application/json, plain, gzip or zstd.",
    ),
    "unauthenticated": (
        "no valid key",
        (
            "Make a key with `tokenweir key create` and send it in OTEL_EXPORTER_OTLP_HEADERS as"
            " x-api-key."
        ),
    ),
    "forbidden": (
        "key may not send",
        "The key has another role: make one with `tokenweir key create --role ingest`.",
    ),
    "rate_limited": (
        "too fast",
        (
            "The tenant sends more than collector.spans_per_s. Sample in the application, or raise"
            " the limit."
        ),
    ),
    "overloaded": (
        "too much at once",
        (
            "More is in flight than collector.memory_bytes holds. If it lasts, send smaller batches"
            " or raise it."
        ),
    ),
    "log_full": (
        "log full",
        "The store is behind by more than collector.log_bytes: see the log above.",
    ),
    "disk": ("disk error", "The write-ahead log cannot be written: free or mend the disk."),
    "slow_body": (
        "body too slow",
        "The body did not arrive in time: look at the network, or send smaller batches.",
    ),
    "no_such_signal": (
        "not traces",
        "Only traces are taken: set OTEL_METRICS_EXPORTER and OTEL_LOGS_EXPORTER to none.",
    ),
    "no_such_path": (
        "wrong path",
        "Send to /v1/traces: OTEL_EXPORTER_OTLP_ENDPOINT is to be the address alone.",
    ),
    "wrong_method": (
        "wrong method",
        "Traces are sent with POST; a probe or a browser asks in another way.",
    ),
    "internal": ("receiver failed", "A fault of ours: the receiver's log has the trace of it."),
}


def reason_words(reason: str) -> str:
    return REASONS[reason][0] if reason in REASONS else reason.replace("_", " ")


def advice_for(reason: str) -> str:
    return REASONS[reason][1] if reason in REASONS else ""


def size(number: float | None) -> str:
    """Write 0 B, 12 KiB, 3.4 MiB."""
    if number is None:
        return UNKNOWN
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if number >= 10 or unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"


def ago(at: datetime | None, now: datetime) -> str:
    """Write how long ago a moment was; a clock that is a little ahead is now."""
    if at is None:
        return UNKNOWN
    return f"{span(now - at)} ago" if now - at >= timedelta(seconds=1) else "now"


def standing(
    receiver: ReceiverState | None,
    lag: Lag | None,
    pipeline: PipelineStatus | None,
    log_bytes: int | None,
    refusals: Sequence[Refusals],
    newest: datetime | None,
    now: datetime,
) -> list[Words]:
    """Say how intake stands, the worst first; `newest` is when spans were last received."""
    found = [
        *_of_receiver(receiver, log_bytes, now),
        *_of_log(lag, pipeline),
        *_of_refusals(refusals, receiver, now),
        *_of_traffic(newest, now),
    ]
    if found:
        return found
    age = lag_age(lag)
    if age is None:
        return [Words("unknown", "calm", "Whether all of it is stored is not known here.")]
    waiting = f" but the last {span(age)}" if age >= timedelta(seconds=1) else ""
    return [Words("all stored", "good", f"Everything that was acknowledged{waiting} is stored.")]


def _of_receiver(
    receiver: ReceiverState | None, log_bytes: int | None, now: datetime
) -> list[Words]:
    if receiver is None:
        return [
            Words(
                "unknown", "warn", "No receiver has reported, so refusals are not known.",
                "`tokenweir up` starts it; `tokenweir check` says what keeps it from starting.",
            )
        ]  # fmt: skip
    if not receiver.is_up:
        return [
            Words(
                "down", "bad",
                f"The receiver has not reported for {span(now - receiver.at)}: nothing is taken"
                " in.",
                "Senders keep spans only as long as their queues allow. Its log says why it"
                f" stopped; its counts below are as of {moment(receiver.at, now)}.",
            )
        ]  # fmt: skip
    if receiver.disk_error:
        return [
            Words(
                "refusing", "bad",
                f"Refusing everything because the log cannot be written: {receiver.disk_error}",
                "Senders try again for as long as they can. Free or mend the data folder's disk.",
            )
        ]  # fmt: skip
    if log_bytes is not None and (receiver.waiting_bytes or 0) > log_bytes:
        return [
            Words(
                "refusing", "bad",
                f"Refusing everything because the log is full: {size(receiver.waiting_bytes)} wait"
                f" for the store, {size(log_bytes)} may (collector.log_bytes).",
                "Senders try again for as long as they can. What keeps the store is said below.",
            )
        ]  # fmt: skip
    return []


def _of_log(lag: Lag | None, pipeline: PipelineStatus | None) -> list[Words]:
    if lag is None:
        return []
    much = f"{size(lag.bytes)} and {span(lag.age)}"
    if pipeline is not None and pipeline.error:
        behind = f", behind by {much}" if lag.age else ""
        return [
            Words(
                "not stored", "bad", f"The store does not take the present batch{behind}.",
                "What was acknowledged is safe in the log, and it is tried again:"
                f" {pipeline.error}",
            )
        ]  # fmt: skip
    if lag.age is not None and lag.age > BEHIND:
        return [
            Words(
                "behind", "warn", f"Behind by {much}.",
                "Nothing of it is lost: it is in the log. Budgets and alerts lag by as much.",
            )
        ]  # fmt: skip
    return []


def _of_refusals(
    refusals: Sequence[Refusals], receiver: ReceiverState | None, now: datetime
) -> list[Words]:
    if receiver is None or not receiver.is_up:
        return []
    fresh = [each for each in refusals if each.last is not None and now - each.last < RECENT]
    if not fresh:
        return []
    why = ", ".join(reason_words(each.reason) for each in fresh[:3])
    more = f" and {len(fresh) - 3} more reasons" if len(fresh) > 3 else ""
    return [Words("refusing some", "warn", f"Refusing some requests because: {why}{more}.")]


def _of_traffic(newest: datetime | None, now: datetime) -> list[Words]:
    if newest is None:
        return [
            Words(
                "nothing yet", "calm", "No span has ever been stored.",
                "Point OTEL_EXPORTER_OTLP_ENDPOINT at the receiver's port, or start"
                " `tokenweir demo`.",
            )
        ]  # fmt: skip
    if now - newest > SILENT:
        return [
            Words(
                "nothing arrives", "warn",
                f"Nothing has been stored that arrived in the last {span(now - newest)}.",
                "Either no sender sends, or what they send does not reach this port.",
            )
        ]  # fmt: skip
    return []
