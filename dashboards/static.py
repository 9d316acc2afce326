"""Write a page's components as plain HTML: what is shown before any script has run.

The page's own components become the elements that Dash would make of them; of the few controls
and the tables it makes pictures of the same size, so that nothing moves when the live ones come.
Ids stay with the live page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from dash.development.base_component import Component

from dashboards.state import with_search
from dashboards.statictable import Markup, table

_ATTRIBUTES = {
    "className": "class",
    "title": "title",
    "href": "href",
    "role": "role",
    "hidden": "hidden",
    "scope": "scope",
    "colSpan": "colspan",
    "target": "target",
    "rel": "rel",
}
# Of a segmented control: its parameter in the address, what it shows when that is not there, and
# what else a choice takes out of the address.
_CHOICES = {"range": ("range", "24h", ("from", "to")), "filter-outcome": ("outcome", "all", ())}
_BEHAVIOUR = frozenset({"Location", "Interval", "Store"})


def to_html(part: Any, search: str = "") -> Markup:
    """Write a tree of components; links keep what the address says in `search`.

    A kind or an attribute that is not known is a TypeError: nothing is left out silently.
    """
    if part is None:
        return Markup("")
    if isinstance(part, (list, tuple)):
        return Markup("".join(to_html(each, search) for each in part))
    if isinstance(part, (str, int, float)) and not isinstance(part, bool):
        return Markup(escape(str(part)))
    if not isinstance(part, Component):
        raise TypeError(f"a page cannot show a {type(part).__name__}")
    kind, props = type(part).__name__, _props(part)
    library = part._namespace  # noqa: SLF001
    if library == "dash_html_components":
        return _element(kind.lower(), props, search)
    if kind in _BEHAVIOUR:
        return Markup("")
    if kind in _PICTURES:
        return _PICTURES[kind](props, search)
    raise TypeError(f"{library}.{kind} has no static form: give it one in {__name__}")


def _props(part: Component) -> dict[str, Any]:
    props: dict[str, Any] = part.to_plotly_json()["props"]  # type: ignore[no-untyped-call]
    return {name: value for name, value in props.items() if value is not None}


def _element(tag: str, props: Mapping[str, Any], search: str) -> Markup:
    written = []
    for name, value in props.items():
        if name in {"children", "id"} or value is False:
            continue
        if name == "style":
            text = _style(value)
        elif name in _ATTRIBUTES or name.startswith(("aria-", "data-")):
            text = str(value)
        else:
            raise TypeError(f"<{tag}> has no static form of {name!r}")
        written.append(f' {_ATTRIBUTES.get(name, name)}="{escape(text)}"')
    inside = to_html(props.get("children"), search)
    return Markup(f"<{tag}{''.join(written)}>{inside}</{tag}>")


def _style(style: Mapping[str, Any]) -> str:
    """Write a style as React does: names in kebab case, numbers in pixels."""
    return ";".join(
        f"{_CAPITAL.sub(_dashed, name)}:{value}{'px' if isinstance(value, (int, float)) else ''}"
        for name, value in style.items()
        if value is not None
    )


_CAPITAL = re.compile("[A-Z]")


def _dashed(found: re.Match[str]) -> str:
    return f"-{found[0].lower()}"


def _link(props: Mapping[str, Any], search: str) -> Markup:
    return _element("a", props, search)


def _inside(props: Mapping[str, Any], search: str) -> Markup:
    return to_html(props.get("children"), search)


def _header(props: Mapping[str, Any], search: str) -> Markup:
    return Markup(f'<div class="still-header">{_inside(props, search)}</div>')


def _main(props: Mapping[str, Any], search: str) -> Markup:
    return Markup(f'<div class="still-main">{_inside(props, search)}</div>')


def _select(props: Mapping[str, Any], _search: str) -> Markup:
    value = props.get("value")
    text = escape(str(value or props.get("placeholder", "")))
    width = f"{props['w']}px" if "w" in props else ""
    return Markup(
        f'<span class="still-input still-select{"" if value else " still-empty"}"'
        f' style="width:{width}">{text}</span>'
    )


def _input(props: Mapping[str, Any], _search: str) -> Markup:
    value = props.get("value")
    text = escape(str(value or props.get("placeholder", "")))
    empty = "" if value else " still-empty"
    return Markup(f'<span class="still-input still-text{empty}">{text}</span>')


def _button(props: Mapping[str, Any], search: str) -> Markup:
    return Markup(f'<span class="still-button">{_inside(props, search)}</span>')


def _copy(_props: Mapping[str, Any], _search: str) -> Markup:
    return Markup('<span class="still-copy">Copy id</span>')


def _segments(props: Mapping[str, Any], search: str) -> Markup:
    name, default, others = _CHOICES[props["id"]]
    links = []
    for choice in props["data"]:
        changes: dict[str, str | None] = dict.fromkeys(others)
        changes[name] = None if choice == default else choice
        href = escape(with_search(search, **changes) or "?")
        chosen = ' class="chosen" aria-current="true"' if choice == props.get("value") else ""
        links.append(f'<a href="{href}"{chosen}>{escape(choice)}</a>')
    return Markup(f'<span class="still-segments">{"".join(links)}</span>')


def _chips(props: Mapping[str, Any], search: str) -> Markup:
    """Show a chip group; each chip adds its value to the address, or takes it out."""
    chosen, out = props["value"], []
    for chip in (_props(each) for each in props["children"]):
        is_chosen = chip["value"] in chosen
        rest = [name for name in chosen if name != chip["value"]]
        href = escape(
            with_search(search, by=",".join(rest if is_chosen else [*chosen, chip["value"]])) or "?"
        )
        cls = "still-chip chosen" if is_chosen else "still-chip"
        out.append(f'<a class="{cls}" href="{href}">{to_html(chip["children"])}</a>')
    return Markup("".join(out))


def _toggle(props: Mapping[str, Any], search: str) -> Markup:
    icons = to_html([props["lightIcon"], props["darkIcon"]], search)
    return Markup(f'<span class="still-toggle">{icons}</span>')


def _drawer(props: Mapping[str, Any], search: str) -> Markup:
    if not props.get("opened"):
        return Markup("")
    title = escape(str(props["title"]))
    return Markup(f'<aside class="still-drawer"><h2>{title}</h2>{_inside(props, search)}</aside>')


def _grid(props: Mapping[str, Any], search: str) -> Markup:
    return table(props["columnDefs"], props.get("rowData") or [], search)


_PICTURES: Mapping[str, Callable[[Mapping[str, Any], str], Markup]] = {
    "Link": _link,
    "MantineProvider": _inside,
    "AppShell": _inside,
    "AppShellHeader": _header,
    "AppShellMain": _main,
    "Select": _select,
    "TextInput": _input,
    "Button": _button,
    "CopyButton": _copy,
    "SegmentedControl": _segments,
    "ChipGroup": _chips,
    "ColorSchemeToggle": _toggle,
    "Drawer": _drawer,
    "AgGrid": _grid,
}
