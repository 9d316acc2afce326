"""Exclusions: times whose requests do not count, such as planned maintenance. Pure.

An exclusion is applied when counts are read, never when they are made: taking it back restores
every budget exactly, and it may be about the past. The requests of its time are excluded, with
those that were excluded anyway.

Its times are whole minutes, which is as fine as counts are kept for a month.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Literal
from zoneinfo import ZoneInfo

from dateutil.rrule import rrulestr

from base.errors import BadInput
from slo.calendar import check_zone
from slo.model import Slo

MINUTE = timedelta(minutes=1)
LONGEST = timedelta(days=31)
MOST_OCCURRENCES = 2_000
_FREQUENCIES = frozenset({"DAILY", "WEEKLY", "MONTHLY", "YEARLY"})
_EXAMPLE = "write one such as FREQ=WEEKLY;BYDAY=SU (RFC 5545)"
_DAY = timedelta(days=1)

Span = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Which requests of which SLOs do not count, when, why, and who said so.

    No `slos` means every SLO. `match` names members of groups (`tenant: acme`): it applies to the
    SLOs that are grouped by all of them. `rrule` (RFC 5545, without DTSTART) repeats the first
    time in the local time of `zone`.
    """

    id: str
    starts_at: datetime
    ends_at: datetime
    reason: str
    created_by: str
    created_at: datetime
    slos: tuple[str, ...] = ()
    match: Mapping[str, str] = field(default_factory=dict)
    rrule: str = ""
    zone: str = "UTC"
    approved_by: str | None = None
    approved_at: datetime | None = None
    reverted_by: str | None = None
    reverted_at: datetime | None = None

    @property
    def state(self) -> Literal["proposed", "approved", "reverted"]:
        """Say whether it counts: only an approved one does."""
        if self.reverted_at is not None:
            return "reverted"
        return "proposed" if self.approved_at is None else "approved"

    def applies_to(self, slo: Slo) -> bool:
        named = not self.slos or slo.name in self.slos
        return named and all(column in slo.group_by for column in self.match)


def check(exclusion: Exclusion) -> None:
    """Refuse what could not be counted exactly; BadInput says what to write instead."""
    check_zone(exclusion.zone)
    start, end = exclusion.starts_at, exclusion.ends_at
    if start >= end:
        raise BadInput("an exclusion must end after it starts")
    for name, moment in (("starts_at", start), ("ends_at", end)):
        if moment.second or moment.microsecond:
            raise BadInput(f"{name} must be a whole minute: counts are kept by the minute")
    if end - start > LONGEST:
        raise BadInput(
            f"an exclusion may last {LONGEST.days} days; write several, or change the SLO"
        )
    if exclusion.rrule:
        first = _local(start, exclusion)
        if first not in _times(exclusion, first):
            raise BadInput(
                f"rrule {exclusion.rrule!r} has no time at starts_at, {first:%A %Y-%m-%d %H:%M} in "
                f"{exclusion.zone}: begin with its first one"
            )


def occurrences(exclusion: Exclusion, since: datetime, until: datetime) -> list[Span]:
    """List its times that touch [since, until), in order; those may overlap."""
    start, end = exclusion.starts_at, exclusion.ends_at
    if not exclusion.rrule:
        return [(start, end)] if start < until and end > since else []
    length, zone = end - start, ZoneInfo(exclusion.zone)
    found: list[Span] = []
    # Wall time in, wall time out: every Sunday at 02:00 stays at 02:00 when the clocks change.
    for local in _times(exclusion, _local(until, exclusion) + _DAY):
        begins = local.replace(tzinfo=zone).astimezone(UTC)
        if begins < until and begins + length > since:
            found.append((begins, begins + length))
        if len(found) > MOST_OCCURRENCES:
            raise BadInput(
                f"exclusion {exclusion.id} has more than {MOST_OCCURRENCES} times between "
                f"{since:%Y-%m-%d} and {until:%Y-%m-%d}: repeat it less often"
            )
    return found


def union(spans: Iterable[Span]) -> list[Span]:
    """Join spans that touch or overlap."""
    out: list[Span] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


@dataclass(frozen=True, slots=True)
class Excluded:
    """When the requests of one SLO do not count: of the groups with these members, or of all."""

    slo: str
    match: tuple[tuple[int, str], ...]  # position in the group, value
    spans: tuple[Span, ...]


def resolve(
    exclusions: Sequence[Exclusion], slos: Sequence[Slo], since: datetime, until: datetime
) -> list[Excluded]:
    """Work out what the approved exclusions take from these SLOs within [since, until)."""
    out: list[Excluded] = []
    timed = [
        (exclusion, occurrences(exclusion, since, until))
        for exclusion in exclusions
        if exclusion.state == "approved"
    ]
    for slo in slos:
        by_match: dict[tuple[tuple[int, str], ...], list[Span]] = {}
        for exclusion, spans in timed:
            if spans and exclusion.applies_to(slo):
                match = tuple(
                    sorted((slo.group_by.index(k), v) for k, v in exclusion.match.items())
                )
                by_match.setdefault(match, []).extend(spans)
        out += [Excluded(slo.name, match, tuple(union(spans))) for match, spans in by_match.items()]
    return out


def _times(exclusion: Exclusion, last: datetime) -> list[datetime]:
    """List the local times of its rule up to `last`, whichever the rule's own end is."""
    parts = _parts(exclusion)
    count = _count(parts.pop("COUNT", None))
    until = min(last, _until(parts.pop("UNTIL", None), exclusion))
    # The end is always given: a rule that never ends would be walked to the year 9999.
    text = ";".join(f"{key}={value}" for key, value in parts.items())
    first = _local(exclusion.starts_at, exclusion)
    try:
        rule = rrulestr(f"{text};UNTIL={until:%Y%m%dT%H%M%S}", dtstart=first)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise BadInput(f"rrule {exclusion.rrule!r}: {error}; {_EXAMPLE}") from error
    return list(islice(iter(rule), count))


def _parts(exclusion: Exclusion) -> dict[str, str]:
    text = exclusion.rrule.strip().upper().removeprefix("RRULE:")
    pairs = [part.partition("=") for part in text.split(";") if part]
    parts = {key.strip(): value.strip() for key, _, value in pairs}
    if not all(sign for _, sign, _ in pairs) or len(parts) != len(pairs) or "\n" in text:
        raise BadInput(f"rrule {exclusion.rrule!r} is not one rule of KEY=VALUE;...: {_EXAMPLE}")
    if "DTSTART" in parts:
        raise BadInput("rrule holds no DTSTART: starts_at and zone say when it begins")
    if parts.get("FREQ") not in _FREQUENCIES:
        raise BadInput(f"rrule needs FREQ, one of {', '.join(sorted(_FREQUENCIES))}")
    return parts


def _count(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdigit() or not 0 < int(text) <= MOST_OCCURRENCES:
        raise BadInput(f"rrule COUNT {text!r} is not a number from 1 to {MOST_OCCURRENCES}")
    return int(text)


def _until(text: str | None, exclusion: Exclusion) -> datetime:
    if text is None:
        return datetime.max  # noqa: DTZ901  local time, as the rule's other times
    try:
        if text.endswith("Z"):
            at = datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
            return _local(at, exclusion)
        # A date includes its day.
        return (
            datetime.strptime(text, "%Y%m%dT%H%M%S")  # noqa: DTZ007
            if "T" in text
            else datetime.strptime(text, "%Y%m%d") + _DAY - timedelta(seconds=1)  # noqa: DTZ007
        )
    except ValueError as error:
        raise BadInput(f"rrule UNTIL {text!r} is not like 20261231T000000Z or 20261231") from error


def _local(at: datetime, exclusion: Exclusion) -> datetime:
    return at.astimezone(ZoneInfo(exclusion.zone)).replace(tzinfo=None)
