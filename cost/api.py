"""`GET /api/v1/cost`: the bill, by any of the dimensions a request has."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query
from pydantic import BaseModel, Field

from base.clock import Clock
from base.durations import format_instant, parse_instant
from base.errors import BadInput
from base.tenancy import OwnTenant
from cost.ledger import ledger_of
from cost.prices import PriceBook
from cost.read import DIMENSIONS, Rows, Window, parse_by, read_ledger
from cost.report import CostRow, CostTotals, report

DEFAULT_SPAN = timedelta(days=1)


class CostAnswer(BaseModel):
    """Rows carry one field per dimension asked for, beside the fields of `CostRow`."""

    from_: str = Field(serialization_alias="from")
    to: str
    by: list[str]
    currency: str
    price_book: str | None
    rows: list[dict[str, Any]]
    totals: CostTotals


def router(engine: Rows, book: PriceBook, clock: Clock) -> APIRouter:
    """Serve the ledger."""
    api = APIRouter(tags=["cost"])

    @api.get("/api/v1/cost")
    def cost(
        own: OwnTenant,
        by: Annotated[str, Query(description=f"comma-separated: {', '.join(DIMENSIONS)}")] = (
            "tenant,route"
        ),
        from_: Annotated[
            str | None, Query(alias="from", description="RFC 3339 or unix seconds; to - 24h")
        ] = None,
        to: Annotated[str | None, Query(description="RFC 3339 or unix seconds; now")] = None,
    ) -> CostAnswer:
        """Bill every GPU-hour and token of [from, to), with idle and unpriced rows."""
        try:
            end = parse_instant(to) if to else clock.now()
            window = Window(parse_instant(from_) if from_ else end - DEFAULT_SPAN, end)
            dimensions = parse_by(by)
        except BadInput as error:
            raise HTTPException(400, str(error)) from error
        if own is not None and "tenant" not in dimensions:
            dimensions = ("tenant", *dimensions)
        ledger = read_ledger(engine, book, window, dimensions)
        if own is not None:
            ledger = ledger_of(ledger, dimensions.index("tenant"), own)
        answer = report(ledger, dimensions)
        return CostAnswer(
            from_=format_instant(window.start),
            to=format_instant(window.end),
            by=list(dimensions),
            currency="USD",
            price_book=book.name or None,
            rows=[flatten(row) for row in answer.rows],
            totals=answer.totals,
        )

    return api


def flatten(row: CostRow) -> dict[str, Any]:
    """Put the group's dimensions beside the row's own fields."""
    fields = {name: getattr(row, name) for name in CostRow.__slots__ if name != "group"}
    return {"kind": fields.pop("kind"), **row.group, **fields}
