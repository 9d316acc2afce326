"""A name stands for one set of artifacts: what is registered for a model, and what differs.

An answer depends on weights, tokenizer, chat template, engine and quantisation together; two
replicas that differ in one of them are two models under one name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

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
