from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from base.clock import ManualClock, SystemClock
from base.errors import BadInput
from collector import replay as replay_module
from collector.replay import Progress, Sender, replay


class FakeReceiver(httpx.BaseTransport):
    """Answers as told, then with 200; remembers what it took."""

    def __init__(self) -> None:
        self.answers: list[httpx.Response | Exception] = []
        self.requests: list[httpx.Request] = []
        self.taken: list[ExportTraceServiceRequest] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if self.answers else httpx.Response(200)
        if isinstance(answer, Exception):
            raise answer
        if answer.status_code == 200:
            self.taken.append(ExportTraceServiceRequest.FromString(request.content))
        return answer

    @property
    def names(self) -> list[bytes]:
        return [
            span.span_id[-1:]
            for request in self.taken
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@pytest.fixture
def receiver_double() -> FakeReceiver:
    return FakeReceiver()


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def sender(receiver_double: FakeReceiver, slept: list[float], clock: ManualClock) -> Sender:
    http = httpx.Client(transport=receiver_double)
    return Sender("http://receiver:4318", clock, http=http, sleep=slept.append)


def otlp_json(request: ExportTraceServiceRequest) -> Any:
    document = MessageToDict(request, use_integers_for_enums=True)
    for resource in document["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for name in ("traceId", "spanId"):
                    span[name] = base64.b64decode(span[name]).hex()
    return document


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("kind", ["binpb", "json", "json list", "json lines", "jsonl", "capture"])
def test_every_form_of_recording_is_sent(
    tmp_path: Path,
    sender: Sender,
    receiver_double: FakeReceiver,
    request_of: Callable[..., ExportTraceServiceRequest],
    kind: str,
    zipped: bool,
) -> None:
    requests = [request_of(1), request_of(2, 3)]
    documents = [otlp_json(request) for request in requests]
    data, suffix = {
        "binpb": (b"".join(r.SerializeToString() for r in requests), "binpb"),
        "json": (json.dumps(documents[0] | {}).encode(), "json"),
        "json list": (json.dumps(documents).encode(), "json"),
        "json lines": ("\n".join(map(json.dumps, documents)).encode(), "json"),
        "jsonl": ("\n\n".join(map(json.dumps, documents)).encode(), "jsonl"),
        "capture": (
            "\n".join(json.dumps({"file": "x", "request": d}) for d in documents).encode(),
            "jsonl",
        ),
    }[kind]
    path = tmp_path / f"recorded.{suffix}{'.gz' if zipped else ''}"
    path.write_bytes(gzip.compress(data) if zipped else data)

    result = replay([path], sender)

    expected = [b"\x02"] if kind == "json" else [b"\x02", b"\x03", b"\x04"]
    assert receiver_double.names == expected
    assert (result.spans, result.files, result.failed) == (len(expected), 1, [])


def test_small_requests_are_joined_and_kept_in_order(
    tmp_path: Path,
    sender: Sender,
    receiver_double: FakeReceiver,
    request_of: Callable[..., ExportTraceServiceRequest],
) -> None:
    lines = [json.dumps(otlp_json(request_of(number))) for number in range(100)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))

    replay([tmp_path], sender)

    assert len(receiver_double.requests) == 1
    assert receiver_double.names == [bytes([number + 1]) for number in range(100)]


def test_a_large_request_is_split(
    tmp_path: Path,
    sender: Sender,
    receiver_double: FakeReceiver,
    request_of: Callable[..., ExportTraceServiceRequest],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replay_module, "SPLIT_BYTES", 1000)
    monkeypatch.setattr(replay_module, "JOIN_BYTES", 500)
    (tmp_path / "a.binpb").write_bytes(request_of(*range(50)).SerializeToString())

    result = replay([tmp_path], sender)

    assert len(receiver_double.requests) > 5
    assert receiver_double.names == [bytes([number + 1]) for number in range(50)]
    assert result.spans == 50


def test_a_folder_sends_its_capture_once_and_lists_what_it_leaves_out(
    tmp_path: Path,
    sender: Sender,
    receiver_double: FakeReceiver,
    request_of: Callable[..., ExportTraceServiceRequest],
) -> None:
    request = request_of(1)
    (tmp_path / "001.traces.grpc.binpb").write_bytes(request.SerializeToString())
    capture = {"file": "001.traces.grpc.binpb", "request": otlp_json(request)}
    (tmp_path / "otlp.jsonl").write_text(json.dumps(capture))
    (tmp_path / "client.jsonl").write_text('{"status": 200}\n')
    (tmp_path / "manifest.json").write_text('{"scenarios": []}')
    (tmp_path / "README.md").write_text("hello")

    result = replay([tmp_path], sender)

    assert receiver_double.names == [b"\x02"]
    assert result.failed == []
    assert {s.path.name: s.reason for s in result.skipped} == {
        "otlp.jsonl": "the same requests as the .binpb files beside it",
        "client.jsonl": "it holds no OTLP traces",
        "manifest.json": "it holds no OTLP traces",
        "README.md": "not an OTLP file name",
    }


def test_a_capture_with_more_than_the_binary_files_is_sent(
    tmp_path: Path,
    sender: Sender,
    receiver_double: FakeReceiver,
    request_of: Callable[..., ExportTraceServiceRequest],
) -> None:
    (tmp_path / "001.binpb").write_bytes(request_of(1).SerializeToString())
    capture = {"file": "002.binpb", "request": otlp_json(request_of(2))}
    (tmp_path / "otlp.jsonl").write_text(json.dumps(capture))

    replay([tmp_path], sender)

    assert receiver_double.names == [b"\x02", b"\x03"]


BROKEN = {
    "client.jsonl": b'{"status": 200}\n',
    "notes.txt": b"hello",
    "broken.binpb": b"\xff\xff",
    "broken.json": b"{",
    "broken.jsonl": b"{\n",
    "broken.binpb.gz": b"not gzip",
    "cut.binpb.gz": gzip.compress(b"x" * 100)[:-9],
}


@pytest.mark.parametrize("name", list(BROKEN))
def test_a_named_file_that_cannot_be_read_is_reported(
    tmp_path: Path, sender: Sender, receiver_double: FakeReceiver, name: str
) -> None:
    path = tmp_path / name
    path.write_bytes(BROKEN[name])

    result = replay([path], sender)

    assert [(failed.path, bool(failed.reason)) for failed in result.failed] == [(path, True)]
    assert (result.files, receiver_double.requests) == (0, [])


def test_a_bad_line_does_not_keep_back_the_good_ones(
    tmp_path: Path,
    sender: Sender,
    receiver_double: FakeReceiver,
    request_of: Callable[..., ExportTraceServiceRequest],
) -> None:
    good = json.dumps(otlp_json(request_of(1)))
    path = tmp_path / "a.jsonl"
    path.write_text(f'{good}\n{{\n{{"status": 1}}\n{{"resourceMetrics": []}}\n{good}\n')

    result = replay([path], sender)

    assert receiver_double.names == [b"\x02", b"\x02"]
    assert result.failed[0].reason.startswith("line 2: ")
    assert result.failed[0].reason.endswith("(and 1 more)")


def test_a_path_that_does_not_exist_is_an_error_before_anything_is_sent(
    tmp_path: Path, sender: Sender
) -> None:
    with pytest.raises(BadInput, match="does not exist"):
        replay([tmp_path / "missing"], sender)


@pytest.fixture
def one_file(tmp_path: Path, request_of: Callable[..., ExportTraceServiceRequest]) -> Path:
    path = tmp_path / "a.binpb"
    path.write_bytes(request_of(1, 2).SerializeToString())
    return path


def test_retryable_answers_are_tried_again_after_the_time_asked_for(
    one_file: Path, sender: Sender, receiver_double: FakeReceiver, slept: list[float]
) -> None:
    receiver_double.answers = [
        httpx.Response(503, headers={"retry-after": "7"}),
        httpx.Response(429, headers={"retry-after": "Mon, 30 Nov 2026 00:00:05 GMT"}),
        httpx.Response(502),
        httpx.ConnectError("refused"),
    ]

    result = replay([one_file], sender)

    assert result.spans == 2
    assert slept[:2] == [7, 5]
    assert len(slept) == 4


def test_a_final_answer_is_not_tried_again(
    one_file: Path, sender: Sender, receiver_double: FakeReceiver, slept: list[float]
) -> None:
    receiver_double.answers = [httpx.Response(401, text="no key")]

    result = replay([one_file], sender)

    assert "401" in result.failed[0].reason
    assert "no key" in result.failed[0].reason
    assert slept == []


def test_patience_ends(
    one_file: Path, receiver_double: FakeReceiver, clock: ManualClock, slept: list[float]
) -> None:
    receiver_double.answers = [httpx.Response(503) for _ in range(100)]
    impatient = Sender(
        "http://receiver:4318/v1/traces",
        clock,
        http=httpx.Client(transport=receiver_double),
        sleep=slept.append,
        patience=timedelta(seconds=3),
    )

    result = replay([one_file], impatient)

    assert "503" in result.failed[0].reason
    assert sum(slept) <= 3


def test_rejected_spans_are_counted_and_not_sent_again(
    one_file: Path, sender: Sender, receiver_double: FakeReceiver
) -> None:
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = 1
    receiver_double.answers = [httpx.Response(200, content=answer.SerializeToString())]

    result = replay([one_file], sender)

    assert (result.spans, result.rejected) == (1, 1)
    assert len(receiver_double.requests) == 1


def test_a_key_goes_with_every_request(
    one_file: Path, receiver_double: FakeReceiver, clock: ManualClock
) -> None:
    http = httpx.Client(transport=receiver_double)

    replay([one_file], Sender("http://receiver:4318", clock, key="twk_1", http=http))

    assert receiver_double.requests[0].headers["authorization"] == "Bearer twk_1"
    assert str(receiver_double.requests[0].url) == "http://receiver:4318/v1/traces"


def test_progress_ends_at_the_size_of_all_files(one_file: Path, sender: Sender) -> None:
    seen: list[Progress] = []

    replay([one_file.parent], sender, seen.append)

    assert seen[-1].bytes_done == seen[-1].bytes_total == one_file.stat().st_size
    assert seen[-1].spans == 2


def test_a_real_receiver_takes_a_replay(
    receiver: Any, one_file: Path, log_of: Callable[..., list[Any]]
) -> None:
    result = replay([one_file], Sender(receiver.http, SystemClock()))

    assert result.spans == 2
    assert log_of(receiver.data)[-1][2].SerializeToString() == one_file.read_bytes()
