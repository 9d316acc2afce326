"""Each tool's own code on the same trace says the same to the last request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.errors import BadInput
from slo.backtest.facts_file import Reading, read_facts
from slo.backtest.scratch import TABLE, Scratch, columns_read
from slo.backtest.values import ARRIVALS
from slo.goodput.deadlines import deadlines_of
from slo.goodput.difference import differences, own_of
from slo.goodput.figure import Mode, figure
from slo.goodput.limits import Limits, slo_of
from slo.goodput.requests import MEASURED, Requests, read_requests, together
from store.engine import Engine

HERE = Path(__file__).parent
GOLDEN: dict[str, Any] = json.loads((HERE / "golden.json").read_text())
LIMITS = [Limits(**each) for each in GOLDEN["limits"]]


@pytest.fixture(scope="module")
def traces(opened: Engine) -> dict[Limits, Requests]:
    found = {}
    for limits in LIMITS:
        slo = slo_of(limits)
        columns = columns_read([slo], (*MEASURED, ARRIVALS))
        with Scratch(opened, columns) as scratch:
            reading = Reading()
            for batch in read_facts([HERE / "trace.csv"], columns, reading):
                scratch.fill(batch)
                found[limits] = read_requests(opened, slo, TABLE, has_token_times=True)
            assert (reading.rows, reading.bad) == (245, 0)
    return found


def without_times(requests: Requests) -> Requests:
    values = {name: getattr(requests, name) for name in Requests.__slots__}
    values |= {"token_offsets": np.zeros(requests.count + 1, np.int64)}
    return Requests(**values | {"token_times_ms": np.zeros(0)})


@pytest.mark.parametrize("number", range(len(LIMITS)), ids=map(str, LIMITS))
def test_vllm_counts_the_same(traces: dict[Limits, Requests], number: int) -> None:
    golden = GOLDEN["vllm"][number]

    found = figure(Mode.VLLM, traces[LIMITS[number]], LIMITS[number])

    assert (found.good, found.counted, found.figures["failed"]) == (
        golden["good"], golden["completed"], golden["failed"],
    )  # fmt: skip
    assert found.figures["request_goodput"] == pytest.approx(golden["request_goodput"], rel=1e-6)
    assert found.per_s == found.figures["request_goodput"]


@pytest.mark.parametrize("number", range(len(LIMITS)), ids=map(str, LIMITS))
def test_aiperf_counts_the_same(traces: dict[Limits, Requests], number: int) -> None:
    golden = GOLDEN["aiperf"][number]

    found = figure(Mode.AIPERF, traces[LIMITS[number]], LIMITS[number])

    assert (found.good, found.counted) == (golden["good"], golden["requests"])
    assert found.figures["error_request_count"] == golden["errors"]
    assert found.figures["good_request_fraction"] == pytest.approx(golden["fraction"])
    assert found.figures["goodput"] == pytest.approx(golden["goodput"], rel=1e-9)


@pytest.mark.parametrize("number", range(4), ids=lambda n: str(LIMITS[n]))
def test_distserve_attains_the_same(traces: dict[Limits, Requests], number: int) -> None:
    golden = GOLDEN["distserve"][number]

    found = figure(Mode.DISTSERVE, traces[LIMITS[number]], LIMITS[number])

    assert found.counted == golden["requests"]
    assert found.share == pytest.approx(golden["attainment"] / 100)


@pytest.mark.parametrize("way", ["exact", "approximate"])
@pytest.mark.parametrize("number", [0, 3], ids=lambda n: str(LIMITS[n]))
def test_etalon_misses_the_same_deadlines(
    traces: dict[Limits, Requests], number: int, way: str
) -> None:
    golden, limits = GOLDEN["etalon"][number][way], LIMITS[number]
    requests = traces[limits] if way == "exact" else without_times(traces[limits])

    found = figure(Mode.ETALON, requests, limits)

    assert found.figures["missed_deadlines"] == golden["missed"]
    assert found.figures["total_deadlines"] == golden["total"]
    assert found.figures["deadline_miss_rate"] == golden["miss_rate"]
    assert found.figures["p99_request_miss_rate"] == golden["p99"]
    assert (found.good, found.counted) == (golden["within"], golden["requests"])
    made_up = deadlines_of(requests, 250, 80).approximated
    assert made_up == (4 if way == "exact" else 219)
    assert any(f"{made_up} of 245 requests have no token_times_ms" in note for note in found.notes)


def test_etalon_needs_both_limits(traces: dict[Limits, Requests]) -> None:
    with pytest.raises(BadInput, match="limit both ttft and tpot"):
        figure(Mode.ETALON, traces[LIMITS[1]], LIMITS[1])


@pytest.mark.parametrize("mode", Mode)
def test_every_request_on_which_both_part_is_explained_once(
    traces: dict[Limits, Requests], mode: Mode
) -> None:
    limits = LIMITS[0]
    requests = traces[limits]
    found, own = figure(mode, requests, limits), own_of(requests)

    parted = differences(requests, found)

    gained = sum(each.requests for each in parted if each.tool == "good")
    lost = sum(each.requests for each in parted if each.own == "good")
    assert found.good - own.good == gained - lost
    assert own.good + own.bad + own.excluded == requests.count == 245
    assert sum(own.reasons.values()) == own.bad


def test_the_words_say_what_the_tools_are_known_for(traces: dict[Limits, Requests]) -> None:
    limits = Limits(tpot=60)
    requests = traces[limits]

    vllm, aiperf = (
        {each.why for each in differences(requests, figure(mode, requests, limits))}
        for mode in (Mode.VLLM, Mode.AIPERF)
    )

    assert "the request failed: error" in vllm
    assert "the answer has one token, so no TPOT" in aiperf
    assert "the answer has one token, so no TPOT" not in vllm


def one_by_one(gaps: list[float], ttft: float, tbt: float) -> tuple[int, int]:
    """etalon's rule for one request, in its own order of operations."""
    missed, total, slack = 0, 0, 0.0
    for token, gap in enumerate(gaps):
        limit = ttft if token == 0 else tbt
        if gap <= limit + slack:
            slack += limit - gap
            total += 1
            continue
        late = int(1 + (gap - slack - ttft) // tbt) if token == 0 else int((gap - slack) // tbt)
        missed, total, slack = missed + late, total + late, 0.0
    return missed, total


TIMES = st.lists(st.integers(0, 4000), max_size=12).map(sorted)


@given(st.lists(TIMES, max_size=6), st.sampled_from([1, 30, 250]), st.sampled_from([1, 20, 300]))
def test_side_by_side_is_the_same_as_one_by_one(
    times: list[list[int]], ttft: int, tbt: int
) -> None:
    requests = made(times)

    found = deadlines_of(requests, float(ttft), float(tbt))

    wanted = []
    for each in times:
        seconds = [at / 1000 for at in each]
        gaps = [b - a for a, b in zip([0.0, *seconds], seconds, strict=False)]
        wanted.append(one_by_one(gaps, ttft / 1000, tbt / 1000))
    assert list(zip(found.missed.tolist(), found.deadlines.tolist(), strict=True)) == wanted


def made(times: list[list[int]]) -> Requests:
    unknown = np.full(len(times), np.nan)
    text = np.full(len(times), "good", dtype=object)
    return Requests(
        np.arange(len(times)), np.ones(len(times), bool), unknown, unknown, unknown, unknown,
        text, text, np.concatenate(([0], np.cumsum([len(each) for each in times], dtype=np.int64))),
        np.array([float(at) for each in times for at in each]),
    )  # fmt: skip


def test_parts_joined_are_the_whole() -> None:
    first, second = made([[1, 2], []]), made([[5], [6, 7]])

    joined = together([first, second])

    assert joined.token_offsets.tolist() == made([[1, 2], [], [5], [6, 7]]).token_offsets.tolist()
    assert joined.token_times_ms.tolist() == [1, 2, 5, 6, 7]
