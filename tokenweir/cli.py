"""The command line. Errors of configuration end with status 2 and one readable line."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from base.errors import ConfigError, Permanent, TokenweirError
from base.selfmon import set_up_logging
from tokenweir.settings import Settings, load_settings
from tokenweir.slo_commands import slo_app

app = typer.Typer(
    name="tokenweir",
    help="Observability and SLO control plane for LLM inference.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
key_app = typer.Typer(help="API keys.", no_args_is_help=True)
app.add_typer(key_app, name="key")
app.add_typer(slo_app, name="slo")

out = Console()
err = Console(stderr=True)

Data = Annotated[Path, typer.Option(help="Folder that holds everything this instance keeps.")]
Config = Annotated[Path | None, typer.Option(help="tokenweir.yaml.")]
SloPaths = Annotated[
    list[Path] | None, typer.Option("--slo", help="SLO document or folder of them; repeatable.")
]


def _settings(config: Path | None, **given: Any) -> Settings:
    return load_settings(config, {k: v for k, v in given.items() if v is not None and v != []})


@app.command()
def up(
    data: Data = Path("data"),
    config: Config = None,
    slo: SloPaths = None,
    http: Annotated[str | None, typer.Option(help="HOST:PORT of pages and API.")] = None,
    otlp_grpc: Annotated[str | None, typer.Option(help="HOST:PORT of OTLP/gRPC.")] = None,
    otlp_http: Annotated[str | None, typer.Option(help="HOST:PORT of OTLP/HTTP.")] = None,
    keda: Annotated[str | None, typer.Option(help="HOST:PORT of the KEDA external scaler.")] = None,
) -> None:
    """Run the control plane: receiver and server, until SIGTERM.

    Port 0 takes a free one; DATA/endpoints.json says which, once everything is ready.
    """
    from tokenweir.up import run_up

    given = {
        "data": data,
        "slo_paths": slo,
        "http": http,
        "otlp_grpc": otlp_grpc,
        "otlp_http": otlp_http,
        "keda": keda,
    }
    raise typer.Exit(asyncio.run(run_up(config, given, err)))


Overrides = Annotated[str, typer.Option(help="Settings given on the command line, as JSON.")]


@app.command(hidden=True)
def ingest(overrides: Overrides, config: Config = None, parent: int | None = None) -> None:
    """Run the receiver process (started by `up`)."""
    from tokenweir.receiver import run_receiver

    raise typer.Exit(run_receiver(load_settings(config, json.loads(overrides)), parent))


@app.command(hidden=True)
def server(overrides: Overrides, config: Config = None, parent: int | None = None) -> None:
    """Run the server process (started by `up`)."""
    from tokenweir.server import run_server

    raise typer.Exit(run_server(load_settings(config, json.loads(overrides)), parent))


@app.command()
def check(data: Data = Path("data"), config: Config = None, slo: SloPaths = None) -> None:
    """Read every file that `up` would read, and say what is wrong with it."""
    from tokenweir.check import check_all

    settings = _settings(config, data=data, slo_paths=slo)
    raise typer.Exit(check_all(settings, out))


@app.command()
def replay(
    paths: Annotated[list[Path], typer.Argument(help="OTLP files or folders of them.")],
    to: Annotated[str | None, typer.Option(help="OTLP/HTTP address of a running instance.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of an instance; one is run for the replay if none runs there."),
    ] = None,
    slo: SloPaths = None,
    config: Config = None,
    key: Annotated[
        str | None, typer.Option(envvar="TOKENWEIR_KEY", help="API key to send with.")
    ] = None,
    ca: Annotated[
        Path | None, typer.Option(help="PEM: the authority of the instance's certificate.")
    ] = None,
    cert: Annotated[
        Path | None, typer.Option(help="PEM: certificate and key to show (mutual TLS).")
    ] = None,
) -> None:
    """Send recorded OTLP into an instance, with the times that were recorded.

    Reads .binpb, .json and .jsonl, each also as .gz. Ends with 1 and the names of the files that
    could not be read.
    """
    from base.tls import client_context
    from tokenweir.replay import run_replay

    tls = client_context(ca, cert)
    raise typer.Exit(
        asyncio.run(
            run_replay(paths, to=to, data=data, config=config, slo=slo or [], key=key, tls=tls)
        )
    )


@app.command()
def demo(
    data: Annotated[
        Path | None, typer.Option(help="Folder to keep; a new one if left out.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End after the incident.")] = False,
    days: Annotated[int, typer.Option(help="Days of history to load.")] = 30,
    seed: Annotated[int, typer.Option(help="Seed of tenants, traffic and lengths.")] = 7,
) -> None:
    """Play the whole loop on this machine: history, incident, page, action, proof, undo."""
    from tokenweir.demo.run import run_demo

    raise typer.Exit(asyncio.run(run_demo(data=data, once=once, days=days, seed=seed)))


@key_app.command("create")
def key_create(
    name: Annotated[str, typer.Option(help="Who uses it.")],
    role: Annotated[str, typer.Option(help="ingest, gateway, read or admin.")] = "ingest",
    tenant: Annotated[
        str | None, typer.Option(help="Whose spans it sends (ingest), or all it reads (read).")
    ] = None,
    data: Data = Path("data"),
    config: Config = None,
) -> None:
    """Make an API key and print it: this once, for only its hash is kept."""
    from tokenweir.keys import make_key

    print(make_key(_settings(config, data=data), name=name, role=role, tenant=tenant))  # noqa: T201


@key_app.command("list")
def key_list(data: Data = Path("data"), config: Config = None) -> None:
    """Show the keys: who has them and what for. The keys themselves are not kept."""
    from tokenweir.keys import key_table

    out.print(key_table(_settings(config, data=data)))


@key_app.command("revoke")
def key_revoke(
    name: Annotated[str, typer.Argument(help="The key's name.")],
    data: Data = Path("data"),
    config: Config = None,
) -> None:
    """End a key; it stops working within seconds."""
    from tokenweir.keys import end_key

    end_key(_settings(config, data=data), name)


def main() -> None:
    """Entry point of the `tokenweir` command."""
    set_up_logging()
    try:
        app()
    except ConfigError as error:
        err.print(
            f"[bold red]configuration[/]: {escape(str(error))}", highlight=False, soft_wrap=True
        )
        sys.exit(2)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        err.print(
            f"[bold red]cannot go on[/]: {escape(where)}{escape(error.strerror or str(error))}",
            highlight=False,
            soft_wrap=True,
        )
        sys.exit(2)
    except (Permanent, TokenweirError) as error:
        err.print(f"[bold red]error[/]: {escape(str(error))}", highlight=False, soft_wrap=True)
        sys.exit(1)
