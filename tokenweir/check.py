"""`tokenweir check`: read everything that `up` would read."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.markup import escape

from alerts.receivers import open_receivers
from base.durations import format_duration
from base.errors import Permanent
from slo.documents import load
from tokenweir.listen import parse_listen
from tokenweir.settings import Settings


def check_all(settings: Settings, console: Console) -> int:
    """Print one line per thing that was read; 2 if one of them is wrong."""
    checks: list[tuple[str, Callable[[], str]]] = [
        ("addresses", lambda: _addresses(settings)),
        ("SLOs", lambda: _slos(settings)),
        ("receivers", lambda: _receivers(settings)),
        ("prices", lambda: _prices(settings)),
    ]
    wrong = 0
    for name, check in checks:
        try:
            console.print(
                f"[green]ok[/]     {name}: {escape(check())}", highlight=False, soft_wrap=True
            )
        except (Permanent, OSError) as error:
            wrong += 1
            console.print(
                f"[bold red]wrong[/]  {name}: {escape(str(error))}",
                highlight=False,
                soft_wrap=True,
            )
    return 2 if wrong else 0


def _addresses(settings: Settings) -> str:
    listens = [
        parse_listen(getattr(settings, name), f"--{name.replace('_', '-')}")
        for name in ("http", "otlp_http", "otlp_grpc", "keda")
    ]
    return ", ".join(str(one) for one in listens)


def _slos(settings: Settings) -> str:
    slos = load(settings.slo_paths)
    if not slos:
        return "none (give them with --slo)"
    return ", ".join(f"{s.name} {s.objective:.3%} over {format_duration(s.window)}" for s in slos)


def _receivers(settings: Settings) -> str:
    receivers = open_receivers(settings.alerts)
    return ", ".join(f"{one.name} ({one.type})" for one in receivers) or "none: nobody is paged"


def _prices(settings: Settings) -> str:
    book = settings.cost.price_book()
    return book.name or "none: everything is unpriced"
