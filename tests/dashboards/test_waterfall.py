"""A trace is a tree: costs roll up, skew is shown, and circles do not hang."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.errors import BadInput
from dashboards.pages.waterfall import trace_view
from dashboards.traces import Span, Trace, assemble, check_trace_id
from dashboards.waterfall import SHOWN, lay_out, ticks

T0 = datetime(2026, 11, 30, tzinfo=UTC)
NO_TOKENS = dict.fromkeys(("prompt_tokens", "completion_tokens"))


def a_span(name: str, parent: str | None, start: float, took: float, **more: Any) -> Span:
    bands = dict.fromkeys(("queue_ms", "prefill_ms", "decode_ms", "ttft_ms"))
    return Span(
        id=name,
        parent=parent,
        name=name,
        layer=more.pop("layer", "gateway"),
        service="s",
        instance="",
        start=T0 + timedelta(milliseconds=start),
        end=T0 + timedelta(milliseconds=start + took),
        start_ns=int(start * 1e6),
        end_ns=int((start + took) * 1e6),
        status="ok",
        status_message="",
        attributes={},
        resource={},
        events=[],
        tokens=NO_TOKENS,
        bands={**bands, **more},
    )


def a_request(anchor: str, cost: float | None, **more: Any) -> dict[str, Any]:
    given = {
        "request_id": anchor,
        "cost_usd": cost,
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "conflicts": [],
    }
    return {**given, **more}


def costs(trace: Trace) -> dict[str, float | None]:
    return {span.id: span.cost_usd for span in trace.spans}


def test_children_follow_their_parent_in_the_order_they_began() -> None:
    spans = [
        a_span("late", "root", 50, 10),
        a_span("leaf", "early", 12, 5),
        a_span("root", None, 0, 100),
        a_span("early", "root", 10, 20),
    ]

    trace = assemble("t", spans, [])

    assert [(s.id, s.depth) for s in trace.spans] == [
        ("root", 0),
        ("early", 1),
        ("leaf", 2),
        ("late", 1),
    ]


def test_a_requests_cost_is_on_its_engine_spans_and_all_above() -> None:
    spans = [
        a_span("agent", None, 0, 100),
        a_span("gateway", "agent", 0, 90),
        a_span("e1", "gateway", 1, 30, layer="engine", prefill_ms=10.0, decode_ms=20.0),
        a_span("e2", "gateway", 40, 10, layer="engine", prefill_ms=5.0, decode_ms=5.0),
        a_span("tool", "agent", 92, 5),
    ]

    trace = assemble("t", spans, [a_request("gateway", 0.4)])

    assert costs(trace) == {
        "agent": pytest.approx(0.4),
        "gateway": pytest.approx(0.4),
        "e1": pytest.approx(0.3),
        "e2": pytest.approx(0.1),
        "tool": None,
    }


def test_a_request_without_a_price_leaves_every_cost_unknown() -> None:
    trace = assemble("t", [a_span("gateway", None, 0, 90)], [a_request("gateway", None)])

    assert costs(trace) == {"gateway": None}
    assert trace.totals.cost_usd is None


def test_totals_count_each_request_once_and_name_conflicts() -> None:
    note = '{"field":"prompt_tokens","layer":"llm","says":12,"taken_from":"gateway","taken":10}'
    requests = [a_request("a", 0.1, conflicts=[note]), a_request("b", None, prompt_tokens=None)]

    totals = assemble("t", [a_span("a", None, 0, 1)], requests).totals

    assert (totals.requests, totals.prompt_tokens, totals.completion_tokens) == (2, 10, 10)
    assert totals.conflicts[0]["request_id"] == "a"
    assert totals.conflicts[0]["says"] == 12


def test_a_span_whose_parent_never_came_is_a_root_and_counted() -> None:
    trace = assemble("t", [a_span("orphan", "gone", 0, 1)], [])

    assert trace.spans[0].depth == 0
    assert trace.missing_parents == 1


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=20))
def test_every_span_is_shown_once_whatever_its_parents(edges: list[tuple[int, int]]) -> None:
    parents = dict(edges)
    spans = [a_span(str(i), str(p), i, 1) for i, p in parents.items()]

    trace = assemble("t", spans, [a_request(s.id, 1.0) for s in spans])

    assert sorted(s.id for s in trace.spans) == sorted(str(i) for i in parents)


def test_phases_lie_end_to_end_within_the_engines_bar() -> None:
    span = a_span(
        "e", None, 0, 100, layer="engine",
        queue_ms=20.0, prefill_ms=30.0, decode_ms=70.0, ttft_ms=50.0,
    )  # fmt: skip

    bar = lay_out(assemble("t", [span], [])).bars[0]

    assert [(b.name, b.left, b.width) for b in bar.bands] == [
        ("queue", 0, 20),
        ("prefill", 20, 30),
        ("decode", 50, 50),
    ]
    assert bar.first_token == 50


def test_a_child_that_begins_before_its_parent_is_marked_and_not_moved() -> None:
    spans = [a_span("parent", None, 10, 90), a_span("child", "parent", 0, 20)]

    shape = lay_out(assemble("t", spans, []))

    child = next(bar for bar in shape.bars if bar.span.id == "child")
    assert child.is_early
    assert (child.left, child.width) == (0, 20)


def test_a_huge_trace_says_how_much_is_not_drawn() -> None:
    spans = [a_span(f"{i:05}", None, i, 1) for i in range(SHOWN + 20)]

    shape = lay_out(assemble("t", spans, []))

    assert (len(shape.bars), shape.hidden) == (SHOWN, 20)


@pytest.mark.parametrize("total_ms", [0.4, 3, 9.9, 75, 420, 9800, 61_000, 3_600_000])
def test_the_axis_has_a_handful_of_round_times(total_ms: float) -> None:
    marks = ticks(total_ms)

    assert 2 <= len(marks) <= 9
    assert marks[0] == 0
    assert marks[-1] <= total_ms


def test_a_trace_id_is_32_hex_digits() -> None:
    assert check_trace_id("AB" * 16) == "AB" * 16
    with pytest.raises(BadInput, match="not 32 hex digits"):
        check_trace_id("xyz")


def test_the_lowest_evaluation_of_a_trace_is_shown_where_there_is_one() -> None:
    unknown = {"cost_basis": None, "eval_score": None, "eval_label": None, "eval_name": None}
    good, poor = ({"eval_score": score, "eval_name": "grounded"} for score in (0.9, 0.0))
    spans = [a_span("root", None, 0, 10)]

    shown = [
        str(trace_view(assemble("t", spans, requests), None, None, "/"))
        for requests in (
            [a_request("root", None, **unknown)],
            [a_request("root", None, **unknown | each) for each in (good, poor, {})],
        )
    ]

    assert "Evaluation" not in shown[0]
    assert "Evaluation" in shown[1]
    assert "'0'" in shown[1]
    assert "0.9" not in shown[1]
