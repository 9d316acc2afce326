"""How pages read: side by side where they can, and not again what was just read."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ParamSpec, TypeVar

from dashboards.deps import Deps
from dashboards.memo import Memo

SHARED = timedelta(seconds=4)
"""How long a page's answer serves others who ask the same; every refresh of a page is newer."""

PATIENCE_S = 60.0  # longer than any query of a page may take

_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Reader:
    """What every page is given. `memo` is of all pages, so what one has read serves the others."""

    deps: Deps
    memo: Memo[Any]
    _threads: ThreadPoolExecutor = field(
        # Each holds a session of the store. Its queue is bounded by the pages that wait for it.
        default_factory=lambda: ThreadPoolExecutor(4, thread_name_prefix="pages")
    )

    def start(
        self, read: Callable[_Given, _Found], *args: _Given.args, **more: _Given.kwargs
    ) -> Future[_Found]:
        """Begin to read. `read` must not start another read: it could wait for itself."""
        return self._threads.submit(read, *args, **more)
