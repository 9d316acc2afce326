"""Pull mode: a fleet that asks the control plane for its size, as KEDA's metrics-api does."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

from base.errors import BadInput
from base.selfmon import Log
from stack.fleet.replicas import Fleet

log = Log(__name__)

EVERY_S = 5.0


class Follower:
    """Polls a scaling answer and obeys it; whatever is not a clear number changes nothing."""

    def __init__(self, url: str, field: str, fleet: Fleet, client: httpx.AsyncClient) -> None:
        """`field` is the dotted place of the number of replicas in the JSON answer."""
        self._url = url
        self._path = field.split(".")
        self._fleet = fleet
        self._client = client
        self.holding: str | None = None
        """Why the last answer was not obeyed; None when it was."""

    async def run(self) -> None:
        while True:
            await self.poll()
            await asyncio.sleep(EVERY_S)

    async def poll(self) -> None:
        try:
            answer = await self._client.get(self._url, timeout=5.0)
            answer.raise_for_status()
            wanted = _number(answer.json(), self._path)
            if wanted != self._fleet.desired:
                self._fleet.set_desired(wanted, by=f"follow {self._url}")
        except httpx.HTTPStatusError as error:
            self._hold(f"status {error.response.status_code}")
        except httpx.HTTPError as error:
            self._hold(type(error).__name__)
        except (BadInput, ValueError) as error:
            self._hold(str(error))
        else:
            self.holding = None

    def _hold(self, reason: str) -> None:
        if self.holding is None:
            log.warning("scaling_held", url=self._url, reason=reason, desired=self._fleet.desired)
        self.holding = reason


def _number(document: Any, path: list[str]) -> int:
    for key in path:
        document = document.get(key) if isinstance(document, dict) else None
    if isinstance(document, bool) or not isinstance(document, int | float | str):
        raise BadInput(f"no number at {'.'.join(path)}")
    value = float(document)
    if value != int(value):
        raise BadInput(f"{'.'.join(path)} is {value}: not a whole number of replicas")
    return int(value)
