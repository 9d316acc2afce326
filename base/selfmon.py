"""Metrics and logs about tokenweir itself.

Metrics: `tokenweir_<folder>_<noun>_<unit>_total`, labels from closed sets, made once per process
in `REGISTRY`. Logs: one event name and key=value pairs; secrets never.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from prometheus_client import CollectorRegistry

REGISTRY = CollectorRegistry()


class Log:
    """A logger whose lines are an event name and key=value pairs."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, event: str, **fields: Any) -> None:
        self._logger.debug("%s%s", event, _pairs(fields))

    def info(self, event: str, **fields: Any) -> None:
        self._logger.info("%s%s", event, _pairs(fields))

    def warning(self, event: str, **fields: Any) -> None:
        self._logger.warning("%s%s", event, _pairs(fields))

    def error(self, event: str, **fields: Any) -> None:
        self._logger.error("%s%s", event, _pairs(fields))

    def exception(self, event: str, **fields: Any) -> None:
        """Log with the traceback of the exception being handled."""
        self._logger.exception("%s%s", event, _pairs(fields))  # noqa: LOG004  called from handlers


def set_up_logging(level: str = "INFO", stream: Any = None) -> None:
    """Send every log line to `stream` (stderr by default)."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)-7s %(name)s %(message)s", "%Y-%m-%dT%H:%M:%S")
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for noisy in ("httpx", "httpcore", "alembic", "werkzeug", "uvicorn"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def _pairs(fields: dict[str, Any]) -> str:
    return "".join(f" {key}={_value(value)}" for key, value in fields.items())


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return json.dumps(text) if any(c in text for c in ' "\n=') and isinstance(value, str) else text
