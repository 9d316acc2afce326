"""Tenants for a stack that is given none: made once, kept with the data, so that keys stay."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from base.errors import ConfigError
from stack.gateway.tenants import Tenant, TenantBook, from_keys

KEYS_FILE = "tenant-keys.json"

DEFAULT: Sequence[Tenant] = (
    Tenant("acme"),
    Tenant("globex"),
    Tenant("initech", priority="batch"),
    Tenant("umbrella"),
    Tenant("hooli"),
)


def open_demo_tenants(
    data: Path, tenants: Sequence[Tenant] = DEFAULT
) -> tuple[TenantBook, Mapping[str, str]]:
    """Return the book and, for the load generator, each tenant's key.

    The keys are in `DATA/tenant-keys.json`, readable by the owner only; `stack.load` reads it.
    """
    path = data / KEYS_FILE
    keys: dict[str, str] = {}
    if path.exists():
        try:
            keys = dict(json.loads(path.read_text("utf-8")))
        except ValueError as error:
            raise ConfigError(f"{path} is not JSON: remove it and new keys are made") from error
    for tenant in tenants:
        keys.setdefault(tenant.id, f"sk-{tenant.id}-{secrets.token_urlsafe(24)}")
    write_private(path, json.dumps(keys, indent=1))
    wanted = {tenant.id: keys[tenant.id] for tenant in tenants}
    return from_keys((wanted[tenant.id], tenant) for tenant in tenants), wanted


def parse_tenant(text: str) -> Tenant:
    """Read `NAME` or `NAME,priority=batch,requests_per_minute=60,…` from a command line."""
    name, *settings = text.split(",")
    fields = asdict(Tenant(name))
    for setting in settings:
        key, _, value = setting.partition("=")
        if key not in fields or key == "id" or not value:
            raise ConfigError(f"tenant {name!r}: cannot read {setting!r}")
        if key == "priority" and value not in {"interactive", "batch"}:
            raise ConfigError(f"tenant {name!r}: priority is interactive or batch")
        if key != "priority" and not value.isdigit():
            raise ConfigError(f"tenant {name!r}: {key} is not a whole number")
        fields[key] = value if key == "priority" else int(value)
    return Tenant(**fields)


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, from its first byte on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    partial.replace(path)
