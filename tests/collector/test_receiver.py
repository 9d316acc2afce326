from __future__ import annotations

import json
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from base.errors import ConfigError
from collector.counters import read_status
from collector.keys import Role
from collector.progress import Progress, ProgressFile
from collector.receiver import require_key_beyond_loopback
from collector.wal_reader import BEGINNING, LogReader

TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
PROTOBUF = {"content-type": "application/x-protobuf"}


def post(receiver: Any, body: bytes, **headers: str) -> httpx.Response:
    return httpx.post(
        f"{receiver.http}/v1/traces", content=body, headers=PROTOBUF | headers, timeout=20
    )


def wait_until(condition: Callable[[], object], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def test_the_engine_is_never_loaded() -> None:
    program = (
        "import sys, collector.receiver\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('chdb', 'store', 'pyarrow')])"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"


def test_sigterm_finishes_what_is_in_flight_and_exits_with_zero(
    receivers: Any, tmp_path: Path, request_of: Any, log_of: Any
) -> None:
    receiver = receivers(tmp_path / "data")
    body = request_of(*range(200)).SerializeToString()
    acknowledged: list[int] = []

    def send() -> None:
        with httpx.Client() as client:
            try:
                while True:
                    url = f"{receiver.http}/v1/traces"
                    acknowledged.append(
                        client.post(url, content=body, headers=PROTOBUF).status_code
                    )
            except httpx.HTTPError:
                pass

    senders = [threading.Thread(target=send) for _ in range(4)]
    for sender in senders:
        sender.start()
    wait_until(lambda: len(acknowledged) > 50)
    assert receiver.terminate() == 0
    for sender in senders:
        sender.join(10)

    assert set(acknowledged) == {200}
    assert len(log_of(receiver.data)) >= len(acknowledged)
    status = read_status(receiver.data / "receiver.json")
    assert status is not None
    assert status["sources"][0]["requests"] >= len(acknowledged)


@pytest.mark.slow
@pytest.mark.parametrize("after", [5, 40, 90, 200])
def test_kill_9_under_load_loses_nothing_that_was_acknowledged(
    receivers: Any, tmp_path: Path, request_of: Any, log_of: Any, after: int
) -> None:
    receiver = receivers(tmp_path / "data", segment_bytes=1 << 16)
    acknowledged: list[int] = []
    lock, numbers = threading.Lock(), iter(range(1_000_000))

    def send_http() -> None:
        with httpx.Client() as client:
            while True:
                with lock:
                    number = next(numbers)
                body = request_of(number).SerializeToString()
                try:
                    answer = client.post(
                        f"{receiver.http}/v1/traces", content=body, headers=PROTOBUF
                    )
                except httpx.HTTPError:
                    return
                if answer.status_code == 200:
                    acknowledged.append(number)

    def send_grpc() -> None:
        with grpc.insecure_channel(receiver.grpc) as channel:
            export = channel.unary_unary(TRACES)
            while True:
                with lock:
                    number = next(numbers)
                try:
                    export(request_of(number).SerializeToString(), timeout=5)
                except grpc.RpcError:
                    return
                acknowledged.append(number)

    senders = [threading.Thread(target=each) for each in (send_http, send_grpc) * 2]
    for sender in senders:
        sender.start()
    wait_until(lambda: len(acknowledged) >= after)
    receiver.kill()
    for sender in senders:
        sender.join(20)
    again = receivers(receiver.data)  # cuts the torn tail, if there is one
    assert again.terminate() == 0

    logged = {
        int.from_bytes(span.trace_id, "big") - 1
        for _, _, request in log_of(receiver.data)
        for span in request.resource_spans[0].scope_spans[0].spans
    }
    assert set(acknowledged) <= logged


def test_a_key_decides_tenant_and_source(
    receivers: Any, tmp_path: Path, request_of: Any, log_of: Any, new_key: Any
) -> None:
    data = tmp_path / "data"
    ingest = new_key(data, "app", Role.INGEST, "acme")
    gateway = new_key(data, "gw", Role.GATEWAY)
    read = new_key(data, "dash", Role.READ)
    receiver = receivers(data)
    body = request_of(1).SerializeToString()

    answers = [
        post(receiver, body, authorization=f"Bearer {ingest}").status_code,
        post(receiver, body, **{"x-api-key": gateway}).status_code,
        post(receiver, body, authorization=f"Bearer {read}").status_code,
        post(receiver, body, authorization="Bearer twk_wrong").status_code,
        post(receiver, body).status_code,
    ]

    assert answers == [200, 200, 403, 401, 401]
    assert [entry[:2] for entry in log_of(data)] == [("acme", "key:app"), ("", "key:gw")]


def test_a_key_is_asked_for_over_grpc_too(
    receivers: Any, tmp_path: Path, request_of: Any, new_key: Any
) -> None:
    data = tmp_path / "data"
    key = new_key(data, "app", Role.INGEST, "acme")
    read = new_key(data, "dash", Role.READ)
    receiver = receivers(data)
    body = request_of(1).SerializeToString()

    def code(*metadata: tuple[str, str]) -> grpc.StatusCode:
        with grpc.insecure_channel(receiver.grpc) as channel:
            try:
                channel.unary_unary(TRACES)(body, metadata=metadata, timeout=10)
            except grpc.RpcError as error:
                return error.code()  # type: ignore[no-any-return]
            return grpc.StatusCode.OK

    assert code(("authorization", f"Bearer {key}")) is grpc.StatusCode.OK
    assert code(("x-api-key", key)) is grpc.StatusCode.OK
    assert code() is grpc.StatusCode.UNAUTHENTICATED
    assert code(("x-api-key", read)) is grpc.StatusCode.PERMISSION_DENIED


def test_a_key_made_while_it_runs_counts_within_seconds(
    receivers: Any, tmp_path: Path, request_of: Any, new_key: Any
) -> None:
    receiver = receivers(tmp_path / "data")
    body = request_of(1).SerializeToString()
    assert post(receiver, body).status_code == 200

    key = new_key(receiver.data, "app", Role.INGEST, "acme")

    wait_until(lambda: post(receiver, body).status_code == 401)
    assert post(receiver, body, authorization=f"Bearer {key}").status_code == 200


def test_a_tenant_beyond_its_rate_is_told_when_to_come_back(
    receivers: Any, tmp_path: Path, request_of: Any
) -> None:
    receiver = receivers(tmp_path / "data", spans_per_s=10)
    body = request_of(*range(30)).SerializeToString()

    assert post(receiver, body).status_code == 200
    refused = post(receiver, body)

    assert refused.status_code == 429
    assert 1 <= int(refused.headers["retry-after"]) <= 3
    status = Status.FromString(refused.content)
    info = RetryInfo()
    assert status.details[0].Unpack(info)
    with grpc.insecure_channel(receiver.grpc) as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(TRACES)(body, timeout=10)
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    details = dict(error.trailing_metadata())["grpc-status-details-bin"]
    assert Status.FromString(details).details[0].Unpack(info)
    assert info.retry_delay.seconds >= 1


def test_a_log_that_nobody_consumes_is_bounded(
    receivers: Any, tmp_path: Path, request_of: Any
) -> None:
    receiver = receivers(tmp_path / "data", log_bytes=1)
    body = request_of(1).SerializeToString()
    post(receiver, body)

    wait_until(lambda: post(receiver, body).status_code == 503)
    refused = post(receiver, body)
    assert int(refused.headers["retry-after"]) > 0


def test_a_full_disk_is_refused_for_a_while_and_heals_by_itself(
    receivers: Any, tmp_path: Path, request_of: Any, log_of: Any
) -> None:
    receiver = receivers(tmp_path / "data")
    body = request_of(*range(1000)).SerializeToString()
    unlimited = resource.prlimit(receiver.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(receiver.process.pid, resource.RLIMIT_FSIZE, (len(body) + 1000, unlimited[1]))

    first = post(receiver, body)
    refused = [post(receiver, body), post(receiver, body)]
    resource.prlimit(receiver.process.pid, resource.RLIMIT_FSIZE, unlimited)
    healed = post(receiver, body)

    assert first.status_code == healed.status_code == 200
    assert [answer.status_code for answer in refused] == [503, 503]
    assert all(int(answer.headers["retry-after"]) > 0 for answer in refused)
    assert len(log_of(receiver.data)) == 2


def test_requests_held_in_memory_are_bounded(
    receivers: Any, tmp_path: Path, request_of: Any
) -> None:
    receiver = receivers(tmp_path / "data", memory_bytes=100_000)
    half = request_of(*range(800)).SerializeToString()
    assert len(half) > 50_000

    def slow() -> Any:
        yield half[:-1]
        wait_until(lambda: httpx.get(f"{receiver.http}/status").json()["memory_bytes"] > 50_000)
        refused.append(post(receiver, half))
        yield half[-1:]

    refused: list[httpx.Response] = []
    answer = httpx.post(f"{receiver.http}/v1/traces", content=slow(), headers=PROTOBUF, timeout=20)

    assert answer.status_code == 200
    assert refused[0].status_code == 503
    assert int(refused[0].headers["retry-after"]) > 0
    assert httpx.get(f"{receiver.http}/status").json()["memory_bytes"] == 0


def test_beyond_loopback_a_key_is_needed_and_the_error_says_how_to_make_one() -> None:
    local, open_to_all = "127.0.0.1:4317", "0.0.0.0:4318"

    with pytest.raises(ConfigError, match="tokenweir key create"):
        require_key_beyond_loopback(local, open_to_all, has_keys=False)
    require_key_beyond_loopback(local, open_to_all, has_keys=True)
    require_key_beyond_loopback(local, local, has_keys=False)


def test_a_receiver_that_cannot_start_says_why_and_exits_with_one(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "collector.receiver", "--data", str(tmp_path / "d")]
    command += ["--grpc", "0.0.0.0:0", "--http", "127.0.0.1:0"]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 1
    assert "tokenweir key create" in done.stderr


def test_a_port_that_is_taken_is_a_clear_error(receivers: Any, tmp_path: Path) -> None:
    receiver = receivers(tmp_path / "first")
    command = [sys.executable, "-m", "collector.receiver", "--data", str(tmp_path / "second")]
    command += ["--grpc", "127.0.0.1:0", "--http", receiver.http.removeprefix("http://")]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 1
    assert "cannot listen" in done.stderr


def test_the_status_file_is_valid_json_at_any_time(
    receivers: Any, tmp_path: Path, request_of: Any
) -> None:
    receiver = receivers(tmp_path / "data")
    post(receiver, request_of(1).SerializeToString())
    path = receiver.data / "receiver.json"

    wait_until(path.exists)
    assert json.loads(path.read_text())["pid"] == receiver.process.pid
    assert path.stat().st_mode & 0o777 == 0o600


def test_status_says_how_much_of_the_log_waits_for_the_store(
    receivers: Any, tmp_path: Path, request_of: Any
) -> None:
    receiver = receivers(tmp_path / "data")
    post(receiver, request_of(1).SerializeToString())

    def waiting() -> Any:
        return httpx.get(f"{receiver.http}/status").json()["log"]["waiting_bytes"]

    assert waiting() > 0
    end = LogReader(receiver.data / "wal").read(BEGINNING).end
    ProgressFile(receiver.data / "wal").save(Progress(end))

    assert waiting() == 0
