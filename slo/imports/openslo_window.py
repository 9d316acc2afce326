"""OpenSLO time windows -> a rolling window, and a calendar period where one is meant."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from base.errors import BadInput
from slo.calendar import Period, read_calendar
from slo.imports.draft import Draft, number_of, read_window, string_of
from slo.imports.outcome import Refusal
from slo.located import Located

_PERIODS = {
    "1d": Period.DAY, "24h": Period.DAY, "1w": Period.WEEK, "7d": Period.WEEK,
    "1M": Period.MONTH, "3M": Period.QUARTER, "1Q": Period.QUARTER, "12M": Period.YEAR,
    "4Q": Period.YEAR, "1Y": Period.YEAR, "1m": Period.MONTH, "365d": Period.YEAR,
}  # fmt: skip
_UNITS = {
    "second": "s", "minute": "m", "hour": "h", "day": "d", "week": "w", "month": "M",
    "quarter": "Q", "year": "Y",
}  # fmt: skip
_WORDS = re.compile(rf"(\d{{1,4}})?\s*({'|'.join(_UNITS)})s?")
_MONDAY = 0


def read_time_window(draft: Draft, spec: Located) -> None:
    """Set window and calendar of a draft; neither stated is a rolling 30 days.

    Some write the window into the objective.
    """
    keys = ("timeWindow", "timeWindows")
    at = next((found for key in keys if (found := spec.get(key) or draft.at.get(key))), None)
    windows = [] if at is None else at.data if isinstance(at.data, list) else [at]
    if not windows:
        draft.fixed("timeWindow is missing: a rolling 30d is taken", spec)
        return
    window = windows[0]
    if len(windows) > 1:
        raise Refusal(windows[1], "exactly one time window is allowed")
    duration = _duration(window)
    rolling, calendar = window.get("isRolling"), window.get("calendar")
    is_rolling = calendar is None if rolling is None else rolling.data is True
    if is_rolling:
        draft.set_window_text(duration, window.get("duration") or window)
        if calendar is not None:
            draft.lost("calendar means nothing beside isRolling: true", calendar)
        elif rolling is None:
            draft.fixed("isRolling is missing and so is calendar: a rolling window", window)
        return
    _calendar(draft, duration, calendar, window)


def _duration(window: Located) -> str:
    """Read `duration: 28d`, or v1alpha's `count` and `unit`."""
    duration = window.get("duration")
    if duration is not None:
        text = string_of(duration)
        word = _WORDS.fullmatch(text.strip().lower())
        if word is not None:  # `Week`, `30 days`
            return f"{word[1] or 1}{_UNITS[word[2]]}"
        return f"{text}m" if number_of(duration) is not None else text
    count, unit = number_of(window.get("count")), string_of(window.get("unit")).lower()
    short = _UNITS.get(unit.rstrip("s"))
    if count is None or count < 1 or count != int(count) or short is None:
        raise Refusal(window, "duration is missing, or count and unit in v1alpha")
    return f"{int(count)}{short}"


def _calendar(draft: Draft, duration: str, calendar: Located | None, window: Located) -> None:
    span, doubt = read_window(duration, window)
    draft.set_window(span, window)
    if duration == "1m":
        draft.fixed(doubt, window)
    zone = string_of(calendar.get("timeZone")) if calendar else ""
    if calendar is None:
        draft.fixed("calendar is missing beside isRolling: false: UTC is taken", window)
    period = _PERIODS.get(duration)
    if period is None:
        draft.lost(
            f"a calendar window of {duration} is no day, week, month, quarter or year: it rolls",
            window,
        )
        return
    try:
        read_calendar(period, zone or "UTC")
    except BadInput as error:
        raise Refusal(calendar or window, f"calendar: {error}") from error
    draft.set_calendar(period.value, zone or "UTC")
    draft.kept(
        f"the calendar {period} in {zone or 'UTC'}; alerts look at the rolling {_text(span)} "
        "beside it",
        window,
    )
    start = calendar.get("startTime") if calendar else None
    if start is not None and not _begins(string_of(start), period):
        draft.lost(
            f"startTime {string_of(start)!r}: a {period} begins at its first local midnight, "
            "a week on Monday",
            start,
        )


def _begins(text: str, period: Period) -> bool:
    """Say whether an instant, or the name of a day, is where a period begins here."""
    if text.strip().lower() == "monday":
        return period is Period.WEEK
    try:
        start = datetime.fromisoformat(text.strip().removesuffix("Z"))
    except ValueError:
        return False
    if (start.hour, start.minute, start.second) != (0, 0, 0):
        return False
    first = {
        Period.DAY: True,
        Period.WEEK: start.weekday() == _MONDAY,
        Period.MONTH: start.day == 1,
        Period.QUARTER: start.day == 1 and start.month % 3 == 1,
        Period.YEAR: (start.day, start.month) == (1, 1),
    }
    return first[period]


def _text(span: timedelta) -> str:
    return f"{span.days}d"
