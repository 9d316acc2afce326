"""The SLO page in a real browser, on thirty days of requests with an incident at their end."""

from __future__ import annotations

from typing import Any

import pytest
from browsing import Visit, visiting

pytestmark = [pytest.mark.browser, pytest.mark.slow]

CHAT = "/slo?name=chat-e2e&group=tenant:acme"


@pytest.fixture
def pocket(browser: Any, address: str) -> Any:
    yield from visiting(browser, address, viewport={"width": 390, "height": 844})


def test_a_row_of_the_overview_leads_to_everything_about_it(visit: Visit) -> None:
    visit.open("/?range=7d")
    visit.see("#objectives .slo-foreseen", "spent")
    visit.see("#objectives .slo-open").click()

    visit.see("#slo-head h1")
    assert visit.page.evaluate("location.pathname") == "/slo"
    assert "range=7d" in visit.search
    assert "group=tenant:" in visit.search
    visit.see("#nav-slos.active")


def test_one_slo_shows_budget_burn_causes_groups_and_what_is_on_record(visit: Visit) -> None:
    visit.open(CHAT)

    visit.see("#slo-head .slo-asked", "99 % of requests where route")
    visit.see("#slo-head .chip", "platform")
    visit.see("#slo-tiles .tile-note", "bad too many")
    visit.see("#slo-burndown .chart-line-step")
    visit.see("#slo-tiers tr.burning", "fast")
    visit.see("#slo-tiers .bullet .over")
    visit.see("#slo-why .causes a")
    visit.see("#slo-fired .event", "page")
    visit.see("#slo-done", "Nothing had to be done for this SLO")
    visit.see("#slo-periods .event", "Europe/Berlin")
    visit.see("#slo-exclusions .event.over s", "load test")
    visit.see("#slo-exclusions .event", "every Sunday, 02:00 to 03:00 Europe/Berlin")
    visit.see("#slo-versions .diff ins", "99")
    visit.see("#slo-document code", "duration_ms <= 5000 + 60 * completion_tokens")
    visit.see("#slo-share .chart-bars")
    label = visit.page.get_attribute("#slo-burndown > svg", "aria-label")
    assert "budget left" in str(label)
    assert visit.page.locator("#slo-burndown .chart-band-left-out").count() > 2
    assert visit.page.locator("#slo-burndown .chart-mark-edit").count() == 1


def test_a_click_changes_group_order_and_span_and_the_address_says_so(visit: Visit) -> None:
    visit.open("/slo?name=chat-ttft")
    visit.see("#slo-groups tr.chosen")
    visit.page.click("#slo-groups th >> text=Total")
    visit.until("location.search.includes('sort=-total')")
    visit.see("#slo-groups th[aria-sort=descending]", "Total")
    visit.see("#slo-groups tbody tr >> nth=0", "acme")

    # Anywhere in the row: its link lies over it.
    visit.page.click("#slo-groups tbody tr:has-text('umbrella') td:nth-child(3)", force=True)
    visit.until("location.search.includes('group=tenant:umbrella')")
    visit.see("#slo-head .chip.big", "umbrella")
    visit.page.click("#slo-spans >> text=24h")
    visit.until("location.search.includes('span=24h')")
    visit.see("#slo-spans a.chosen", "24h")

    visit.open("/slo" + visit.search)
    visit.see("#slo-spans a.chosen", "24h")
    visit.see("#slo-groups tr.chosen", "umbrella")
    visit.page.go_back()
    visit.page.fill("#slo-find", "GLO")
    visit.page.press("#slo-find", "Enter")
    visit.until("document.querySelectorAll('#slo-groups tbody tr').length === 1")
    assert "find=GLO" in visit.search


def test_without_a_name_every_slo_is_listed_and_what_is_missing_is_said(visit: Visit) -> None:
    visit.open("/slo")
    assert visit.page.locator("#slo-list tbody tr").count() == 4
    visit.page.click("#slo-list a >> text=chat-tpot")
    visit.see("#slo-head h1", "chat-tpot")

    visit.open("/slo?name=nothing")
    visit.see("#slo-notice .notice", "No SLO is named nothing")
    visit.open("/slo?name=chat-old")
    visit.see("#slo-notice .notice", "chat-old was taken away")


def test_the_first_view_is_the_page_and_keyboards_reach_all_of_it(visit: Visit) -> None:
    visit.hold("**/_dash-layout")
    visit.page.goto(visit.address + CHAT)
    visit.see("#first-view .slo-title h1", "chat-e2e")
    visit.see("#first-view .chart .chart-line-step")
    read = """selector => [...document.querySelectorAll(selector)].map(e => {
        const box = e.getBoundingClientRect();
        return [e.innerText, ...[box.x, box.y, box.width].map(Math.round)];
    })"""
    first = [visit.page.evaluate(read, s) for s in (".tile-value", ".ledger td", ".event-why")]
    visit.release()
    visit.until("!document.getElementById('first-view')")
    live = [visit.page.evaluate(read, s) for s in (".tile-value", ".ledger td", ".event-why")]
    assert live == first

    visit.page.focus("#slo-spans a")
    visit.page.keyboard.press("Tab")
    style = visit.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert style == "solid"
    visit.page.keyboard.press("Enter")
    visit.until("location.search.includes('span=')")


@pytest.mark.parametrize("path", [CHAT, "/slo"])
def test_nothing_sticks_out_of_a_pocket(pocket: Visit, path: str) -> None:
    pocket.open(path)
    pocket.see(".ledger td")

    assert pocket.page.evaluate("document.documentElement.scrollWidth") <= 390


CONTRAST = """() => {
  const rgb = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const over = (top, below) => {  // any colour the browser knows, painted over another
    canvas.fillStyle = `rgb(${below.slice(0, 3)})`; canvas.fillRect(0, 0, 1, 1);
    canvas.fillStyle = top; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const behind = e => {
    const chain = [];
    for (let at = e; at; at = at.parentElement) chain.unshift(getComputedStyle(at).backgroundColor);
    return chain.reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const poor = [];
  for (const e of document.querySelectorAll("#slo *")) {
    const says = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!says || !e.offsetParent || e.closest(".over, svg")) continue;
    const below = behind(e), text = over(getComputedStyle(e).color, below);
    const [a, b] = [light(text), light(below)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.push([e.className, e.textContent.slice(0, 30), ratio.toFixed(2)]);
  }
  return poor;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_word_stands_out_from_what_is_behind_it(visit: Visit, scheme: str) -> None:
    visit.page.emulate_media(color_scheme=scheme)
    visit.open(CHAT)
    visit.see("#slo-tiers tr.burning")

    assert visit.page.evaluate(CONTRAST) == []
