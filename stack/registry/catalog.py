"""What a gateway or a router knows of the model registry: the last good answer, refreshed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx
from pydantic import ValidationError

from base.selfmon import Log
from stack.registry.entries import ModelEntry

log = Log(__name__)

EVERY_S = 10.0


class Catalog:
    """Polls `GET /models`: `await run()` in a task. Without a registry everything is allowed."""

    def __init__(self, registry_url: str | None, client: httpx.AsyncClient) -> None:
        self._url = None if registry_url is None else registry_url.rstrip("/") + "/models"
        self._client = client
        self.entries: Mapping[str, ModelEntry] | None = None
        """None until the registry has answered once, and for ever when there is none."""

    def knows(self, model: str) -> bool:
        """Tell whether a model may be asked for: before the first answer, any may."""
        return self.entries is None or model in self.entries

    async def run(self) -> None:
        while self._url is not None:
            await self.refresh()
            await asyncio.sleep(1.0 if self.entries is None else EVERY_S)

    async def refresh(self) -> bool:
        """Ask once; a failure keeps what is known."""
        if self._url is None:
            return False
        try:
            answer = await self._client.get(self._url, timeout=5.0)
            answer.raise_for_status()
            entries = [ModelEntry.model_validate(entry) for entry in answer.json()["models"]]
        except (httpx.HTTPError, ValueError, KeyError, TypeError, ValidationError) as error:
            log.warning("registry_away", reason=type(error).__name__)
            return False
        self.entries = {entry.name: entry for entry in entries}
        return True
