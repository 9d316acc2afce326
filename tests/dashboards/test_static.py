"""The first view is the live page's components, as plain HTML that hostile names cannot leave."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import dash_mantine_components as dmc
import pytest
from dash import dcc, html
from fastapi.testclient import TestClient

from base.clock import ManualClock
from base.errors import Retryable
from dashboards.first import FirstView
from dashboards.memo import Memo
from dashboards.pages import cost, overview, traces
from dashboards.pages.waterfall import span_details
from dashboards.parts import data, sparkline
from dashboards.reader import Reader
from dashboards.static import to_html
from dashboards.statictable import SHOWN, table
from dashboards.traces import read_trace

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script>\"'><!--first view-->{%config%}"
TRACE = "aa" * 16


class Tags(HTMLParser):
    """Collects tags and text; complains of what is closed in another order than opened."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.classes: set[str] = set()
        self.text = ""
        self._open: list[str] = []
        self.feed(markup)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.classes |= set((dict(attrs).get("class") or "").split())
        assert "id" not in dict(attrs) or dict(attrs)["id"] == "first-view"
        assert not any(name.startswith("on") for name, _ in attrs)
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_elements_are_written_as_the_live_page_makes_them() -> None:
    part = html.Div(
        ["a & b", None, html.I(className="bad", style={"width": "5%", "paddingLeft": 3}), 7],
        id="x",
        hidden=False,
        title='"',
        **data(chart='{"a":1}'),
    )

    assert to_html(part) == (
        '<div title="&quot;" data-chart="{&quot;a&quot;:1}">a &amp; b'
        '<i class="bad" style="width:5%;padding-left:3px"></i>7</div>'
    )


@pytest.mark.parametrize(
    "part",
    [
        html.Div(HOSTILE, title=HOSTILE, className=HOSTILE, **data(chart=HOSTILE)),
        html.I(style={"background": HOSTILE}),
        dcc.Link(HOSTILE, href=f"?tenant={HOSTILE}"),
        dmc.Select(id="tenant", value=HOSTILE, w=150),
        dmc.Drawer(html.Div(HOSTILE), title=HOSTILE, opened=True),
        sparkline([1.0, 0.5, 0.2], "accent"),
    ],
    ids=lambda part: type(part).__name__,
)
def test_nothing_in_a_name_becomes_markup(part: Any) -> None:
    written = Tags(to_html(part, search=f"?tenant={HOSTILE}"))

    assert set(written.tags) <= {"div", "i", "a", "span", "aside", "h2"}
    assert "alert" not in written.text or HOSTILE in written.text


def test_hostile_requests_stay_in_their_cells() -> None:
    columns = traces.layout()["requests"].columnDefs
    row: dict[str, Any] = dict.fromkeys((c["field"] for c in columns), None)
    row |= {"start": HOSTILE, "outcome": HOSTILE, "outcome_reason": HOSTILE, "trace_id": HOSTILE}
    row |= {"tenant": HOSTILE, "route": HOSTILE, "model": HOSTILE, "replica": HOSTILE}

    written = Tags(table(columns, [row], f"?tenant={HOSTILE}"))

    assert set(written.tags) == {"div", "span", "a", "i"}


def test_a_table_shows_its_first_rows() -> None:
    rows = [{"kind": "used", "tenant": f"t{i}", "cost_usd": 1.5, "share": 0.5} for i in range(99)]
    rows[1] |= {"kind": "idle", "tenant": None}

    written = Tags(table(cost.columns(("tenant",)), rows, ""))

    assert written.text.count("$1.50") == SHOWN
    assert "Tenant" in written.text
    assert "idle" in written.text


def test_what_has_no_static_form_is_not_left_out_silently() -> None:
    with pytest.raises(TypeError, match="Dropdown has no static form"):
        to_html(dcc.Dropdown())
    with pytest.raises(TypeError, match="'dir'"):
        to_html(html.Div(dir="ltr"))
    with pytest.raises(TypeError, match="cannot show a dict"):
        to_html({})


@pytest.mark.parametrize(
    ("path", "seen"),
    [
        ("/", "Error budget"),
        ("/?range=1h&tenant=globex&all=1", "chat-ttft"),
        ("/cost?by=tenant,model", "adds up"),
        ("/traces?range=30d&outcome=bad", "bad"),
        (f"/traces?trace={TRACE}", "invoke_agent researcher"),
        (f"/traces?trace={TRACE}&span={4:016x}", "invoke_agent researcher"),
        ("/traces?trace=nonsense", "This is not a trace id"),
    ],
)
def test_every_page_is_sent_with_its_numbers(site: Any, path: str, seen: str) -> None:
    answer = TestClient(site[0]).get(path)
    first = answer.text[answer.text.index('<div id="first-view">') :]
    written = Tags(first[: first.index("<script>")])

    assert seen in written.text
    assert "waiting" not in written.classes
    assert "live" in written.classes


def test_a_hostile_address_is_only_text(site: Any) -> None:
    answer = TestClient(site[0]).get("/", params={"tenant": HOSTILE, "slo": HOSTILE})

    assert "<script>alert" not in answer.text
    assert answer.text.count('<div id="first-view">') == 1
    assert answer.text.count("_dash-config") == 1


def test_an_unknown_path_has_no_first_view(site: Any) -> None:
    assert "first-view" not in TestClient(site[0]).get("/nowhere").text.partition("<script>")[0]


def test_every_span_can_be_written(site: Any) -> None:
    deps = site[1]
    found = read_trace(deps.engine, deps.prices, TRACE)
    assert found is not None

    for span in found.spans:
        assert span.name in to_html(span_details(span)) or span.id in to_html(span_details(span))


class Slow:
    """A page whose numbers take until they are let go."""

    layout = staticmethod(overview.layout)

    def __init__(self) -> None:
        self.go = threading.Event()

    def fill(self, reader: Reader, search: str) -> Mapping[str, Any]:
        self.go.wait(30)
        return {}


class Broken(Slow):
    def fill(self, reader: Reader, search: str) -> Mapping[str, Any]:
        raise Retryable("the store is busy")


def test_a_page_is_sent_without_numbers_when_they_are_slow_or_fail(site: Any) -> None:
    reader = Reader(site[1], Memo(ManualClock(NOW)))
    slow = Slow()
    view = FirstView(reader, {"/": slow, "/broken": Broken()}, wait_s=0.01)

    pages = [view.html("/broken", ""), *(view.html("/", "") for _ in range(4))]
    slow.go.set()

    for page in pages:
        assert "waiting" in Tags(page).classes
        assert "pending" in Tags(page).classes


def test_an_error_in_the_first_view_never_keeps_the_page_away(site: Any) -> None:
    class Odd(Slow):
        @staticmethod
        def layout() -> Any:
            return dcc.Dropdown()

    odd = Odd()
    odd.go.set()
    view = FirstView(Reader(site[1], Memo(ManualClock(NOW))), {"/": odd}, wait_s=0.01)

    assert view.html("/", "") == ""
