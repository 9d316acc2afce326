"""What the address of the SLO page says: which SLO, which group, and how it is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from base.labels import from_address, in_address
from dashboards.state import followed

PATH = "/slo"
WINDOW = "window"
"""The whole budget window, shown unless the address asks for less of it."""

SORTS = ("urgency", "group", "target", "sli", "budget", "burn", "bad", "total", "state")
_TOP_FIRST = frozenset({"burn", "bad", "total"})  # what one looks for is the largest


@dataclass(frozen=True, slots=True)
class SloView:
    """One state of the page. `group` None: the most urgent one; `page` counts from 1."""

    name: str | None = None
    group: Mapping[str, str] | None = None
    span: str = WINDOW
    sort: str = "urgency"
    is_descending: bool = False
    page: int = 1
    find: str = ""


def parse_view(search: str | None) -> SloView:
    """Read a query string; what it does not understand is as if it were not there."""
    values = {k: v for k, v in parse_qsl((search or "").lstrip("?")) if v}
    sort = values.get("sort", "")
    column = sort.removeprefix("-")
    page = values.get("page", "")
    return SloView(
        name=values.get("name"),
        group=from_address(values["group"]) if "group" in values else None,
        span=values.get("span", WINDOW),
        sort=column if column in SORTS else "urgency",
        is_descending=column in SORTS and sort.startswith("-"),
        page=max(1, int(page)) if page.isascii() and page.isdigit() and len(page) < 9 else 1,
        find=values.get("find", ""),
    )


def sort_address(view: SloView, column: str) -> str | None:
    """Name what a click on a column's head asks for: the other way round on the second one."""
    is_descending = column in _TOP_FIRST
    if view.sort == column:
        is_descending = not view.is_descending
    return ("-" if is_descending else "") + column


def slo_address(name: str, group: Mapping[str, str], search: str | None) -> str:
    """Link to an SLO and a group; the time range and the tenant follow."""
    chosen = in_address(group)
    values = {"name": name, **({"group": chosen} if chosen else {}), **followed(search)}
    return f"{PATH}?{urlencode(values, safe=',:~/')}"
