"""Order, repetition, lateness, batches and crashes: the same spans always end in the same bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.instance import ROOT
from tests.e2e.taken_in import TIMES
from tests.e2e.traffic import traffic

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

WAYS = {1: (1, 2, 3), 2: (5, 6)}  # seeds of how, by seed of what


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.deep)])
def test_any_order_and_three_times_and_crashes_end_in_equal_bytes(
    tmp_path: Path, seed: int
) -> None:
    ways = WAYS[seed]
    subprocess.run(
        [sys.executable, "-m", "tests.e2e.taken_in", tmp_path, str(seed), *map(str, (0, *ways))],
        cwd=ROOT,
        check=True,
        timeout=580,
    )

    in_order = json.loads((tmp_path / "0.json").read_text())
    sent = traffic(seed)
    keys = {each.key for each in sent}
    crashes = 0
    assert len(in_order["facts"]) > 40
    for way in ways:
        found = json.loads((tmp_path / f"{way}.json").read_text())
        counted = found.pop("ingest")
        crashes += counted["crashes"]
        assert differences(in_order, found) == []
        assert counted["accepted"] == TIMES * len(sent)
        # Copies that disagree about when the span began may count as two.
        stored = counted["accepted"] - counted["duplicate"]
        assert len(keys) <= stored <= len(found["spans"])
    assert crashes >= len(ways), "fate was too kind to prove anything"


def differences(expected: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Name what differs, with a few rows of each side."""
    told = []
    for name, value in found.items():
        if value == expected[name]:
            continue
        if isinstance(value, list):
            missing = sorted({*expected[name]} - {*value})
            extra = sorted({*value} - {*expected[name]})
            told.append(
                f"{name}: {len(missing)} missing {missing[:2]}, {len(extra)} more {extra[:2]}"
            )
        else:
            told.append(f"{name}: {expected[name]} became {value}")
    return told
