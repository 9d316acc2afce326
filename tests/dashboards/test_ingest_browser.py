"""The ingest page in a real browser, on a day of intake."""

from __future__ import annotations

from typing import Any

import pytest
from browsing import Visit, visiting

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def pocket(browser: Any, address: str) -> Any:
    yield from visiting(browser, address, viewport={"width": 390, "height": 844})


def test_the_page_is_reached_and_sorted_and_searched_and_the_address_says_so(
    visit: Visit,
) -> None:
    visit.open("/?range=6h")
    visit.page.click("#nav-ingest")
    visit.see("#ingest-head .slo-stands", "Refusing some")
    visit.see("#ingest-flow .chart-fill-area")
    assert "range=6h" in visit.search

    visit.page.focus("#ingest-senders th a >> text=Accepted")
    visit.page.keyboard.press("Enter")
    visit.until("location.search.includes('sort=-accepted')")
    visit.see("#ingest-senders th[aria-sort=descending]", "Accepted")
    visit.page.fill("#ingest-find", "JOBS")
    visit.page.press("#ingest-find", "Enter")
    visit.until("document.querySelectorAll('#ingest-senders tbody tr').length === 1")
    assert "find=JOBS" in visit.search


def test_the_first_view_is_the_page(visit: Visit) -> None:
    visit.hold("**/_dash-component-suites/**")  # these bring styles, too
    visit.page.goto(visit.address + "/ingest?range=6h", wait_until="commit")
    visit.see("#first-view .slo-stands", "Refusing some")
    visit.see("#first-view .chart .chart-fill-area")
    read = """selector => [...document.querySelectorAll(selector)].map(e => {
        const box = e.getBoundingClientRect();
        return [e.innerText, ...[box.x, box.y, box.width].map(Math.round)];
    })"""
    places = (".tile-value", ".ledger td", ".event-why", ".card-words")
    first = [visit.page.evaluate(read, place) for place in places]
    visit.release()
    visit.until("!document.getElementById('first-view')")

    assert [visit.page.evaluate(read, place) for place in places] == first


def test_nothing_sticks_out_of_a_pocket_and_the_frame_keeps_its_height(pocket: Visit) -> None:
    pocket.open("/ingest")
    pocket.see(".ledger td")

    assert pocket.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert (
        pocket.page.evaluate("document.querySelector('.scope').getBoundingClientRect().bottom")
        <= 96
    )
