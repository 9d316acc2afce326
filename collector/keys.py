"""API keys: who sends, and for which tenant it may speak.

A key is shown once, when it is made; the database holds its SHA-256. A key is 160 random bits, so
its hash needs neither salt nor stretching.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sqlalchemy import Engine, insert, inspect, select, update
from sqlalchemy.exc import IntegrityError

from base.clock import Clock
from base.db import transaction
from base.errors import BadInput
from base.ids import new_id
from base.selfmon import Log
from collector.tables import api_keys

PREFIX = "twk_"
_SHORTEST = 20
_log = Log(__name__)


class Role(StrEnum):
    """What a key is for."""

    INGEST = "ingest"  # telemetry of one tenant
    GATEWAY = "gateway"  # telemetry of many: trusted to name tenants
    READ = "read"  # everything, or with a tenant what is that tenant's
    ADMIN = "admin"


_MAY_INGEST = {Role.INGEST, Role.GATEWAY, Role.ADMIN}
_NAMES_TENANTS = {Role.GATEWAY, Role.ADMIN}


@dataclass(frozen=True, slots=True)
class Identity:
    """A caller. An empty `tenant`: its data are trusted to name tenants, and it reads all."""

    source: str
    tenant: str
    role: Role

    @property
    def may_ingest(self) -> bool:
        return self.role in _MAY_INGEST


LOOPBACK = Identity(source="loopback", tenant="", role=Role.ADMIN)


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """A key without its secret."""

    id: str
    name: str
    role: Role
    tenant: str
    created_at: datetime
    revoked_at: datetime | None


def create_key(
    engine: Engine, clock: Clock, *, name: str, role: Role, tenant: str | None = None
) -> str:
    """Make a key and return it: this is the only time that it can be seen.

    An ingest key needs the tenant it speaks for; a read key with a tenant reads that one alone; the
    other roles have none. Raises BadInput.
    """
    if not name:
        raise BadInput("a key needs a name, to know it by when it is to be revoked")
    if role is Role.INGEST and not tenant:
        raise BadInput("an ingest key needs the tenant it speaks for; a gateway key names tenants")
    if role not in {Role.INGEST, Role.READ} and tenant:
        raise BadInput(f"a key with role {role.value} belongs to no tenant: leave the tenant out")
    key = PREFIX + secrets.token_urlsafe(20)
    row = {
        "id": new_id(clock),
        "name": name,
        "sha256": _digest(key),
        "role": role.value,
        "tenant": tenant or "",
        "created_at": clock.now(),
    }
    try:
        with transaction(engine) as connection:
            connection.execute(insert(api_keys).values(row))
    except IntegrityError as error:
        raise BadInput(f"there is a key named {name!r} already: choose another name") from error
    return key


def ensure_key(engine: Engine, clock: Clock, key: str, *, name: str, role: Role) -> None:
    """Let a key that somebody else made work under `name`: it replaces an earlier one.

    For the first key of an installation, which comes with its configuration. Raises BadInput.
    """
    if len(key) < _SHORTEST:
        raise BadInput(f"the {name} key is shorter than {_SHORTEST} characters: it can be guessed")
    digest = _digest(key)
    named = api_keys.c.name == name
    with transaction(engine) as connection:
        if connection.execute(select(api_keys.c.id).where(api_keys.c.sha256 == digest)).first():
            return
        values = {"sha256": digest, "role": role.value, "tenant": "", "revoked_at": None}
        if connection.execute(update(api_keys).where(named).values(values)).rowcount == 0:
            row = {"id": new_id(clock), "name": name, "created_at": clock.now()}
            connection.execute(insert(api_keys).values(row | values))


def list_keys(engine: Engine) -> list[KeyInfo]:
    """Return every key, oldest first, revoked ones too."""
    with transaction(engine) as connection:
        rows = connection.execute(select(api_keys).order_by(api_keys.c.id)).all()
    return [KeyInfo(r.id, r.name, Role(r.role), r.tenant, r.created_at, r.revoked_at) for r in rows]


def revoke_key(engine: Engine, clock: Clock, name: str) -> None:
    """End a key. It stops working within seconds. Raises BadInput if there is none."""
    live = (api_keys.c.name == name) & api_keys.c.revoked_at.is_(None)
    with transaction(engine) as connection:
        done = connection.execute(update(api_keys).where(live).values(revoked_at=clock.now()))
        if done.rowcount == 0:
            raise BadInput(f"there is no live key named {name!r}")


class Authenticator:
    """Knows the live keys.

    `refresh` reads the database and belongs in a thread; `identify` touches memory only.
    """

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._keys: Mapping[str, Identity] = {}
        self._any_ever = False
        self.refreshed_at: datetime | None = None

    def refresh(self) -> None:
        """Read the keys again. When the database cannot be read, the last ones stay valid."""
        if not inspect(self._engine).has_table(api_keys.name):
            return  # the server creates the tables when it first starts
        with transaction(self._engine) as connection:
            rows = connection.execute(select(api_keys)).all()
        self._keys = {
            row.sha256: Identity(f"key:{row.name}", row.tenant, Role(row.role))
            for row in rows
            if row.revoked_at is None
        }
        self._any_ever = bool(rows)
        self.refreshed_at = self._clock.now()

    @property
    def has_keys(self) -> bool:
        """Whether a key is wanted from everybody. Revoking the last key does not open the door."""
        return self._any_ever

    def identify(self, token: str | None, peer_is_loopback: bool) -> Identity | None:
        """Say who this is; None means: not let in."""
        if token:
            known = self._keys.get(_digest(token))
            if known is not None or self._any_ever:
                return known
        if self._any_ever or not peer_is_loopback:
            return None
        return LOOPBACK


def bearer_token(headers: Sequence[tuple[str, str]]) -> str | None:
    """Find the key in lower-case headers or gRPC metadata: Authorization: Bearer, or x-api-key."""
    for name, value in headers:
        if name == "authorization" and value[:7].lower() == "bearer ":
            return value[7:].strip()
        if name == "x-api-key":
            return value.strip()
    return None


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
