"""A real Prometheus: the fake of these tests answers like it, and we count from it."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from base.clock import ManualClock, SystemClock
from slo.evaluator import Evaluator
from slo.model import Slo
from slo.prometheus.client import PrometheusClient, TooMuch
from slo.prometheus.poller import Poller
from slo.prometheus.reading import Reader
from slo.prometheus.rows import CountWriter
from slo.prometheus.selector import parse_selector
from slo.prometheus.sli import Histogram
from slo.settings import PrometheusSettings, SloSettings
from slo.verdict import State, Verdict
from store.engine import Engine
from tests.slo.prometheus.binary import (
    Target,
    make_blocks,
    native_histogram,
    prometheus,
    wait_for,
)
from tests.slo.prometheus.made import (
    HOUR,
    MINUTE,
    NOON,
    SECOND,
    T0,
    counters,
    gauge,
    histogram,
    make_slo,
    queries,
)
from tests.slo.prometheus.test_recount import history, recount
from tests.slo.prometheus.tsdb import Tsdb

pytestmark = [
    pytest.mark.binary,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="needs Debian's prometheus"),
]

API = {"job": "api", "instance": "a:1"}


@pytest.fixture(scope="module")
def tsdb() -> Tsdb:
    return make_tsdb()


def make_tsdb() -> Tsdb:
    made = Tsdb()
    for (instance, handler, code), series in history(11).items():
        labels = {"job": "api", "instance": instance, "handler": handler, "code": code}
        made.put("requests_total", labels, series)
    steady = range(T0 - 4 * HOUR, T0, 15 * SECOND)
    made.put("up", API, {at: float(at % MINUTE != 0) for at in steady})
    for le, pace in (("0.3", 1), ("1.0", 2), ("+Inf", 3)):
        labels = API | {"le": le}
        made.put("ttft_seconds_bucket", labels, {at: float(at // SECOND * pace) for at in steady})
    made.put("odd", {"text": 'q"b\\c é'}, {T0 - MINUTE: 1.0, T0 - 1: 0.1 + 0.2})
    return made


@pytest.fixture(scope="module")
def url(tsdb: Tsdb, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("prometheus")
    make_blocks(folder, {
        (dict(key)["__name__"], tuple(
            (name, value.replace("\\", "\\\\").replace('"', '\\"'))
            for name, value in key if name != "__name__"
        )): series
        for key, series in tsdb.series.items()
    })  # fmt: skip
    with prometheus(folder, "", "--query.max-samples=1500") as at:
        yield at


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    with httpx.Client() as made:
        yield made


def client(url: str, http: httpx.Client, **given: object) -> PrometheusClient:
    settings = PrometheusSettings.model_validate({"url": url, **given})
    return PrometheusClient("main", settings, http, SystemClock())


def plain(result: Iterable[dict[str, object]]) -> dict[str, object]:
    """Series by labels; values as numbers, since 3 may be written 3 or 3.0."""
    found = {}
    for each in result:
        values = each.get("values") or [each["value"]]
        assert isinstance(values, list)
        key = str(sorted(each["metric"].items()))  # type: ignore[attr-defined]
        found[key] = [(round(float(at) * 1000), float(text)) for at, text in values]
    return found


@pytest.mark.parametrize(
    "selector",
    ["up", "requests_total", 'requests_total{code=~"5..",handler!="/b"}', "nothing",
     'odd{text="q\\"b\\\\c é"}', 'ttft_seconds_bucket{le=~"0\\\\.3|\\\\+Inf"}'],
)  # fmt: skip
@pytest.mark.parametrize("span", [1, 15 * SECOND, 10 * MINUTE])
def test_the_fake_holds_the_samples_that_the_server_holds(
    tsdb: Tsdb, url: str, http: httpx.Client, selector: str, span: int
) -> None:
    for start in (T0 - span, T0 - 2 * HOUR):
        real = client(url, http).samples(selector, start, start + span)

        assert plain(real) == plain(tsdb.samples(selector, start, start + span))


def test_the_fake_evaluates_what_we_ask_as_the_server_does(
    tsdb: Tsdb, url: str, http: httpx.Client
) -> None:
    real = client(url, http)
    for query in ("count_over_time(odd[1d])", "group by (le) (ttft_seconds_bucket)"):
        assert plain(real.instant(query, T0 - 1)) == plain(tsdb.instant(query, T0 - 1))


def test_what_is_too_much_for_the_server_comes_in_pieces(
    tsdb: Tsdb, url: str, http: httpx.Client
) -> None:
    asks = client(url, http)
    with pytest.raises(TooMuch, match="422: query processing would load too many samples"):
        asks._result("query", {"query": "{job='api'}[1d]", "time": str(T0 // 1000)}, "matrix")

    found: dict[str, list[object]] = {}
    assert not asks._longest
    for each in asks.samples("requests_total", T0 - 4 * HOUR, T0):
        found.setdefault(str(sorted(each["metric"].items())), []).extend(each["values"])

    assert asks._longest["requests_total"] < 4 * HOUR
    wanted = plain(tsdb.samples("requests_total", T0 - 4 * HOUR, T0))
    assert {
        key: sorted({(round(float(at) * 1000), float(text)) for at, text in values})  # type: ignore[misc]
        for key, values in found.items()
    } == wanted


class Judged:
    """SLOs judged at noon from the blocks."""

    def __init__(self, engine: Engine, url: str, http: httpx.Client, *slos: Slo) -> None:
        self.clock = ManualClock(NOON)
        settings = SloSettings(prometheus={"main": PrometheusSettings(url=url)})
        self.asks = client(url, http)
        self.poller = Poller(
            "main",
            [(slo, Reader(slo, self.asks)) for slo in slos],
            CountWriter(engine, settings, self.clock),
            settings.prometheus["main"],
            self.clock,
        )
        while self.poller.step() == 0:
            pass
        found = Evaluator(engine, slos, settings, problems=self.poller.problems).evaluate(NOON)
        self.verdicts: dict[tuple[str, ...], Verdict] = {
            (each.slo, *each.group.values()): each for each in found
        }


def test_counters_histograms_gauges_and_queries_are_judged(
    engine: Engine, url: str, http: httpx.Client
) -> None:
    hours = timedelta(hours=3)
    total = "sum(increase(ttft_seconds_bucket{le='+Inf'}[$window]))"
    bad = "count_over_time(up[$window]) > 0"
    judged = Judged(
        engine, url, http,
        make_slo(counters(), name="counters", group_by=("handler",), window=hours),
        make_slo(histogram(0.3), name="histogram"),
        make_slo(histogram(0.5), name="no-such-bucket"),
        make_slo(gauge(), name="gauge"),
        make_slo(queries(total, bad), name="queries"),
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
    # The server extrapolates what happened between its samples to the edges of each minute.
    assert verdicts["queries",].total == pytest.approx(60 * 180, rel=0.02)
    # Ranges of an older server hold both their ends, so one sample in five is counted twice.
    assert 59 * 4 <= verdicts["queries",].bad <= 60 * 5


@pytest.mark.slow
def test_a_born_counter_is_counted_where_increase_sees_nothing(
    engine: Engine, http: httpx.Client, tmp_path: Path
) -> None:
    target = Target()
    target.text = 'http_requests_total{code="200"} 1000\n'
    target.histogram = None
    config = f"""
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: api
    static_configs: [{{targets: ['{target.address}']}}]
"""
    try:
        with prometheus(tmp_path, config) as at:
            target.wait_for_scrapes(2)
            target.text = (
                'http_requests_total{code="200"} 1007\nhttp_requests_total{code="500"} 50\n'
            )
            target.wait_for_scrapes(3)
            query = {"query": 'sum(increase(http_requests_total{code="500"}[1m]))'}
            wait_for(
                lambda: bool(http.get(f"{at}/api/v1/query", params=query).json()["data"]["result"]),
                20,
            )
            seen = http.get(f"{at}/api/v1/query", params=query).json()["data"]["result"]
            slo = make_slo(counters("http_requests_total", 'http_requests_total{code="500"}'))
            reader = Reader(slo, client(at, http))
            now = round(datetime.now(UTC).timestamp() * 1000)
            start = now // (10 * MINUTE) * 10 * MINUTE - 10 * MINUTE
            reading = reader.read(reader.remember(start), start, now, start)
    finally:
        target.close()

    assert float(seen[0]["value"][1]) == 0
    assert sum(each.bad for each in reading.judged.values()) == 50
    assert sum(each.good for each in reading.judged.values()) == 7


@pytest.mark.slow
def test_native_histograms_are_counted_by_their_buckets(http: httpx.Client, tmp_path: Path) -> None:
    target = Target()
    target.histogram = native_histogram("ttft_seconds", [5, 3, 2])
    config = f"""
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: api
    static_configs: [{{targets: ['{target.address}']}}]
"""
    try:
        with prometheus(tmp_path, config, "--enable-feature=native-histograms") as at:
            target.wait_for_scrapes(2)
            target.histogram = native_histogram("ttft_seconds", [9, 6, 4])
            target.wait_for_scrapes(3)
            events = Histogram(parse_selector("ttft_seconds"), 2.0, native=True)
            reader = Reader(make_slo(events), client(at, http))
            now = round(datetime.now(UTC).timestamp() * 1000)
            start = now // (10 * MINUTE) * 10 * MINUTE - 10 * MINUTE
            reading = reader.read(reader.remember(start), start, now, start)
            older = client(at, http).instant("count_over_time(ttft_seconds[1d])", now)
    finally:
        target.close()

    assert sum(each.good for each in reading.judged.values()) == 4 + 3
    assert sum(each.bad for each in reading.judged.values()) == 2
    assert len(older) == 1
    assert math.isfinite(float(older[0]["value"][1]))
