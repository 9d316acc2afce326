"""The SLO page says everything about one budget, and unknown is never a zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import seeding

from dashboards.pages import slo, slo_burn, slo_groups, slo_head, slo_list, slo_record
from dashboards.pages.slo import choose
from dashboards.slo_state import SORTS, SloView, parse_view
from dashboards.state import ViewState, parse_search
from dashboards.static import to_html
from dashboards.stretches import stretches
from dashboards.verdict_words import fits, forecast_words, leading, state_words
from slo.documents import load
from slo.exclusion import Exclusion
from slo.forecast import EXHAUSTED, Forecast
from slo.verdict import Causes, CostVerdict, Spend, State, Surge, Suspect, TierVerdict, Verdict
from slo.version_book import Version

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script>\"'>"
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
VERDICTS = seeding.verdicts(NOW)
ACME, GLOBEX = VERDICTS[2], VERDICTS[3]


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


def a_cost() -> Verdict:
    whole = Spend(NOW - 30 * DAY, 1.44, 0.8, 200.0, 0.0072)
    cost = CostVerdict(0.004, "good_request", "apart", NOW, whole, {"6h": whole}, 12, 0.06)
    return replace(
        ACME, slo="chat-cost", objective=None, sli=None, good=0, bad=0, excluded=0, bad_reasons={},
        budget_remaining=-0.8, cost=cost,
    )  # fmt: skip


def many(number: int) -> list[Verdict]:
    return [
        replace(GLOBEX, group={"tenant": f"t{i}"}, budget_remaining=i / number, bad=i)
        for i in range(number)
    ]


def test_without_a_name_there_is_a_list_and_with_one_the_most_urgent_group() -> None:
    assert choose(SloView(), ViewState(), VERDICTS, []).verdict is None
    assert choose(SloView("chat-ttft"), ViewState(), VERDICTS, []).verdict is ACME


def test_a_group_is_found_by_its_members_or_by_the_filters_of_a_link() -> None:
    view = parse_view("?name=chat-ttft&group=tenant:globex")
    linked = parse_search("?name=chat-ttft&tenant=globex")

    assert choose(view, ViewState(), VERDICTS, []).verdict is GLOBEX
    assert choose(SloView("chat-ttft"), linked, VERDICTS, []).groups == [GLOBEX]


def test_another_tenant_leaves_the_group_that_the_address_still_names() -> None:
    view = parse_view("?name=chat-ttft&group=tenant:acme")

    found = choose(view, parse_search("?tenant=globex"), VERDICTS, [])

    assert (found.verdict, found.groups) == (GLOBEX, [GLOBEX])


@pytest.mark.parametrize(
    ("search", "said"),
    [
        ("?name=chat-ttft&group=tenant:nobody", "Nothing of tenant nobody was judged"),
        ("?name=chat-ttft&tenant=nobody", "Nothing of tenant nobody was judged"),
        ("?name=nothing", "No SLO is named nothing"),
    ],
)
def test_what_is_not_there_is_said_to_be_missing(search: str, said: str) -> None:
    found = choose(parse_view(search), parse_search(search), VERDICTS, [])

    assert said in Text(found.notice).said


def test_ten_thousand_groups_are_shown_a_page_at_a_time_the_worst_first() -> None:
    groups = many(10_000)

    first = slo_groups.rows_of(groups, SloView())
    last = slo_groups.rows_of(groups, SloView(page=999))
    shown = Text(slo_groups.table(groups, groups[0], SloView("chat-ttft"), "?name=chat-ttft"))

    assert [v.group["tenant"] for v in first.verdicts[:2]] == ["t0", "t1"]
    assert (last.page, last.first, len(last.verdicts)) == (200, 9951, 50)
    assert "1 to 50 of 10,000" in shown.said
    assert "9,950 are not shown" in shown.said
    assert "?name=chat-ttft&page=2" in shown.links


def test_a_group_is_found_among_many_by_a_part_of_its_name() -> None:
    rows = slo_groups.rows_of(many(300), SloView(find="T29"))

    assert (rows.matching, rows.every) == (11, 300)


@pytest.mark.parametrize("column", ["sli", "budget", "burn", "bad", "total", "target", "state"])
def test_what_is_not_known_comes_last_whichever_way_a_column_is_sorted(column: str) -> None:
    silent = replace(
        ACME, group={"tenant": "silent"}, good=0, bad=0, sli=None, budget_remaining=None, tiers=()
    )
    groups = [silent, *VERDICTS[2:6]]
    keys = {"target", "total", "state"}

    for is_descending in (False, True):
        found = slo_groups.ordered(groups, column, is_descending=is_descending)
        assert sorted(map(id, found)) == sorted(map(id, groups))
        if column not in keys:
            assert found[-1] is silent or found[-1].tiers[0].long_burn is None


def test_unknown_is_said_and_never_a_zero() -> None:
    tiers = (
        TierVerdict("fast", "page", 14.4, HOUR, HOUR / 12, None, None, burning=False),
        TierVerdict("slow", "ticket", 6, 6 * HOUR, HOUR, 2.0, None, burning=False, known=False),
    )
    silent = replace(
        ACME, good=0, bad=0, sli=None, budget_remaining=None, bad_reasons={}, tiers=tiers,
        burn={"5m": None, "1h": None}, state=State.NO_TRAFFIC, coverage=None, watermark=None,
        expires_in=None,
    )  # fmt: skip

    burns = Text(slo_burn.tiers(silent, None)).said
    tiles = Text(slo_head.tiles(silent)).said

    assert "no traffic" in burns
    assert "not known" in burns
    assert "0.0×" not in burns
    assert "0.0 %" not in tiles
    assert tiles.count("–") >= 5
    assert "Nothing was judged" in Text(slo_burn.reasons(silent, None, "")).said


def test_what_still_fits_is_what_is_left_of_what_is_allowed() -> None:
    verdict = replace(ACME, good=950, bad=50, objective=0.9, budget_remaining=0.5)

    assert fits(verdict) == "50 more bad requests fit"
    assert fits(replace(verdict, budget_remaining=-0.25)) == "25 bad too many"
    assert fits(replace(verdict, budget_remaining=None)) == "nothing was judged"


@pytest.mark.parametrize(
    ("unit", "said"),
    [
        ("tokens", "50k more bad tokens fit"),
        ("micro_usd", "$0.050 more bad dollars fit"),
        ("ms", "50 s more bad seconds fit"),
    ],
)
def test_what_is_weighed_is_said_in_its_unit(unit: str, said: str) -> None:
    verdict = replace(
        ACME, good=950_000, bad=50_000, objective=0.9, budget_remaining=0.5, unit=unit
    )

    assert said in Text(slo_head.tiles(verdict)).said


def test_the_forecast_is_said_with_its_interval() -> None:
    soon = Forecast(NOW + 3 * DAY, NOW + 2 * DAY, NOW + 5 * DAY, "in about 3d, 2d to 5d")
    late = Forecast(None, NOW + 9 * DAY, None, "probably not within 30d, at the earliest in 9d")
    never = Forecast(None, None, None, "not within 30d")

    def tile(forecast: Forecast | None, left: float | None = 0.4) -> str:
        verdict = replace(ACME, forecast=forecast, budget_remaining=left, expires_in=None)
        return Text(slo_head.tiles(verdict)[2]).said

    assert "in 3d" in tile(soon)
    assert "80 %: 02 Dec 12:00 to 05 Dec" in tile(soon)
    assert "not within 30d" in tile(late)
    assert "from 09 Dec on" in tile(late)
    assert "not within 30d" in tile(never)
    assert "by 20 % too much" in tile(EXHAUSTED, -0.2)
    assert "not in sight" in tile(None, 0.95)
    assert forecast_words(replace(ACME, forecast=soon)) == "budget spent in about 3d, 2d to 5d"
    assert not forecast_words(replace(ACME, forecast=never))


@pytest.mark.parametrize("state", list(State))
def test_every_state_is_a_sentence(state: State) -> None:
    assert state_words(replace(ACME, state=state)).endswith(".")


def test_what_burns_names_since_when_suspects_surges_and_traces() -> None:
    causes = Causes(
        NOW - HOUR,
        (("ttft_slow", 0.9), ("upstream_error", 0.1)),
        (Suspect("replica", "r1", 0.92, 0.25),),
        ("ab" * 16,),
        (Surge("tenant", "acme", "prompt_tokens", 90_000, 3000),),
    )

    shown = Text(slo_burn.reasons(replace(ACME, causes=causes), None, "?name=x&range=7d"))

    for said in ("11:00:00", "for 1h", "r1", "92 % of the bad", "90k", "prompt tokens/min"):
        assert said in shown.said
    assert f"/traces?range=7d&trace={'ab' * 16}" in shown.links
    assert leading(replace(ACME, causes=causes)) == "ttft slow: 90 %"
    assert leading(replace(ACME, bad_reasons={"ttft_ms <= 2000": 3})) == "ttft_ms <= 2000: 100 %"


def test_who_owns_it_is_shown_and_only_web_addresses_become_links() -> None:
    notes = {
        "runbook_url": "https://wiki.example.net/ttft",
        "bad": "javascript:alert(1)",
        "worse": "https://[",
        "description": "Chat answers start quickly",
    }

    shown = Text(slo_head.head(None, replace(ACME, annotations=notes), "/slo"))

    assert "serving" in shown.said
    assert shown.links == ["/slo", "https://wiki.example.net/ttft"]
    assert "Chat answers start quickly" in shown.said


def test_an_override_that_holds_for_the_group_is_said_and_named(tmp_path: Path) -> None:
    file = tmp_path / "slo.yaml"
    file.write_text("""kind: slo
name: chat-ttft
objective: 95
group_by: [tenant]
overrides:
  - match: {tenant: acme}
    objective: 99
""")
    document = load([file])[0]

    own = Text(slo_head.head(document, replace(ACME, objective=0.99), "/slo")).said
    other = Text(slo_head.head(document, GLOBEX, "/slo")).said
    nobody = Text(slo_head.head(document, replace(ACME, group={}), "/slo")).said

    assert "99 % of requests" in own
    assert "override" in own
    assert "95 % of requests" in other
    assert "95 % of requests" in nobody
    assert "override" not in other + nobody


def test_exclusions_say_what_became_of_them_and_who_said_so() -> None:
    at = datetime(2026, 11, 22, 2, tzinfo=UTC)
    upgrade = Exclusion("1", at, at + HOUR, "upgrade", "ada", at, rrule="FREQ=WEEKLY;BYDAY=SU")
    approved = replace(upgrade, approved_by="grace", approved_at=at)
    reverted = replace(approved, reverted_by="edsger", reverted_at=NOW)

    def said(each: Exclusion) -> str:
        return Text(slo_record.exclusions([each], NOW, 30 * DAY)).said

    assert "has no effect until somebody else approves it" in said(upgrade)
    assert "every Sunday, 02:00 to 03:00 UTC" in said(approved)
    assert "took 2h of the budget window; next 06 Dec 02:00" in said(approved)
    assert "approved by grace" in said(approved)
    assert "taken back by edsger" in said(reverted)
    assert "s" in Text(slo_record.exclusions([reverted], NOW, 30 * DAY)).tags
    assert "Everything counts" in Text(slo_record.exclusions([], NOW, DAY)).said


def test_versions_show_what_differs_from_the_one_before() -> None:
    said = [{"objective": "95", "window": "30d"}, {"objective": "99", "window": "30d"}, {}]
    found = [
        Version("x", 3, said[2], ("taken away",), "ada", NOW),
        Version("x", 2, said[1], (), "ada", NOW - DAY),
        Version("x", 1, said[0], ("written",), "grace", NOW - 9 * DAY),
    ]

    shown = Text(slo_record.versions(found, NOW))

    assert "taken away" in shown.said
    assert "written: 2 fields" in shown.said
    assert {"del", "ins"} <= shown.tags


def parts_of(verdict: Verdict) -> Sequence[Any]:
    view = SloView(verdict.slo, verdict.group)
    return (
        slo_head.head(None, verdict, "/slo"),
        slo_head.tiles(verdict),
        slo_burn.tiers(verdict, None),
        slo_burn.reasons(verdict, None, ""),
        slo_groups.table([verdict, ACME], verdict, view, f"?find={HOSTILE}"),
        slo_list.table([verdict], [], ""),
    )


def test_hostile_names_stay_text() -> None:
    verdict = replace(
        ACME, slo=HOSTILE, group={"tenant": HOSTILE}, bad_reasons={HOSTILE: 3}, problem=HOSTILE,
        labels={HOSTILE: HOSTILE}, annotations={HOSTILE: f"https://x/{HOSTILE}"},
    )  # fmt: skip

    for part in parts_of(verdict):
        assert "script" not in Text(part).tags


def test_an_slo_about_cost_is_shown_in_dollars() -> None:
    verdict = a_cost()

    tiles = Text(slo_head.tiles(verdict)).said
    groups = Text(slo_groups.table([verdict, verdict], verdict, SloView("chat-cost"), "")).said

    assert "$1.44 of $0.800 is spent" in tiles
    assert "12 requests have no price" in tiles
    assert "$0.0072" in groups
    assert "Spent" in groups
    assert "the Cost page says who spends" in Text(slo_burn.reasons(verdict, None, "")).said
    assert [each.key for each in stretches(verdict)] == ["window"]
    for column in SORTS:
        assert slo_groups.ordered([verdict], column, is_descending=True) == [verdict]


@pytest.mark.parametrize("verdict", [*VERDICTS, a_cost()], ids=lambda v: f"{v.slo}-{v.state}")
def test_every_verdict_can_be_shown(verdict: Verdict) -> None:
    for part in parts_of(verdict):
        assert "None" not in Text(part).said
        assert "nan" not in Text(part).said.split()


def test_the_page_has_a_place_for_each_part() -> None:
    frame = slo.layout()

    for part in slo.PARTS:
        assert frame[part.partition(".")[0]] is not None
