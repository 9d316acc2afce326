"""`tokenweir up` as a process: started, asked, killed and stopped as an operator would."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

ROOT = Path(__file__).resolve().parents[2]
TOKENWEIR = [sys.executable, "-m", "tokenweir"]
PORTS = ("http", "otlp-http", "otlp-grpc", "keda")
READY_WITHIN_S = 90.0  # patience, not the promise: test machines are shared
STOPS_WITHIN_S = 60.0
POLL_S = 0.05

_T = TypeVar("_T")
_NOT_JSON = re.compile(r"\b(NaN|Infinity|nan|inf)\b")


def wait_for(what: str, ask: Callable[[], _T | None], within_s: float = 60.0) -> _T:
    """Ask until there is an answer that is not None or False."""
    deadline = time.monotonic() + within_s
    while True:
        if found := ask():
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {within_s:.0f} s")
        time.sleep(POLL_S)


def command(*arguments: str | Path, env: dict[str, str] | None = None) -> Any:
    """Run `tokenweir ARGUMENTS` to its end."""
    return subprocess.run(  # noqa: PLW1510  the caller looks at the status
        [*TOKENWEIR, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "300", "NO_COLOR": "1", **(env or {})},
        capture_output=True,
        text=True,
        timeout=150,
    )


class Instance:
    """A running control plane. `ask` also sees to it that no answer holds a NaN."""

    def __init__(self, data: Path, options: Sequence[str | Path] = ()) -> None:
        self.data = data
        self.options = [str(option) for option in options]
        self.log = data.parent / f"{data.name}.log"
        self.http = httpx.Client(timeout=30, trust_env=False)
        self.key: str | None = None
        self.started_in_s = 0.0
        self.endpoints: dict[str, Any] = {}
        self._ports = dict.fromkeys(PORTS, 0)
        self._process: subprocess.Popen[bytes] | None = None

    def spawn(self) -> None:
        """Start it and do not wait."""
        addresses = [f"--{name}=127.0.0.1:{port}" for name, port in self._ports.items()]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*TOKENWEIR, "up", "--data", str(self.data), *addresses, *self.options],
                cwd=ROOT,
                stdout=log,
                stderr=log,
                env={**os.environ, "COLUMNS": "300"},
            )

    def start(self) -> Instance:
        """Start it and wait until endpoints.json is there."""
        begun = time.monotonic()
        self.spawn()
        self.endpoints = wait_for("endpoints.json", self._published, READY_WITHIN_S)
        self.started_in_s = time.monotonic() - begun
        # The next start takes the same ports, as a deployment would.
        for name in PORTS:
            self._ports[name] = int(self.endpoints[name.replace("-", "_")].rpartition(":")[2])
        return self

    def _published(self) -> dict[str, Any] | None:
        if self.process.poll() is not None:
            raise AssertionError(f"ended with {self.process.returncode}:\n{self.log.read_text()}")
        try:
            found = json.loads((self.data / "endpoints.json").read_text())
        except FileNotFoundError:
            return None
        return dict(found) if found["pid"] == self.process.pid else None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def stop(self) -> int:
        """SIGTERM, and the exit status."""
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self._process.wait(STOPS_WITHIN_S)

    def kill(self) -> None:
        """kill -9 of the supervisor and both its children: a machine that loses power."""
        pids = [self.process.pid, *self.children().values()]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(10)
        (self.data / "endpoints.json").unlink(missing_ok=True)

    def children(self) -> dict[str, int]:
        """Pids of the supervised processes, by what they are."""
        found: dict[str, int] = {}
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        for pid in listed.split():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                line = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                for name, word in (("receiver", b"ingest"), ("server", b"server")):
                    if word in line:
                        found[name] = int(pid)
        return found

    def get(self, path: str, **params: Any) -> httpx.Response:
        given = {name.rstrip("_"): value for name, value in params.items() if value is not None}
        return self.http.get(
            f"{self.endpoints['http']}{path}", params=given, headers=_headers(self.key)
        )

    def ask(self, path: str, **params: Any) -> Any:
        """GET /api/v1/PATH, as JSON. A trailing underscore in a name is left out (`from_`)."""
        answer = self.get(f"/api/v1/{path}", **params)
        assert answer.status_code == 200, (path, params, answer.status_code, answer.text)
        assert _NOT_JSON.search(_outside_texts(answer.text)) is None, answer.text
        return answer.json()

    def send(self, request: ExportTraceServiceRequest, key: str | None = None) -> httpx.Response:
        headers = {"content-type": "application/x-protobuf", **_headers(key)}
        body = request.SerializeToString()
        return self.http.post(
            f"{self.endpoints['otlp_http']}/v1/traces", content=body, headers=headers
        )

    def take(self, *requests: ExportTraceServiceRequest) -> None:
        """Send, and wait until everything is in the store."""
        for request in requests:
            answer = self.send(request)
            assert answer.status_code == 200, answer.text
        self.settle()

    def settle(self, within_s: float = 60.0) -> None:
        wait_for("an empty log", self._is_settled, within_s)

    def _is_settled(self) -> bool:
        try:
            answer = self.http.get(
                f"{self.endpoints['otlp_http']}/status", headers=_headers(self.key)
            )
        except httpx.TransportError:
            return False
        return bool(answer.json()["log"]["waiting_bytes"] == 0)

    def requests(self, **params: Any) -> list[dict[str, Any]]:
        """Every request fact, over all pages."""
        return [fact for page in self.pages(**params) for fact in page]

    def pages(self, **params: Any) -> Iterator[list[dict[str, Any]]]:
        params.setdefault("limit", 1000)
        cursor: str | None = None
        while True:
            page = self.ask("requests", cursor=cursor, **params)
            yield page["requests"]
            cursor = page["next_cursor"]
            if cursor is None:
                return


def ticks_pass(instance: Instance, number: int) -> None:
    """Wait until verdicts were made and told so many times more."""

    def ticks() -> float:
        name = 'tokenweir_judge_ticks_total{result="ok",stage="actions"} '
        lines = instance.get("/metrics").text.splitlines()
        return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))

    before = ticks()
    wait_for("ticks", lambda: ticks() >= before + number)


def _headers(key: str | None) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"} if key else {}


@contextmanager
def serving(data: Path, options: Sequence[str | Path] = ()) -> Iterator[Instance]:
    """Run an instance for the length of the block; it must then exit with 0."""
    instance = Instance(data, options)
    try:
        yield instance.start()
    finally:
        code = instance.stop()
    assert code == 0


def _outside_texts(body: str) -> str:
    """Leave strings out: a NaN in one would be a word, not a number."""
    return re.sub(r'"(?:[^"\\]|\\.)*"', '""', body)
