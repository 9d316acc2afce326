"""One colour, one meaning, on charts and pages alike; nothing comes from elsewhere."""

from __future__ import annotations

import re
from importlib import resources

from dashboards.theme import DARK, LIGHT, Palette, palette

ASSETS = resources.files("dashboards") / "assets"
CSS = (ASSETS / "app.css").read_text()


def css_variables(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6});", block))


def test_charts_and_pages_have_the_same_colours() -> None:
    light, dark = CSS.split('data-mantine-color-scheme="dark"', 1)
    dark = dark.split("}", 1)[0]

    for colours, block in ((LIGHT, light), (DARK, dark)):
        written = css_variables(block)
        for name in Palette.__slots__:
            if name != "series":
                assert written[name] == getattr(colours, name), name


def test_no_asset_names_another_host() -> None:
    for asset in ASSETS.iterdir():
        urls = re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\s\"')]*", asset.read_text())
        assert [u for u in urls if u != "http://www.w3.org/2000/svg"] == [], asset.name


def test_a_scheme_nobody_knows_is_light() -> None:
    assert palette(None) is palette("sepia") is LIGHT
