"""One colour, one meaning, on charts and pages alike; nothing comes from elsewhere."""

from __future__ import annotations

import re
from importlib import resources

import pandas as pd

from dashboards.figures import LATENCY_COLOURS, TRAFFIC_COLOURS, spend_colours

ASSETS = resources.files("dashboards") / "assets"
CSS = (ASSETS / "app.css").read_text()


def test_every_colour_of_a_chart_is_painted_in_light_and_in_dark() -> None:
    light, dark = CSS.split('data-mantine-color-scheme="dark"', 1)
    dark = dark.split("}", 1)[0]
    frame = pd.DataFrame(columns=[*(f"group {i}" for i in range(9)), "other", "overhead", "idle"])
    used = {*TRAFFIC_COLOURS.values(), *LATENCY_COLOURS.values(), "accent", "bad"}
    used |= set(spend_colours(frame).values())

    for block in (light, dark):
        painted = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", block))
        assert used <= painted.keys()


def test_no_asset_names_another_host() -> None:
    for asset in ASSETS.iterdir():
        urls = re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\s\"')]*", asset.read_text())
        assert [u for u in urls if u != "http://www.w3.org/2000/svg"] == [], asset.name
