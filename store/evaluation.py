"""One evaluation of an answer, as a span says it: in its attributes or in events of its own."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

EVENT = "gen_ai.evaluation.result"
"""The event of the OpenTelemetry GenAI conventions; a span may have several."""
NAME = "gen_ai.evaluation.name"
SCORE = "gen_ai.evaluation.score.value"
LABEL = "gen_ai.evaluation.score.label"

COUNT_SQL = (
    f"toUInt8(least(255, countEqual(`events.name`, '{EVENT}')"
    " + if(eval_score IS NULL AND eval_label = '', 0, 1)))"
)
"""How many evaluations a span may hold: kept with it, so that only those few are read again."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """`at_ns` orders those of one name; an unknown score is None, an unknown label ''."""

    at_ns: int
    name: str
    score: float | None
    label: str

    @property
    def height(self) -> float:
        """Order by score, what has none last."""
        return math.inf if self.score is None else self.score


def worst(found: Iterable[Evaluation]) -> Evaluation:
    """Take the newest of each name and, of these, the one with the lowest score.

    So a condition on the score holds for all of them, in whatever order they came.
    """
    newest: dict[str, Evaluation] = {}
    for each in sorted(found, key=lambda e: (e.at_ns, e.height, e.label)):
        newest[each.name] = each
    return min(newest.values(), key=lambda e: (e.height, e.name, e.label))


def score_of(text: str) -> float | None:
    """Read a score of an event; what is no finite number is unknown."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
