"""`tokenweir check`: read everything that `up` would read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from sqlalchemy import func, inspect, select
from sqlalchemy.engine import make_url

from actuators.ledger import first_break
from actuators.tables import audit
from alerts.receivers import open_receivers
from base.db import open_engine, transaction
from base.durations import format_duration
from base.errors import ConfigError, Permanent
from base.listen import parse_listen
from base.tls import check as check_tls
from slo.documents import load_all
from slo.prometheus.source import check as check_servers
from slo.spending.model import usd
from tokenweir.settings import Settings


def check_all(settings: Settings, console: Console) -> int:
    """Print one line per thing that was read; 2 if one of them is wrong."""
    checks: list[tuple[str, Callable[[], str]]] = [
        ("addresses", lambda: _addresses(settings)),
        ("TLS", lambda: check_tls(settings.tls)),
        ("SLOs", lambda: _slos(settings)),
        ("receivers", lambda: _receivers(settings)),
        ("prices", lambda: _prices(settings)),
        ("audit trail", lambda: _audit(settings)),
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
    found = load_all(settings.slo_paths)
    check_servers(found.slos, settings.slo)
    said = [
        f"{s.name} {s.objective:.3%} over {format_duration(s.window)}"
        + (f" ({len(s.overrides)} overrides)" if s.overrides else "")
        for s in found.slos
    ]
    said += [
        f"{s.name} ${usd(s.at_most):.6g} per {s.per.replace('_', ' ')} over "
        f"{format_duration(s.window)}"
        for s in found.costs
    ]
    return ", ".join(said) or "none (give them with --slo)"


def _receivers(settings: Settings) -> str:
    receivers = open_receivers(settings.alerts)
    return ", ".join(f"{one.name} ({one.type})" for one in receivers) or "none: nobody is paged"


def _prices(settings: Settings) -> str:
    book = settings.cost.price_book()
    return book.name or "none: everything is unpriced"


def _audit(settings: Settings) -> str:
    """Follow the chain of what the control loop and people did; a break is an error."""
    file = make_url(settings.control_url).database or ""
    if settings.control_url.startswith("sqlite") and not Path(file).exists():
        return "none yet"  # and nothing is made by looking
    engine = open_engine(settings.control_url)
    try:
        if not inspect(engine).has_table(audit.name):
            return "none yet"
        with transaction(engine) as connection:
            broken = first_break(connection)
            steps = connection.scalar(select(func.count()).select_from(audit))
    finally:
        engine.dispose()
    if broken is not None:
        raise ConfigError(
            f"step {broken} was altered, or the one before it is gone: compare with a backup"
        )
    return f"{steps} steps, chained"
