"""What an engine says it serves, asked at registration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from base.errors import BadInput, Retryable
from stack.registry.entries import ModelEntry, mismatches


@dataclass(frozen=True, slots=True)
class Identity:
    """Model names, and digests by part (weights, tokenizer, template, engine, quant)."""

    models: tuple[str, ...]
    digests: Mapping[str, str] = field(default_factory=dict)


async def ask_identity(url: str, client: httpx.AsyncClient) -> Identity:
    """Read `/v1/models` and `/version`. Real vLLM has no digests but tells its version.

    Raises Retryable when the engine does not answer as an engine would.
    """
    try:
        models = await client.get(url + "/v1/models", timeout=5.0)
        models.raise_for_status()
        data = models.json()["data"]
        names = tuple(str(entry["id"]) for entry in data)
        version = await client.get(url + "/version", timeout=5.0)
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        raise Retryable(f"{url}/v1/models: {type(error).__name__}") from error
    digests = _digests(data[0]) if data else {}
    if version.is_success and "engine" not in digests:
        digests["engine"] = f"vllm-{version.json().get('version', '?')}"
    return Identity(names, digests)


def check_identity(identity: Identity, entries: Mapping[str, ModelEntry] | None) -> None:
    """Compare an engine with the registry; None is "no registry". Raises BadInput with each why."""
    if entries is None:
        return
    problems: list[str] = []
    for name in identity.models:
        entry = entries.get(name)
        if entry is None:
            problems.append(f"model {name!r} is not registered")
        else:
            problems += [f"model {name!r}: {what}" for what in mismatches(entry, identity.digests)]
    if not identity.models:
        problems.append("it serves no model")
    if problems:
        raise BadInput("; ".join(problems))


def _digests(entry: Mapping[str, Any]) -> dict[str, str]:
    digests = entry.get("digests")
    return {str(k): str(v) for k, v in digests.items()} if isinstance(digests, dict) else {}
