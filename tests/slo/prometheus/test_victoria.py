"""A real VictoriaMetrics answers what we ask as Prometheus does, and is counted from alike."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from slo.prometheus.client import TooMuch
from slo.verdict import State
from store.engine import Engine
from tests.slo.prometheus.binary import free_port, wait_for
from tests.slo.prometheus.made import (
    HOUR,
    MINUTE,
    SECOND,
    T0,
    counters,
    gauge,
    histogram,
    make_slo,
    queries,
)
from tests.slo.prometheus.test_binary import Judged, client, make_tsdb, plain
from tests.slo.prometheus.test_recount import history, recount
from tests.slo.prometheus.tsdb import Tsdb

PROGRAM = shutil.which("victoria-metrics")
pytestmark = [
    pytest.mark.binary,
    pytest.mark.skipif(PROGRAM is None, reason="needs Debian's victoria-metrics"),
]


@pytest.fixture(scope="module")
def tsdb() -> Tsdb:
    return make_tsdb()


@pytest.fixture(scope="module")
def url(tsdb: Tsdb, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("victoria")
    at = f"127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        [
            str(PROGRAM), f"-storageDataPath={folder}/data", f"-httpListenAddr={at}",
            "-retentionPeriod=100y", "-search.maxSamplesPerQuery=4000",
        ],
        stdout=subprocess.DEVNULL, stderr=(folder / "log").open("w"),
    )  # fmt: skip
    try:
        wait_for(lambda: _is_healthy(at) or process.poll() is not None, 60)
        assert process.poll() is None, (folder / "log").read_text()
        lines = [
            json.dumps({"metric": dict(key), "values": list(each.values()),
                        "timestamps": list(each)})
            for key, each in tsdb.series.items()
        ]  # fmt: skip
        httpx.post(f"http://{at}/api/v1/import", content="\n".join(lines)).raise_for_status()
        httpx.get(f"http://{at}/internal/force_flush").raise_for_status()
        yield f"http://{at}"
    finally:
        process.terminate()
        process.wait(timeout=20)


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    with httpx.Client() as made:
        yield made


@pytest.mark.parametrize(
    "selector",
    ["up", "requests_total", 'requests_total{code=~"5..",handler!="/b"}', "nothing",
     'odd{text="q\\"b\\\\c é"}', 'ttft_seconds_bucket{le=~"0\\\\.3|\\\\+Inf"}'],
)  # fmt: skip
@pytest.mark.parametrize("span", [1, 15 * SECOND, 10 * MINUTE])
def test_its_samples_are_those_that_were_written(
    tsdb: Tsdb, url: str, http: httpx.Client, selector: str, span: int
) -> None:
    for start in (T0 - span, T0 - 2 * HOUR):
        real = plain(client(url, http).samples(selector, start, start + span))
        wanted = plain(tsdb.samples(selector, start, start + span))

        assert real.keys() == wanted.keys()
        for key, samples in wanted.items():
            # It keeps fifteen digits of a fraction; whole numbers are exact.
            assert real[key] == [(at, pytest.approx(value, rel=1e-15)) for at, value in samples]  # type: ignore[attr-defined]


def test_what_is_too_much_for_it_is_known_as_such(url: str, http: httpx.Client) -> None:
    everything = {"query": '{__name__=~".+"}[1d]', "time": str(T0 // 1000)}

    with pytest.raises(TooMuch, match="422: "):
        client(url, http)._result("query", everything, "matrix")


def test_counters_histograms_gauges_and_queries_are_judged_alike(
    engine: Engine, url: str, http: httpx.Client
) -> None:
    hours = timedelta(hours=3)
    total = "sum(increase(ttft_seconds_bucket{le='+Inf'}[$window]))"
    judged = Judged(
        engine, url, http,
        make_slo(counters(), name="counters", group_by=("handler",), window=hours),
        make_slo(histogram(0.3), name="histogram"),
        make_slo(histogram(0.5), name="no-such-bucket"),
        make_slo(gauge(), name="gauge"),
        make_slo(queries(total, "count_over_time(up[$window]) > 0"), name="queries"),
    )  # fmt: skip

    verdicts = judged.verdicts
    counted = {
        key[1]: (each.good, each.bad) for key, each in verdicts.items() if key[0] == "counters"
    }
    assert counted == recount(history(11), T0 - 3 * HOUR + 10_000, T0)
    assert (verdicts["histogram",].good, verdicts["histogram",].total) == (3585, 3 * 3585)
    assert (verdicts["gauge",].good, verdicts["gauge",].bad) == (180, 59)
    assert "the nearest are 0.3 and 1" in str(verdicts["no-such-bucket",].problem)
    assert verdicts["no-such-bucket",].state is State.ABSENT
    # It takes the sample before the window in, so it has nothing to extrapolate.
    assert verdicts["queries",].total == pytest.approx(60 * 180, rel=0.02)
    assert 59 * 4 <= verdicts["queries",].bad <= 60 * 5


def _is_healthy(at: str) -> bool:
    try:
        return httpx.get(f"http://{at}/health", timeout=1).is_success
    except httpx.HTTPError:
        return False
