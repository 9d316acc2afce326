"""How fast telemetry gets in: spans per second and per CPU-second, memory, and time to the ack.

    python benchmarks/ingest.py [--seconds 20] [--rate 20000] [--only NAME]

Three set-ups, each flat out and then at a steady rate:

    ack only        the receiver alone; nobody consumes its log
    + store         and a process that inserts the log into the store
    everything on   `tokenweir up`: facts, rollups, verdicts, alerts, pages

Flat out, the clock stops when the store has everything. At a steady rate "behind" is how much of
the log was still waiting when the last request had been acknowledged.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.corpus import SPANS, Corpus
from collector.progress import ProgressFile
from collector.wal_reader import LogReader

HERE = Path(__file__)
PYTHON = sys.executable
CONNECTIONS = 4
STORED_WITHIN_S = 180
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Setup:
    """Running processes, and where to send to. `has_store`: somebody consumes the log."""

    data: Path
    url: str
    roots: list[subprocess.Popen[bytes]]
    has_store: bool

    def processes(self) -> dict[str, int]:
        """Name every process of the set-up: receiver, store or server, supervisor."""
        found: dict[str, int] = {}
        for root in self.roots:
            for pid in _family(root.pid):
                line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                found[_role(line)] = pid
        return found

    def waiting_bytes(self) -> int:
        if not self.has_store:
            return 0
        folder = self.data / "wal"
        return LogReader(folder).bytes_after(ProgressFile(folder).load().consumed)


@dataclass
class Measured:
    name: str
    spans: int = 0
    wall_s: float = 0.0
    behind_mib: float = 0.0
    cpu_s: dict[str, float] = field(default_factory=dict)
    peak_mib: dict[str, float] = field(default_factory=dict)
    acks_ms: list[float] = field(default_factory=list)

    def row(self) -> str:
        cpu = sum(self.cpu_s.values())
        acks = statistics.quantiles(self.acks_ms, n=100)
        memory = ", ".join(f"{name} {mib:.0f}" for name, mib in self.peak_mib.items())
        return (
            f"| {self.name} | {self.spans:,} | {self.spans / self.wall_s:,.0f} "
            f"| {self.spans / cpu:,.0f} | {acks[49]:.1f} / {acks[98]:.1f} "
            f"| {self.behind_mib:.0f} | {memory} (sum {sum(self.peak_mib.values()):.0f}) |"
        )


class Load:
    """Sends requests over a few connections, as fast as they are answered or at a rate."""

    def __init__(self, corpus: Corpus, url: str, seconds: float, rate: float | None) -> None:
        self._corpus = corpus
        self._address = urlsplit(url).netloc
        self._seconds = seconds
        self._every_s = None if rate is None else SPANS / rate
        self._lock = threading.Lock()
        self._sent = 0
        self.acks_ms: list[float] = []

    def run(self) -> int:
        """Send, and return the number of spans acknowledged."""
        begun = time.monotonic()
        senders = [threading.Thread(target=self._send, args=(begun,)) for _ in range(CONNECTIONS)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        return len(self.acks_ms) * SPANS

    def _send(self, begun: float) -> None:
        connection = http.client.HTTPConnection(self._address, timeout=60)
        headers = {"Content-Type": "application/x-protobuf"}
        while (due := self._next(begun)) is not None:
            time.sleep(max(0.0, due - time.monotonic()))
            body = self._corpus.request(time.time_ns() - 20_000_000_000)
            sent = time.monotonic()
            connection.request("POST", "/v1/traces", body, headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status == http.HTTPStatus.OK:
                self.acks_ms.append((time.monotonic() - sent) * 1000)
            else:
                time.sleep(float(answer.headers.get("retry-after", 1)))
        connection.close()

    def _next(self, begun: float) -> float | None:
        with self._lock:
            number = self._sent
            self._sent += 1
        now = time.monotonic()
        due = now if self._every_s is None else begun + number * self._every_s
        return due if max(due, now) < begun + self._seconds else None


def measure(
    name: str, setup: Setup, corpus: Corpus, seconds: float, rate: float | None
) -> Measured:
    load = Load(corpus, setup.url, seconds, rate)
    before = {role: _cpu_s(pid) for role, pid in setup.processes().items()}
    begun = time.monotonic()
    measured = Measured(name, spans=load.run())
    measured.behind_mib = setup.waiting_bytes() / 2**20
    measured.wall_s = time.monotonic() - begun
    deadline = time.monotonic() + STORED_WITHIN_S
    while setup.waiting_bytes():
        if time.monotonic() > deadline:
            raise SystemExit(f"{name}: not stored within {STORED_WITHIN_S} s; is the store stuck?")
        time.sleep(0.05)
    if rate is None:
        measured.wall_s = time.monotonic() - begun
    processes = setup.processes()
    measured.cpu_s = {role: _cpu_s(pid) - before.get(role, 0) for role, pid in processes.items()}
    measured.peak_mib = {role: _peak_mib(pid) for role, pid in processes.items()}
    measured.acks_ms = load.acks_ms
    return measured


@contextmanager
def ack_only(data: Path) -> Iterator[Setup]:
    with _running(_receiver(data)) as (receiver, ready):
        yield Setup(data, ready["otlp_http"], [receiver], has_store=False)


@contextmanager
def with_store(data: Path) -> Iterator[Setup]:
    store = [PYTHON, str(HERE), "--consume", str(data)]
    with _running(_receiver(data)) as (receiver, ready), _running(store) as (consumer, _):
        yield Setup(data, ready["otlp_http"], [receiver, consumer], has_store=True)


@contextmanager
def everything_on(data: Path) -> Iterator[Setup]:
    command = [PYTHON, "-m", "tokenweir", "up", "--data", str(data)]
    for surface in ("--http", "--otlp-grpc", "--otlp-http", "--keda"):
        command += [surface, "127.0.0.1:0"]
    process = subprocess.Popen(command, cwd=HERE.parents[1])
    try:
        endpoints = data / "endpoints.json"
        while not endpoints.exists():
            if process.poll() is not None:
                raise SystemExit("tokenweir up did not start")
            time.sleep(0.05)
        url = json.loads(endpoints.read_text())["otlp_http"]
        yield Setup(data, url, [process], has_store=True)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


SETUPS = {"ack only": ack_only, "+ store": with_store, "everything on": everything_on}


def consume(data: Path) -> None:
    """Take the log into the store and nothing else, until SIGTERM."""
    from base.clock import SystemClock
    from collector.dead_letter import DeadLetters
    from collector.pipeline import Pipeline
    from collector.view import install
    from collector.vocabulary import load
    from store import schema
    from store.open import open_engine
    from store.spans import SpanStore

    class NoFacts:
        def refresh(self, seq: int) -> tuple[()]:  # noqa: ARG002
            return ()

    engine = open_engine(f"chdb://{data}/store")
    schema.create(engine)
    install(engine, load())
    pipeline = Pipeline(
        LogReader(data / "wal"),
        SpanStore(engine),
        NoFacts(),
        [],
        SystemClock(),
        progress=ProgressFile(data / "wal"),
        dead_letters=DeadLetters(data / "dead-letter"),
    )
    pipeline.start()
    print(json.dumps({"ready": True}), flush=True)
    signal.sigwait({signal.SIGTERM})
    pipeline.stop()
    engine.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how fast telemetry gets in.")
    parser.add_argument("--seconds", type=float, default=20, help="of sending, per row")
    parser.add_argument("--rate", type=float, default=20_000, help="spans/s of the steady rows")
    parser.add_argument("--only", choices=list(SETUPS), help="one set-up instead of all")
    parser.add_argument("--data", type=Path, help="where to keep the data meanwhile")
    parser.add_argument("--consume", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.consume:
        consume(given.consume)
        return
    corpus = Corpus()
    print(f"{SPANS} spans a request, {corpus.bytes_per_span:.0f} bytes a span")
    print("| set-up | spans | spans/s | spans/CPU-s | ack p50 / p99 ms | behind MiB | peak MiB |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in [given.only] if given.only else SETUPS:
        for rate in (None, given.rate):
            with tempfile.TemporaryDirectory(dir=given.data) as folder:
                with SETUPS[name](Path(folder)) as setup:
                    pace = "flat out" if rate is None else f"{rate:,.0f}/s"
                    row = measure(f"{name}, {pace}", setup, corpus, given.seconds, rate).row()
                print(row, flush=True)


def _receiver(data: Path) -> list[str]:
    command = [PYTHON, "-m", "collector.receiver", "--data", str(data)]
    return [*command, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]


@contextmanager
def _running(command: list[str]) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, str]]]:
    process = subprocess.Popen(
        command, cwd=HERE.parents[1], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"{' '.join(command)} did not start")
        yield process, json.loads(line)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _family(pid: int) -> Iterator[int]:
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            yield from _family(int(child))


def _role(command: str) -> str:
    for word, role in (
        ("collector.receiver", "receiver"),
        (" ingest", "receiver"),
        ("--consume", "store"),
        (" server", "server"),
        (" up ", "supervisor"),
    ):
        if word in command:
            return role
    return "other"


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _peak_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


if __name__ == "__main__":
    main()
