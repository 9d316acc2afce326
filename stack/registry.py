"""The model registry: a name stands for one set of artifacts, and engines must serve just those.

An answer depends on weights, tokenizer, chat template, engine and quantisation together; two
replicas that differ in one of them are two models under one name. `GET /models` lists what is
registered; router and fleet compare it with what an engine reports before it gets traffic.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from base.errors import ConfigError
from base.selfmon import Log, set_up_logging
from stack.serving import announce, listen, until_signalled

log = Log(__name__)

Part = Literal["weights", "tokenizer", "template", "engine", "quant"]


class ModelEntry(BaseModel):
    """One registered model. `required` parts must be reported by an engine, not just not differ."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str = Field(min_length=1, max_length=200)
    digests: dict[Part, str] = {}
    required: tuple[Part, ...] = ()


def mismatches(entry: ModelEntry, reported: Mapping[str, str]) -> Sequence[str]:
    """Say in words where an engine differs from its entry; empty means it may serve.

    Real vLLM reports only its own version, so a part it is silent about passes unless required.
    """
    found = [
        f"{part} is {reported[part]}, registered is {digest}"
        for part, digest in entry.digests.items()
        if part in reported and reported[part] != digest
    ]
    return found + [f"{part} is not reported" for part in entry.required if part not in reported]


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


async def _serve(address: str, path: Path) -> None:
    listener = await listen(load_registry(path).app, address)
    announce(url=listener.url, metrics=None)
    await until_signalled()
    await listener.stop()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m stack.registry", description=__doc__)
    parser.add_argument("--listen", default="127.0.0.1:0", metavar="HOST:PORT")
    parser.add_argument("--file", type=Path, required=True, help="YAML or JSON, made if missing")
    args = parser.parse_args()
    set_up_logging(os.environ.get("TOKENWEIR_LOG_LEVEL", "INFO"))
    asyncio.run(_serve(args.listen, args.file))


if __name__ == "__main__":
    main()
