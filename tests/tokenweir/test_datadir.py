from __future__ import annotations

from pathlib import Path

import pytest

from base.errors import ConfigError
from tokenweir.datadir import owned, read_endpoints, remove_endpoints, write_endpoints


def test_a_second_owner_is_told_who_holds_the_folder(tmp_path: Path) -> None:
    with owned(tmp_path, "server"), pytest.raises(ConfigError, match=r"in use by process \d+"):
        with owned(tmp_path, "server", wait_s=0):
            pass


def test_the_folder_is_free_again_after_its_owner(tmp_path: Path) -> None:
    with owned(tmp_path, "server"):
        pass
    with owned(tmp_path, "server", wait_s=0):
        pass


def test_endpoints_are_there_only_while_they_are_published(tmp_path: Path) -> None:
    assert read_endpoints(tmp_path) is None

    write_endpoints(tmp_path, {"http": "http://127.0.0.1:1"})
    assert read_endpoints(tmp_path) == {"http": "http://127.0.0.1:1"}

    remove_endpoints(tmp_path)
    assert read_endpoints(tmp_path) is None
