"""Everything a simulated engine serves beside completions: health, models, metrics, controls."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from base.clock import Clock
from stack.engine.completions import Refused
from stack.engine.core import EngineCore
from stack.engine.metrics import EngineMetrics
from stack.engine.settings import EngineSettings

VERSION = "0.32.0"

Page = tuple[bytes, dict[str, str]]
"""A body and its headers."""


class EnginePages:
    """Answers whole pages. `in_flight` counts HTTP requests and is kept by the application."""

    def __init__(
        self, settings: EngineSettings, core: EngineCore, metrics: EngineMetrics, clock: Clock
    ) -> None:
        self._settings = settings
        self._core = core
        self._metrics = metrics
        self._started = int(clock.now().timestamp())
        self.in_flight = 0
        self._pages: Mapping[tuple[str, str], Callable[[str], Page]] = {
            ("GET", "/health"): lambda _: (b"", {}),
            ("GET", "/ping"): lambda _: (b"", {}),
            ("GET", "/version"): lambda _: _json({"version": VERSION}),
            ("GET", "/load"): lambda _: _json({"server_load": self.in_flight}),
            ("GET", "/v1/models"): lambda _: _json(self._models()),
            ("GET", "/metrics"): lambda _: self._render_metrics(),
            ("GET", "/is_paused"): lambda _: _json({"is_paused": self._core.is_paused}),
            ("POST", "/pause"): lambda _: self._pause(),
            ("POST", "/resume"): lambda _: self._resume(),
            ("POST", "/simulation/slowdown"): self._slow_down,
        }

    def answer(self, method: str, path: str, query: str) -> Page | None:
        """Return a page, None where there is none. Raises Refused for a bad query."""
        page = self._pages.get((method, path))
        return page(query) if page else None

    def _render_metrics(self) -> Page:
        text = self._metrics.render(self._core.counters())
        return text, {"content-type": "text/plain; version=1.0.0; charset=utf-8"}

    def _models(self) -> dict[str, Any]:
        card = {
            "id": self._settings.model,
            "object": "model",
            "created": self._started,
            "owned_by": "vllm",
            "root": self._settings.model,
            "parent": None,
            "max_model_len": self._settings.max_model_len,
            "permission": [],
        }
        return {"object": "list", "data": [card]}

    def _pause(self) -> Page:
        """Freeze and keep all, as vLLM's `/pause?mode=keep`; its other modes are not simulated."""
        self._core.control(lambda simulation, now: simulation.pause(now))
        return _json({"status": "paused"})

    def _resume(self) -> Page:
        self._core.control(lambda simulation, now: simulation.resume(now))
        return _json({"status": "resumed"})

    def _slow_down(self, query: str) -> Page:
        """Make the replica slow, to play that incident: no vLLM has this."""
        factor = 0.0
        with suppress(ValueError):
            factor = float(query.removeprefix("factor="))
        if not 0.01 <= factor <= 1000:
            raise Refused(400, "BadRequestError", "factor must be in [0.01, 1000]", "factor")
        self._core.control(lambda simulation, now: simulation.slow_down(factor, now))
        return _json({"slowdown": factor})


def _json(document: Mapping[str, Any]) -> Page:
    body = json.dumps(document, separators=(",", ":")).encode()
    return body, {"content-type": "application/json"}
