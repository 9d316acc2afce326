"""The model registry: `GET /models` lists what is registered, `PUT /models/NAME` registers.

The router compares it with what an engine reports before the engine gets traffic.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import yaml
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from base.errors import ConfigError
from base.selfmon import Log
from stack.registry.entries import ModelEntry

log = Log(__name__)


class Registry:
    """The entries, kept in a file when there is one."""

    def __init__(self, entries: Iterable[ModelEntry] = (), path: Path | None = None) -> None:
        self._entries = {entry.name: entry for entry in entries}
        self._path = path
        self.app = Starlette(
            routes=[
                Route("/health", _health),
                Route("/models", self._list),
                Route("/models/{name:path}", self._get, methods=["GET"]),
                Route("/models/{name:path}", self._put, methods=["PUT"]),
            ]
        )

    def register(self, entry: ModelEntry) -> None:
        """Add or replace an entry and write the file, whole or not at all."""
        self._entries[entry.name] = entry
        if self._path is not None:
            partial = self._path.with_suffix(".partial")
            partial.write_text(yaml.safe_dump(self._document(), sort_keys=False), "utf-8")
            partial.replace(self._path)
        log.info("model_registered", model=entry.name, parts=sorted(entry.digests))

    def _document(self) -> dict[str, object]:
        return {"models": [entry.model_dump(mode="json") for entry in self._entries.values()]}

    async def _list(self, _request: Request) -> Response:
        return JSONResponse(self._document())

    async def _get(self, request: Request) -> Response:
        entry = self._entries.get(request.path_params["name"])
        if entry is None:
            return _problem(404, f"model {request.path_params['name']!r} is not registered")
        return JSONResponse(entry.model_dump(mode="json"))

    async def _put(self, request: Request) -> Response:
        try:
            body = json.loads(await request.body())
            entry = ModelEntry.model_validate({**body, "name": request.path_params["name"]})
        except (ValueError, TypeError) as error:  # pydantic's error is a ValueError
            return _problem(400, str(error))
        self.register(entry)
        return JSONResponse(entry.model_dump(mode="json"))


def load_registry(path: Path) -> Registry:
    """Open a registry file (YAML or JSON); one that does not exist yet is empty."""
    if not path.exists():
        return Registry(path=path)
    try:
        document = yaml.safe_load(path.read_text("utf-8")) or {}
        entries = [ModelEntry.model_validate(entry) for entry in document.get("models", ())]
    except (yaml.YAMLError, ValidationError, AttributeError) as error:
        raise ConfigError(f"registry file {path}: {error}") from error
    return Registry(entries, path)


def _problem(status: int, message: str) -> Response:
    return JSONResponse({"error": message}, status_code=status)


async def _health(_request: Request) -> Response:
    return JSONResponse({"status": "ok"})
