"""When an exclusion holds, in words: "every Sunday, 02:00 to 04:00 Europe/Berlin". Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from slo.exclusion import Exclusion

_UNITS = {"DAILY": "day", "WEEKLY": "week", "MONTHLY": "month", "YEARLY": "year"}
_DAYS = {
    "MO": "Monday", "TU": "Tuesday", "WE": "Wednesday", "TH": "Thursday", "FR": "Friday",
    "SA": "Saturday", "SU": "Sunday",
}  # fmt: skip
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_PLACES = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", -1: "last"}
_SAID = {"FREQ", "INTERVAL", "BYDAY", "BYMONTHDAY", "BYMONTH", "COUNT", "UNTIL", "WKST"}
_DAY = re.compile(r"([+-]?\d)?(MO|TU|WE|TH|FR|SA|SU)")


def when(exclusion: Exclusion) -> str:
    """Say when it holds: once, or again and again in the local time of its zone."""
    zone = ZoneInfo(exclusion.zone)
    start, end = exclusion.starts_at.astimezone(zone), exclusion.ends_at.astimezone(zone)
    if not exclusion.rrule:
        until = f"{end:%H:%M}" if start.date() == end.date() else f"{end:%d %b %H:%M}"
        return f"{start:%d %b %Y %H:%M} to {until} {exclusion.zone}"
    days = (end.date() - start.date()).days
    later = {0: "", 1: " the next day"}.get(days, f" {days} days later")
    times = f"{start:%H:%M} to {end:%H:%M}{later} {exclusion.zone}"
    return f"{repeated(exclusion.rrule)}, {times}, since {start:%d %b %Y}"


def repeated(rrule: str) -> str:
    """Put a rule into words; one that says more than they can is shown as it is."""
    parts = dict(
        part.split("=", 1)
        for part in rrule.strip().upper().removeprefix("RRULE:").split(";")
        if "=" in part
    )
    try:
        said = _words(parts) if parts.keys() <= _SAID else None
    except (KeyError, ValueError, IndexError):
        said = None
    return said or f"by the rule {rrule}"


def _words(parts: Mapping[str, str]) -> str:
    unit, interval = _UNITS[parts["FREQ"]], int(parts.get("INTERVAL", "1"))
    days = [_day(text) for text in parts["BYDAY"].split(",")] if "BYDAY" in parts else []
    is_plain = bool(days) and all(place is None for place, _ in days)
    if is_plain and interval == 1 and parts["FREQ"] in {"WEEKLY", "DAILY"}:
        said = f"every {_listed([name for _, name in days])}"
    else:
        said = f"every {unit}" if interval == 1 else f"every {interval} {unit}s"
        if days:
            said += f" on {_listed([_placed(place, name) for place, name in days])}"
    if "BYMONTHDAY" in parts:
        said += f" on {_listed([_of_month(int(n)) for n in parts['BYMONTHDAY'].split(',')])}"
    if "BYMONTH" in parts:
        said += f" in {_listed([_MONTHS[int(n) - 1] for n in parts['BYMONTH'].split(',')])}"
    if "COUNT" in parts:
        said += f", {int(parts['COUNT'])} times"
    if "UNTIL" in parts:
        said += f" until {datetime.strptime(parts['UNTIL'][:8], '%Y%m%d'):%d %b %Y}"  # noqa: DTZ007
    return said


def _day(text: str) -> tuple[int | None, str]:
    found = _DAY.fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    return int(found[1]) if found[1] else None, _DAYS[found[2]]


def _placed(place: int | None, day: str) -> str:
    return day if place is None else f"the {_PLACES[place]} {day}"


def _of_month(day: int) -> str:
    return f"day {day}" if day > 0 else "the last day" if day == -1 else f"day {day} from the end"


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
