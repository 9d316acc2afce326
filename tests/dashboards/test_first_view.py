"""The first view in a real browser: readable without scripts, and gone unnoticed with them."""

from __future__ import annotations

from typing import Any

import pytest
from browsing import Visit, visiting

from dashboards.statictable import _FORMATS

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FIRST = "#first-view"
TRACE = "aa" * 16


@pytest.fixture
def plain(browser: Any, address: str) -> Any:
    """A browser without JavaScript."""
    yield from visiting(browser, address, java_script_enabled=False)


def test_pages_are_readable_without_javascript(plain: Visit) -> None:
    plain.page.goto(plain.address + "/?range=24h")
    plain.see(f"{FIRST} .tile-value", "of 20")
    plain.see(f"{FIRST} .event", "shed 75 % of tenant acme")
    plain.see(f"{FIRST} .chart[data-chart*=good]")
    assert "_dash-loading" not in plain.page.inner_text("body")

    plain.page.click(f"{FIRST} .nav >> text=Cost")
    plain.see(f"{FIRST} .reconciliation", "adds up")
    plain.see(f"{FIRST} .still-table [role=row]", "idle")
    plain.page.click(f"{FIRST} .still-chip >> text=Replica")
    plain.see(f"{FIRST} [role=columnheader]", "Replica")
    plain.page.click(f"{FIRST} .still-segments >> text=30d")
    assert "range=30d" in plain.page.url
    assert "by=tenant,route,replica" in plain.page.url

    plain.page.click(f"{FIRST} .nav >> text=Traces")
    plain.see(f"{FIRST} .still-table a").click()
    plain.see(f"{FIRST} .back")
    assert "trace=" in plain.page.url


@pytest.mark.parametrize(
    ("path", "selector"),
    [
        ("/?range=24h", ".tile-value"),
        ("/?range=24h", ".slo-row"),
        ("/cost", ".tile-value"),
        (f"/traces?trace={TRACE}", ".span-row"),
    ],
)
def test_the_live_page_shows_the_same_in_the_same_places(
    visit: Visit, path: str, selector: str
) -> None:
    visit.hold("**/_dash-layout")
    visit.page.goto(visit.address + path)
    read = f"""[...document.querySelectorAll('{selector}')].map(e => {{
        const box = e.getBoundingClientRect();
        return [e.innerText, ...[box.x, box.y, box.width].map(Math.round)];
    }})"""
    visit.see(f"{FIRST} {selector}")
    first = visit.page.evaluate(read)
    visit.release()
    visit.until("!document.getElementById('first-view')")

    assert visit.page.evaluate(read) == first
    assert len(first) > 1


def test_charts_are_drawn_before_the_live_page_is_asked_for(visit: Visit) -> None:
    visit.hold("**/_dash-component-suites/**")
    visit.page.goto(visit.address + "/?range=24h", wait_until="commit")

    visit.see(f"{FIRST} .chart .chart-fill-area")
    visit.release()


def test_scrolling_is_kept_when_the_live_page_takes_over(visit: Visit) -> None:
    visit.hold("**/_dash-layout")
    visit.page.goto(visit.address + "/?range=24h")
    visit.page.evaluate("scrollTo(0, 220)")
    visit.release()
    visit.until("!document.getElementById('first-view')")

    assert visit.page.evaluate("scrollY") == 220


def test_both_tables_write_numbers_alike(visit: Visit) -> None:
    visit.open("/cost")
    visit.until("window.dashAgGridFunctions !== undefined")
    numbers = [None, 0, 1, 7, 12, 99, 100, 150, 999, 1000, 1234, 98_765, 1_234_567, 5_000_000_000]
    numbers += [0.0123, 0.126, 0.5, 1.25, 9.996, 12.345, 123.456, 64_321.9, 250_000.0]
    money = [0.00001234, 0.000123, 0.00123]

    for form in ("dollars", "count", "millis", "hours"):
        given = numbers + (money if form == "dollars" else [])
        written = visit.page.evaluate(f"numbers => numbers.map(dashAgGridFunctions.{form})", given)
        assert written == [_FORMATS[form](number) for number in given], form
