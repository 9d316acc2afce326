"""The first view: a page with its numbers as plain HTML, sent before any script is asked for.

It is made of the same components, filled by the same functions, as the live page, which takes its
place as soon as it shows its own numbers (`assets/shell.js`). What was read for it is remembered,
so the live page's first question costs nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as WaitTimeoutError
from typing import Any, Protocol

from base.selfmon import Log
from dashboards import shell
from dashboards.reader import Reader
from dashboards.static import to_html

WAIT_S = 1.2  # then the page is sent without its numbers, which the live page brings
_AT_ONCE = 2

_log = Log("dashboards")


class Page(Protocol):
    """A page's components, and what its callbacks would answer, by "id.property"."""

    def layout(self) -> Any: ...

    def fill(self, reader: Reader, search: str) -> Mapping[str, Any]: ...


class FirstView:
    """Writes first views; neither a slow store nor an error keeps a page from being sent."""

    def __init__(self, reader: Reader, pages: Mapping[str, Page], wait_s: float = WAIT_S) -> None:
        self._reader = reader
        self._pages = pages
        self._wait_s = wait_s
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="first-view")
        self._free = threading.BoundedSemaphore(_AT_ONCE)

    def html(self, path: str, search: str) -> str:
        """Write the page of a path; nothing for a path that is none of ours."""
        page = self._pages.get(path)
        if page is None:
            return ""
        try:
            return write(path, search, page, self._read(page, search), self._reader)
        except Exception:  # noqa: BLE001
            _log.exception("first_view_failed", path=path)
            return ""

    def _read(self, page: Page, search: str) -> Mapping[str, Any]:
        if not self._free.acquire(blocking=False):
            return {}
        reading = self._threads.submit(page.fill, self._reader, search)
        reading.add_done_callback(lambda _: self._free.release())
        try:
            return reading.result(self._wait_s)
        except WaitTimeoutError:
            _log.info("first_view_without_numbers", why="slow")
        except Exception as error:  # noqa: BLE001
            _log.info("first_view_without_numbers", why=f"{error}"[:300])
        return {}


def write(path: str, search: str, page: Page, parts: Mapping[str, Any], reader: Reader) -> str:
    """Put what was read in the places where the callbacks would put it, and write it all down."""
    frame = shell.layout()
    frame["page"].children = page.layout()
    read_at = reader.deps.clock.now() if parts else None
    for name, value in {**shell.fill(path, search, read_at), **parts}.items():
        place, _, prop = name.partition(".")
        setattr(frame[place], prop, value)
    return f'<div id="first-view">{to_html(frame, search)}</div>'
