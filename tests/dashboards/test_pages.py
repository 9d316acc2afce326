"""Every page in a real browser: it opens, it links, it asks nobody else for anything."""

from __future__ import annotations

import json
import re
import time

import httpx
import pytest
from browsing import Visit

pytestmark = [pytest.mark.browser, pytest.mark.slow]

TRACE = "aa" * 16


def test_the_overview_shows_objectives_alerts_acts_and_charts(visit: Visit) -> None:
    visit.open("/")

    visit.see("#overview-tiles .tile-value", "of 20")
    assert visit.page.locator("#objectives a.slo-row").count() == 8
    visit.see("#firing .event", "chat-e2e")
    visit.see("#done .event", "shed 75 % of tenant acme")
    visit.see("#overview-burndown .chart-line-step")
    visit.see("#overview-traffic .chart-line")
    visit.see("#overview-ttft .chart-dots")
    visit.see("#fresh.live")


def test_choosing_an_objective_is_in_the_address_and_can_be_shared(visit: Visit) -> None:
    visit.open("/")
    row = visit.see("#objectives a.slo-row >> nth=2")
    name = row.locator("b").inner_text()
    row.click()
    visit.until("location.search.includes('slo=')")
    visit.see("#objectives a.slo-row.chosen >> nth=0", name)

    visit.open("/" + visit.search)
    visit.see("#overview-slo .card-note", name)
    visit.see("#objectives .more", "Show all 20").click()
    visit.until("document.querySelectorAll('#objectives a.slo-row').length === 20")


def test_range_and_tenant_are_in_the_address_and_follow_to_other_pages(visit: Visit) -> None:
    visit.open("/?tenant=globex")
    visit.see("#objectives a.slo-row", "globex")
    visit.page.get_by_text("7d", exact=True).click()
    visit.until("location.search.includes('range=7d') && location.search.includes('globex')")
    visit.until("document.querySelectorAll('#objectives a.slo-row').length === 4")

    visit.page.click("#nav-cost")
    visit.see("#cost-rows .ag-row", "globex")
    assert "range=7d" in visit.search
    assert "tenant=globex" in visit.search
    visit.page.go_back()
    visit.see("#objectives a.slo-row", "globex")


def test_the_cost_page_adds_up_and_groups_as_asked(visit: Visit) -> None:
    visit.open("/cost")
    visit.see("#cost-sum", "adds up")
    visit.see("#cost-rows .ag-row", "idle")
    visit.see("#cost-spend .chart-bars")
    visit.page.locator("#bill label", has_text="Replica").click()
    visit.until("location.search.includes('by=tenant,route,replica')")
    visit.see("#cost-rows .ag-header-cell-text", "Replica")
    visit.see("#cost-rows .ag-row", "r0")


def test_the_requests_list_filters_and_opens_a_trace(visit: Visit) -> None:
    visit.open("/traces?range=30d")
    visit.see("#requests .ag-row a")
    visit.page.locator("#filter-outcome label", has_text="bad").click()
    visit.until("location.search.includes('outcome=bad')")
    visit.until(
        "document.querySelectorAll('#requests .outcome-bad').length > 3 &&"
        " document.querySelectorAll('#requests .outcome-good').length === 0"
    )

    visit.open("/traces?range=1h")
    visit.page.fill("#find-trace", TRACE)
    visit.page.press("#find-trace", "Enter")
    visit.see("#waterfall .span-row", "invoke_agent researcher")
    assert f"trace={TRACE}" in visit.search


def test_a_click_on_a_request_opens_its_trace_and_back_returns_to_the_list(visit: Visit) -> None:
    visit.open("/traces?range=1h&outcome=good")
    visit.see("#requests .ag-row a").click()
    visit.until("location.search.includes('trace=')")
    visit.see("#trace-view .back").click()
    visit.see("#requests .ag-row a")
    assert "trace=" not in visit.search


def test_scrolling_the_list_pages_through_the_cursor(visit: Visit) -> None:
    visit.open("/traces?range=30d")
    visit.see("#requests .ag-row a")
    first = visit.page.locator("#requests .ag-row[row-index='0'] a").inner_text()
    visit.page.evaluate("dash_ag_grid.getApi('requests').ensureIndexVisible(99)")
    visit.until("dash_ag_grid.getApi('requests').getDisplayedRowCount() > 101")
    visit.page.evaluate("dash_ag_grid.getApi('requests').ensureIndexVisible(180)")
    row = visit.see("#requests .ag-row[row-index='180'] a")

    assert row.inner_text() < first


def test_a_trace_shows_phases_tokens_dollars_conflicts_and_details(visit: Visit) -> None:
    visit.open(f"/traces?trace={TRACE}")
    visit.see("#conflicts", "prompt tokens")
    for band in ("queue", "prefill", "decode"):
        assert visit.page.locator(f"#waterfall .lane .band-{band}").count() == 3
    assert visit.page.locator("#waterfall .lane .first-token").count() == 6
    row = visit.see("#waterfall a.span-row", "llm_request")
    assert "$" in row.inner_text()
    row.click()
    visit.until("location.search.includes('span=')")
    visit.see("#span-details", "prompt tokens")
    visit.page.keyboard.press("Escape")
    visit.until("!location.search.includes('span=')")


def test_a_trace_that_is_not_here_is_said_to_be_missing(visit: Visit) -> None:
    visit.open(f"/traces?trace={'0' * 31}1")

    visit.see("#trace-view", "past its retention")


def test_the_theme_follows_the_system_until_chosen_and_is_remembered(visit: Visit) -> None:
    scheme = "document.documentElement.dataset.mantineColorScheme"
    visit.page.emulate_media(color_scheme="dark")
    visit.open("/")
    visit.see("#overview-traffic .chart-line")
    visit.until(f"{scheme} === 'dark'")
    visit.page.click("#theme-toggle")
    visit.until(f"{scheme} === 'light'")
    visit.open("/cost")
    visit.see("#cost-sum", "adds up")
    visit.until(f"{scheme} === 'light'")


def test_another_theme_repaints_the_charts_and_asks_for_nothing(visit: Visit) -> None:
    visit.open("/")
    visit.see("#overview-traffic .chart-line")
    asked: list[str] = []
    visit.page.evaluate("dash_clientside.set_props('tick', {disabled: true})")
    visit.page.wait_for_load_state("networkidle")
    visit.page.on("request", lambda request: asked.append(request.url))

    for stroke in ("rgb(238, 107, 121)", "rgb(207, 74, 90)"):  # bad: dark, then light
        visit.page.click("#theme-toggle")
        visit.until(
            "[...document.querySelectorAll('#overview-traffic .chart-line')]"
            f".some(line => getComputedStyle(line).stroke === '{stroke}')"
        )

    assert [url for url in asked if "_dash-update" in url] == []


def test_pointing_at_a_chart_names_every_value(visit: Visit) -> None:
    visit.open("/?range=24h")
    visit.see("#overview-traffic .chart-line")
    tip = visit.page.locator("#overview-traffic .chart-tip")
    visit.page.hover("#overview-traffic > svg")
    tip.wait_for(state="visible")
    pointed = tip.inner_text()

    visit.page.mouse.move(2, 2)
    tip.wait_for(state="hidden")
    visit.page.focus("#overview-traffic > svg")
    visit.page.keyboard.press("End")
    visit.page.keyboard.press("ArrowLeft")
    tip.wait_for(state="visible")

    for said in (pointed, tip.inner_text()):
        assert all(name in said for name in ("good", "excluded", "bad", "Nov"))
    label = visit.page.get_attribute("#overview-traffic > svg", "aria-label")
    assert "good: " in str(label)


def test_dragging_across_a_chart_chooses_a_time_range_and_a_double_click_ends_it(
    visit: Visit,
) -> None:
    visit.open("/?range=24h&tenant=globex")
    chart = visit.see("#overview-traffic > svg")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    y = box["y"] + box["height"] / 2
    visit.page.mouse.move(box["x"] + box["width"] * 0.4, y)
    visit.page.mouse.down()
    visit.page.mouse.move(box["x"] + box["width"] * 0.7, y, steps=4)
    visit.page.mouse.up()
    visit.until("/from=2026-11-.*&to=2026-11-/.test(location.search)")
    visit.see("#fresh.fixed")
    assert "tenant=globex" in visit.search
    assert "range=24h" in visit.search

    visit.until(
        "(() => { const c = JSON.parse(document.querySelector('#overview-traffic').dataset.chart);"
        " return c.end - c.start < 8 * 3600e3 })()"
    )
    visit.page.dblclick("#overview-traffic > svg")
    visit.until("!location.search.includes('from=')")


def test_a_step_that_has_only_begun_does_not_set_the_axis(visit: Visit) -> None:
    visit.open("/")
    hour = 3_600_000
    chart = {
        "title": "Spend", "start": 0, "end": 3 * hour + 60_000, "unit": "dollars", "step": hour,
        "at": [n * hour for n in range(4)], "bands": [], "marks": [], "guide": [], "says": "",
        "series": [{"name": "idle", "colour": "idle", "kind": "bars", "y": [9, 8, 10, 900]}],
    }  # fmt: skip
    visit.page.evaluate(
        """text => {
            const host = document.createElement("div");
            Object.assign(host, { className: "chart", id: "drawn" });
            host.style.cssText = "width: 600px; height: 200px";
            host.dataset.chart = text;
            document.querySelector("main").append(host);
        }""",
        json.dumps(chart),
    )
    visit.see("#drawn .chart-bars")
    ticks = visit.page.locator("#drawn .chart-tick").all_text_contents()

    assert "$10" in ticks
    assert not any(tick.startswith("$100") for tick in ticks)


def test_a_chart_redraws_when_its_place_changes(visit: Visit) -> None:
    visit.open("/")
    visit.see("#overview-traffic .chart-line")
    visit.page.set_viewport_size({"width": 700, "height": 900})

    visit.until(
        "(() => { const chart = document.querySelector('#overview-traffic');"
        " return Number(chart.firstChild.getAttribute('width')) === chart.clientWidth })()"
    )


def test_an_unknown_page_says_so(visit: Visit) -> None:
    visit.open("/nowhere")

    visit.see("#page", "There is no such page")


@pytest.mark.parametrize("path", ["/", "/cost", "/traces", f"/traces?trace={TRACE}"])
def test_nothing_sticks_out_on_a_narrow_screen(phone: Visit, path: str) -> None:
    phone.open(path)
    phone.see(".tile-value" if path != "/traces" else "#requests .ag-row a")

    assert phone.page.evaluate("document.documentElement.scrollWidth") <= 420


def test_a_refresh_does_not_rebuild_the_page(visit: Visit) -> None:
    visit.open("/")
    visit.see("#overview-traffic .chart-line")
    visit.page.evaluate("document.querySelector('#objectives a.slo-row').dataset.mark = 'kept'")
    with visit.page.expect_response(re.compile("_dash-update-component"), timeout=30_000) as tick:
        pass

    assert tick.value.ok
    assert visit.page.locator("#objectives a[data-mark=kept]").count() == 1


def test_the_served_page_names_no_other_host(address: str) -> None:
    html = httpx.get(address).text
    config = httpx.get(f"{address}/_dash-layout").text

    for text in (html, config):
        named = re.findall(r"(?:https?:)?//(?!127\.0\.0\.1)[a-z0-9.-]+\.[a-z]{2,}", text)
        assert set(named) <= {"http://www.w3.org", "//www.w3.org"}  # the name of SVG


def test_pages_open_with_data_in_under_a_second_of_server_time(address: str) -> None:
    with httpx.Client(base_url=address) as client:
        for path in ("/api/v1/cost?by=tenant,route", "/api/v1/requests?limit=100"):
            client.get(path)
            began = time.process_time()
            assert client.get(path).status_code == 200
            assert time.process_time() - began < 1.0
