"""Versions of SLO documents in the control database: what each one said, who changed it, when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select

from slo.described import changes, describe
from slo.model import Slo
from slo.spending.model import CostSlo
from slo.tables import versions


@dataclass(frozen=True, slots=True)
class Version:
    """One state of a document; `said` is empty when it was taken away."""

    slo: str
    number: int
    said: Mapping[str, str]
    changes: tuple[str, ...]
    author: str
    at: datetime


def record(
    connection: Connection, slos: Sequence[Slo | CostSlo], author: str, now: datetime
) -> list[Version]:
    """Write down what differs from the last versions; returns the new ones."""
    last = {version.slo: version for version in newest(connection)}
    wanted = {slo.name: describe(slo) for slo in slos}
    wanted |= {name: {} for name, version in last.items() if version.said and name not in wanted}
    out = []
    for name, said in sorted(wanted.items()):
        before = last.get(name)
        if before is not None and before.said == said:
            continue
        version = Version(
            slo=name,
            number=before.number + 1 if before else 1,
            said=said,
            changes=tuple(_changes(before.said if before else {}, said)),
            author=author,
            at=now,
        )
        connection.execute(
            insert(versions).values(
                slo=name,
                number=version.number,
                said=dict(said),
                changes=list(version.changes),
                author=author,
                at=now,
            )
        )
        out.append(version)
    return out


def history(connection: Connection, slo: str) -> list[Version]:
    """List the versions of one SLO, the newest first."""
    rows = connection.execute(
        select(versions).where(versions.c.slo == slo).order_by(versions.c.number.desc())
    )
    return [_version(row) for row in rows]


def newest(connection: Connection) -> list[Version]:
    """List the last version of every SLO there ever was."""
    last = (
        select(versions.c.slo, func.max(versions.c.number).label("number"))
        .group_by(versions.c.slo)
        .subquery()
    )
    rows = connection.execute(
        select(versions).join(
            last, (versions.c.slo == last.c.slo) & (versions.c.number == last.c.number)
        )
    )
    return [_version(row) for row in rows]


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    if not before:
        return ["written"]
    return ["taken away"] if not after else changes(before, after)


def _version(row: Row[Any]) -> Version:
    return Version(
        slo=row.slo,
        number=row.number,
        said=row.said,
        changes=tuple(row.changes),
        author=row.author,
        at=row.at,
    )
