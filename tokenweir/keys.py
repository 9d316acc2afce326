"""Keys from the command line and from the first start."""

from __future__ import annotations

from rich.table import Table
from sqlalchemy import Engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DatabaseError

from base.clock import Clock, SystemClock
from base.db import open_engine
from base.durations import format_instant
from base.errors import ConfigError
from base.migrate import upgrade
from collector.keys import Role, create_key, ensure_key, list_keys, revoke_key
from tokenweir.settings import Settings


def make_key(settings: Settings, *, name: str, role: str, tenant: str | None) -> str:
    """Make a key in the control database of `settings`; works beside a running instance."""
    if role not in set(Role):
        raise ConfigError(f"role {role!r}: choose one of {', '.join(r.value for r in Role)}")
    engine = open_control(settings)
    try:
        return create_key(engine, SystemClock(), name=name, role=Role(role), tenant=tenant or "")
    finally:
        engine.dispose()


def key_table(settings: Settings) -> Table:
    """List every key, revoked ones too."""
    engine = open_control(settings)
    try:
        keys = list_keys(engine)
    finally:
        engine.dispose()
    table = Table("name", "role", "tenant", "made", "revoked")
    for key in keys:
        revoked = format_instant(key.revoked_at) if key.revoked_at else ""
        table.add_row(key.name, key.role, key.tenant, format_instant(key.created_at), revoked)
    return table


def end_key(settings: Settings, name: str) -> None:
    """Revoke a key. Raises BadInput if there is none of that name."""
    engine = open_control(settings)
    try:
        revoke_key(engine, SystemClock(), name)
    finally:
        engine.dispose()


def open_control(settings: Settings) -> Engine:
    """Open the control database, brought to the newest schema, with the bootstrap key in it."""
    settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    engine = open_engine(settings.control_url)
    try:
        upgrade(engine)
    except DatabaseError as error:
        where = make_url(settings.control_url).render_as_string(hide_password=True)
        raise ConfigError(
            f"the control database {where} cannot be used ({error.orig}): restore it from a "
            "backup, or move it away to begin with an empty one"
        ) from error
    _bootstrap(engine, settings, SystemClock())
    return engine


def _bootstrap(engine: Engine, settings: Settings, clock: Clock) -> None:
    key = settings.bootstrap()
    if key is not None:
        ensure_key(engine, clock, key, name="bootstrap", role=Role.ADMIN)
