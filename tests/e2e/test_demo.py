"""`tokenweir demo --once`: the whole loop on real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.instance import ROOT, TOKENWEIR, command, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("demo")]

STEPS = (
    "a burn alert fires",
    "the signed page arrives",
    "the flood is shed",
    "replicas are added",
    "the effect is verified",
    "the others' budgets are safe",
    "the page resolves",
    "the leases are undone",
)


@pytest.mark.timeout(600)
def test_the_incident_is_seen_paged_acted_on_proven_and_undone(tmp_path: Path) -> None:
    played = subprocess.run(
        [*TOKENWEIR, "demo", "--once", "--days", "2", "--data", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=590,
        check=False,
    )

    said = played.stdout
    assert played.returncode == 0, said + played.stderr
    table = said[said.index("Timeline of the incident") :].splitlines()
    for step in STEPS:
        (row,) = [line for line in table if step in line]
        assert "✓" in row
    assert max(len(line) for line in table) <= 100
    for log in ("tokenweir.log", "stack.log", "load.log", "flood.log"):
        assert "Traceback" not in (tmp_path / log).read_text("utf-8"), log


def test_sigterm_ends_every_process(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as out:
        demo = subprocess.Popen(
            [*TOKENWEIR, "demo", "--days", "1", "--data", str(tmp_path / "demo")],
            cwd=ROOT,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    endpoints = tmp_path / "demo" / "data" / "endpoints.json"
    try:
        wait_for("the demo to serve", endpoints.exists, within_s=120)
        sent = time.monotonic()
    finally:
        demo.send_signal(signal.SIGTERM)
        status = demo.wait(60)

    assert status == 130
    assert time.monotonic() - sent < 30  # the promise is 15 s; test machines are shared
    assert processes_that_mention(tmp_path) == []


def test_the_demo_explains_itself() -> None:
    assert "End after the incident" in command("demo", "--help").stdout


def processes_that_mention(folder: Path) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended meanwhile
        if str(folder) in words and int(path.parent.name) != os.getpid():
            found.append(words)
    return found
