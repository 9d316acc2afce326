"""One seeded instance per test module, and its address where a test needs a browser."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from base.clock import ManualClock

sys.path.insert(0, str(Path(__file__).parent))  # for seeding.py and instance.py beside this file

NOW = datetime(2026, 11, 30, 12, 0, 30, tzinfo=UTC)


@pytest.fixture(scope="session")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seed thirty days of a few thousand requests, once for all modules of a worker."""
    from instance import open_instance

    folder = tmp_path_factory.mktemp("site")
    _, deps, engine = open_instance(folder, ManualClock(NOW), requests=6000)
    engine.close()
    deps.db.dispose()
    return folder


@pytest.fixture(scope="module")
def site(seeded: Path) -> Iterator[Any]:
    """Yield (application, deps) on the seeded folder; tests read it and change nothing."""
    from instance import open_instance

    app, deps, engine = open_instance(seeded, ManualClock(NOW), is_new=False)
    yield app, deps
    engine.close()
    deps.db.dispose()


@pytest.fixture(scope="module")
def address(site: Any) -> Iterator[str]:
    """Serve the instance on a free loopback port."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(site[0], log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + 20
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(10)
    listener.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from browsing import ARGUMENTS

    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path="/usr/bin/chromium", args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Any]:
    from browsing import visiting

    yield from visiting(browser, address)


@pytest.fixture
def phone(browser: Any, address: str) -> Iterator[Any]:
    from browsing import visiting

    yield from visiting(browser, address, viewport={"width": 420, "height": 900})
