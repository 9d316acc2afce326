"""Whose request a span belongs to, however deep or knotted its trace is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.engine import Engine
from store.lineage import nearest, trace_lineage

DEEP = 300


@pytest.mark.parametrize("layer", ["agent", "llm"])
def test_a_call_deep_inside_is_one_request_of_the_outermost_tenant(
    layer: str, ingest: Callable[..., int], span_body: Callable[..., bytes], engine: Engine
) -> None:
    spans = [
        {
            "trace": "a",
            "id": f"{depth + 1:x}",
            "parent": f"{depth:x}" if depth else "",
            "attributes": {"tokenweir.role": "llm" if depth == DEEP else layer},
        }
        for depth in range(DEEP + 1)
    ]
    spans[0]["attributes"] |= {"tenant.id": "acme"}  # type: ignore[operator]

    ingest([span_body(*spans)])

    rows = engine.rows("SELECT tenant FROM facts FINAL")
    assert [row["tenant"] for row in rows] == ["acme"]


def test_in_a_cycle_every_span_speaks_for_itself() -> None:
    parent = np.array([1, 0, 2, 0])  # two in a ring, one its own parent, one hanging on the ring

    anchor = trace_lineage(parent, np.ones(4, bool)).anchor

    assert anchor.tolist() == [0, 1, 2, 3]


@given(
    st.lists(st.tuples(st.integers(-1, 30), st.booleans()), min_size=1, max_size=31),
)
def test_the_nearest_ancestor_is_what_walking_finds(links: list[tuple[int, bool]]) -> None:
    parent = np.array([up if up < len(links) else -1 for up, _ in links])
    wanted = np.array([flag for _, flag in links])

    def walk(at: int) -> int:
        for _ in links:
            at = int(parent[at])
            if at < 0 or wanted[at]:
                return at
        return -1

    assert nearest(parent, wanted).tolist() == [walk(at) for at in range(len(links))]
