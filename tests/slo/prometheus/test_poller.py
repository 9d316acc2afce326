"""The poller on a clock that stands still, a store, and a server that may misbehave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from email.utils import format_datetime
from pathlib import Path
from urllib.parse import parse_qs

import httpx
import pytest

import slo.prometheus.client as client_module
from base.clock import ManualClock
from base.errors import ConfigError
from slo.counts import SloCounts
from slo.evaluator import Evaluator
from slo.model import Slo
from slo.prometheus.client import PrometheusClient
from slo.prometheus.poller import Poller
from slo.prometheus.reading import Reader
from slo.prometheus.rows import CountWriter
from slo.prometheus.source import check, servers_of
from slo.series import read_series
from slo.settings import PrometheusSettings, SloSettings
from slo.verdict import State, Verdict
from store.engine import Engine
from tests.slo.prometheus.made import (
    DAY,
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
from tests.slo.prometheus.tsdb import Tsdb, Web, failure, success

API = {"job": "api", "instance": "a:1"}
MAIN = PrometheusSettings(url="http://prometheus.example:9090")
SETTINGS = SloSettings(prometheus={"main": MAIN})
SLO = make_slo(counters(), group_by=("handler",))


class World:
    """A server, a poller of it, a store, and time that moves both."""

    def __init__(self, engine: Engine, *slos: Slo, server: PrometheusSettings = MAIN) -> None:
        self.engine = engine
        self.slos = slos or (SLO,)
        self.clock = ManualClock(NOON)
        self.tsdb = Tsdb()
        self.web = Web(self.tsdb)
        self.server = server
        self.poller = self.start()
        self.evaluator = Evaluator(engine, self.slos, SETTINGS, problems=self.problems)

    def problems(self) -> Mapping[str, str]:
        return self.poller.problems()

    def start(self) -> Poller:
        client = PrometheusClient("main", self.server, self.web.client(), self.clock)
        readers = [(slo, Reader(slo, client)) for slo in self.slos]
        writer = CountWriter(self.engine, SETTINGS, self.clock)
        return Poller("main", readers, writer, self.server, self.clock)

    def run(self, span: timedelta = timedelta(0)) -> None:
        """Let the poller do all it finds to do in the next `span`."""
        until = self.clock.now() + span
        while True:
            wait = self.poller.step()
            if wait > 0 and self.clock.now() + timedelta(seconds=wait) > until:
                break
            self.clock.advance(timedelta(seconds=wait))
        self.clock.advance(until - self.clock.now())

    def verdict(self, name: str = "x") -> Verdict:
        (found,) = [each for each in self.evaluator.evaluate(self.clock.now()) if each.slo == name]
        return found

    def scrape(self, start: int, end: int, *, bad_every: int = 10, step: int = 15 * SECOND) -> None:
        """Ten events a scrape for /a, one of them bad every so many scrapes, from the epoch on."""
        for code, at_once in (("200", 9), ("500", 1)):
            samples = {}
            for at in range(start, end, step):
                number = at // step
                count = number if code == "200" else number // bad_every
                samples[at] = float(count * at_once)
            self.tsdb.put("requests_total", API | {"code": code, "handler": "/a"}, samples)


def _form(request: httpx.Request) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(request.content.decode()).items()}


@pytest.fixture
def world(engine: Engine) -> World:
    return World(engine)


def test_counts_are_judged_like_any_other(world: World) -> None:
    world.scrape(T0 - 2 * HOUR, T0 + 1)

    world.run()

    verdict = world.verdict()
    assert verdict.group == {"handler": "/a"}
    assert (verdict.good, verdict.bad) == (9 * 240, 24)
    assert verdict.bad_reasons == {"bad": 24}
    assert verdict.state is State.OK
    assert (verdict.coverage, verdict.watermark) == (1.0, NOON)
    assert verdict.problem is None
    series = read_series(world.engine, SLO, NOON - timedelta(hours=1), NOON, timedelta(minutes=10))
    assert series[0].good == [360] * 6


def test_counters_of_requests_leave_such_slos_alone(engine: Engine, world: World) -> None:
    world.scrape(T0 - HOUR, T0 + 1)
    world.run()

    counts = SloCounts(engine, [SLO], SETTINGS, world.clock)
    counts.ensure()
    counts.refresh([NOON], 7)

    assert world.verdict().good > 0


def test_what_appears_late_is_counted_and_reading_again_changes_nothing(world: World) -> None:
    world.scrape(T0 - 2 * HOUR, T0 - 3 * MINUTE)
    world.run()
    before = world.verdict().good

    world.scrape(T0 - 3 * MINUTE, T0 + 1)
    world.run(timedelta(seconds=15))
    after = world.verdict()
    world.poller = world.start()
    world.run()

    assert after.good == before + 9 * (13 - 1)  # and the window has moved on by a scrape
    assert (world.verdict().good, world.verdict().bad) == (after.good, after.bad)


def test_a_sample_that_is_taken_back_takes_its_events_along(world: World) -> None:
    world.scrape(T0 - 2 * HOUR, T0 + 1)
    world.run()
    before = world.verdict()
    for samples in world.tsdb.series.values():
        for at in [at for at in samples if at > T0 - 2 * MINUTE]:
            del samples[at]

    world.run(timedelta(seconds=15))

    assert world.verdict().good == before.good - 9 * (8 + 1)


def test_history_is_read_in_pieces_the_newest_first(engine: Engine) -> None:
    slo = make_slo(counters(), window=timedelta(days=4))
    world = World(engine, slo)
    world.scrape(T0 - 5 * DAY, T0 + 1, step=MINUTE)

    world.poller.step()
    first = world.poller.problems()["x"]
    seen = []
    for _ in range(60):
        wait = world.poller.step()
        seen.append(world.verdict().total)
        if wait > 0:
            break

    assert first.startswith("history is being read: from 2026-03-10T")
    assert seen == sorted(seen)
    assert len(set(seen)) > 10
    verdict = world.verdict()
    assert verdict.problem is None
    assert (verdict.good, verdict.bad) == (9 * 4 * 1440, 4 * 144)


def test_reading_of_history_goes_on_where_a_restart_ended_it(engine: Engine) -> None:
    slo = make_slo(counters(), window=timedelta(days=4))
    world = World(engine, slo)
    world.scrape(T0 - 5 * DAY, T0 + 1, step=MINUTE)
    for _ in range(8):
        world.poller.step()
    asked = len(world.web.requests)

    world.poller = world.start()
    world.run()

    assert world.verdict().good == 9 * 4 * 1440
    days = {int(float(_form(each)["time"]) // 86_400) for each in world.web.requests[asked:]}
    assert len(days) < 5  # the newest was not asked for again, but for what may still change


def test_after_a_day_without_us_the_gap_is_read(engine: Engine) -> None:
    slo = make_slo(counters(), window=timedelta(days=4))
    world = World(engine, slo)
    world.scrape(T0 - 5 * DAY, T0 + DAY + 1, step=MINUTE)
    world.run()
    world.clock.advance(timedelta(days=1))
    world.poller = world.start()

    world.run()

    assert (world.verdict().good, world.verdict().bad) == (9 * 4 * 1440, 4 * 144)


def test_a_silent_target_freezes_and_nothing_at_all_is_absent(world: World) -> None:
    world.run()
    assert world.verdict().state is State.ABSENT

    world.scrape(T0, T0 + 10 * MINUTE)
    world.run(timedelta(minutes=10))
    assert world.verdict().state is not State.STALE

    world.run(timedelta(minutes=3))
    assert world.verdict().state is State.STALE
    assert world.verdict().watermark == NOON + timedelta(minutes=9, seconds=45)


def test_a_server_that_fails_is_shown_logged_once_and_never_zero(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.scrape(T0 - 2 * HOUR, T0 + 20 * MINUTE)
    world.run()
    before = world.verdict()

    world.web.faults = [failure(500, "the disk is on fire") for _ in range(40)]
    with caplog.at_level("INFO"):
        world.run(timedelta(minutes=10))
    broken = world.verdict()
    world.web.faults = []
    with caplog.at_level("INFO"):
        world.run(timedelta(minutes=2))

    assert (broken.state, broken.watermark) == (State.STALE, before.watermark)
    assert "answered 500: the disk is on fire" in str(broken.problem)
    logged = [line.message for line in caplog.records if line.name == "slo.prometheus.poller"]
    assert [line.split()[0] for line in logged] == [
        "slo_prometheus_unanswered", "slo_prometheus_answers_again",
    ]  # fmt: skip
    assert world.verdict().problem is None
    assert world.verdict().good == 9 * 240


@pytest.mark.parametrize(
    "after", ["120", format_datetime(NOON + timedelta(seconds=120), usegmt=True)]
)
@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_asks_to_wait_is_left_alone(world: World, status: int, after: str) -> None:
    world.web.faults = [failure(status, "slow down", **{"retry-after": after})]

    world.run(timedelta(seconds=119))
    assert len(world.web.requests) == 1
    world.run(timedelta(seconds=2))
    assert len(world.web.requests) > 1


def test_too_much_at_once_is_asked_for_in_halves(world: World) -> None:
    world.scrape(T0 - 2 * HOUR, T0 + 1)
    answer = world.web.answer

    def limited(request: httpx.Request) -> httpx.Response:
        text = request.content.decode()
        if "count_over_time" not in text and "600000ms" not in text and "query=up" not in text:
            longest = max(int(part.split("%5B")[1]) for part in text.split("ms%5D")[:-1])
            if longest > 400_000:
                return failure(422, "query processing would load too many samples into memory")(
                    request
                )
        return answer(request)

    world.web.answer = limited  # type: ignore[method-assign]
    world.poller = world.start()
    world.run()

    assert (world.verdict().good, world.verdict().bad) == (9 * 240, 24)


def test_a_partial_answer_is_not_counted(world: World) -> None:
    world.scrape(T0 - 2 * HOUR, T0 + 1)
    world.web.faults = [
        lambda _: success("matrix", [], warnings=["one store gateway timed out"]),
    ]

    world.run()
    assert world.verdict().state is State.ABSENT
    assert "in part, which is not counted: one store gateway" in str(world.verdict().problem)

    world.run(timedelta(seconds=30))
    assert world.verdict().problem is None


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (lambda _: httpx.Response(200, text='{"status":"succ'), "not whole, or not JSON"),
        (lambda _: httpx.Response(200, text="[]"), "not whole, or not JSON"),
        (lambda _: success("matrix", [], isPartial=True), "in part"),
        (lambda _: success("vector", []), "did not answer"),
        (lambda _: httpx.Response(302, headers={"location": "/login"}), "redirects"),
        (failure(401, "who are you"), "check bearer_file"),
        (failure(400, "unknown function", "bad_data"), "answered 400: unknown function"),
        (lambda _: httpx.Response(502, text="<html>bad gateway"), "answered 502: <html>bad"),
        (failure(503, "query timed out", "timeout"), "query timed out"),
    ],
)
def test_what_is_no_answer_is_said(world: World, fault: object, says: str) -> None:
    world.web.faults = [fault] * 30  # type: ignore[list-item]

    world.run()

    assert says in world.poller.problems()["x"]
    assert "prometheus 'main' at http://prometheus.example:9090/" in world.poller.problems()["x"]


def test_a_server_that_cannot_be_reached_is_said(world: World) -> None:
    def refuse(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("connection refused")

    def dawdle(_: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("too slow")

    for fault, says in ((refuse, "connection refused"), (dawdle, "within 15 s (ReadTimeout)")):
        world.web.faults = [fault]
        world.run(timedelta(minutes=1))
        world.web.faults = [fault]
        world.poller._due = 0
        world.poller.step()
        assert says in world.poller.problems()["x"]


def test_an_answer_without_end_is_cut_off(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "MOST_BYTES", 3000)
    world.scrape(T0 - HOUR, T0 + 1)

    world.run()

    assert (world.verdict().good, world.verdict().bad) == (9 * 240, 24)


def test_a_drip_of_bytes_does_not_outlast_the_timeout(world: World) -> None:
    def drip(_: httpx.Request) -> httpx.Response:
        def body() -> Iterator[bytes]:
            for _ in range(100):
                world.clock.advance(timedelta(seconds=1))
                yield b" "

        return httpx.Response(200, content=body())

    world.web.faults = [drip] * 30
    world.poller.step()

    assert "took longer than 15 s" in world.poller.problems()["x"]


def test_one_slo_that_is_refused_does_not_stop_the_others(engine: Engine) -> None:
    fine, wrong = make_slo(gauge(), name="fine"), make_slo(histogram(0.5), name="wrong")
    world = World(engine, wrong, fine)
    for le in ("0.3", "1", "+Inf"):
        world.tsdb.put("ttft_seconds_bucket", API | {"le": le}, {T0 - MINUTE: 1, T0: 2})
    world.tsdb.put("up", API, dict.fromkeys(range(T0 - HOUR, T0 + 1, 15 * SECOND), 1))

    world.run()

    assert world.verdict("fine").good == 240
    assert "not a bucket of ttft_seconds: the nearest are 0.3 and 1" in str(
        world.verdict("wrong").problem
    )
    assert world.verdict("wrong").state is State.ABSENT


def test_a_question_that_is_never_answered_does_not_keep_the_others_waiting(engine: Engine) -> None:
    heavy, light = make_slo(counters("heavy_total"), name="heavy"), make_slo(gauge(), name="light")
    world = World(engine, heavy, light)
    world.tsdb.put("up", API, dict.fromkeys(range(T0 - HOUR, T0 + HOUR, 15 * SECOND), 1))
    answer, spans = world.web.answer, []

    def hang(request: httpx.Request) -> httpx.Response:
        query = _form(request)["query"]
        if query.startswith("heavy_total["):
            spans.append(int(query.split("[")[1].removesuffix("ms]")))
            raise httpx.ReadTimeout("nothing came")
        return answer(request)

    world.web.answer = hang  # type: ignore[method-assign]
    world.poller = world.start()
    world.run(timedelta(minutes=10))

    assert world.verdict("light").state is State.OK
    assert world.verdict("light").watermark is not None
    assert NOON + timedelta(minutes=10) - world.verdict("light").watermark < timedelta(minutes=2)
    assert spans[:3] == [HOUR, HOUR // 2, HOUR // 4]


def test_a_part_larger_than_its_total_freezes_and_says_so(engine: Engine) -> None:
    slo = make_slo(counters(part="errors_total"))
    world = World(engine, slo)
    for name, pace in (("requests_total", 1), ("errors_total", 2)):
        samples = {at: float(at // SECOND * pace) for at in range(T0 - HOUR, T0 + HOUR, 15_000)}
        world.tsdb.put(name, API, samples)

    world.run(timedelta(minutes=5))

    verdict = world.verdict()
    assert (verdict.state, verdict.total) == (State.ABSENT, 0)
    assert "a part is larger than its total" in str(verdict.problem)


def test_a_slow_query_is_not_silence(engine: Engine) -> None:
    world = World(engine, make_slo(queries("t$window", "b$window", minutes=10)))
    world.tsdb.answers["t10m"] = lambda at: [({}, 10)]
    world.tsdb.answers["b10m"] = lambda at: [({}, 1)]

    world.run(timedelta(minutes=9))

    verdict = world.verdict()
    assert verdict.state is not State.STALE
    assert (verdict.good, verdict.bad) == (54, 6)


def test_slos_that_are_gone_are_forgotten(engine: Engine, world: World) -> None:
    world.scrape(T0 - HOUR, T0 + 1)
    world.run()
    writer = CountWriter(engine, SETTINGS, world.clock)

    assert writer.forget_others([SLO]) == []
    assert writer.forget_others([]) == ["x"]
    for table in ("slo_counts_10s", "slo_counts_1h", "slo_prometheus_minutes"):
        assert engine.rows(f"SELECT count() AS n FROM {table}") == [{"n": 0}]
    assert writer.read_stretch(SLO) is None


def test_the_past_is_judged_as_it_was(world: World) -> None:
    world.scrape(T0 - 3 * HOUR, T0 + 1)
    world.run()

    (then,) = world.evaluator.evaluate(NOON - timedelta(minutes=10, seconds=5))

    assert then.watermark == NOON - timedelta(minutes=10, seconds=15)
    assert then.total < world.verdict().total


def test_a_clock_that_is_set_back_changes_nothing(world: World) -> None:
    world.scrape(T0 - 3 * HOUR, T0 + 1)
    world.run()
    before = world.verdict()

    world.clock.jump(NOON - timedelta(minutes=30))
    world.run(timedelta(minutes=1))
    world.clock.jump(NOON)
    world.run(timedelta(seconds=15))

    assert world.verdict().good == pytest.approx(before.good, abs=9)


def test_secrets_are_read_from_files_anew(world: World, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one\n")
    world.server = MAIN.model_copy(update={"bearer_file": token, "headers": {"X-Scope-OrgID": "a"}})
    world.poller = world.start()

    world.poller.step()
    token.write_text("two\n")
    world.run(timedelta(seconds=16))

    sent = [request.headers["authorization"] for request in world.web.requests]
    assert (sent[0], sent[-1]) == ("Bearer one", "Bearer two")
    assert world.web.requests[0].headers["x-scope-orgid"] == "a"
    token.unlink()
    world.run(timedelta(seconds=16))
    assert "slo.prometheus.main.bearer_file: cannot read" in world.poller.problems()["x"]


def test_a_server_that_is_not_configured_is_an_error_with_its_place() -> None:
    other = make_slo(gauge(), server="other")
    both = SloSettings(prometheus={"main": MAIN, "second": MAIN})

    with pytest.raises(ConfigError, match="no Prometheus server is named 'other'; there are: main"):
        servers_of([other], SETTINGS)
    with pytest.raises(ConfigError, match="does not say which Prometheus server"):
        servers_of([SLO], both)
    with pytest.raises(ConfigError, match="none: write one under slo.prometheus"):
        servers_of([SLO], SloSettings())
    missing = MAIN.model_copy(update={"username": "a", "password_file": Path("/nowhere")})
    with pytest.raises(ConfigError, match="slo.prometheus.main.password_file: cannot read"):
        check([SLO], SloSettings(prometheus={"main": missing}))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"url": "prometheus:9090"}, "must start with http"),
        ({"url": "http://p", "username": "a"}, "go together"),
        (
            {"url": "http://p", "username": "a", "password_file": "b", "bearer_file": "c"},
            "not both",
        ),
        ({"url": "http://p", "headers": {"Authorization": "Basic x"}}, "is a secret"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        PrometheusSettings.model_validate(given)
