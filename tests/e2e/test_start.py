"""Start, stop, ports, folders and keys of the real program."""

from __future__ import annotations

import json
import random
import re
import socket
import time
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from tests.e2e.conftest import Start
from tests.e2e.instance import ROOT, Instance, command, wait_for
from tests.e2e.otlp import SECOND, export, gateway_span

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("e2e-start")]

READY_WITHIN_S = 30.0  # the promise is 5 s; test machines are shared


def one_request(tenant: str = "acme", seed: int = 1) -> Any:
    rng = random.Random(seed)
    start = time.time_ns() - 5 * SECOND
    return export([gateway_span(rng.randbytes(16), rng.randbytes(8), start, 250, tenant=tenant)])


def test_a_life_from_start_to_sigterm(
    tmp_path: Path, record_property: pytest.RecordProperty
) -> None:
    instance = Instance(tmp_path / "data")
    begun = time.monotonic()
    instance.start()
    record_property("ready_in_s", round(instance.started_in_s, 2))
    print(f"ready in {instance.started_in_s:.2f} s")  # noqa: T201
    try:
        assert time.monotonic() - begun < READY_WITHIN_S
        endpoints = instance.endpoints
        assert list(endpoints) == ["http", "otlp_http", "otlp_grpc", "keda", "pid"]
        assert endpoints["http"].startswith("http://127.0.0.1:")
        assert endpoints["otlp_http"].startswith("http://127.0.0.1:")
        assert endpoints["otlp_grpc"].startswith("127.0.0.1:")
        assert endpoints["keda"].startswith("127.0.0.1:")
        assert endpoints["pid"] == instance.process.pid
        ports = [int(endpoints[name].rpartition(":")[2]) for name in list(endpoints)[:4]]
        assert len({*ports}) == 4
        assert 0 not in ports
        for port in ports:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        assert instance.get("/-/ready").json() == {"ready": True, "reasons": []}
        assert instance.get("/-/healthy").status_code == 200
        assert b"tokenweir_" in instance.get("/metrics").content
        assert instance.get("/").status_code == 200

        second = command("up", "--data", instance.data, *_free_ports())
        assert second.returncode == 2
        assert f"{instance.data} is in use by process" in second.stderr
        assert "--data" in second.stderr
        assert "Traceback" not in second.stderr
        assert (instance.data / "endpoints.json").exists(), "the first one still runs"

        # Acknowledged just before the end: in the store at the next start at the latest.
        assert instance.send(one_request()).status_code == 200
        assert instance.stop() == 0
        assert not (instance.data / "endpoints.json").exists()
        progress = json.loads((instance.data / "wal" / "progress.json").read_text())
        assert progress["inflight"] is None, "SIGTERM drains"
        assert progress["seq"] > 0, "SIGTERM drains"
        for port in ports:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port), timeout=5)
    finally:
        instance.stop()


def test_not_ready_says_why(tmp_path: Path) -> None:
    instance = Instance(tmp_path / "data")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    instance.options = [f"--http=127.0.0.1:{port}"]
    instance.spawn()
    instance.endpoints = {"http": f"http://127.0.0.1:{port}"}

    def answer() -> Any:
        try:
            return instance.get("/-/ready")
        except httpx.TransportError:
            return None

    try:
        first = wait_for("an answer", answer, 60)
        if first.status_code == 503:
            assert first.json() == {"ready": False, "reasons": ["opening the stores"]}
            assert instance.get("/api/v1/slos").status_code in {401, 404, 503}
        ready = wait_for("200", lambda: (a := answer()) and a.status_code == 200 and a, 90)
        assert ready.json()["ready"] is True
        assert first.status_code == 503, "it was ready before it could be asked"
        wait_for("endpoints.json", (instance.data / "endpoints.json").exists)
    finally:
        code = instance.stop()
    assert code == 0


def test_it_does_not_listen_beyond_loopback_without_a_key(tmp_path: Path) -> None:
    for option in ("--http", "--otlp-http", "--otlp-grpc", "--keda"):
        ports = [each for each in _free_ports() if not each.startswith(f"{option}=")]
        refused = command("up", "--data", tmp_path / "data", *ports, f"{option}=0.0.0.0:0")

        assert refused.returncode == 2, refused.stderr
        assert f"{option} 0.0.0.0:0 would be open to the network without a key" in refused.stderr
        assert "tokenweir key create" in refused.stderr


def test_a_wrong_file_or_address_ends_with_2_and_names_it(tmp_path: Path) -> None:
    config = tmp_path / "tokenweir.yaml"
    config.write_text("store: {keep_spans: soon}\n")
    slo = tmp_path / "slo.yaml"
    slo.write_text("kind: slo\nname: chat\nobjective: 101\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = [
            command("up", "--data", tmp_path / "a", "--config", config, *_free_ports()),
            command("up", "--data", tmp_path / "b", "--slo", slo, *_free_ports()),
            command("up", "--data", tmp_path / "c", *_free_ports()[1:], f"--http=127.0.0.1:{port}"),
            command("up", "--data", tmp_path / "d", *_free_ports()[1:], "--http=8080"),
        ]

    assert [each.returncode for each in refused] == [2, 2, 2, 2], [r.stderr for r in refused]
    assert "store.keep_spans" in refused[0].stderr
    assert "slo.yaml" in refused[1].stderr
    assert "line 3" in refused[1].stderr
    assert "101" in refused[1].stderr
    assert str(port) in refused[2].stderr
    assert "--http is '8080'" in refused[3].stderr
    assert not any("Traceback" in each.stderr for each in refused)


def test_check_reads_what_up_would_read(tmp_path: Path) -> None:
    config = tmp_path / "tokenweir.yaml"
    config.write_text(f"cost: {{prices: {ROOT / 'examples/prices/demo.yaml'}}}\n")
    fine = command(
        "check", "--data", tmp_path / "data", "--config", config,
        "--slo", ROOT / "examples/slo/production.yaml",
    )  # fmt: skip
    slo = tmp_path / "bad.yaml"
    slo.write_text("kind: slo\nname: chat\nobjective: 101\n")
    wrong = command("check", "--data", tmp_path / "data", "--config", config, "--slo", slo)

    assert fine.returncode == 0, fine.stdout + fine.stderr
    assert "availability 99.500% over 30d" in fine.stdout
    assert "prices: demo" in fine.stdout
    assert wrong.returncode == 2
    assert "bad.yaml" in wrong.stdout
    assert not (tmp_path / "data").exists(), "a check leaves nothing behind"


def test_keys_say_who_sends_and_for_whom(start: Start, tmp_path: Path) -> None:
    data = tmp_path / "data"

    def key(name: str, role: str, *more: str) -> str:
        made = command("key", "create", "--data", data, "--name", name, "--role", role, *more)
        assert made.returncode == 0, made.stderr
        return str(made.stdout.strip())

    ingest = key("acme-app", "ingest", "--tenant", "acme")
    gateway = key("edge", "gateway")
    reader = key("grafana", "read")
    nonsense = command("key", "create", "--data", data, "--name", "x", "--role", "root")
    assert nonsense.returncode == 2
    assert "ingest, gateway, read, admin" in nonsense.stderr
    assert all(each.startswith("twk_") for each in (ingest, gateway, reader))

    instance = start()
    assert instance.send(one_request(seed=1)).status_code == 401
    assert instance.send(one_request(seed=2), key="twk_wrong").status_code == 401
    assert instance.send(one_request(seed=3), key=reader).status_code in {401, 403}
    assert instance.send(one_request("globex", seed=4), key=ingest).status_code == 200
    assert instance.send(one_request("globex", seed=5), key=gateway).status_code == 200
    assert _grpc_status(instance, one_request(seed=6), None) == grpc.StatusCode.UNAUTHENTICATED
    assert _grpc_status(instance, one_request("globex", seed=7), ingest) == grpc.StatusCode.OK
    assert instance.get("/api/v1/requests").status_code == 401
    assert instance.get("/-/ready").status_code == 200
    instance.key = reader
    instance.settle()
    assert sorted(fact["tenant"] for fact in instance.requests()) == ["acme", "acme", "globex"]
    told = {(each["source"], each["tenant"]): each for each in instance.ask("ingest")["sources"]}
    by_name = {source: each for (source, _), each in told.items() if each["accepted"]}
    assert sorted(each["accepted"] for each in by_name.values()) == [1, 2]
    assert sum(sum(each["refused"].values()) for each in told.values()) >= 3
    file = tmp_path / "one.binpb"
    file.write_bytes(one_request(seed=9).SerializeToString())
    replayed = command(
        "replay", file, "--to", instance.endpoints["http"], env={"TOKENWEIR_KEY": ingest}
    )
    assert replayed.returncode == 0, replayed.stderr
    assert len(instance.requests(tenant="acme")) == 3, "a replay ends when it can be asked for"
    _reads_one_tenant(instance, key("acme-team", "read", "--tenant", "acme"))
    later = key("added-later", "ingest", "--tenant", "late")
    wait_for(
        "a key made beside the running instance",
        lambda: instance.send(one_request(seed=8), key=later).status_code == 200,
    )


def _reads_one_tenant(instance: Instance, key: str) -> None:
    """Ask every question that the API has; no answer knows of another tenant."""
    reader, instance.key = instance.key, key
    wait_for("the key", lambda: instance.get("/api/v1/requests").status_code == 200)
    instance.key = reader
    facts = instance.requests()
    traces = {fact["trace_id"]: fact["tenant"] for fact in facts}
    paths = list(instance.ask("openapi.json")["paths"].items())
    assert len(paths) > 20
    instance.key = key
    told = set()
    for path, operations in paths:
        for trace in traces if "{trace_id}" in path else [""]:
            asked = re.sub(r"\{[^}]*\}", trace or "answers", path)
            answer = instance.get(asked)
            assert "get" not in operations or "globex" not in answer.text, asked
            assert answer.status_code in {200, 403, 404, 405, 422}, asked
            if answer.status_code == 200:
                told.add(path)
                assert traces.get(trace, "acme") == "acme", asked
    assert told == {
        "/api/v1/requests", "/api/v1/traces/{trace_id}", "/api/v1/slos", "/api/v1/cost",
    }  # fmt: skip
    assert {fact["tenant"] for fact in instance.requests()} == {"acme"}
    assert instance.get("/api/v1/requests", tenant="globex").status_code == 403
    assert {row["tenant"] for row in instance.ask("cost")["rows"]} <= {"acme"}
    for path in ("/", "/traces", "/metrics"):
        assert instance.get(path).status_code == 403, path
    instance.key = reader


def _grpc_status(instance: Instance, request: Any, key: str | None) -> grpc.StatusCode:
    with grpc.insecure_channel(instance.endpoints["otlp_grpc"]) as channel:
        call = channel.unary_unary(
            "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=bytes,
        )
        try:
            call(request, metadata=[("authorization", f"Bearer {key}")] if key else [], timeout=20)
        except grpc.RpcError as error:
            return error.code()  # type: ignore[no-any-return,attr-defined]
    return grpc.StatusCode.OK


def _free_ports() -> list[str]:
    return [f"--{name}=127.0.0.1:0" for name in ("http", "otlp-http", "otlp-grpc", "keda")]
