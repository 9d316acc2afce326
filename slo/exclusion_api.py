"""`/api/v1/exclusions`: propose, preview, approve and take back what should not count."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection, Engine

from base.clock import Clock
from base.db import transaction
from base.durations import format_instant, parse_instant
from base.errors import BadInput
from base.ids import new_id
from slo import exclusion_book
from slo.columns import GROUP_COLUMNS
from slo.evaluator import Evaluator
from slo.exclusion import Exclusion
from slo.verdict import Verdict


class ExclusionBody(BaseModel):
    """What should not count. Times are whole minutes; `rrule` repeats the first in local time."""

    model_config = ConfigDict(extra="forbid")

    slos: list[str] = Field(default=[], description="names; none is every SLO", max_length=1000)
    match: dict[str, str] = Field(default={}, description="members of groups: {tenant: acme}")
    starts_at: str = Field(description="RFC 3339 or unix seconds")
    ends_at: str
    rrule: str = Field(default="", max_length=1000, description="RFC 5545, without DTSTART")
    zone: str = Field(default="UTC", description="IANA time zone of rrule")
    reason: str = Field(min_length=1, max_length=4000)
    created_by: str = Field(min_length=1, max_length=256)


class ByBody(BaseModel):
    """Who does it."""

    model_config = ConfigDict(extra="forbid")

    by: str = Field(min_length=1, max_length=256)


class ExclusionView(ExclusionBody):
    """An exclusion; only an approved one is in force."""

    id: str
    state: Literal["proposed", "approved", "reverted"]
    created_at: str
    approved_by: str | None
    approved_at: str | None
    reverted_by: str | None
    reverted_at: str | None
    applies_to: list[str] = Field(description="SLOs of the present documents that it touches")


class EffectBody(BaseModel):
    """What an exclusion does to one group's budget, as of now."""

    slo: str
    group: dict[str, str]
    excluded: int = Field(description="requests that it leaves out of the budget window")
    budget_remaining_without: float | None
    budget_remaining_with: float | None


def router(db: Engine, evaluator: Evaluator, clock: Clock) -> APIRouter:
    """Make the endpoints; mount it where BadInput becomes 400."""
    routes = APIRouter(prefix="/api/v1/exclusions", tags=["slo"])

    @routes.get("")
    def list_exclusions() -> dict[str, list[ExclusionView]]:
        """List every exclusion that was ever proposed, the newest first."""
        with transaction(db) as connection:
            found = exclusion_book.every(connection)
        return {"exclusions": [_view(each, evaluator) for each in found]}

    @routes.post("", status_code=201)
    def propose(body: ExclusionBody) -> ExclusionView:
        """Propose an exclusion; it counts for nothing until somebody else approves it."""
        exclusion = _read(body, evaluator, clock)
        with transaction(db) as connection:
            exclusion_book.propose(connection, exclusion)
        return _view(exclusion, evaluator)

    @routes.get("/{exclusion_id}/effect")
    def effect(exclusion_id: str) -> dict[str, list[EffectBody]]:
        """Show each budget without and with it, whether or not it is in force."""
        with transaction(db) as connection:
            it = _find(connection, exclusion_id)
            others = [each for each in exclusion_book.every(connection) if each.id != it.id]
        now = clock.now()
        in_force = replace(it, approved_at=now, reverted_at=None)
        without = evaluator.what_if(now, others)
        forced = evaluator.what_if(now, [*others, in_force])
        return {"effect": _effect(without, forced)}

    @routes.post("/{exclusion_id}/approve")
    def approve(exclusion_id: str, body: ByBody) -> ExclusionView:
        """Put a proposal in force, from its first time on, past ones too."""
        with transaction(db) as connection:
            it = _find(connection, exclusion_id)
            found = exclusion_book.approve(connection, it, body.by, clock.now())
        return _view(found, evaluator)

    @routes.post("/{exclusion_id}/revert")
    def revert(exclusion_id: str, body: ByBody) -> ExclusionView:
        """Take it back: every budget is exactly what it would be without it."""
        with transaction(db) as connection:
            it = _find(connection, exclusion_id)
            found = exclusion_book.revert(connection, it, body.by, clock.now())
        return _view(found, evaluator)

    return routes


def _find(connection: Connection, exclusion_id: str) -> Exclusion:
    found = exclusion_book.find(connection, exclusion_id)
    if found is None:
        raise HTTPException(
            404, f"there is no exclusion {exclusion_id!r}: GET /api/v1/exclusions lists them"
        )
    return found


def _read(body: ExclusionBody, evaluator: Evaluator, clock: Clock) -> Exclusion:
    known = {slo.name for slo in evaluator.slos}
    about_cost = {slo.name for slo in evaluator.costs}
    for name in body.slos:
        if name in about_cost:
            raise BadInput(f"{name!r} is about cost: money that was spent cannot be left out")
        if name not in known:
            raise BadInput(f"no SLO is named {name!r}; there are: {', '.join(sorted(known))}")
    for column in body.match:
        if column not in GROUP_COLUMNS and not any(column in s.group_by for s in evaluator.slos):
            raise BadInput(f"match {column!r}: no SLO is grouped by it")
    now = clock.now()
    exclusion = Exclusion(
        id=new_id(clock),
        starts_at=parse_instant(body.starts_at),
        ends_at=parse_instant(body.ends_at),
        reason=body.reason,
        created_by=body.created_by,
        created_at=now,
        slos=tuple(dict.fromkeys(body.slos)),
        match=body.match,
        rrule=body.rrule,
        zone=body.zone,
    )
    if not any(exclusion.applies_to(slo) for slo in evaluator.slos):
        raise BadInput(
            f"it would apply to no SLO: none of them is grouped by {', '.join(body.match)}"
            if body.match
            else "there is no SLO it could apply to"
        )
    return exclusion


def _view(exclusion: Exclusion, evaluator: Evaluator) -> ExclusionView:
    def text(moment: Any) -> str | None:
        return None if moment is None else format_instant(moment)

    return ExclusionView(
        id=exclusion.id,
        state=exclusion.state,
        slos=list(exclusion.slos),
        match=dict(exclusion.match),
        starts_at=format_instant(exclusion.starts_at),
        ends_at=format_instant(exclusion.ends_at),
        rrule=exclusion.rrule,
        zone=exclusion.zone,
        reason=exclusion.reason,
        created_by=exclusion.created_by,
        created_at=format_instant(exclusion.created_at),
        approved_by=exclusion.approved_by,
        approved_at=text(exclusion.approved_at),
        reverted_by=exclusion.reverted_by,
        reverted_at=text(exclusion.reverted_at),
        applies_to=[slo.name for slo in evaluator.slos if exclusion.applies_to(slo)],
    )


def _effect(without: list[Verdict], forced: list[Verdict]) -> list[EffectBody]:
    before = {(v.slo, tuple(v.group.items())): v for v in without}
    out = []
    for after in forced:
        was = before.get((after.slo, tuple(after.group.items())))
        if was is not None and after.excluded != was.excluded:
            out.append(
                EffectBody(
                    slo=after.slo,
                    group=dict(after.group),
                    excluded=after.excluded - was.excluded,
                    budget_remaining_without=was.budget_remaining,
                    budget_remaining_with=after.budget_remaining,
                )
            )
    return out
