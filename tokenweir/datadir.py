"""The data folder of one instance: who owns it, and where its surfaces are."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from base.errors import ConfigError

ENDPOINTS = "endpoints.json"
LAST_RUN = "last-run.json"


@contextmanager
def owned(data: Path, name: str, wait_s: float = 10.0) -> Iterator[None]:
    """Hold `data/<name>.lock` for the length of the block.

    Waits for a predecessor that is still draining; ConfigError says who holds it otherwise.
    """
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = data / f"{name}.lock"
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _take(handle, path, time.monotonic() + wait_s)
        os.ftruncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
        yield
    finally:
        os.close(handle)  # closing releases the lock, also when the process is killed


def _take(handle: int, path: Path, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                holder = os.pread(handle, 32, 0).decode(errors="replace") or "unknown"
                raise ConfigError(
                    f"{path.parent} is in use by process {holder}: "
                    "stop it, or choose another --data"
                ) from None
            time.sleep(0.1)
        else:
            return


def write_endpoints(data: Path, endpoints: Mapping[str, Any]) -> None:
    """Publish the surfaces; readers see the old file or the whole new one, never a part."""
    draft = data / f".{ENDPOINTS}.{os.getpid()}"
    draft.write_text(json.dumps(endpoints, indent=1) + "\n")
    draft.replace(data / ENDPOINTS)


def read_endpoints(data: Path) -> dict[str, Any] | None:
    """Read the surfaces of the instance that runs on `data`; None when none is ready."""
    try:
        found = json.loads((data / ENDPOINTS).read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return dict(found)


@dataclass(frozen=True, slots=True)
class LastRun:
    """What `up` was last given on a data folder."""

    config: Path | None = None
    slo_paths: tuple[Path, ...] = ()


def remember_run(data: Path, run: LastRun) -> None:
    """Keep it, with absolute paths, for a replay into the same folder."""
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    document = {
        "config": str(run.config.absolute()) if run.config else None,
        "slo_paths": [str(path.absolute()) for path in run.slo_paths],
    }
    (data / LAST_RUN).write_text(json.dumps(document, indent=1) + "\n")


def last_run(data: Path) -> LastRun:
    """Read it; nothing was given if nothing was ever run there."""
    try:
        found = json.loads((data / LAST_RUN).read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return LastRun()
    config = Path(found["config"]) if found["config"] else None
    return LastRun(config, tuple(Path(path) for path in found["slo_paths"]))


def remove_endpoints(data: Path) -> None:
    (data / ENDPOINTS).unlink(missing_ok=True)
