"""Read a price book from YAML; an error names the file and the line."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from base.errors import ConfigError
from cost.prices import GpuPrice, Hardware, PriceBook, TokenPrice

# Six decimals of a dollar per million tokens is a whole number of pico-dollars per token.
Dollars = Annotated[Decimal, Field(ge=0, decimal_places=6, max_digits=18)]
Name = Annotated[str, Field(min_length=1)]


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    since: date = Field(alias="from")


class _Tokens(_Row):
    model: Name
    provider: Name | None = None
    input: Dollars
    cached_input: Dollars | None = None
    output: Dollars


class _Gpu(_Row):
    type: Name
    per_hour: Dollars
    overhead_per_hour: Dollars = Decimal(0)


class _Hardware(_Row):
    model: Name
    gpu_type: Name
    gpu_count: int = Field(ge=1)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    name: Name = "prices"
    currency: Literal["USD"] = "USD"
    tokens: list[_Tokens] = []
    gpus: list[_Gpu] = []
    hardware: list[_Hardware] = []


def load_price_book(path: Path) -> PriceBook:
    """Read and check a price book file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"price book {path}: {error.strerror or error}") from error
    return parse_price_book(text, str(path))


def parse_price_book(text: str, source: str) -> PriceBook:
    """Check the text of a price book; `source` is the name errors give it."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{source} line {line}: {error.problem}") from error
    if data is None:
        return PriceBook()
    lines = dict(_lines(root, ()))
    try:
        checked = _File.model_validate(data)
    except ValidationError as error:
        raise ConfigError(_explain(error, lines, source)) from error
    book = PriceBook(
        name=checked.name,
        tokens=tuple(
            TokenPrice(r.model, r.since, r.input, r.output, r.cached_input, r.provider)
            for r in checked.tokens
        ),
        gpus=tuple(
            GpuPrice(r.type, r.since, r.per_hour, r.overhead_per_hour) for r in checked.gpus
        ),
        hardware=tuple(
            Hardware(r.model, r.since, r.gpu_type, r.gpu_count) for r in checked.hardware
        ),
    )
    _refuse_twins(book, lines, source)
    return book


def _refuse_twins(book: PriceBook, lines: dict[Any, int], source: str) -> None:
    keys: dict[str, list[tuple[Any, ...]]] = {
        "tokens": [(p.model, p.provider, p.since) for p in book.tokens],
        "gpus": [(p.gpu_type, p.since) for p in book.gpus],
        "hardware": [(h.model, h.since) for h in book.hardware],
    }
    for section, rows in keys.items():
        first: dict[tuple[Any, ...], int] = {}
        for index, key in enumerate(rows):
            if key in first:
                raise ConfigError(
                    f"{source} line {lines[section, index]}: {section} for {key[0]!r} from "
                    f"{key[-1]} is already given in line {lines[section, first[key]]}"
                )
            first[key] = index


def _explain(error: ValidationError, lines: dict[Any, int], source: str) -> str:
    out = []
    for problem in error.errors():
        where = problem["loc"]
        line = next((lines[where[:n]] for n in range(len(where), -1, -1) if where[:n] in lines), 1)
        name = ".".join(str(part) for part in where) or "the document"
        got = "" if problem["type"] == "missing" else f" (got {problem['input']!r})"
        out.append(f"{source} line {line}: {name}: {problem['msg']}{got}")
    return "\n".join(out)


def _lines(node: yaml.Node | None, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Yield the line of every place in the document, by the path pydantic calls it."""
    if node is None:
        return
    yield path, node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _lines(value, (*path, key.value))
            # An error about a key is about the key's own line, not that of a nested value.
            yield (*path, key.value), key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _lines(value, (*path, index))
