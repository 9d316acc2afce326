"""Outgoing HTTP: one place for time limits, redirects and what may be said in an error."""

from __future__ import annotations

import ssl
from urllib.parse import urlsplit

import httpx

CONNECT_S = 3.0
TOTAL_S = 15.0


def http_client(
    *,
    total_s: float = TOTAL_S,
    transport: httpx.BaseTransport | None = None,
    tls: ssl.SSLContext | None = None,
) -> httpx.Client:
    """Make a client that never follows redirects and never waits without a limit.

    `tls` says whom to believe and what to show, by default what public authorities vouch for.
    """
    return httpx.Client(
        timeout=httpx.Timeout(total_s, connect=CONNECT_S),
        follow_redirects=False,
        trust_env=False,
        transport=transport,
        verify=tls or True,
        headers={"user-agent": "tokenweir"},
    )


def redact_url(url: str) -> str:
    """Keep scheme, host and port; a path or a query may be a secret (Slack, PagerDuty proxies)."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{host}{port}/…"
