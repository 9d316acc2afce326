from pathlib import Path

import pytest

from base.errors import ConfigError
from stack.wire.bearer import bearer


def test_a_key_is_presented_without_the_line_end_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("twk_secret\n")

    assert bearer(tmp_path / "key") == {"authorization": "Bearer twk_secret"}


def test_without_a_key_file_nothing_is_presented() -> None:
    assert bearer(None) == {}


def test_a_key_file_that_is_missing_or_empty_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")

    with pytest.raises(ConfigError, match="absent: No such file"):
        bearer(tmp_path / "absent")
    with pytest.raises(ConfigError, match="empty is empty"):
        bearer(tmp_path / "empty")
