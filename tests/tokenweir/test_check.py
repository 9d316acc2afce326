from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console
from sqlalchemy import update

from actuators.ledger import append
from actuators.tables import audit
from base.db import transaction
from tokenweir.check import check_all
from tokenweir.keys import open_control
from tokenweir.settings import Settings, load_settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load_settings(None, {"data": str(tmp_path / "data")})


def checked(settings: Settings) -> tuple[int, str]:
    console = Console(width=100)
    with console.capture() as capture:
        status = check_all(settings, console)
    return status, capture.get()


def test_checking_an_empty_folder_is_fine_and_makes_nothing(settings: Settings) -> None:
    status, said = checked(settings)

    assert status == 0
    assert "audit trail: none yet" in said
    assert not settings.data.exists()


def test_an_altered_audit_trail_is_wrong(settings: Settings) -> None:
    engine = open_control(settings)
    with transaction(engine) as connection:
        for step in ("proposed", "applied"):
            append(
                connection,
                at=datetime(2026, 11, 30, tzinfo=UTC),
                lever="fleet/engines||scale",
                step=step,
                actor="tokenweir",
                detail={"to": 3},
            )
    assert checked(settings)[0] == 0

    with transaction(engine) as connection:
        connection.execute(update(audit).where(audit.c.seq == 1).values(actor="nobody"))

    status, said = checked(settings)
    assert status == 2
    assert "step 1 was altered" in said


def test_an_slo_of_a_server_that_is_not_configured_is_wrong(tmp_path: Path) -> None:
    document = tmp_path / "slo.yaml"
    document.write_text("kind: slo\nname: up\nobjective: 99\nprometheus: {gauge: up}\n")
    given = {"data": str(tmp_path / "data"), "slo_paths": [str(document)]}

    status, said = checked(load_settings(None, given))

    assert status == 2
    assert "slo 'up' does not say which Prometheus server" in " ".join(said.split())
    servers = {"prometheus": {"main": {"url": "http://prometheus:9090"}}}
    assert checked(load_settings(None, given | {"slo": servers}))[0] == 0
