"""The order in which files run: the longest first, so that workers end together."""

from __future__ import annotations

import pytest

_LONGEST = ("tests/e2e/", "tests/slo/backtest/", "tests/dashboards/", "tests/slo/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_rank)  # stable: within a folder the order stays


def _rank(item: pytest.Item) -> int:
    found = (n for n, folder in enumerate(_LONGEST) if item.nodeid.startswith(folder))
    return next(found, len(_LONGEST))
