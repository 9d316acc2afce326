"""Against the real programs: our pushes into an Alertmanager, amtool against our API."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from sqlalchemy import Engine

from alerts import api_v2
from alerts.delivery import DeliveryWorker
from alerts.engine import AlertEngine
from alerts.receivers import open_receivers
from base.clock import SystemClock
from base.outbound import http_client

pytestmark = [
    pytest.mark.binary,
    pytest.mark.skipif(
        shutil.which("prometheus-alertmanager") is None or shutil.which("amtool") is None,
        reason="needs Debian's prometheus-alertmanager",
    ),
]

CONFIG = """
route: {{receiver: sink, group_by: [slo], group_wait: 100ms, group_interval: 500ms}}
receivers:
- name: sink
  webhook_configs: [{{url: "{sink}"}}]
"""


def until(found: Callable[[], Any], seconds: float = 15) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if answer := found():
                return answer
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    return pytest.fail(f"nothing came in {seconds} s")


def contents(body: dict[str, Any]) -> list[tuple[str, str]]:
    return [(alert["status"], alert["labels"]["severity"]) for alert in body["alerts"]]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def sink() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    heard: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/", heard
    server.shutdown()


@pytest.fixture
def alertmanager(tmp_path: Path, sink: tuple[str, list[dict[str, Any]]]) -> Iterator[str]:
    config = tmp_path / "am.yml"
    config.write_text(CONFIG.format(sink=sink[0]))
    url = f"http://127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        [
            "prometheus-alertmanager",
            f"--config.file={config}",
            f"--storage.path={tmp_path}/am",
            f"--web.listen-address={url.removeprefix('http://')}",
            "--cluster.listen-address=",
            "--log.level=error",
        ],
        env={**os.environ, "GOMAXPROCS": "1"},
    )
    until(lambda: httpx.get(f"{url}/-/ready").status_code == 200)
    yield url
    process.terminate()
    process.wait(10)


def test_an_alertmanager_hears_raises_lowers_and_resolves(
    db: Engine,
    alertmanager: str,
    sink: tuple[str, list[dict[str, Any]]],
    say: SimpleNamespace,
) -> None:
    receiver = {"name": "am", "type": "alertmanager", "url": alertmanager}
    settings = say.settings(receivers=[receiver])
    receivers, clock = open_receivers(settings), SystemClock()
    engine = AlertEngine(db, receivers, settings, clock)
    worker = DeliveryWorker(db, receivers, clock, http_client(), jitter=lambda: 1.0)

    def tick(*verdicts: Any) -> list[tuple[str, str]]:
        engine.tick(verdicts, clock.now())
        assert worker.run_once(clock.now()).delivered == 1
        shown = httpx.get(f"{alertmanager}/api/v2/alerts").json()
        return [(a["labels"]["severity"], a["labels"]["tenant"]) for a in shown]

    assert tick(say.ticketing()) == [("ticket", "acme")]
    assert tick(say.paging()) == [("page", "acme")]
    page = ("firing", "page")
    firing = until(lambda: [body for body in sink[1] if page in contents(body)])
    assert firing[0]["groupLabels"] == {"slo": "chat-ttft"}
    assert tick(say.calm()) == []
    until(lambda: [b for b in sink[1] if b["status"] == "resolved"])


@pytest.fixture
def amtool(db: Engine, say: SimpleNamespace) -> Iterator[Callable[..., str]]:
    """Serve our API with one firing alert, and run amtool against it."""
    settings, clock = say.settings(), SystemClock()
    receivers = open_receivers(settings)
    AlertEngine(db, receivers, settings, clock).tick([say.paging()], clock.now())
    app = FastAPI()
    app.include_router(api_v2.router(db, receivers, clock, settings.external_url))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    until(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]

    def run(*arguments: str) -> str:
        command = ["amtool", f"--alertmanager.url=http://127.0.0.1:{port}", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    yield run
    server.should_exit = True
    thread.join(10)


def test_amtool_reads_our_alerts_and_keeps_silences(amtool: Callable[..., str]) -> None:
    (alert,) = json.loads(amtool("alert", "query", "-o", "json", "slo=chat-ttft"))
    assert alert["labels"]["tenant"] == "acme"
    assert alert["status"]["state"] == "active"
    assert json.loads(amtool("alert", "query", "-o", "json", "slo=other")) == []
    assert "chat-ttft" in amtool("alert", "query")

    add = ("silence", "add", "tenant=~a.+", "--author=ada", "--comment=known", "--duration=1h")
    silence = amtool(*add).strip()
    (listed,) = json.loads(amtool("silence", "query", "-o", "json"))
    assert (listed["id"], listed["status"]["state"]) == (silence, "active")
    ends_at = datetime.fromisoformat(listed["endsAt"])
    assert ends_at - datetime.now(UTC) > timedelta(minutes=59)
    assert json.loads(amtool("alert", "query", "-o", "json")) == []
    (alert,) = json.loads(amtool("alert", "query", "-s", "-o", "json"))
    assert alert["status"]["silencedBy"] == [silence]

    amtool("silence", "expire", silence)
    assert json.loads(amtool("silence", "query", "-o", "json")) == []
    assert len(json.loads(amtool("alert", "query", "-o", "json"))) == 1
    assert "tokenweir" in amtool("config", "show")
