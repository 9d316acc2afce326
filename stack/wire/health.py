"""Asks a process whether it is well."""

from __future__ import annotations

import httpx


async def is_healthy(url: str, client: httpx.AsyncClient, timeout_s: float) -> bool:
    try:
        return (await client.get(url + "/health", timeout=timeout_s)).is_success
    except httpx.HTTPError:
        return False
