"""Who may call, as whom, and how much: API key -> tenant with limits.

The file holds hashes of keys or says where a key is, never a key:

    tenants:
      - id: acme
        keys: [{sha256: 2c26b4…}, {env: ACME_KEY}, {file: /run/secrets/acme}]
        requests_per_minute: 600
        tokens_per_minute: 400000
        max_concurrency: 64
        priority: interactive
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from base.errors import ConfigError

Priority = Literal["interactive", "batch"]


@dataclass(frozen=True, slots=True)
class Tenant:
    """A caller and its limits; None is "no limit"."""

    id: str
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    max_concurrency: int | None = None
    priority: Priority = "interactive"


class TenantBook:
    """Finds the tenant of a key without ever keeping the key."""

    def __init__(self, keys: Mapping[str, Tenant]) -> None:
        """`keys` maps the SHA-256 of each key, in hex, to its tenant."""
        self._by_digest = {digest.lower(): tenant for digest, tenant in keys.items()}
        self.tenants: Mapping[str, Tenant] = {t.id: t for t in self._by_digest.values()}

    def identify(self, key: str | None) -> Tenant | None:
        if not key:
            return None
        # The timing of this look-up tells about the digest, which tells nothing about the key.
        return self._by_digest.get(digest_of(key))


def digest_of(key: str) -> str:
    """Hash a key as the tenant file stores it. Keys are long and random, so one round is enough."""
    return hashlib.sha256(key.encode()).hexdigest()


def from_keys(pairs: Iterable[tuple[str, Tenant]]) -> TenantBook:
    """Make a book from keys in memory: tests and the one-process stack."""
    return TenantBook({digest_of(key): tenant for key, tenant in pairs})


def load_tenants(path: Path, environ: Mapping[str, str]) -> TenantBook:
    """Read a tenant file (YAML or JSON). Raises ConfigError naming the file and the place."""
    try:
        document = _File.model_validate(yaml.safe_load(path.read_text("utf-8")))
    except OSError as error:
        raise ConfigError(f"tenant file {path}: {error.strerror}") from error
    except (yaml.YAMLError, ValidationError) as error:
        raise ConfigError(f"tenant file {path}: {error}") from error
    keys: dict[str, Tenant] = {}
    for entry in document.tenants:
        tenant = Tenant(
            id=entry.id,
            requests_per_minute=entry.requests_per_minute,
            tokens_per_minute=entry.tokens_per_minute,
            max_concurrency=entry.max_concurrency,
            priority=entry.priority,
        )
        for source in entry.keys:
            digest = _digest(source, path, entry.id, environ)
            if digest in keys:
                raise ConfigError(
                    f"tenant file {path}: {entry.id} and {keys[digest].id} share a key"
                )
            keys[digest] = tenant
    return TenantBook(keys)


def _digest(source: _Key, path: Path, tenant: str, environ: Mapping[str, str]) -> str:
    given = [name for name in ("sha256", "env", "file") if getattr(source, name) is not None]
    if len(given) != 1:
        raise ConfigError(f"tenant file {path}: a key of {tenant} needs one of sha256, env, file")
    if source.sha256 is not None:
        return source.sha256
    if source.env is not None:
        if not environ.get(source.env):
            raise ConfigError(f"tenant file {path}: {tenant}'s variable {source.env} is not set")
        return digest_of(environ[source.env])
    try:
        return digest_of((path.parent / str(source.file)).read_text("utf-8").strip())
    except OSError as error:
        raise ConfigError(f"tenant file {path}: {tenant}'s key file: {error}") from error


class _Key(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    env: str | None = None
    file: str | None = None


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    id: Annotated[str, Field(min_length=1, max_length=128)]
    keys: list[_Key] = []
    requests_per_minute: PositiveInt | None = None
    tokens_per_minute: PositiveInt | None = None
    max_concurrency: PositiveInt | None = None
    priority: Priority = "interactive"


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    tenants: list[_Entry]
