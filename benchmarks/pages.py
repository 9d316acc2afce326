"""How long a page takes to open: `python benchmarks/pages.py [URL] [--times N]`.

Without a URL it starts an instance of its own with thirty days of the demonstration's history.
Milliseconds from navigation to:

    painted   anything at all is on the screen
    data      the page's numbers, charts and rows are there to read
    live      the page's scripts have taken over: filters, sorting, refreshes

Cold is a browser that has never been there, warm one that has its scripts in the cache.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml
from playwright.async_api import async_playwright
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from tokenweir.demo.config import PRICES, SLO_FILE
from tokenweir.demo.past import past_is_judged, send_past
from tokenweir.demo.processes import Managed, free_port
from tokenweir.demo.start import Running

DAYS = 30
ARGUMENTS = ["--no-sandbox", "--no-first-run", "--disable-background-networking", "--disable-sync"]
# page -> path, what is there when its numbers are
PAGES = {
    "Overview, 1 hour": ("/?range=1h", ".chart-dots, .chart-line, .chart-empty"),
    "Overview, 24 hours": ("/", ".chart-dots"),
    "Overview, 30 days": ("/?range=30d", ".chart-dots"),
    "SLOs, all": ("/slo", "#slo-list .ledger td, .slo-list td"),
    "SLO, 30 days": ("/slo?name=chat-first-token", ".chart-line-step"),
    "Cost, 7 days": ("/cost?range=7d", ".share"),
    "Cost, 30 days": ("/cost?range=30d", ".share"),
    "Traces, 24 hours": ("/traces", "[role=row] a"),
    "Traces, 30 days": ("/traces?range=30d", "[role=row] a"),
}
MOMENTS = ("painted", "data", "live")
# Put down in the page, frame by frame: asking from outside would take longer than the page.
WATCH = """(() => {
  const moments = window.moments = {};
  const look = () => {
    const first = document.getElementById("first-view");
    const shown = first || document.getElementById("page");
    if (!moments.data && shown && shown.querySelector("SELECTOR")) {
      requestAnimationFrame(() => setTimeout(() => { moments.data ||= performance.now(); }));
    }
    const page = document.getElementById("page");
    if (!first && page && page.querySelector("SELECTOR")) moments.live ||= performance.now();
    if (!moments.live) requestAnimationFrame(look);
  };
  look();
})()"""
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


def main() -> None:
    """Open every page cold and warm, and print a table of medians and worsts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", nargs="?", help="such as http://127.0.0.1:8080")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    args = parser.parse_args()
    Console().print(asyncio.run(measured(args.url, args.times, args.chromium)))


async def measured(url: str | None, times: int, chromium: str) -> Table:
    """Measure a running instance, or one that is started for it."""
    if url is not None:
        return await opened(url.rstrip("/"), times, chromium)
    async with an_instance() as address:
        return await opened(address, times, chromium)


@asynccontextmanager
async def an_instance() -> AsyncIterator[str]:
    """Start `tokenweir up` on an empty folder, load the history, and stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="pages-") as name:
        folder = Path(name)
        config = folder / "tokenweir.yaml"
        config.write_text(yaml.safe_dump({"cost": {"prices": str(PRICES)}}), encoding="utf-8")
        ports = {
            each: f"127.0.0.1:{free_port(0)}" for each in ("http", "otlp-http", "otlp-grpc", "keda")
        }
        control = Managed("tokenweir up", folder / "tokenweir.log")
        await control.start([
            "-m", "tokenweir", "up", f"--data={folder / 'data'}", f"--slo={SLO_FILE}",
            f"--config={config}", *(f"--{each}={port}" for each, port in ports.items()),
        ])  # fmt: skip
        try:
            running = Running(
                f"http://{ports['http']}", f"http://{ports['otlp-http']}", ports["otlp-grpc"],
                ports["keda"], {},
            )  # fmt: skip
            await until_ready(running.http)
            sent = await send_past(running, DAYS, 7, asyncio.Event())
            await past_is_judged(running, sent)
            yield running.http
        finally:
            await control.stop()


async def until_ready(url: str) -> None:
    end = time.monotonic() + 60
    async with httpx.AsyncClient(trust_env=False) as http:
        while True:
            try:
                if (await http.get(f"{url}/-/ready")).status_code == httpx.codes.OK:
                    return
            except httpx.TransportError:
                pass
            if time.monotonic() > end:
                raise SystemExit(f"{url} is not ready after a minute")
            await asyncio.sleep(0.2)


async def opened(url: str, times: int, chromium: str) -> Table:
    """Open each page `times` times in a browser that is new, and again in the same one."""
    table = Table(
        "page", "cache", *(f"{m}, ms" for m in MOMENTS), *(f"worst {m}" for m in MOMENTS[1:])
    )
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        for name, (path, ready) in PAGES.items():
            found: dict[str, list[list[float]]] = {"cold": [], "warm": []}
            for _ in range(times):
                context = await browser.new_context(viewport={"width": 1440, "height": 900})
                for moments in found.values():  # the first opening is the cold one
                    moments.append(await open_once(context, url + path, ready))
                await context.close()
            for cache, moments in found.items():
                medians = [statistics.median(each) for each in zip(*moments, strict=True)]
                worsts = [max(each) for each in zip(*moments, strict=True)][1:]
                table.add_row(name, cache, *(f"{ms:,.0f}" for ms in (*medians, *worsts)))
        await browser.close()
    return table


async def open_once(context: Any, url: str, ready: str) -> list[float]:
    """Open a page; milliseconds until each of MOMENTS."""
    page = await context.new_page()
    await page.add_init_script(WATCH.replace("SELECTOR", ready))
    await page.goto(url, wait_until="commit")
    await page.wait_for_function("window.moments.live && window.moments.data", timeout=60_000)
    moments = await page.evaluate("[window.moments.data, window.moments.live]")
    painted = await page.evaluate(PAINTED)
    await page.close()
    data, live = map(float, moments)
    return [float(painted), max(data, float(painted)), live]


if __name__ == "__main__":
    main()
