"""Versions of documents over HTTP, and reading the documents anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Engine

from base.db import transaction
from base.durations import format_instant
from slo import version_book
from slo.version_book import Version


class VersionBody(BaseModel):
    """One state of a document: what it says by path, and what differs from the one before."""

    slo: str
    number: int
    author: str
    at: str
    changes: list[str]
    said: dict[str, str] = Field(description="empty when the document was taken away")


class HistoryBody(BaseModel):
    versions: list[VersionBody]


class ReloadBody(BaseModel):
    """Who changed the documents; it is kept with the versions."""

    model_config = ConfigDict(extra="forbid")

    by: str = Field(min_length=1, max_length=256)


def router(db: Engine, reload: Callable[[str], Sequence[Version]]) -> APIRouter:
    """Make the endpoints. `reload(by)` raises ConfigError, naming every problem, or takes all."""
    routes = APIRouter(prefix="/api/v1/slos", tags=["slo"])

    @routes.post("/reload")
    def read_anew(body: ReloadBody) -> HistoryBody:
        """Read the SLO documents again; all of them, or none where one has a problem.

        What is counted differently is counted anew from stored facts; until that is done the old
        documents are judged, so what fires stays up.
        """
        return HistoryBody(versions=[_body(each) for each in reload(body.by)])

    @routes.get("/{name}/versions")
    def versions(name: str) -> HistoryBody:
        """List every version of a document, the newest first."""
        with transaction(db) as connection:
            found = version_book.history(connection, name)
        if not found:
            raise HTTPException(404, f"there never was an SLO named {name!r}")
        return HistoryBody(versions=[_body(each) for each in found])

    return routes


def _body(version: Version) -> VersionBody:
    return VersionBody(
        slo=version.slo,
        number=version.number,
        author=version.author,
        at=format_instant(version.at),
        changes=list(version.changes),
        said=dict(version.said),
    )
