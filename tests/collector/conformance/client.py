"""A client that does as it is told, over each transport, and reads the answer as OTLP."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import httpx
from google.protobuf.json_format import MessageToDict, Parse
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from collector.body import zstd
from collector.wal_reader import BEGINNING, LogReader
from tests.collector.conformance.case import EXPORT, TRACES, Case, Transport

TYPES = {Transport.PROTOBUF: "application/x-protobuf", Transport.JSON: "application/json"}
_IDS = {"traceId", "spanId", "parentSpanId"}


def _in_three(compress: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    return lambda body: compress(body[:5]) + compress(body[5:20]) + compress(body[20:])


def _with_wrong_checksum(body: bytes) -> bytes:
    packed = gzip.compress(body)
    return packed[:-8] + bytes(4) + packed[-4:]


_CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "identity": lambda body: body,
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "gzip*3": _in_three(gzip.compress),
    "gzip-cut": lambda body: gzip.compress(body)[:-5],
    "gzip-crc": _with_wrong_checksum,
    "gzip+": lambda body: gzip.compress(body) + b"more",
    "deflate": zlib.compress,
    "deflate-cut": lambda body: zlib.compress(body)[:-5],
    "zstd": zstd.compress,
    "zstd*3": _in_three(zstd.compress),
    "zstd-cut": lambda body: zstd.compress(body)[:-5],
}
_GRPC_CODINGS = {
    "": grpc.Compression.NoCompression,
    "gzip": grpc.Compression.Gzip,
    "deflate": grpc.Compression.Deflate,
}


@dataclass(frozen=True, slots=True)
class Told:
    """An answer. `http` is None over gRPC, `code` is None if taken."""

    http: int | None
    code: int | None
    headers: Mapping[str, str]
    response: ExportTraceServiceResponse | None
    status: Status | None
    size: int

    def detail(self, kind: type[Message]) -> Any:
        found = kind()
        for each in self.status.details if self.status else ():
            if each.Unpack(found):
                return found
        return None

    @property
    def retry_s(self) -> float | None:
        info = self.detail(RetryInfo)
        return None if info is None else info.retry_delay.ToTimedelta().total_seconds()

    @property
    def says_what_is_bad(self) -> bool:
        return self.detail(BadRequest) is not None


class Client:
    def __init__(self, http: str, grpc_address: str, key: str | None = None) -> None:
        self.http_address = http
        self.headers = {} if key is None else {"authorization": f"Bearer {key}"}
        self._http = httpx.Client(timeout=20, verify=False, trust_env=False)  # noqa: S501  no TLS
        self.channel = grpc.insecure_channel(
            grpc_address, options=[("grpc.max_send_message_length", -1)]
        )

    def close(self) -> None:
        self._http.close()
        self.channel.close()

    def send(self, case: Case, transport: Transport) -> Told:
        body = case.body if isinstance(case.body, bytes) else encoded(case.body, transport)
        if transport is Transport.GRPC:
            return self._call(case, body)
        headers = httpx.Headers({"content-type": TYPES[transport], **self.headers})
        if case.coding:
            headers["content-encoding"] = case.coding.rstrip("+").split("-c")[0].split("*")[0]
            body = _CODINGS[case.coding.lower()](body)
        headers.update(case.headers)
        if not headers["content-type"]:
            del headers["content-type"]
        url = f"{self.http_address}{case.path or TRACES}"
        return told_by_http(
            self._http.request(case.method, url, content=body, headers=dict(headers.items()))
        )

    def _call(self, case: Case, body: bytes) -> Told:
        given = {**self.headers, **case.headers}
        metadata = [
            (name, value.encode("latin-1") if name.endswith("-bin") else value)
            for name, value in given.items()
        ]
        call = self.channel.unary_unary(case.path or EXPORT)
        try:
            answer = call(
                body, timeout=20, metadata=metadata, compression=_GRPC_CODINGS[case.coding]
            )
        except grpc.RpcError as error:
            return told_by_grpc(error)
        read = ExportTraceServiceResponse.FromString(answer)
        return Told(None, None, {}, read, None, len(answer))


def told_by_http(answer: httpx.Response) -> Told:
    def read(kind: type[Message]) -> Any:
        if answer.headers["content-type"] == TYPES[Transport.JSON]:
            return Parse(answer.content, kind())
        assert answer.headers["content-type"] == TYPES[Transport.PROTOBUF]
        return kind.FromString(answer.content)

    size = len(answer.content)
    if answer.status_code == 200:
        response = read(ExportTraceServiceResponse)
        return Told(200, None, answer.headers, response, None, size)
    status = read(Status)
    return Told(answer.status_code, status.code, answer.headers, None, status, size)


def told_by_grpc(error: Any) -> Told:
    trailers = dict(error.trailing_metadata() or ())
    details = trailers.get("grpc-status-details-bin")
    status = None if details is None else Status.FromString(details)
    if status is None:
        status = Status(code=error.code().value[0], message=error.details())
    assert (status.code, status.message) == (error.code().value[0], error.details())
    return Told(None, status.code, trailers, None, status, status.ByteSize())


def encoded(message: ExportTraceServiceRequest, transport: Transport) -> bytes:
    """Encode as protobuf's own library does; OTLP/JSON has hex where that has base64."""
    if transport is not Transport.JSON:
        return message.SerializeToString()
    return json.dumps(_hexed(MessageToDict(message, use_integers_for_enums=True))).encode()


def _hexed(node: Any) -> Any:
    if isinstance(node, dict):
        return {k: base64.b64decode(v).hex() if k in _IDS else _hexed(v) for k, v in node.items()}
    return [_hexed(each) for each in node] if isinstance(node, list) else node


class Disk:
    """What came onto the disk since one last looked."""

    def __init__(self, data: Path) -> None:
        self._reader = LogReader(data / "wal")
        self._position = BEGINNING

    def news(self) -> list[ExportTraceServiceRequest]:
        found = self._reader.read(self._position)
        self._position = found.end
        return [ExportTraceServiceRequest.FromString(e.record.body) for e in found.entries]


def comparable(message: ExportTraceServiceRequest) -> bytes:
    """Make NaN equal to itself, and leave out what is unknown."""
    known = ExportTraceServiceRequest.FromString(message.SerializeToString())
    known.DiscardUnknownFields()
    return known.SerializeToString(deterministic=True)
