"""How long an edited SLO takes to be judged anew, and whether what fires stays up.

    python benchmarks/slo_edit.py [--requests 2000000] [--days 30] [--tenants 20]

A store of thirty days is filled with request facts (a daily wave, 1 % failures, 70 % in the last
quarter of an hour), an instance is run on it, and its alerts fire. Then a threshold of `good` is
edited in its document and `POST /api/v1/slos/reload` is sent, while requests keep coming. Measured
are the first count at the start, the answer to the reload, and the first verdicts of the new
definition; CPU is that of the server. The bar is 30 s.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa

import slo.schema
import store.schema
from store.open import open_engine

NS = 1_000_000_000
DAY_S = 86_400
BROKEN_S = 900
BATCH = 250_000
PORTS = ("http", "otlp-http", "otlp-grpc", "keda")
SLO = """kind: slo
name: chat
objective: 95
window: {days}d
group_by: [tenant]
good:
  answered: outcome = 'good'
  first token: ttft_ms <= {limit}
"""
_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2_000_000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--tenants", type=int, default=20)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fill(folder / "data", asked.requests, asked.days, asked.tenants)
        document = folder / "slo.yaml"
        document.write_text(SLO.format(days=asked.days, limit=2000))
        (folder / "tokenweir.yaml").write_text("slo: {evaluate_every: 1s}\n")
        with (folder / "log").open("wb") as log:
            begun = time.monotonic()
            process = subprocess.Popen(
                [
                    sys.executable, "-m", "tokenweir", "up", "--data", str(folder / "data"),
                    "--slo", str(document), "--config", str(folder / "tokenweir.yaml"),
                    *(f"--{port}=127.0.0.1:0" for port in PORTS),
                ],
                stdout=log, stderr=log,
            )  # fmt: skip
            try:
                rows = measure(folder, document, process, asked.days, begun)
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(60)
        for what, value in (("requests", f"{asked.requests:,}"), *rows):
            print(f"{what:<44}{value:>16}")


def fill(data: Path, requests: int, days: int, tenants: int) -> None:
    """Write facts as an instance would have, newest last, and that the gateway was heard."""
    data.mkdir()
    engine = open_engine(f"chdb://{data}/store")
    store.schema.create(engine)
    slo.schema.create(engine)
    dice = np.random.default_rng(7)
    now = time.time()
    day = dice.integers(0, days, requests)
    hour = (dice.normal(14, 4, requests) % 24) * 3600
    start = np.sort(now - (day + 1) * DAY_S + hour)
    start[-20_000:] = np.sort(now - BROKEN_S * dice.random(20_000))  # a quarter of an hour is seen
    start.sort()
    recent = start > now - BROKEN_S
    weights = 1 / np.arange(1, tenants + 1)
    tenant = dice.choice(tenants, requests, p=weights / weights.sum())
    failed = dice.random(requests) < np.where(recent, 0.7, 0.01)
    for at in range(0, requests, BATCH):
        piece = slice(at, min(at + BATCH, requests))
        size = piece.stop - piece.start
        times = pa.array((start[piece] * NS).astype(np.int64)).cast(pa.timestamp("ns", "UTC"))
        text = pa.array([""] * size)
        columns: dict[str, pa.Array] = {
            "start": times, "end": times,
            "trace_id": pa.array([secrets.token_bytes(16) for _ in range(size)], pa.binary(16)),
            "request_id": pa.array([f"{n:016x}" for n in range(piece.start, piece.stop)]),
            "tenant": pa.array([f"tenant-{n}" for n in tenant[piece]]),
            "route": pa.array(["/v1/chat/completions"] * size), "model": text, "replica": text,
            "outcome": pa.array(np.where(failed[piece], "bad", "good")),
            "outcome_reason": pa.array(np.where(failed[piece], "error", "")),
            "http_status": pa.array(np.where(failed[piece], 503, 200), pa.int32()),
            "duration_ms": pa.array(dice.gamma(3, 900, size)),
            "ttft_ms": pa.array(dice.gamma(2, 300, size)),
            "prompt_tokens": pa.array(dice.integers(1, 8000, size), pa.int64()),
            "completion_tokens": pa.array(dice.integers(1, 900, size), pa.int64()),
            "attempts": pa.array(np.ones(size), pa.uint16()),
            "version": pa.array(np.ones(size), pa.uint64()),
            "deleted": pa.array(np.zeros(size), pa.uint8()),
        }  # fmt: skip
        engine.insert_arrow("facts", pa.table(columns))
    engine.execute(
        "INSERT INTO source_minutes (minute, layer, service, instance, first, last) SELECT "
        f"toStartOfMinute(toDateTime({int(now)} - number * 60, 'UTC')) AS m, 'gateway', 'gateway', "
        f"'gw-0', m, m FROM numbers({days * 1440})"
    )
    engine.close()


def measure(
    folder: Path, document: Path, process: subprocess.Popen[bytes], days: int, begun: float
) -> list[tuple[str, str]]:
    published = folder / "data" / "endpoints.json"
    wait(lambda: published.exists() or process.poll() is not None, 600)
    if process.poll() is not None:
        raise SystemExit((folder / "log").read_text())
    started_s = time.monotonic() - begun
    ends = json.loads(published.read_text())
    server = server_of(process.pid)
    counted_cpu = cpu_s(server)
    stop = threading.Event()
    sender = threading.Thread(target=send, args=(ends["otlp_http"], stop), daemon=True)
    sender.start()
    with httpx.Client(base_url=f"{ends['http']}/api/v1", timeout=300, trust_env=False) as api:
        try:
            firing = wait(lambda: episodes(api), 120)
            before = total(api)
            document.write_text(SLO.format(days=days, limit=1200))
            asked, cpu = time.monotonic(), cpu_s(server)
            watch = Watch(api)
            answer = api.post("/slos/reload", json={"by": "benchmark"})
            answered_s = time.monotonic() - asked
            answer.raise_for_status()
            wait(lambda: changed(api, before), 120)
            judged_s, used = time.monotonic() - asked, cpu_s(server) - cpu
            watch.end()
        finally:
            stop.set()
            sender.join(10)
        still = episodes(api)
    return [
        ("start with the first count, s", f"{started_s:.1f}"),
        ("  CPU of the server by then, s", f"{counted_cpu:.1f}"),
        ("firing before the edit", f"{len(firing)}"),
        ("reload answered, s", f"{answered_s:.1f}"),
        ("new definition judged, s", f"{judged_s:.1f}"),
        ("  CPU of the server for it, s", f"{used:.1f}"),
        ("the API answered within meanwhile, s", f"{watch.slowest_s:.2f}"),
        ("episodes ended; looks that lacked one", f"{len(firing - still)}; {watch.gone(firing)}"),
    ]  # fmt: skip


class Watch:
    """Looks at alerts all the while: what fires must not go even for a moment."""

    def __init__(self, api: httpx.Client) -> None:
        self._stop = threading.Event()
        self._url = str(api.base_url)
        self.slowest_s = 0.0
        self._seen: list[set[str]] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with httpx.Client(base_url=self._url, timeout=300, trust_env=False) as api:
            while not self._stop.wait(0.2):
                begun = time.monotonic()
                self._seen.append(episodes(api))
                self.slowest_s = max(self.slowest_s, time.monotonic() - begun)

    def end(self) -> None:
        self._stop.set()
        self._thread.join(30)

    def gone(self, firing: set[str]) -> int:
        return sum(not firing <= seen for seen in self._seen)


def episodes(api: httpx.Client) -> set[str]:
    return {each["episode"] for each in api.get("/alerts?state=firing").json()["alerts"]}


def total(api: httpx.Client) -> dict[str, int]:
    found = api.get("/slos").json()["slos"]
    return {str(each["group"]): each["bad"] for each in found}


def changed(api: httpx.Client, before: dict[str, int]) -> bool:
    """Say whether every group has the bad requests of the stricter limit."""
    now = total(api)
    return all(now.get(group, 0) > bad * 1.05 + 20 for group, bad in before.items())


def send(url: str, stop: threading.Event) -> None:
    """Send a failing request of each of three tenants every half second."""
    with httpx.Client(timeout=10, trust_env=False) as http:
        while not stop.wait(0.5):
            now = time.time_ns()
            spans = [span(f"tenant-{n}", now - 20_000_000, now) for n in range(3)]
            resource = {"attributes": [text("service.name", "gateway"),
                                       text("service.instance.id", "gw-0")]}  # fmt: skip
            body = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}
            try:
                http.post(f"{url}/v1/traces", json=body)
            except httpx.HTTPError:
                continue


def span(tenant: str, start: int, end: int) -> dict[str, Any]:
    return {
        "traceId": secrets.token_hex(16), "spanId": secrets.token_hex(8),
        "name": "POST /v1/chat/completions", "kind": 2,
        "startTimeUnixNano": str(start), "endTimeUnixNano": str(end),
        "attributes": [
            text("tokenweir.role", "gateway"), text("tenant.id", tenant),
            text("http.route", "/v1/chat/completions"),
            {"key": "http.response.status_code", "value": {"intValue": "503"}},
        ],
    }  # fmt: skip


def text(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


def server_of(parent: int) -> int:
    """Find the server among the children of `tokenweir up`."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return next(
        int(pid) for pid in children if b"server" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def wait(ask: Callable[[], Any], seconds: float) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := ask()):
        if time.monotonic() > deadline:
            raise SystemExit("it did not happen in time")
        time.sleep(0.1)
    return found


if __name__ == "__main__":
    main()
