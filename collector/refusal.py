"""Why a request is not taken, and how each transport says so.

OTLP 1.9, "Failures": only 429, 502, 503 and 504 are tried again by a sender; over gRPC,
RESOURCE_EXHAUSTED only with a RetryInfo, UNAVAILABLE always.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.json_format import MessageToJson
from google.rpc.code_pb2 import Code  # type: ignore[import-untyped]
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]


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
    Reason.INTERNAL: _Answer(503, Code.UNAVAILABLE),
}


class Refused(Exception):  # noqa: N818  an answer, not a fault
    """A request is not taken. `after` is set exactly when the sender should try again."""

    def __init__(self, reason: Reason, message: str, after: timedelta | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.after = after

    @property
    def http_status(self) -> int:
        return _ANSWERS[self.reason].http

    @property
    def grpc_code(self) -> int:
        return _ANSWERS[self.reason].code

    def status(self) -> Status:
        """Write it as google.rpc.Status, with a RetryInfo if it may be tried again."""
        status = Status(code=self.grpc_code, message=self.message)
        if self.after is not None:
            info = RetryInfo()
            info.retry_delay.FromTimedelta(self.after)
            detail = AnyMessage()
            detail.Pack(info)
            status.details.append(detail)
        return status

    def status_json(self) -> bytes:
        return MessageToJson(self.status(), indent=None).encode()
