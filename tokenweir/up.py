"""`tokenweir up`: check everything, start both processes, say where to look."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from tokenweir.datadir import LastRun, remember_run
from tokenweir.exposure import refuse_open_doors
from tokenweir.settings import Settings, load_settings
from tokenweir.supervisor import Child, Supervisor


async def run_up(config: Path | None, given: Mapping[str, Any], console: Console) -> int:
    """Run until SIGTERM; returns the exit status.

    ConfigError when a file or an address is wrong.
    """
    settings = load_settings(config, overrides_of(given))
    supervisor = make_supervisor(settings, config, given)
    remember_run(settings.data, LastRun(config, settings.slo_paths))
    return await supervisor.run(lambda endpoints: _welcome(endpoints, console))


def make_supervisor(
    settings: Settings, config: Path | None, given: Mapping[str, Any]
) -> Supervisor:
    """Say which processes `settings`, read from `config` and `given`, need."""
    refuse_open_doors(settings)
    overrides = overrides_of(given)
    return Supervisor(
        settings.data,
        receiver=Child("receiver", _command("ingest", config, overrides)),
        server=Child("server", _command("server", config, overrides)),
    )


def overrides_of(given: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _plain(value) for key, value in given.items() if value not in (None, [], ())}


def _command(
    name: str, config: Path | None, overrides: Mapping[str, Any]
) -> Callable[[dict[str, Any]], Sequence[str]]:
    def argv(addresses: dict[str, Any]) -> Sequence[str]:
        kept = {key: _host_port(value) for key, value in addresses.items() if key in _ADDRESSES}
        return [
            sys.executable,
            "-m",
            "tokenweir",
            name,
            f"--overrides={json.dumps({**overrides, **kept})}",
            f"--parent={os.getpid()}",
            *([f"--config={config}"] if config else []),
        ]

    return argv


_ADDRESSES = ("http", "otlp_http", "otlp_grpc", "keda")


def _host_port(address: str) -> str:
    return address.removeprefix("http://").removeprefix("https://")


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _welcome(endpoints: Mapping[str, Any], console: Console) -> None:
    console.print(
        f"[bold green]tokenweir is ready[/]\n"
        f"  pages      {endpoints['http']}\n"
        f"  API        {endpoints['http']}/api/v1/openapi.json\n"
        f"  OTLP/HTTP  {endpoints['otlp_http']}\n"
        f"  OTLP/gRPC  {endpoints['otlp_grpc']}\n"
        f"  KEDA       {endpoints['keda']}",
        highlight=False,
    )
