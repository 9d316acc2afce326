"""The ingest page says what arrives and what is lost, and unknown is never a zero."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import intake_seeding as intake
import pytest

from base.clock import ManualClock
from base.durations import format_instant
from collector.pipeline import Lag
from collector.refusal import Reason
from dashboards.ingest_figure import flow_chart
from dashboards.ingest_reads import IntakeFacts, read_intake
from dashboards.ingest_state import SORTS, IngestView, next_sort, parse_ingest
from dashboards.intake import Refusals, SenderRow, read_receiver, refusals_of, sender_rows
from dashboards.intake_words import REASONS, size, standing
from dashboards.memo import Memo
from dashboards.pages import ingest_head, ingest_heard, ingest_losses, ingest_senders
from dashboards.pages.ingest import PARTS, show
from dashboards.queries import Heartbeat
from dashboards.reader import Reader
from dashboards.state import parse_search
from dashboards.static import to_html
from store.ingest_history import SenderActivity, UnknownName
from store.sources import SourceState

NOW = datetime(2026, 11, 30, 12, 0, 30, tzinfo=UTC)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
HOSTILE = "<script>alert(1)</script>\"'>"


class Text(HTMLParser):
    """What a reader sees, and where links go."""

    def __init__(self, part: Any) -> None:
        super().__init__()
        self.said = ""
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.feed(to_html(part))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value for name, value in attrs if name == "href" and value]

    def handle_data(self, data: str) -> None:
        self.said += f"{data} "


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Yield the deps of an instance with a day of intake, and what was read before that day."""
    from instance import open_instance

    folder: Path = tmp_path_factory.mktemp("intake")
    _, deps, engine = open_instance(folder, ManualClock(NOW), requests=0)
    before = read(deps, status=lambda: intake.a_status(NOW, sources=[]), letters=list)
    intake.seed_intake(engine, NOW)
    yield deps, before
    engine.close()
    deps.db.dispose()


def read(deps: Any, search: str = "?range=6h", **ports: Any) -> IntakeFacts:
    deps = replace(deps, intake=intake.ports(NOW, **ports))
    return read_intake(Reader(deps, Memo(deps.clock)), parse_search(search))


@pytest.fixture(scope="module")
def facts(stores: Any) -> IntakeFacts:
    return read(stores[0])


def said_by(facts: IntakeFacts, part: str, search: str = "") -> str:
    return Text(show(facts, search)[part]).said


def a_sender(number: int, **changes: Any) -> SenderRow:
    given: dict[str, Any] = {
        "source": f"key:{number:05d}", "tenant": f"t{number}", "accepted": 100, "duplicate": 0,
        "late": 0, "last": NOW, "rejected": 0, "refusals": (), "letters": 0,
    }  # fmt: skip
    return SenderRow(**{**given, **changes})


def words(**changes: Any) -> list[str]:
    given: dict[str, Any] = {
        "receiver": read_receiver(intake.a_status(NOW, sources=[]), NOW),
        "lag": Lag(0, None),
        "pipeline": intake.CALM,
        "log_bytes": 1000,
        "refusals": [],
        "newest": NOW,
        "now": NOW,
    }
    return [each.says for each in standing(**{**given, **changes})]


def test_what_the_store_has_is_counted_in_the_range_by_sender(facts: IntakeFacts) -> None:
    app, jobs, nobody = facts.senders

    assert (app.source, app.tenant, jobs.source, nobody.source) == (
        "key:app", "acme", "key:jobs", "unauthenticated",
    )  # fmt: skip
    assert app.accepted == sum(e.accepted for e in facts.flow) - jobs.accepted
    assert app.duplicate == sum(each.duplicate for each in facts.flow) > 0
    assert jobs.last == NOW - 13 * MINUTE - 30 * SECOND
    assert facts.spans_per_s == pytest.approx(15)


def test_a_tenant_sees_its_own_senders_and_those_that_may_send_for_it(stores: Any) -> None:
    mine = read(stores[0], "?range=6h&tenant=acme")
    other = read(stores[0], "?range=6h&tenant=globex")

    assert [row.source for row in mine.senders] == ["key:app", "key:jobs", "unauthenticated"]
    assert [row.source for row in other.senders] == ["key:jobs", "unauthenticated"]
    assert sum(e.accepted for e in other.flow) == other.senders[0].accepted
    assert other.letters == []
    assert [len(each.names) for each in (mine, other)] == [2, 0]


def test_the_head_says_what_is_refused_lost_and_set_aside(facts: IntakeFacts) -> None:
    said = said_by(facts, "ingest-head.children")

    assert "Refusing some requests because: too fast." in said
    assert "17 requests refused for good and 3 invalid spans left out" in said
    assert "2 requests are set aside and can be replayed" in said


def test_everything_stored_is_said_only_where_nothing_is_wrong() -> None:
    assert words() == ["Everything that was acknowledged is stored."]
    assert words(lag=Lag(10, 2 * SECOND)) == [
        "Everything that was acknowledged but the last 2s is stored."
    ]


def test_how_far_the_store_is_behind_and_why_is_said() -> None:
    behind = Lag(5 << 20, 90 * SECOND)
    stuck = replace(intake.CALM, error="insert: Retryable: the disk is full")

    assert words(lag=behind) == ["Behind by 5.0 MiB and 1m 30s."]
    assert words(lag=behind, pipeline=stuck) == [
        "The store does not take the present batch, behind by 5.0 MiB and 1m 30s."
    ]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"at": format_instant(NOW - MINUTE)}, "The receiver has not reported for 1m"),
        ({"log": {"waiting_bytes": 0, "error": "no space left"}}, "because the log cannot be"),
        ({"log": {"waiting_bytes": 2000, "error": None}}, "because the log is full: 2.0 KiB wait"),
    ],
)
def test_a_receiver_that_takes_nothing_is_said_first(changes: Any, said: str) -> None:
    status = intake.a_status(NOW, **changes)

    first = words(receiver=read_receiver(status, NOW), lag=Lag(5 << 20, MINUTE))[0]

    assert said in first


def test_refusals_of_long_ago_are_not_said_to_go_on() -> None:
    old = Refusals("rate_limited", 4, NOW - 5 * MINUTE)

    assert words(refusals=[old]) == ["Everything that was acknowledged is stored."]


def test_silence_is_told_from_an_instance_that_never_heard_anything() -> None:
    assert words(newest=NOW - 10 * MINUTE) == [
        "Nothing has been stored that arrived in the last 10m."
    ]
    assert words(newest=None) == ["No span has ever been stored."]


def test_without_a_receiver_refusals_are_unknown_not_none(stores: Any) -> None:
    facts = read(stores[0], status=lambda: None)

    assert "Refused – no receiver has reported" in " ".join(
        said_by(facts, "ingest-tiles.children").split()
    )
    assert "What was refused is unknown" in said_by(facts, "ingest-head.children")
    assert "Unknown: no receiver" in said_by(facts, "ingest-refused.children")
    assert all(row.refused is None and row.rejected is None for row in facts.senders)


def test_without_ports_lag_and_dead_letters_are_unknown_too(stores: Any) -> None:
    deps = replace(stores[0], intake=None)
    facts = read_intake(Reader(deps, Memo(deps.clock)), parse_search("?range=1h"))

    tiles = " ".join(said_by(facts, "ingest-tiles.children").split())
    assert "Log – unknown" in tiles
    assert "Dead letters – unknown" in tiles
    assert "Unknown: these pages" in said_by(facts, "ingest-letters.children")


def test_an_empty_instance_says_how_to_begin(stores: Any) -> None:
    facts = stores[1]

    assert "No span has ever been stored" in said_by(facts, "ingest-head.children")
    assert "Accepted – no span yet" in " ".join(said_by(facts, "ingest-tiles.children").split())
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in said_by(facts, "ingest-senders.children")
    assert flow_chart(facts).empty == "Nothing was stored in this time range"
    assert set(show(facts, "")) == set(PARTS)


def test_the_chart_has_gaps_before_the_first_batch_and_where_the_store_is_behind(
    stores: Any,
) -> None:
    behind = intake.FakePipeline(Lag(1 << 20, timedelta(hours=2)))
    facts = read(stores[0], "?range=7d", pipeline=behind)

    chart = flow_chart(facts)
    known = [at for at, y in zip(chart.at, chart.series[0].y, strict=True) if y is not None]

    assert known[0] >= (NOW - timedelta(hours=25)).timestamp() * 1000
    assert known[-1] <= (NOW - timedelta(hours=2)).timestamp() * 1000
    assert facts.spans_per_s is None
    assert "missing until the store has caught up" in said_by(facts, "ingest-flow-words.children")


def test_the_chart_adds_up_to_what_was_accepted(facts: IntakeFacts) -> None:
    chart, until = flow_chart(facts), min(facts.now, facts.window.end).timestamp()

    total = sum(
        (y or 0) * (min(at / 1000 + facts.plan.step_s, until) - at / 1000)
        for at, y in zip(chart.at, chart.series[0].y, strict=True)
    )

    assert total == pytest.approx(sum(each.accepted for each in facts.flow), rel=1e-3)
    assert [each.name for each in chart.series] == ["accepted", "duplicates", "late"]


def test_thousands_of_senders_are_shown_a_page_at_a_time_the_worst_first() -> None:
    fresh = (Refusals("rate_limited", 1, NOW - SECOND),)
    lost = (Refusals("undecodable", 9, NOW - 5 * MINUTE),)
    rows = [a_sender(n) for n in range(3000)]
    rows += [a_sender(5000, refusals=lost), a_sender(5001, refusals=fresh)]
    rows.append(a_sender(5002, last=NOW - 9 * MINUTE))

    first = ingest_senders.rows_of(rows, IngestView(), NOW)
    shown = Text(ingest_senders.table(rows, IngestView(), "?range=1h", NOW))

    assert [row.source for row in first.senders[:3]] == ["key:05001", "key:05000", "key:05002"]
    assert "1 to 50 of 3,003, the worst first; 2,953 are not shown" in shown.said
    assert "?range=1h&page=2" in shown.links
    assert ingest_senders.rows_of(rows, IngestView(page=999), NOW).page == 61
    assert ingest_senders.rows_of(rows, IngestView(find="KEY:0500"), NOW).matching == 3


@pytest.mark.parametrize("sort", SORTS)
def test_unknown_comes_last_either_way_and_no_row_is_left_out(sort: str) -> None:
    rows = [a_sender(n, accepted=n, letters=n) for n in range(5)]
    unknown = a_sender(
        9, tenant="", accepted=0, rejected=None, refusals=None, letters=None, last=None
    )

    for is_descending in (False, True):
        view = IngestView(sort=sort, is_descending=is_descending)
        found = ingest_senders.ordered([unknown, *rows], view, NOW)
        assert {row.source for row in found} == {row.source for row in (*rows, unknown)}
        if sort in {"tenant", "refused", "rejected", "letters", "last"}:
            assert found[-1] is unknown


def test_a_second_click_turns_the_order_round() -> None:
    assert next_sort(IngestView(), "refused") == "-refused"
    assert next_sort(parse_ingest("?sort=-refused"), "refused") == "refused"
    assert next_sort(IngestView(), "last") == "last"
    assert parse_ingest("?sort=nonsense&page=x") == IngestView()


def test_every_reason_has_words_and_says_what_to_do() -> None:
    assert set(REASONS) == {reason.value for reason in Reason}
    again = {r.value for r in Reason if Refusals(r.value, 1, None).is_tried_again}
    assert again == {"rate_limited", "overloaded", "log_full", "disk", "internal"}


def test_a_reason_of_a_newer_receiver_is_shown_as_it_is() -> None:
    said = Text(
        ingest_losses.refusals(
            [Refusals("bad_moon", 2, None)], read_receiver(intake.a_status(NOW), NOW), NOW
        )
    ).said

    assert "2 bad moon" in said


def test_reasons_are_summed_over_senders_with_the_latest_time() -> None:
    rows = [
        a_sender(1, refusals=(Refusals("disk", 2, NOW - MINUTE),)),
        a_sender(2, refusals=(Refusals("disk", 3, NOW), Refusals("internal", 1, None))),
    ]

    assert refusals_of(rows) == [Refusals("disk", 5, NOW), Refusals("internal", 1, None)]


def test_a_report_of_an_older_receiver_has_no_times_and_is_read_all_the_same() -> None:
    status = intake.a_status(NOW)
    for each in status["sources"]:
        del each["last"], each["refused_last"]

    receiver = read_receiver(status, NOW)

    assert receiver is not None
    rows = sender_rows([SenderActivity("key:app", "acme", 5, 0, 0, NOW)], {}, receiver, [], None)
    assert rows[0].last == NOW
    assert rows[0].refusals == (Refusals("rate_limited", 41, None),)


def test_dead_letters_say_how_to_send_them_again(facts: IntakeFacts) -> None:
    said = said_by(facts, "ingest-letters.children")
    many = [intake.a_letter(NOW, n, reason=HOSTILE) for n in range(1, 31)]
    shown = Text(ingest_losses.dead_letters(many, None, NOW))

    assert "tokenweir replay /data/dead-letter --to http://127.0.0.1:4318" in said
    assert "47 KiB" in said
    assert "20 of 30 dead letters; 10 are not shown" in shown.said
    assert "script" not in shown.tags


def test_names_without_a_meaning_are_listed_with_who_sends_them(facts: IntakeFacts) -> None:
    said = said_by(facts, "ingest-names.children")
    hostile = UnknownName(HOSTILE, 1, (HOSTILE,) * 5, NOW.date())

    assert "gen_ai.request.mood" in said
    assert "key:app" in said
    assert "Vocabulary" in said
    shown = Text(ingest_losses.unknown_names([hostile], NOW))
    assert "and 2 more" in shown.said
    assert "script" not in shown.tags


def test_who_beats_and_fell_silent_is_missed_and_others_are_only_silent() -> None:
    def source(layer: str, name: str, silent: timedelta) -> SourceState:
        return SourceState(layer, "svc", name, NOW - timedelta(hours=9), NOW - silent)

    sources = [
        source("engine", "r0", SECOND), source("engine", "r1", 12 * MINUTE),
        source("engine", "r2", 300 * MINUTE), source("client", "web", 12 * MINUTE),
    ]  # fmt: skip
    beats = [Heartbeat("engine", name, NOW) for name in ("r0", "r1", "r2")]

    missed = ingest_heard.fell_silent(sources, beats, NOW)
    said = " ".join(Text(ingest_heard.heard(sources, beats, NOW)).said.split())

    assert [each.instance for each in missed] == ["r1"]
    assert "engine 1 of 3 1s ago" in said
    assert "client 0 of 1 12m ago" in said
    assert "missed r1" in said


def test_sizes_are_written_in_the_unit_in_which_they_are_short() -> None:
    assert [size(n) for n in (None, 0, 900, 2048, 50_000, 5 << 20, 3 << 30, 3 << 40)] == [
        "–", "0 B", "900 B", "2.0 KiB", "49 KiB", "5.0 MiB", "3.0 GiB", "3072.0 GiB",
    ]  # fmt: skip


def test_losses_are_nothing_only_when_the_receiver_says_so(facts: IntakeFacts) -> None:
    calm = replace(facts, senders=[a_sender(1)], letters=[])

    assert "Lost since the receiver started, 06:00:30: nothing. Nothing is set aside." in (
        ingest_head.losses(calm)
    )
