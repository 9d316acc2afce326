"""Why a request is not taken, and how each transport says so.

OTLP 1.11, "Failures": only 429, 502, 503 and 504 are tried again by a sender; over gRPC,
RESOURCE_EXHAUSTED only with a RetryInfo, UNAVAILABLE always. What is bad carries a BadRequest.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from google.rpc.code_pb2 import Code  # type: ignore[import-untyped]
from google.rpc.error_details_pb2 import (  # type: ignore[import-untyped]
    BadRequest,
    RetryInfo,
)
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

# An SDK gives up after ten seconds in all (OTEL_EXPORTER_OTLP_TIMEOUT), and at once when it is told
# to wait for longer than is left of them: three allow four tries.
LONGEST_WAIT = timedelta(seconds=3)
_LONGEST_MESSAGE = 500  # characters; gRPC takes 8 KiB of trailers, percent-encoded, and no more


class Reason(StrEnum):
    """A closed set: these are label values."""

    UNDECODABLE = "undecodable"
    TOO_LARGE = "too_large"
    UNSUPPORTED_TYPE = "unsupported_type"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    LOG_FULL = "log_full"
    DISK = "disk"
    SLOW_BODY = "slow_body"
    NO_SUCH_SIGNAL = "no_such_signal"
    NO_SUCH_PATH = "no_such_path"
    WRONG_METHOD = "wrong_method"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class _Answer:
    http: int
    code: int


_ANSWERS = {
    Reason.UNDECODABLE: _Answer(400, Code.INVALID_ARGUMENT),
    Reason.TOO_LARGE: _Answer(413, Code.RESOURCE_EXHAUSTED),
    Reason.UNSUPPORTED_TYPE: _Answer(415, Code.INVALID_ARGUMENT),
    Reason.UNAUTHENTICATED: _Answer(401, Code.UNAUTHENTICATED),
    Reason.FORBIDDEN: _Answer(403, Code.PERMISSION_DENIED),
    Reason.RATE_LIMITED: _Answer(429, Code.UNAVAILABLE),
    Reason.OVERLOADED: _Answer(503, Code.UNAVAILABLE),
    Reason.LOG_FULL: _Answer(503, Code.UNAVAILABLE),
    Reason.DISK: _Answer(503, Code.UNAVAILABLE),
    Reason.SLOW_BODY: _Answer(408, Code.DEADLINE_EXCEEDED),
    Reason.NO_SUCH_SIGNAL: _Answer(404, Code.UNIMPLEMENTED),
    Reason.NO_SUCH_PATH: _Answer(404, Code.NOT_FOUND),
    Reason.WRONG_METHOD: _Answer(405, Code.UNIMPLEMENTED),
    Reason.INTERNAL: _Answer(503, Code.UNAVAILABLE),
}


class Refused(Exception):  # noqa: N818  an answer, not a fault
    """A request is not taken. `after` is set exactly when the sender should try again."""

    def __init__(self, reason: Reason, message: str, after: timedelta | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = cut(message, _LONGEST_MESSAGE)
        self.after = None if after is None else min(after, LONGEST_WAIT)

    @property
    def http_status(self) -> int:
        return _ANSWERS[self.reason].http

    @property
    def grpc_code(self) -> int:
        return _ANSWERS[self.reason].code

    def status(self) -> Status:
        """Write it as google.rpc.Status: how long to wait, or what is bad about the request."""
        status = Status(code=self.grpc_code, message=self.message)
        if (info := self.retry_info()) is not None:
            status.details.append(_packed(info))
        elif self.reason is Reason.UNDECODABLE:
            bad = BadRequest.FieldViolation(field="body", description=self.message)
            status.details.append(_packed(BadRequest(field_violations=[bad])))
        return status

    def retry_info(self) -> RetryInfo | None:
        """Say how long to wait; None when it must not be sent again."""
        if self.after is None:
            return None
        info = RetryInfo()
        info.retry_delay.FromTimedelta(self.after)
        return info

    def status_json(self) -> bytes:
        return MessageToJson(self.status(), indent=None).encode()


def cut(text: str, most: int) -> str:
    """Shorten what a sender wrote, before it is told back."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _packed(message: Message) -> AnyMessage:
    detail = AnyMessage()
    detail.Pack(message)
    return detail
