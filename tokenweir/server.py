"""The server process: owns the store, judges, acts, shows."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import anyio.to_thread
import uvicorn
from fastapi import FastAPI

from base.clock import SystemClock
from base.listen import Listen, bind, parse_listen
from base.selfmon import Log, set_up_logging
from base.tls import TlsSettings, uvicorn_options
from base.tls import check as check_tls
from collector.keys import Role
from tokenweir.datadir import owned
from tokenweir.http import Admission, Entry, Readiness, Wish, create_api
from tokenweir.parent import follow_parent
from tokenweir.settings import Settings

if TYPE_CHECKING:
    from tokenweir.parts import Parts

log = Log(__name__)

MAY = {
    Wish.READ: {Role.READ, Role.ADMIN},
    Wish.CHANGE: {Role.ADMIN},
    Wish.DRIVE: {Role.READ, Role.GATEWAY, Role.ADMIN},
    Wish.FIND: set(Role),
}
WEB_THREADS = 32  # long polls of gateways hold one each


def run_server(settings: Settings, parent: int | None) -> int:
    """Serve until SIGTERM; returns the exit status."""
    set_up_logging(settings.log_level)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if parent is not None:
        follow_parent(parent)
    listen = parse_listen(settings.http, "--http")
    with owned(settings.data, "server"), bind(listen) as sock:
        sock.listen(512)
        check_tls(settings.tls)
        http_url = f"{settings.tls.scheme}://{Listen(listen.host, sock.getsockname()[1])}"
        readiness = Readiness(["opening the stores"])
        gate = _Gate()
        app = create_api(readiness, gate.is_healthy, gate.may_enter)
        web = _Web(app, settings.tls)
        serving = threading.Thread(target=web.run, args=([sock],), name="http", daemon=True)
        serving.start()  # before the parts: until they are ready, /-/ready says why not
        try:
            _work(settings, http_url, app, readiness, gate, stop)
        finally:
            web.should_exit = True
            serving.join(timeout=10)
    return 0


def _work(
    settings: Settings,
    http_url: str,
    app: FastAPI,
    readiness: Readiness,
    gate: _Gate,
    stop: threading.Event,
) -> None:
    parts = _open_parts(settings, http_url)
    parts.attach(app)
    keda = parts.start()
    gate.parts = parts
    readiness.reasons.clear()
    line = {"ready": True, "http": http_url, "keda": keda, "pid": os.getpid()}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
    stop.wait()
    readiness.reasons.append("stopping")
    log.info("server_stopping")
    parts.stop()


def _open_parts(settings: Settings, http_url: str) -> Parts:
    """Import and make the parts. What they are made of stays: it is never looked through again."""
    gc.disable()  # a sixth of the start was spent looking for garbage among modules
    try:
        from tokenweir.parts import Parts

        return Parts(settings, http_url, SystemClock())
    finally:
        gc.freeze()
        gc.enable()


class _Gate:
    """Answers for the parts before they exist: nobody enters, and all is well so far."""

    def __init__(self) -> None:
        self.parts: Parts | None = None

    def is_healthy(self) -> bool:
        return self.parts is None or self.parts.is_healthy()

    def may_enter(self, key: str | None, peer_is_loopback: bool, wish: Wish) -> Admission:
        parts = self.parts
        who = parts.authenticator.identify(key, peer_is_loopback) if parts else None
        if who is None:
            return Admission(Entry.UNKNOWN)
        if who.role not in MAY[wish]:
            return Admission(Entry.FORBIDDEN)
        return Admission(Entry.OPEN, who.tenant or None if who.role is Role.READ else None)


class _Web(uvicorn.Server):
    """uvicorn in a thread: the process decides about signals, not the web server."""

    def __init__(self, app: FastAPI, tls: TlsSettings) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                proxy_headers=False,  # who the peer is decides whether a key is needed
                server_header=False,
                timeout_graceful_shutdown=2,  # long polls are cut; gateways poll again
                **uvicorn_options(tls, ask_clients=False),  # browsers have no certificates
            )
        )
        app.router.on_startup.append(_widen_thread_pool)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _widen_thread_pool() -> None:
    anyio.to_thread.current_default_thread_limiter().total_tokens = WEB_THREADS
