"""A browser tab that remembers everything that went wrong in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass
class Visit:
    """A browser tab and everything that went wrong in it."""

    page: Any
    address: str
    complaints: list[str] = field(default_factory=list)
    held: list[Any] = field(default_factory=list)  # requests that wait to be let go
    is_holding: bool = True

    def open(self, path: str) -> None:
        """Go there and wait for the live page."""
        self.page.goto(self.address + path)
        self.until("!document.getElementById('first-view')")

    def see(self, selector: str, text: str | None = None) -> Any:
        found = self.page.locator(selector)
        if text is not None:
            found = found.filter(has_text=text)
        found.first.wait_for(state="visible", timeout=60_000)
        return found.first

    def hold(self, pattern: str) -> None:
        """Let requests wait until `release`, which waits for the first of them."""

        def keep(route: Any) -> None:
            if self.is_holding:
                self.held.append(route)
            else:
                route.continue_()

        self.page.route(pattern, keep)

    def release(self) -> None:
        while not self.held:
            self.page.wait_for_timeout(20)
        self.is_holding = False
        for route in self.held:
            route.continue_()

    @property
    def search(self) -> str:
        return str(self.page.evaluate("location.search"))

    def until(self, condition: str) -> None:
        self.page.wait_for_function(condition, timeout=60_000)


def visiting(browser: Any, address: str, **options: Any) -> Iterator[Visit]:
    settings = {"viewport": {"width": 1440, "height": 900}, "color_scheme": "light", **options}
    context = browser.new_context(**settings)
    visit = Visit(context.new_page(), address)

    def on_request(request: Any) -> None:
        if not request.url.startswith((address, "data:", "blob:")):
            visit.complaints.append(f"asked {request.url}")

    def on_console(message: Any) -> None:
        if message.type == "error":
            visit.complaints.append(f"console: {message.text}")

    visit.page.on("request", on_request)
    visit.page.on("console", on_console)
    visit.page.on("pageerror", lambda error: visit.complaints.append(f"script: {error}"))
    yield visit
    context.close()
    assert visit.complaints == []
