from __future__ import annotations

from pathlib import Path

import pytest

from base.errors import ConfigError
from tokenweir.keys import open_control
from tokenweir.settings import load_settings


def test_a_control_database_that_is_none_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "control.db").write_bytes(b"this was a database once" * 100)
    settings = load_settings(None, {"data": str(tmp_path)})

    with pytest.raises(ConfigError, match="restore it from a backup, or move it away"):
        open_control(settings)


def test_the_bootstrap_key_is_there_from_the_first_start(tmp_path: Path) -> None:
    settings = load_settings(None, {"data": str(tmp_path), "bootstrap_key": "twk_" + "a" * 40})

    open_control(settings).dispose()
    engine = open_control(settings)  # and only once

    from collector.keys import Role, list_keys

    assert [(key.name, key.role) for key in list_keys(engine)] == [("bootstrap", Role.ADMIN)]
