from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Engine, select

from base.clock import ManualClock
from base.db import metadata, open_engine
from base.errors import BadInput
from collector.keys import (
    LOOPBACK,
    Authenticator,
    Role,
    bearer_token,
    create_key,
    ensure_key,
    list_keys,
    revoke_key,
)
from collector.tables import api_keys


@pytest.fixture
def control(tmp_path: Path) -> Engine:
    engine = open_engine(f"sqlite:///{tmp_path}/control.db")
    metadata.create_all(engine, tables=[api_keys])
    return engine


def authenticator(control: Engine, clock: ManualClock) -> Authenticator:
    made = Authenticator(control, clock)
    made.refresh()
    return made


def test_only_the_hash_of_a_key_is_stored(control: Engine, clock: ManualClock) -> None:
    key = create_key(control, clock, name="gw", role=Role.GATEWAY)

    with control.connect() as connection:
        row = connection.execute(select(api_keys)).one()
    assert key.startswith("twk_")
    assert key not in str(row)
    assert len(row.sha256) == 64


def test_an_ingest_key_speaks_for_its_tenant(control: Engine, clock: ManualClock) -> None:
    key = create_key(control, clock, name="app", role=Role.INGEST, tenant="acme")

    identity = authenticator(control, clock).identify(key, peer_is_loopback=False)

    assert identity is not None
    assert (identity.source, identity.tenant, identity.may_ingest) == ("key:app", "acme", True)


def test_a_gateway_key_names_tenants_itself(control: Engine, clock: ManualClock) -> None:
    key = create_key(control, clock, name="gw", role=Role.GATEWAY)

    identity = authenticator(control, clock).identify(key, peer_is_loopback=False)

    assert identity is not None
    assert identity.tenant == ""


def test_a_read_key_may_belong_to_a_tenant(control: Engine, clock: ManualClock) -> None:
    key = create_key(control, clock, name="team", role=Role.READ, tenant="acme")

    identity = authenticator(control, clock).identify(key, peer_is_loopback=False)

    assert identity is not None
    assert (identity.tenant, identity.may_ingest) == ("acme", False)


def test_a_read_key_may_not_send(control: Engine, clock: ManualClock) -> None:
    key = create_key(control, clock, name="dash", role=Role.READ)

    identity = authenticator(control, clock).identify(key, peer_is_loopback=False)

    assert identity is not None
    assert not identity.may_ingest


def test_without_keys_loopback_is_trusted_and_the_network_is_not(
    control: Engine, clock: ManualClock
) -> None:
    made = authenticator(control, clock)

    assert made.identify(None, peer_is_loopback=True) == LOOPBACK
    assert made.identify("anything", peer_is_loopback=True) == LOOPBACK
    assert made.identify(None, peer_is_loopback=False) is None


def test_with_a_key_loopback_needs_one_too(control: Engine, clock: ManualClock) -> None:
    create_key(control, clock, name="gw", role=Role.GATEWAY)
    made = authenticator(control, clock)

    assert made.identify(None, peer_is_loopback=True) is None
    assert made.identify("twk_wrong", peer_is_loopback=True) is None


def test_revoking_the_last_key_does_not_open_the_door(control: Engine, clock: ManualClock) -> None:
    key = create_key(control, clock, name="gw", role=Role.GATEWAY)
    revoke_key(control, clock, "gw")
    made = authenticator(control, clock)

    assert made.identify(key, peer_is_loopback=True) is None
    assert made.identify(None, peer_is_loopback=True) is None
    assert made.has_keys


def test_a_new_key_works_after_the_next_refresh(control: Engine, clock: ManualClock) -> None:
    made = authenticator(control, clock)
    key = create_key(control, clock, name="gw", role=Role.GATEWAY)
    assert made.identify(key, peer_is_loopback=False) is None

    made.refresh()

    assert made.identify(key, peer_is_loopback=False) is not None


def test_a_database_without_tables_has_no_keys(tmp_path: Path, clock: ManualClock) -> None:
    engine = open_engine(f"sqlite:///{tmp_path}/empty.db")

    assert not authenticator(engine, clock).has_keys


@pytest.mark.parametrize(
    ("name", "role", "tenant", "says"),
    [
        ("", Role.READ, None, "needs a name"),
        ("app", Role.INGEST, None, "needs the tenant"),
        ("gw", Role.GATEWAY, "acme", "belongs to no tenant"),
    ],
)
def test_a_key_that_makes_no_sense_is_refused(
    control: Engine, clock: ManualClock, name: str, role: Role, tenant: str | None, says: str
) -> None:
    with pytest.raises(BadInput, match=says):
        create_key(control, clock, name=name, role=role, tenant=tenant)


def test_names_are_unique(control: Engine, clock: ManualClock) -> None:
    create_key(control, clock, name="gw", role=Role.GATEWAY)

    with pytest.raises(BadInput, match="already"):
        create_key(control, clock, name="gw", role=Role.READ)


def test_keys_are_listed_without_their_secret(control: Engine, clock: ManualClock) -> None:
    create_key(control, clock, name="gw", role=Role.GATEWAY)
    revoke_key(control, clock, "gw")

    [info] = list_keys(control)

    assert (info.name, info.role, info.revoked_at) == ("gw", Role.GATEWAY, clock.now())


def test_revoking_a_key_that_is_not_there_is_an_error(control: Engine, clock: ManualClock) -> None:
    with pytest.raises(BadInput, match="no live key"):
        revoke_key(control, clock, "gw")


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        ([("authorization", "Bearer twk_1")], "twk_1"),
        ([("authorization", "bearer  twk_1 ")], "twk_1"),
        ([("x-api-key", "twk_1")], "twk_1"),
        ([("authorization", "Basic abc")], None),
        ([("authorization", "Basic abc"), ("x-api-key", "twk_1")], "twk_1"),
        ([], None),
    ],
)
def test_the_key_is_found_where_senders_put_it(
    headers: list[tuple[str, str]], token: str | None
) -> None:
    assert bearer_token(headers) == token


def test_a_key_from_the_configuration_works_and_can_be_changed(
    control: Engine, clock: ManualClock
) -> None:
    first, second = "twk_first_0123456789", "twk_second_012345678"
    for key in (first, first, second):
        ensure_key(control, clock, key, name="bootstrap", role=Role.ADMIN)
    made = authenticator(control, clock)

    assert made.identify(first, peer_is_loopback=True) is None
    assert made.identify(second, peer_is_loopback=False) is not None
    assert len(list_keys(control)) == 1


def test_a_key_from_the_configuration_that_can_be_guessed_is_refused(
    control: Engine, clock: ManualClock
) -> None:
    with pytest.raises(BadInput, match="guessed"):
        ensure_key(control, clock, "secret", name="bootstrap", role=Role.ADMIN)
