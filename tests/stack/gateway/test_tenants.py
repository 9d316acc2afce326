from __future__ import annotations

import hashlib
import json
import stat
from pathlib import Path

import pytest

from base.errors import ConfigError
from stack.gateway.demo_tenants import open_demo_tenants, parse_tenant
from stack.gateway.tenants import Tenant, load_tenants


def test_a_file_gives_keys_by_hash_by_variable_and_by_file(tmp_path: Path) -> None:
    (tmp_path / "acme.key").write_text("three\n")
    path = tmp_path / "tenants.yaml"
    path.write_text(
        f"""
tenants:
  - id: acme
    keys: [{{sha256: {hashlib.sha256(b"one").hexdigest()}}}, {{env: TWO}}, {{file: acme.key}}]
    requests_per_minute: 600
    tokens_per_minute: 400000
    max_concurrency: 64
    priority: batch
  - id: nobody
"""
    )

    book = load_tenants(path, {"TWO": "two"})

    acme = Tenant("acme", 600, 400_000, 64, "batch")
    assert [book.identify(k) for k in ("one", "two", "three")] == [acme] * 3
    assert book.identify("four") is None
    assert book.identify("") is None
    assert book.identify(None) is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tenants: [{id: a, keys: [{}]}]", "one of sha256, env, file"),
        ("tenants: [{id: a, keys: [{env: NOPE}]}]", "NOPE is not set"),
        ("tenants: [{id: a, keys: [{file: nope}]}]", "key file"),
        ("tenants: [{id: a, keys: [{sha256: short}]}]", "sha256"),
        ("tenants: [{id: a, keys: [{env: K}]}, {id: b, keys: [{env: K}]}]", "share a key"),
        ("tenants: [{id: a, requests_per_minute: 0}]", "greater than 0"),
        ("tenants: [{id: a, speed: 3}]", "speed"),
        ("tenants: [", "tenants.yaml"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "tenants.yaml"
    path.write_text(text)

    with pytest.raises(ConfigError, match=says):
        load_tenants(path, {"K": "key"})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nope\.yaml"):
        load_tenants(tmp_path / "nope.yaml", {})


def test_demo_keys_are_private_and_stay_the_same(tmp_path: Path) -> None:
    book, keys = open_demo_tenants(tmp_path, [Tenant("acme"), Tenant("globex")])

    again, same = open_demo_tenants(tmp_path, [Tenant("acme"), Tenant("globex")])

    path = tmp_path / "tenant-keys.json"
    assert keys == same == json.loads(path.read_text())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert book.identify(keys["acme"]) == again.identify(keys["acme"]) == Tenant("acme")


def test_a_tenant_can_be_written_on_a_command_line() -> None:
    tenant = parse_tenant("acme,priority=batch,requests_per_minute=60")

    assert tenant == Tenant("acme", requests_per_minute=60, priority="batch")


@pytest.mark.parametrize("text", ["a,priority=high", "a,speed=1", "a,max_concurrency=x", "a,id=b"])
def test_a_mistake_on_the_command_line_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match="tenant 'a'"):
        parse_tenant(text)
