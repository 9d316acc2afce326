"""How fast it is here: reported, not judged, because machines differ."""

import time
from datetime import UTC, datetime
from typing import Any

from stack.history.month import history
from stack.history.plan import HistorySettings


def test_history_is_made_at_a_speed_worth_reporting(record_property: Any) -> None:
    settings = HistorySettings(end=datetime(2026, 11, 30, tzinfo=UTC), days=3, requests=7000)
    began = time.process_time()

    size = sum(map(len, history(settings)))

    took_s = time.process_time() - began
    record_property("history_requests_per_cpu_second", round(settings.requests / took_s))
    record_property("history_megabytes", round(size / 1e6, 1))
    record_property("thirty_days_cpu_seconds", round(took_s * 10, 1))
    assert size > 0
