"""The order in which files run, the longest first, and what coverage is measured on.

Tests that try many random histories, and slow ones, run without it: there it would cost half of the
time again, and what they reach the others reach too.
"""

from __future__ import annotations

import pytest

_LONGEST = (
    "tests/e2e/test_demo", "tests/e2e/test_kill", "tests/e2e/test_order", "tests/e2e/",
    "tests/tokenweir/test_alert_timeline", "tests/slo/backtest/", "tests/dashboards/",
    "tests/slo/", "tests/actuators/", "tests/store/", "tests/tokenweir/",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_rank)  # stable: within a folder the order stays
    for item in items:
        is_random = hasattr(getattr(item, "obj", None), "hypothesis")
        if is_random or item.get_closest_marker("slow") is not None:
            item.add_marker(pytest.mark.no_cover)


def _rank(item: pytest.Item) -> int:
    found = (n for n, folder in enumerate(_LONGEST) if item.nodeid.startswith(folder))
    return next(found, len(_LONGEST))
