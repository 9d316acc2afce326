"""The vocabulary: which attribute names mean the same, and what kind of span one is.

The table itself is `vocabulary.yaml`. Names of GenAI attributes change with every generation of
the conventions, so they are data with a version, never constants in code.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from base.errors import ConfigError

LAYERS = ("client", "gateway", "router", "engine", "llm", "agent", "tool", "alive", "other")
KINDS = {"unspecified": 0, "internal": 1, "server": 2, "client": 3, "producer": 4, "consumer": 5}

Unit = Literal["", "ms", "s", "us", "ns", "tokens", "usd", "gpus"]
_FACTORS = {("s", "ms"): 1000.0, ("us", "ms"): 1e-3, ("ns", "ms"): 1e-6}


@dataclass(frozen=True, slots=True)
class Alias:
    """One attribute name; its value times `factor` is in the column's unit."""

    name: str
    factor: float


@dataclass(frozen=True, slots=True)
class Column:
    """One canonical column and the names that feed it, best first."""

    name: str
    unit: Unit
    aliases: tuple[Alias, ...]
    resource: bool
    from_list: bool


class When(BaseModel):
    """The conditions of a rule; all of them must hold."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: tuple[str, ...] = ()
    name: tuple[str, ...] = ()
    scope: tuple[str, ...] = ()
    scope_prefix: tuple[str, ...] = ()
    service: tuple[str, ...] = ()
    operation: tuple[str, ...] = ()
    kind: tuple[Literal["internal", "server", "client", "producer", "consumer"], ...] = ()
    method: tuple[str, ...] = ()
    name_matches: str = ""
    path: str = ""
    has: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()


class Rule(BaseModel):
    """A span that meets `when` belongs to `layer`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    layer: Literal[
        "client", "gateway", "router", "engine", "llm", "agent", "tool", "alive", "other"
    ]
    when: When


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The whole table, checked."""

    version: int
    columns: tuple[Column, ...]
    rules: tuple[Rule, ...]
    content: tuple[str, ...]
    known: tuple[str, ...]


class _AliasEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    unit: Unit


class _ColumnEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    aliases: tuple[str | _AliasEntry, ...] = Field(min_length=1)
    unit: Unit = ""
    resource: bool = False
    from_list: bool = Field(default=False, alias="list")


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    version: int
    columns: dict[str, _ColumnEntry]
    inference_path: str
    layers: tuple[Rule, ...]
    content: tuple[str, ...] = ()
    known: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _names_are_used_once(self) -> Self:
        owner: dict[str, str] = {}
        for column, entry in self.columns.items():
            for alias in entry.aliases:
                name = alias if isinstance(alias, str) else alias.name
                if name in owner:
                    raise ValueError(f"{name!r} feeds both {owner[name]!r} and {column!r}")
                owner[name] = column
        for name in self.content:
            if name in owner:
                raise ValueError(f"{name!r} is content and feeds {owner[name]!r}")
        for rule in self.layers:
            for column in (*rule.when.has, *rule.when.needs, *rule.when.lacks):
                if column not in self.columns:
                    raise ValueError(f"a rule for {rule.layer!r} names no column {column!r}")
        return self


def load(text: str | None = None) -> Vocabulary:
    """Read the bundled vocabulary, or `text`."""
    if text is None:
        text = resources.files("collector").joinpath("vocabulary.yaml").read_text("utf-8")
    try:
        file = _File.model_validate(yaml.safe_load(text))
    except (ValidationError, yaml.YAMLError) as error:
        raise ConfigError(f"vocabulary: {error}") from error
    return Vocabulary(
        version=file.version,
        columns=tuple(_column(name, entry) for name, entry in file.columns.items()),
        rules=tuple(_with_path(rule, file.inference_path) for rule in file.layers),
        content=file.content,
        known=file.known,
    )


def _column(name: str, entry: _ColumnEntry) -> Column:
    return Column(
        name=name,
        unit=entry.unit,
        aliases=tuple(_alias(name, alias, entry.unit) for alias in entry.aliases),
        resource=entry.resource,
        from_list=entry.from_list,
    )


def _alias(column: str, alias: str | _AliasEntry, unit: Unit) -> Alias:
    if isinstance(alias, str) or alias.unit == unit:
        return Alias(alias if isinstance(alias, str) else alias.name, 1.0)
    if (alias.unit, unit) not in _FACTORS:
        raise ConfigError(
            f"vocabulary: {alias.name!r} is in {alias.unit!r}, which column {column!r} "
            f"({unit!r}) can't be computed from"
        )
    return Alias(alias.name, _FACTORS[alias.unit, unit])


def _with_path(rule: Rule, inference_path: str) -> Rule:
    if rule.when.path != "$inference_path":
        return rule
    return rule.model_copy(update={"when": rule.when.model_copy(update={"path": inference_path})})
