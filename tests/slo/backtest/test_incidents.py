"""Stretches, misses and onsets, on histories made by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from base.errors import BadInput
from slo.backtest.cells import BAD, GOOD, Cells, Evaluations, Gathered, Grid, count_cells
from slo.backtest.history import grid_for
from slo.backtest.incidents import is_missed, is_small, onset, stretches
from slo.backtest.truth import Incident, read_incidents
from slo.backtest.variants import TierSet, variants
from slo.model import Slo
from slo.parse import parse_clauses
from slo.slices import make_slices
from slo.tiers import Tier, derive

MINUTE = timedelta(minutes=1)
BEGIN = 1_000_000
TIER = Tier("fast", "page", 5, 2 * MINUTE, 20 * timedelta(seconds=1), 5)
SLO = Slo("s", 0.9, timedelta(hours=1), parse_clauses("outcome = 'good'"), (TIER,))
GRID = grid_for([SLO], timedelta(seconds=10))
SPAN = Evaluations(BEGIN // 10, BEGIN // 10 + 200)


def cells(failing: range, seconds: int = 1200, every: int = 1) -> Cells:
    starts = range(0, seconds, every)
    kinds = [BAD if second in failing else GOOD for second in starts]
    at = np.array([(BEGIN + second) * 1_000_000_000 for second in starts], np.int64)
    return count_cells(at, np.array(kinds, np.uint8), GRID)


def at(second: int) -> datetime:
    return datetime.fromtimestamp(BEGIN + second, UTC)


def test_a_stretch_lasts_while_the_long_window_burns() -> None:
    (found,) = stretches(SLO, cells(range(300, 420)), GRID, SPAN)

    # Half of two minutes fails from a minute after the start to a minute after the end.
    assert GRID.at(found.first) == at(360)
    assert GRID.at(found.end) == at(480)
    assert (found.tier, found.bad) == (TIER, 119)


def test_a_stretch_is_missed_unless_a_page_was_open_in_it() -> None:
    (found,) = stretches(SLO, cells(range(300, 420)), GRID, SPAN)

    assert is_missed(found, [], GRID)
    assert is_missed(found, [(found.end, found.end + 9)], GRID)
    assert not is_missed(found, [(found.first + 2, found.end + 9)], GRID)


def test_a_few_bad_requests_are_no_miss() -> None:
    (found,) = stretches(SLO, cells(range(300, 420), every=60), GRID, SPAN)

    assert is_small(found, GRID)
    assert not is_missed(found, [], GRID)


def test_the_onset_is_where_the_failures_began() -> None:
    made = cells(range(301, 420))
    (found,) = stretches(SLO, made, GRID, SPAN)

    began = onset(made, TIER, SLO.objective, GRID, found.first)

    assert began == at(300)  # the ten seconds that hold the first failure


def test_the_onset_of_slices_is_where_the_first_bad_one_begins() -> None:
    tier = Tier("fast", "page", 3, 6 * MINUTE, MINUTE, 2)
    slo = replace(SLO, slices=make_slices(MINUTE, 50), tiers=(tier,))
    begins = -(-BEGIN // 60) * 60
    seconds = range(begins, begins + 1200)
    failing = range(begins + 330, begins + 480)  # more than half of the slice from 360 on
    kinds = np.array([BAD if second in failing else GOOD for second in seconds], np.uint8)
    found = Gathered()
    found.expect([slo])
    found.add((slo.name, ()), np.array(seconds) * 1_000_000_000, kinds)
    grid = grid_for([slo], timedelta(seconds=10))
    made = found.cells(grid)[slo.name, ()]

    (first,) = stretches(slo, made, grid, Evaluations(BEGIN // 10, BEGIN // 10 + 300))
    began = onset(made, tier, slo.objective, grid, first.first, slo.slices)

    assert began == datetime.fromtimestamp(begins + 360, UTC)
    assert grid.at(first.first) == datetime.fromtimestamp(begins + 480, UTC)
    assert (first.bad, made.sizes.tolist() if made.sizes is not None else []) == (2, [60] * 20)


def test_every_target_is_held_against_every_set_of_tiers() -> None:
    derived = Slo("d", 0.9, SLO.window, SLO.good, derive(0.9, SLO.window))

    found = variants(derived, [0.99, 0.9], [TierSet("classic"), TierSet("mine", (TIER,))])

    assert [(each.slo.objective, each.tiers) for each in found] == [
        (0.9, "document"), (0.9, "classic"), (0.9, "mine"),
        (0.99, "document"), (0.99, "classic"), (0.99, "mine"),
    ]  # fmt: skip
    assert found[1].unfireable == ("fast",)
    assert found[3].slo.tiers == derive(0.99, SLO.window)


def test_incidents_are_read_with_whom_they_concern(tmp_path: Path) -> None:
    path = tmp_path / "incidents.csv"
    path.write_text("start,end,tenant\n1000000,1000060,acme\n1970-01-12T14:00:00Z,1000900,\n")

    first, second = read_incidents(path)

    assert first == Incident(at(0), at(60), "", {"tenant": "acme"})
    assert first.concerns("s", {"tenant": "acme"})
    assert not first.concerns("s", {"tenant": "beta"})
    assert first.concerns("s", {})
    assert second.concerns("s", {"tenant": "beta"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("start,end\n2,1\n", "line 2: an incident ends after it starts"),
        ("start,end\nsoon,1\n", "line 2"),
        ("begin,end\n1,2\n", "columns start, end"),
    ],
)
def test_incidents_that_cannot_be_read_are_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "incidents.csv"
    path.write_text(text)

    with pytest.raises(BadInput, match=said):
        read_incidents(path)


def test_a_grid_gives_back_its_instants() -> None:
    grid: Grid = GRID

    assert grid.first_from(at(1)) == grid.last_until(at(1)) + 1
    assert grid.first_from(at(0)) == grid.last_until(at(0))
