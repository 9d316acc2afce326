"""A pager: an HTTP server that keeps what it is sent, and can be out of order."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook


@dataclass(frozen=True, slots=True)
class Page:
    """One delivery; `status` is what it was answered with."""

    id: str
    status: int
    body: dict[str, Any]


class Pager:
    """Verifies every signature with the reference implementation of Standard Webhooks."""

    def __init__(self, secret: str) -> None:
        self.deliveries: list[Page] = []
        self.unsigned: list[str] = []
        self.answer = 200
        self.secret = secret
        webhook, pager = Webhook(secret), self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["content-length"]))
                try:
                    webhook.verify(raw, {k.lower(): v for k, v in self.headers.items()})
                except Exception as error:  # noqa: BLE001  whatever is wrong with it
                    pager.unsigned.append(repr(error))
                status = pager.answer
                pager.deliveries.append(Page(self.headers["webhook-id"], status, json.loads(raw)))
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def pages(self) -> list[Page]:
        """What was accepted, each once."""
        taken: dict[str, Page] = {}
        for page in self.deliveries:
            if page.status == 200:
                taken.setdefault(page.id, page)
        return list(taken.values())

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
