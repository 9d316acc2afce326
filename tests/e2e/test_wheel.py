"""What is in the wheel: the packages that are listed, and the files they read at run time."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.e2e.instance import ROOT

pytestmark = pytest.mark.slow

NOT_CODE = {".yaml", ".yml", ".json", ".jsonl", ".gz", ".csv", ".css", ".js", ".svg", ".woff2",
            ".proto", ".txt", ".md", ".mako", ".ini", ".png", ".ico", ".parquet"}  # fmt: skip


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=150,
    )
    [built] = folder.glob("*.whl")
    return zipfile.ZipFile(built).namelist()


def test_the_top_level_names_are_the_listed_packages(wheel: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    version = project["project"]["version"]

    assert {name.split("/")[0] for name in wheel} == {*listed, f"tokenweir-{version}.dist-info"}
    assert f"tokenweir-{version}.dist-info/licenses/LICENSE" in wheel
    assert f"tokenweir-{version}.dist-info/entry_points.txt" in wheel


def test_files_that_are_read_at_run_time_are_inside(wheel: list[str]) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("what belongs in the wheel is what git tracks, and this is no checkout")
    packages = {name.split("/")[0] for name in wheel}
    tracked = subprocess.run(
        ["git", "ls-files", *packages], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    wanted = [name for name in tracked if Path(name).suffix in NOT_CODE | {".py"}]

    assert sorted({*wanted} - {*wheel}) == []
    for known in (
        "collector/vocabulary.yaml",
        "tokenweir/demo/slo.yaml",
        "tokenweir/demo/prices.yaml",
        "base/migrations/versions/0001_control_state.py",
    ):
        assert known in wheel
    for folder in ("stack/data/", "dashboards/assets/"):
        assert any(name.startswith(folder) for name in wheel), folder


def test_nothing_else_is_inside(wheel: list[str]) -> None:
    stray = [name for name in wheel if "__pycache__" in name or name.endswith((".pyc", ".db"))]

    assert stray == []
