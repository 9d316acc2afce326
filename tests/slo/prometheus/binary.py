"""Debian's Prometheus, on blocks of samples or scraping a target of ours; ended when done with."""

from __future__ import annotations

import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx

Samples = Mapping[tuple[str, tuple[tuple[str, str], ...]], Mapping[int, float]]


@contextmanager
def prometheus(folder: Path, config: str = "", *flags: str) -> Iterator[str]:
    """Run a server on `folder`/data until the block ends; yields its address."""
    (folder / "prometheus.yml").write_text(config or "global: {}\n")
    url = f"http://127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={folder}/prometheus.yml",
            f"--storage.tsdb.path={folder}/data",
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address={url.removeprefix('http://')}",
            *flags,
        ],
        stdout=subprocess.DEVNULL,
        stderr=(folder / "prometheus.log").open("w"),
    )
    try:
        wait_for(lambda: _is_ready(url) or process.poll() is not None, 60)
        assert process.poll() is None, (folder / "prometheus.log").read_text()
        yield url
    finally:
        process.terminate()
        process.wait(timeout=20)


def make_blocks(folder: Path, samples: Samples) -> None:
    """Write samples, by milliseconds, as blocks of `folder`/data."""
    lines = []
    by_name: dict[str, list[str]] = {}
    for (name, labels), series in samples.items():
        inside = ",".join(f'{key}="{value}"' for key, value in labels)
        by_name.setdefault(name, []).extend(
            f"{name}{{{inside}}} {value} {at // 1000}.{at % 1000:03d}"
            for at, value in sorted(series.items())
        )
    for name, rows in by_name.items():
        lines += [f"# TYPE {name} unknown", *rows]
    (folder / "samples.om").write_text("\n".join([*lines, "# EOF", ""]))
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics",
         str(folder / "samples.om"), str(folder / "data")],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip


class Target:
    """Something to scrape: `text` is what it exposes, `histogram` a native one if asked in
    protobuf."""

    def __init__(self) -> None:
        self.text = ""
        self.histogram: bytes | None = None
        self.scrapes = 0
        target = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body, kind = target.text.encode(), "text/plain; version=0.0.4"
                if target.histogram is not None and "protobuf" in self.headers.get("accept", ""):
                    body, kind = target.histogram, PROTOBUF
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                target.scrapes += 1

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def wait_for_scrapes(self, count: int) -> None:
        """Wait until what is exposed now was scraped so many times."""
        wanted = self.scrapes + count
        wait_for(lambda: self.scrapes >= wanted, 60)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


PROTOBUF = (
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
)


def native_histogram(name: str, buckets: list[int], schema: int = 0) -> bytes:
    """Expose a native histogram with buckets from (1/2, 1] on, doubling, as delimited protobuf."""
    deltas = [count - before for before, count in zip([0, *buckets], buckets, strict=False)]
    span = _field(12, _varint_field(1, _zigzag(0)) + _varint_field(2, len(buckets)))
    histogram = (
        _varint_field(1, sum(buckets))
        + b"\x11" + struct.pack("<d", 1.0)
        + _varint_field(5, _zigzag(schema))
        + b"\x31" + struct.pack("<d", 1e-128)
        + span
        + _field(13, b"".join(_varint(_zigzag(delta)) for delta in deltas))
    )  # fmt: skip
    family = _field(1, name.encode()) + _varint_field(3, 4) + _field(4, _field(7, histogram))
    return _varint(len(family)) + family


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/-/ready", timeout=1).is_success
    except httpx.HTTPError:
        return False


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def _zigzag(value: int) -> int:
    return value * 2 if value >= 0 else -value * 2 - 1


def _varint_field(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _field(number: int, body: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(body)) + body
