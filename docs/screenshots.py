"""Take the README's screenshots from a running instance: `python docs/screenshots.py URL`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

FOLDER = Path(__file__).parent / "img"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# name -> path, what must be visible before the picture is taken
PAGES = {
    "overview": ("/?range=1h", "#overview-ttft .chart-dots"),
    "slo": ("/slo?range=30d&name={slo}", "#slo-burndown .chart-line-step"),
    "cost": ("/cost?range=7d", "#cost-rows .ag-row"),
    "traces": ("/traces?range=1h", "#requests .ag-row a"),
    "trace": (None, "#waterfall a.span-row"),
}


def main() -> None:
    """Photograph each page, light and dark, wide and narrow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="such as http://127.0.0.1:8080")
    parser.add_argument("--slo", default="chat-first-token", help="the SLO that is shown")
    parser.add_argument("--only", choices=list(PAGES), help="one page instead of all")
    parser.add_argument("--trace", help="a trace id; the newest request's otherwise")
    parser.add_argument("--to", type=Path, default=FOLDER)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    args = parser.parse_args()
    args.to.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=args.chromium, args=ARGUMENTS)
        for scheme in ("light", "dark"):
            for width in (1440, 420):
                context = browser.new_context(
                    viewport={"width": width, "height": 900}, color_scheme=scheme
                )
                for name in [args.only] if args.only else PAGES:
                    target = args.to / f"{name}-{scheme}{'' if width == 1440 else '-narrow'}.png"
                    photograph(context, args, name, target)
                    print(target)
                context.close()
        browser.close()


def photograph(context: Any, args: argparse.Namespace, name: str, target: Path) -> None:
    """Open a page, wait for its data and for the charts to settle, and save it."""
    page, url = context.new_page(), args.url.rstrip("/")
    path, ready = PAGES[name]
    if path is None:
        path = f"/traces?trace={args.trace or newest_trace(context, url)}"
    page.goto(url + path.format(slo=args.slo))
    page.wait_for_function("!document.getElementById('first-view')", timeout=30_000)
    page.wait_for_selector(ready, timeout=30_000)
    page.wait_for_load_state("networkidle")
    page.evaluate("document.fonts.ready")
    page.screenshot(path=target, full_page=name not in {"traces", "slo"})
    page.close()


def newest_trace(context: Any, url: str) -> str:
    """Find a trace to show: that of the newest request with tokens."""
    found = context.request.get(f"{url}/api/v1/requests?limit=200").json()["requests"]
    best = next((r for r in found if r["completion_tokens"] and r["replica"]), found[0])
    return str(best["trace_id"])


if __name__ == "__main__":
    main()
