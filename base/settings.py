"""What the sections of tokenweir.yaml have in common."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from base.durations import parse_duration
from base.errors import BadInput


def _read(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return parse_duration(value)
    except BadInput as error:
        raise ValueError(str(error)) from None  # pydantic then names the setting


Duration = Annotated[timedelta, BeforeValidator(_read)]
"""A length of time, written as "90s", "5m" or "30d"."""

PositiveDuration = Annotated[Duration, Field(gt=timedelta(0))]


class Section(BaseModel):
    """One section of the configuration: unknown names are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)
