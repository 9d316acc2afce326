"""How a request travels: paths, methods, types, codings, sizes."""

from __future__ import annotations

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.collector.conformance.case import (
    BINARY,
    GRPC,
    HTTP,
    JSON,
    LIMIT,
    PROTOBUF,
    Case,
    Final,
    one,
    valued,
)
from tests.collector.conformance.case import text as as_text

_PREFIX = "/opentelemetry.proto.collector"
NO_TYPE = {"content-type": ""}


def _sized(size: int) -> ExportTraceServiceRequest:
    """Make a request of exactly so many bytes of protobuf."""
    made = valued(as_text("x" * (size - 200)))
    return valued(as_text("x" * (2 * size - 200 - len(made.SerializeToString()))))


def _coded(rule: str, coding: str, name: str = "") -> Case:
    return Case(rule, name or coding, one(), on=HTTP, coding=coding)


def _refused(
    rule: str, name: str, answer: Final, on: tuple[object, ...] = HTTP, **more: object
) -> Case:
    return Case(rule, name, one(), answer, on=on, **more)  # type: ignore[arg-type]


PATHS = [
    _refused("path", "another path", Final(404, 5, "/v1/traces"), path="/v1/trace"),
    _refused("status_body", "of the root", Final(404, 5), path="/"),
    _refused("path", "another version", Final(404, 5), path="/v2/traces"),
    _refused("path", "in capitals", Final(404, 5), path="/V1/TRACES"),
    Case("post", "spans", one(), on=HTTP),
    Case("path", "a slash at its end", one(), path="/v1/traces/", on=HTTP),
    Case("path", "with a query", one(), path="/v1/traces?a=b", on=HTTP),
    *(
        _refused(
            "other_signals", signal, Final(404, 12, f"OTLP {signal} is not enabled"), path=path
        )
        for signal, path in (
            ("metrics", "/v1/metrics"),
            ("logs", "/v1/logs"),
            ("profiles", "/v1development/profiles"),
        )
    ),
    *(
        _refused(
            "other_signals",
            signal,
            Final(0, 12, f"OTLP {signal} is not enabled"),
            on=GRPC,
            path=f"{_PREFIX}.{signal}.{version}.{signal.capitalize()}Service/Export",
        )
        for signal, version in (("metrics", "v1"), ("logs", "v1"), ("profiles", "v1development"))
    ),
    *(
        _refused("allow", method, Final(405, 12, "POST", headers={"allow": "POST"}), method=method)
        for method in ("GET", "PUT", "PATCH", "DELETE")
    ),
    _refused("http_semantics", "GET of nothing", Final(404, 5), method="GET", path="/nothing"),
    Case("service", "Export", one(), on=GRPC),
    _refused(
        "unimplemented",
        "another method",
        Final(0, 12),
        on=GRPC,
        path=f"{_PREFIX}.trace.v1.TraceService/Import",
    ),
    _refused("unimplemented", "another service", Final(0, 12), on=GRPC, path="/nobody/Knows"),
    _refused("unimplemented", "the path of HTTP", Final(0, 12), on=GRPC, path="/v1/traces"),
]

_ACCEPT = {
    "accept": "application/x-protobuf, application/json",
    "accept-encoding": "gzip, zstd, deflate, identity",
}
TYPES = [
    Case("protobuf_type", "application/x-protobuf", one(), on=PROTOBUF),
    Case(
        "protobuf_type",
        "in capitals",
        one(),
        on=PROTOBUF,
        headers={"content-type": "Application/X-Protobuf"},
    ),
    Case(
        "protobuf_type",
        "with a parameter",
        one(),
        on=PROTOBUF,
        headers={"content-type": "application/x-protobuf; messageType=traces"},
    ),
    Case(
        "protobuf_type",
        "application/protobuf, as some write",
        one(),
        on=PROTOBUF,
        headers={"content-type": "application/protobuf"},
    ),
    Case("json_type", "application/json", one(), on=JSON),
    Case(
        "json_type",
        "with a charset",
        one(),
        on=JSON,
        headers={"content-type": "application/json;charset=UTF-8"},
    ),
    Case(
        "type_decides",
        "JSON said to be protobuf",
        b'{"resourceSpans": []}',
        Final(400, 3),
        on=PROTOBUF,
    ),
    Case(
        "type_decides",
        "protobuf said to be JSON",
        one().SerializeToString(),
        Final(400, 3),
        on=JSON,
    ),
    *(
        _refused(
            "wrong_coding",
            f"the type {given!r}",
            Final(415, 3, headers=_ACCEPT),
            on=JSON,
            headers={"content-type": given},
        )
        for given in ("", "text/plain", "application/grpc", "application/octet-stream", "json", ";")
    ),
    Case("same_type", "of a refusal", b"\xff", Final(400, 3), on=HTTP),
    Case("same_type", "whatever is accepted", one(), on=HTTP, headers={"accept": "text/html"}),
]

CODINGS = [
    _coded("gzip", "gzip"),
    _coded("gzip", "identity"),
    _coded("more_codings", "zstd"),
    _coded("more_codings", "deflate"),
    _coded("codings", "x-gzip"),
    _coded("codings", "GZip"),
    _coded("codings", "ZSTD"),
    _coded("members", "gzip*3", "gzip of three members"),
    _coded("members", "zstd*3", "zstd of three frames"),
    Case("gzip", "an empty request", b"", coding="gzip", on=PROTOBUF),
    Case(
        "gzip",
        "a request that shrinks a thousandfold",
        valued(as_text("x" * 900_000)),
        coding="gzip",
        on=HTTP,
    ),
    *(
        _refused(
            "wrong_coding",
            coding,
            Final(415, 3, coding, headers=_ACCEPT),
            headers={"content-encoding": coding},
        )
        for coding in ("br", "compress", "snappy", "gzip, gzip", "none")
    ),
    *(
        _refused("bad_data", f"not {coding}", Final(400, 3), headers={"content-encoding": coding})
        for coding in ("gzip", "zstd", "deflate")
    ),
    *(
        _refused("bad_data", f"cut {coding}", Final(400, 3, "too early"), coding=f"{coding}-cut")
        for coding in ("gzip", "zstd", "deflate")
    ),
    _refused("bad_data", "gzip and something behind it", Final(400, 3), coding="gzip+"),
    _refused("bad_data", "gzip with a wrong checksum", Final(400, 3), coding="gzip-crc"),
    Case("grpc_gzip", "none", one(), on=GRPC),
    Case("grpc_gzip", "gzip", one(), coding="gzip", on=GRPC),
    Case("more_codings", "deflate over gRPC", one(), coding="deflate", on=GRPC),
    Case("grpc_gzip", "an empty request", b"", coding="gzip", on=GRPC),
    Case(
        "bad_data_grpc",
        "what is no message, compressed",
        b"\xff" * 99,
        Final(0, 3),
        coding="gzip",
        on=GRPC,
    ),
]

TOO_LARGE = Final(413, 8)
SIZES = [
    Case("body_limit", "as large as allowed", _sized(LIMIT), on=BINARY),
    Case("body_limit", "a byte too large", _sized(LIMIT + 1), TOO_LARGE, on=PROTOBUF),
    Case("body_limit", "too large", b" " * (LIMIT + 1), TOO_LARGE, on=HTTP),
    *(
        Case(
            "body_limit",
            f"too large after {coding}",
            b" " * (LIMIT + 1),
            TOO_LARGE,
            on=HTTP,
            coding=coding,
        )
        for coding in ("gzip", "zstd", "deflate", "gzip*3")
    ),
    Case(
        "body_limit", "64 MiB in a few KiB", bytes(64 << 20), TOO_LARGE, on=PROTOBUF, coding="zstd"
    ),
    Case("grpc_limit", "a byte too large", _sized(LIMIT + 1), TOO_LARGE, on=GRPC),
    Case(
        "grpc_limit", "too large after gzip", _sized(LIMIT * 2), TOO_LARGE, on=GRPC, coding="gzip"
    ),
]

_LONG = "k" * 3000
HEADERS = [
    Case(
        "header_case",
        "in capitals",
        one(),
        on=HTTP,
        headers={"CONTENT-ENCODING": "identity", "X-Whatever": "1"},
    ),
    Case("http_semantics", "a header of 3 KB", one(), on=HTTP, headers={"x-long": _LONG}),
    Case("metadata", "of any name", one(), on=GRPC, headers={"x-whatever": "1", "baggage": "a=b"}),
    Case("metadata", "of 3 KB", one(), on=GRPC, headers={"x-long": _LONG}),
    Case("metadata", "binary", one(), on=GRPC, headers={"x-trace-bin": "\x00\x01"}),
    Case(
        "wrong_coding",
        "a type of 3 KB is not told back whole",
        one(),
        Final(415, 3, "…"),
        on=JSON,
        headers={"content-type": "x" * 3000},
    ),
]

CASES = [*PATHS, *TYPES, *CODINGS, *SIZES, *HEADERS]
