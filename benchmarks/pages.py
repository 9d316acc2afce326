"""How long a page takes to open: `python benchmarks/pages.py URL`, on a running instance.

Milliseconds from navigation to: the frame painted, and the last of the page's figures in place.
Cold is a browser that has never been there, warm one that has its scripts in the cache.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.table import Table

ARGUMENTS = ["--no-sandbox", "--no-first-run", "--disable-background-networking", "--disable-sync"]
# page -> path, what is there when the last figure is
PAGES = {
    "Overview, 1 hour": ("/?range=1h", "#overview-ttft .scatterlayer .trace"),
    "Overview, 30 days": ("/?range=30d", "#overview-ttft .scatterlayer .trace"),
    "Cost, 7 days": ("/cost?range=7d", "#cost-rows .ag-row"),
    "Cost, 30 days": ("/cost?range=30d", "#cost-rows .ag-row"),
    "Traces, 1 hour": ("/traces?range=1h", "#requests .ag-row a"),
    "Traces, 30 days": ("/traces?range=30d", "#requests .ag-row a"),
}
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


def main() -> None:
    """Open every page cold and warm, and print a table of medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="such as http://127.0.0.1:8080")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    args = parser.parse_args()
    table = Table("page", *(f"{what}, ms" for what in ("painted", "cold", "warm", "warm, worst")))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=args.chromium, args=ARGUMENTS)
        for name, (path, ready) in PAGES.items():
            cold, warm = [], []
            for _ in range(args.times):
                context = browser.new_context(viewport={"width": 1440, "height": 900})
                cold.append(opened(context, args.url.rstrip("/") + path, ready))
                warm.append(opened(context, args.url.rstrip("/") + path, ready))
                context.close()
            figures = [
                statistics.median(painted for painted, _ in warm),
                statistics.median(complete for _, complete in cold),
                statistics.median(complete for _, complete in warm),
                max(complete for _, complete in warm),
            ]
            table.add_row(name, *(f"{figure:,.0f}" for figure in figures))
        browser.close()
    Console().print(table)


def opened(context: Any, url: str, ready: str) -> tuple[float, float]:
    """Open a page; milliseconds until it is painted, and until its figures are there."""
    page = context.new_page()
    page.goto(url, wait_until="commit")
    page.wait_for_selector(ready, timeout=30_000)
    complete = page.evaluate("performance.now()")
    painted = page.evaluate(PAINTED)
    page.close()
    return float(painted), float(complete)


if __name__ == "__main__":
    main()
