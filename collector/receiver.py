"""The receiver: the process that takes OTLP and acknowledges it when it is on disk.

`python -m collector.receiver --data DIR --grpc HOST:PORT --http HOST:PORT`. It never loads the
store's engine, so neither a crash there nor a slow query can lose or delay an acknowledgement.
When it listens it prints one JSON line with its addresses. SIGTERM: what is in flight is finished,
synced and answered, then it exits with 0.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
import uvloop

from base.clock import Clock, SystemClock
from base.db import open_engine
from base.durations import format_instant
from base.errors import ConfigError, TokenweirError
from base.listen import bind, parse_listen
from base.selfmon import Log, set_up_logging
from base.tls import OFF, TlsSettings, add_grpc_port, uvicorn_options
from base.tls import check as check_tls
from collector.admission import Admission, MemoryBudget, RateLimit
from collector.counters import STATUS_FILE, Counters, write_status
from collector.intake import Intake
from collector.keys import Authenticator
from collector.otlp_grpc import make_server
from collector.otlp_http import OtlpHttp
from collector.progress import ProgressFile
from collector.settings import CollectorSettings
from collector.wal import LogWriter
from collector.wal_reader import BEGINNING, LogReader

LOG_FOLDER = "wal"
KEYS_EVERY_S = 2.0
STATUS_EVERY_S = 1.0
GRACE_S = 10.0

_log = Log(__name__)


@dataclass(frozen=True, slots=True)
class ReceiverSettings:
    """Where the log is, where the keys are, and how to let telemetry in.

    The addresses are HOST:PORT; port 0 is any free one.
    """

    data: Path
    control_url: str
    collector: CollectorSettings
    otlp_grpc: str
    otlp_http: str
    tls: TlsSettings = OFF


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The real addresses, after port 0 has become one."""

    otlp_grpc: str
    otlp_http: str


def run(settings: ReceiverSettings) -> None:
    """Receive until SIGTERM or SIGINT. Raises ConfigError when it cannot start."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_until_signal(settings))


async def serve(
    settings: ReceiverSettings,
    stop: asyncio.Event,
    ready: Callable[[Endpoints], None],
    clock: Clock | None = None,
) -> None:
    """Receive until `stop` is set; `ready` is called once both ports listen."""
    receiver = await asyncio.to_thread(_Receiver, settings, clock or SystemClock())
    try:
        ready(await receiver.start())
        await stop.wait()
    finally:
        await receiver.stop()


def require_key_beyond_loopback(grpc: str, http: str, has_keys: bool) -> None:
    """Raise ConfigError when anybody on the network could send."""
    for address in (parse_listen(grpc, "otlp_grpc"), parse_listen(http, "otlp_http")):
        if not has_keys and not address.is_loopback:
            raise ConfigError(
                f"{address} can be reached from other machines and there is no key yet: make one "
                "with 'tokenweir key create --name NAME --role ingest --tenant TENANT', "
                "or listen on 127.0.0.1"
            )


class _Receiver:
    def __init__(self, settings: ReceiverSettings, clock: Clock) -> None:
        limits = settings.collector
        self._settings = settings
        self._clock = clock
        self._started = clock.now()
        self._control = open_engine(settings.control_url)
        self._authenticator = Authenticator(self._control, clock)
        self._authenticator.refresh()
        check_tls(settings.tls)
        require_key_beyond_loopback(
            settings.otlp_grpc, settings.otlp_http, self._authenticator.has_keys
        )
        folder = settings.data / LOG_FOLDER
        self._log = LogWriter(
            folder, segment_bytes=limits.segment_bytes, queue_bytes=limits.memory_bytes
        )
        self._reader = LogReader(folder)
        self._consumed = ProgressFile(folder)
        self._waiting_bytes = self._count_waiting()
        self._memory = MemoryBudget(limits.memory_bytes)
        self._counters = Counters(clock)
        admission = Admission(
            self._authenticator,
            self._memory,
            log_bytes=limits.log_bytes,
            backlog=lambda: self._waiting_bytes,
        )
        self._intake = Intake(
            admission,
            RateLimit(limits.spans_per_s, clock),
            self._log,
            self._counters,
            clock,
            max_request_bytes=limits.max_request_bytes,
        )
        self._endpoints = Endpoints("", "")
        self._tasks: list[asyncio.Task[None]] = []
        self._grpc: Any = None
        self._http: _HttpServer | None = None

    async def start(self) -> Endpoints:
        grpc = parse_listen(self._settings.otlp_grpc, "otlp_grpc")
        http = parse_listen(self._settings.otlp_http, "otlp_http")
        self._grpc = make_server(self._intake)
        try:
            grpc_port = add_grpc_port(self._grpc, str(grpc), self._settings.tls)
        except RuntimeError as error:
            raise ConfigError(
                f"cannot listen on {grpc}: {error}; choose another port, or 0 for a free one"
            ) from error
        listener = bind(http)
        listener.listen(1024)
        listener.setblocking(False)
        self._http = _HttpServer(OtlpHttp(self._intake, self._status), listener, self._settings.tls)
        await self._grpc.start()
        self._tasks = [
            asyncio.create_task(self._http.serve_until_stopped()),
            asyncio.create_task(self._repeat(KEYS_EVERY_S, self._authenticator.refresh)),
            asyncio.create_task(self._repeat(STATUS_EVERY_S, self._write_status)),
        ]
        while not self._http.started:  # noqa: ASYNC110  uvicorn offers no event
            await asyncio.sleep(0.005)
        self._endpoints = Endpoints(
            otlp_grpc=str(grpc.at(grpc_port)),
            otlp_http=f"{self._settings.tls.scheme}://{http.at(listener.getsockname()[1])}",
        )
        return self._endpoints

    async def stop(self) -> None:
        """Refuse new requests, finish those in flight, sync, and let go."""
        if self._grpc is not None:
            await self._grpc.stop(GRACE_S)
        if self._http is not None and self._tasks:
            self._http.should_exit = True
            await self._tasks[0]
        for task in self._tasks[1:]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self._log.close)
        self._write_status()
        self._reader.close()
        self._control.dispose()

    async def _repeat(self, every_s: float, work: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(every_s)
            try:
                await asyncio.to_thread(work)
            except Exception as error:  # noqa: BLE001  tried again in a moment
                _log.warning("receiver_chore_failed", chore=work.__name__, error=str(error))

    def _write_status(self) -> None:
        write_status(self._settings.data / STATUS_FILE, self._status())

    def _count_waiting(self) -> int:
        """Count the bytes of the log that are not in the store yet."""
        try:
            consumed = self._consumed.load().consumed
        except ConfigError:
            consumed = BEGINNING  # the server says what is wrong with the file
        return self._reader.bytes_after(consumed)

    def _status(self) -> dict[str, Any]:
        self._waiting_bytes = self._count_waiting()
        return {
            "pid": os.getpid(),
            "started": format_instant(self._started),
            "at": format_instant(self._clock.now()),
            "otlp_grpc": self._endpoints.otlp_grpc,
            "otlp_http": self._endpoints.otlp_http,
            "keys_required": self._authenticator.has_keys,
            "log": {
                "waiting_bytes": self._waiting_bytes,
                "queued_bytes": self._log.queued_bytes,
                "syncs": self._log.syncs,
                "error": self._log.last_error,
            },
            "memory_bytes": self._memory.used,
            **self._counters.snapshot(),
        }


class _HttpServer(uvicorn.Server):
    """uvicorn on a socket of ours, in a loop of ours, without signal handlers of its own."""

    def __init__(self, app: OtlpHttp, listener: socket.socket, tls: TlsSettings) -> None:
        self._listener = listener
        super().__init__(
            uvicorn.Config(
                app,
                http="httptools",
                loop="none",
                ws="none",
                lifespan="off",
                interface="asgi3",
                access_log=False,
                log_config=None,
                proxy_headers=False,  # who the peer is decides whether a key is needed
                server_header=False,
                timeout_graceful_shutdown=int(GRACE_S),
                **uvicorn_options(tls, ask_clients=True),
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def serve_until_stopped(self) -> None:
        await self.serve(sockets=[self._listener])


async def _until_signal(settings: ReceiverSettings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    # Message objects come and go by the thousand; full collections in between would delay acks.
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)

    def announce(endpoints: Endpoints) -> None:
        line = {
            "ready": True,
            "otlp_grpc": endpoints.otlp_grpc,
            "otlp_http": endpoints.otlp_http,
            "pid": os.getpid(),
        }
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()

    await serve(settings, stop, announce)


def _arguments(argv: list[str] | None) -> ReceiverSettings:
    parser = argparse.ArgumentParser("collector.receiver", description="Receive OTLP into the log.")
    parser.add_argument("--data", type=Path, required=True, help="data folder")
    parser.add_argument("--grpc", default="127.0.0.1:4317", help="HOST:PORT of OTLP/gRPC")
    parser.add_argument("--http", default="127.0.0.1:4318", help="HOST:PORT of OTLP/HTTP")
    parser.add_argument("--control-url", help="control database; default: DIR/control.db")
    parser.add_argument(
        "--settings", default="{}", help="the 'collector' section of tokenweir.yaml, as JSON"
    )
    given = parser.parse_args(argv)
    return ReceiverSettings(
        data=given.data,
        control_url=given.control_url or f"sqlite:///{given.data.absolute()}/control.db",
        collector=CollectorSettings.model_validate_json(given.settings),
        otlp_grpc=given.grpc,
        otlp_http=given.http,
    )


def main(argv: list[str] | None = None) -> int:
    set_up_logging()
    try:
        run(_arguments(argv))
    except TokenweirError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
