"""A pager for demos and tests: takes signed webhooks and PagerDuty events, shows what came.

It is strict on purpose: a bad signature, an old timestamp or an event PagerDuty would refuse is
refused here, so that a sender's mistake shows up before a real pager is silent.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from base.clock import Clock
from base.durations import format_instant
from base.errors import BadInput
from base.selfmon import Log
from stack.pager.events import Page, from_alertmanager, from_pagerduty
from stack.pager.signature import verify

log = Log(__name__)

KEPT_PAGES = 1000
REMEMBERED_IDS = 10_000
MAX_BODY_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Received:
    at: str
    webhook_id: str | None
    page: Page

    def describe(self) -> dict[str, Any]:
        return {"received_at": self.at, "webhook_id": self.webhook_id, **self.page.describe()}


class Pager:
    """Keeps the last pages in memory. A repeated webhook-id is acknowledged and not kept."""

    def __init__(self, webhook_secrets: Sequence[bytes], clock: Clock) -> None:
        self._secrets = webhook_secrets
        self._clock = clock
        self._seen: OrderedDict[str, None] = OrderedDict()
        self.pages: deque[Received] = deque(maxlen=KEPT_PAGES)
        self.counts: Counter[str] = Counter()
        self.app = Starlette(
            routes=[
                Route("/", self._page),
                Route("/health", self._health),
                Route("/pages", self._list),
                Route("/stats", self._stats),
                Route("/webhook", self._webhook, methods=["POST"]),
                Route("/v2/enqueue", self._enqueue, methods=["POST"]),
            ]
        )

    async def _webhook(self, request: Request) -> Response:
        body = await request.body()
        try:
            webhook_id = verify(request.headers, body, self._secrets, self._clock.now())
        except BadInput as error:
            return self._refuse(401, str(error))
        if webhook_id in self._seen:
            self.counts["duplicate"] += 1
            return JSONResponse({"status": "duplicate"})
        try:
            page = from_alertmanager(_object(body))
        except BadInput as error:
            return self._refuse(400, str(error))
        self._seen[webhook_id] = None
        if len(self._seen) > REMEMBERED_IDS:
            self._seen.popitem(last=False)
        self._keep(page, webhook_id)
        return JSONResponse({"status": "accepted"})

    async def _enqueue(self, request: Request) -> Response:
        try:
            page = from_pagerduty(_object(await request.body()))
        except BadInput as error:
            self.counts["refused"] += 1
            return JSONResponse(
                {
                    "status": "invalid event",
                    "message": "Event object is invalid",
                    "errors": [str(error)],
                },
                400,
            )
        self._keep(page, None)
        return JSONResponse(
            {"status": "success", "message": "Event processed", "dedup_key": page.key}, 202
        )

    async def _list(self, _request: Request) -> Response:
        return JSONResponse([received.describe() for received in self.pages])

    async def _stats(self, _request: Request) -> Response:
        return JSONResponse(dict(self.counts))

    async def _health(self, _request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _page(self, _request: Request) -> Response:
        return HTMLResponse(render(list(self.pages)))

    def _keep(self, page: Page, webhook_id: str | None) -> None:
        self.pages.append(Received(format_instant(self._clock.now()), webhook_id, page))
        self.counts["accepted"] += 1
        log.info("page", status=page.status, severity=page.severity, summary=page.summary)

    def _refuse(self, status: int, message: str) -> Response:
        self.counts["refused"] += 1
        log.warning("page_refused", status=status, reason=message)
        return JSONResponse({"error": message}, status)


def render(pages: Sequence[Received]) -> str:
    """Write the page a person looks at: the newest first, in the reader's light or dark."""
    rows = "".join(
        f'<tr class="{escape(r.page.status)}"><td>{escape(r.at)}<td>{escape(r.page.status)}'
        f"<td>{escape(r.page.severity)}<td>{escape(r.page.summary)}<td>{escape(r.page.key)}"
        for r in reversed(pages)
    )
    empty = "" if pages else "<p>Nothing has been received.</p>"
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Pager</title>'
        '<meta http-equiv="refresh" content="3"><style>'
        ":root{color-scheme:light dark}body{font:16px/1.5 system-ui;margin:2rem}"
        "table{border-collapse:collapse;width:100%}td,th{padding:.4rem .8rem;text-align:left;"
        "border-bottom:1px solid #8884}.firing td:nth-child(2),.trigger td:nth-child(2)"
        "{color:#d33;font-weight:600}.resolved td:nth-child(2),.resolve td:nth-child(2)"
        "{color:#2a8a4a}</style><h1>Pager</h1>"
        f"{empty}<table><thead><tr><th>Received<th>Status<th>Severity<th>Summary<th>Key"
        f"<tbody>{rows}</table></html>"
    )


def new_secret() -> str:
    """Make a signing secret as Standard Webhooks writes it."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


def _object(body: bytes) -> Mapping[str, Any]:
    if len(body) > MAX_BODY_BYTES:
        raise BadInput(f"the body is larger than {MAX_BODY_BYTES} bytes")
    try:
        document = json.loads(body)
    except ValueError as error:
        raise BadInput(f"the body is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise BadInput("the body is not a JSON object")
    return document
