"""What the address of the ingest page says beside time range and tenant: order, part, search."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl

SORTS = (
    "trouble", "source", "tenant", "accepted", "duplicate", "late", "refused", "rejected",
    "letters", "last",
)  # fmt: skip
_TOP_LAST = frozenset({"trouble", "source", "tenant", "last"})  # one looks for the smallest there


@dataclass(frozen=True, slots=True)
class IngestView:
    """One state of the table of senders; `page` counts from 1."""

    sort: str = "trouble"
    is_descending: bool = False
    page: int = 1
    find: str = ""


def parse_ingest(search: str | None) -> IngestView:
    """Read a query string; what it does not understand is as if it were not there."""
    values = {k: v for k, v in parse_qsl((search or "").lstrip("?")) if v}
    sort, page = values.get("sort", ""), values.get("page", "")
    column = sort.removeprefix("-")
    return IngestView(
        sort=column if column in SORTS else "trouble",
        is_descending=column in SORTS and sort.startswith("-"),
        page=max(1, int(page)) if page.isascii() and page.isdigit() and len(page) < 9 else 1,
        find=values.get("find", ""),
    )


def next_sort(view: IngestView, column: str) -> str:
    """Name what a click on a column's head asks for: the other way round on the second one."""
    is_descending = column not in _TOP_LAST
    if view.sort == column:
        is_descending = not view.is_descending
    return ("-" if is_descending else "") + column
