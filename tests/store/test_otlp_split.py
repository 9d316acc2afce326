"""A cut request means what it meant whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from store.otlp_split import pieces


def spans_of(bodies: list[bytes]) -> list[tuple[Any, ...]]:
    """Everything a span says, with its resource and scope."""
    return [
        (
            resource.resource.SerializeToString(), resource.schema_url,
            scope.scope.SerializeToString(), span.SerializeToString(),
        )
        for body in bodies
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(counts=st.lists(st.integers(0, 12), max_size=4), limit=st.integers(100, 2000))
def test_the_pieces_hold_every_span_once_in_order(
    counts: list[int], limit: int, span_body: Callable[..., bytes]
) -> None:
    whole = b"".join(
        span_body(
            *({"trace": f"{n:x}", "id": f"{i:x}", "attributes": {"k": "v" * i}} for i in range(n)),
            service=f"service-{n}",
        )
        for n in counts
    )

    cut = pieces(whole, limit)

    assert spans_of(cut) == spans_of([whole])
    largest = 600  # one span with its resource
    assert all(len(piece) <= limit + largest for piece in cut) or len(whole) <= limit


def test_a_small_request_is_left_as_it_is(span_body: Callable[..., bytes]) -> None:
    body = span_body({"trace": "a", "id": "b"})

    assert pieces(body, 10_000)[0] is body


@pytest.mark.parametrize("body", [b"\xff" * 50, b"\x0a\xff\x01" + b"x" * 40, b"\x0b" * 50])
def test_what_is_no_request_is_left_to_the_engine(body: bytes) -> None:
    assert pieces(body, 10) == [body]
