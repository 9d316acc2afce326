"""What others say of an answer: evaluations, also late ones, tools, and the pace of a stream."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import schema
from store.engine import Engine
from store.evaluation import EVENT, Evaluation, worst

Ingest = Callable[..., int]
Body = Callable[..., bytes]
COLUMNS = "itl_p95_ms, eval_name, eval_score, eval_label, tool_calls, tool_errors"
UNKNOWN = {
    "itl_p95_ms": None, "eval_name": "", "eval_score": None, "eval_label": "",
    "tool_calls": None, "tool_errors": None,
}  # fmt: skip


def gateway(**more: Any) -> dict[str, Any]:
    said = {"tokenweir.role": "gateway", "http.route": "/v1/chat/completions"}
    said |= more.pop("said", {})
    return {"trace": "a", "id": "1", "name": "POST", "kind": 2, "attributes": said} | more


def evaluation(name: str, score: Any = None, label: str = "", **more: Any) -> dict[str, Any]:
    said = {"gen_ai.evaluation.name": name}
    said |= {} if score is None else {"gen_ai.evaluation.score.value": score}
    said |= {"gen_ai.evaluation.score.label": label} if label else {}
    return {"trace": "a", "parent": "1", "name": EVENT, "attributes": said} | more


def facts(engine: Engine) -> list[dict[str, Any]]:
    return engine.rows(f"SELECT {COLUMNS} FROM facts FINAL ORDER BY start, request_id")


def one(engine: Engine) -> dict[str, Any]:
    [found] = facts(engine)
    return found


def test_what_nobody_says_of_an_answer_is_unknown(
    ingest: Ingest, span_body: Body, engine: Engine
) -> None:
    ingest([span_body(gateway())])

    assert one(engine) == UNKNOWN


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"gen_ai.evaluation.name": "r", "gen_ai.evaluation.score.value": 0.5,
          "gen_ai.evaluation.score.label": "meh"}, ("r", 0.5, "meh")),
        ({"evaluation.name": "r", "evaluation.score": "-1", "evaluation.label": "bad"},
         ("r", -1.0, "bad")),
        ({"gen_ai.evaluation.score": 0}, ("", 0.0, "")),
        ({"gen_ai.evaluation.score.label": "pass"}, ("", None, "pass")),
        ({"gen_ai.evaluation.name": "r"}, ("", None, "")),
        ({"gen_ai.evaluation.name": "r", "gen_ai.evaluation.score.value": "high"},
         ("", None, "")),
        ({"gen_ai.evaluation.score.value": float("nan")}, ("", None, "")),
    ],
)  # fmt: skip
def test_an_evaluation_is_read_under_each_of_its_names(
    said: dict[str, Any], found: tuple[Any, ...], ingest: Ingest, span_body: Body, engine: Engine
) -> None:
    ingest([span_body(gateway(said=said))])

    fact = one(engine)
    assert (fact["eval_name"], fact["eval_score"], fact["eval_label"]) == found


def test_events_are_evaluations_and_the_lowest_of_the_newest_counts(
    ingest: Ingest, span_body: Body, engine: Engine
) -> None:
    def event(at_ms: int, name: str, score: float) -> tuple[int, str, dict[str, Any]]:
        return at_ms, EVENT, evaluation(name, score, f"{name} {score}")["attributes"]

    events = [event(9, "safe", 0.1), event(20, "safe", 0.9), event(5, "grounded", 0.4),
              (3, "gen_ai.choice", {"gen_ai.evaluation.score.value": 0.0})]  # fmt: skip
    ingest([span_body(gateway(events=events))])

    fact = one(engine)
    assert (fact["eval_name"], fact["eval_score"]) == ("grounded", 0.4)
    assert fact["eval_label"] == "grounded 0.4"


def test_an_evaluation_that_comes_minutes_later_is_joined_in_any_order(
    ingest: Ingest, span_body: Body, engine: Engine
) -> None:
    first = [gateway(), {"trace": "a", "id": "2", "parent": "1", "name": "middleware"}]
    early = evaluation("safe", 1.0, id="3", start_ms=60_000, end_ms=60_001)
    late = evaluation("safe", 0.2, id="4", parent="2", start_ms=500_000, end_ms=500_001)
    seen = []
    for order in ([first, [early], [late]], [[late], first, [early]], [[late, early, *first]]):
        for table in ("spans", "facts"):
            engine.execute(f"TRUNCATE TABLE {table}")
        for batch in order:
            ingest([span_body(*batch)])
        seen.append(one(engine))

    assert seen[0]["eval_score"] == 0.2
    assert seen == [seen[0]] * 3


def test_an_evaluation_beyond_the_trace_window_changes_nothing(
    ingest: Ingest, span_body: Body, engine: Engine
) -> None:
    ingest([span_body(gateway())])
    ingest([span_body(evaluation("safe", 0.2, id="3", start_ms=700_000, end_ms=700_001))])

    assert one(engine) == UNKNOWN


def test_an_evaluation_that_stands_apart_is_about_the_only_request_or_the_one_it_names(
    ingest: Ingest, span_body: Body, engine: Engine
) -> None:
    def chat(trace: str, number: str, answer: str) -> dict[str, Any]:
        said = {"gen_ai.operation.name": "chat", "gen_ai.response.id": answer}
        return {"trace": trace, "id": number, "start_ms": int(number), "attributes": said}

    apart = evaluation("safe", 0.3, id="9", parent="", start_ms=50)
    named = evaluation("safe", 0.7, id="9", trace="b", parent="", start_ms=50)
    named["attributes"]["gen_ai.response.id"] = "two"
    lost = evaluation("safe", 0.1, id="8", trace="b", parent="", start_ms=50)
    ingest([span_body(chat("a", "1", "x"), apart, chat("b", "2", "one"), chat("b", "3", "two"),
                      named, lost)])  # fmt: skip

    assert [fact["eval_score"] for fact in facts(engine)] == [0.3, None, 0.7]


def test_of_contradictory_copies_the_survivors_evaluation_counts(
    ingest: Ingest, span_body: Body, engine: Engine
) -> None:
    bodies = [
        span_body(gateway(events=[(1, EVENT, evaluation("a", score)["attributes"])]))
        for score in (0.1, 0.9)
    ]
    seen = []
    for order in itertools.permutations(bodies):
        for table in ("spans", "facts"):
            engine.execute(f"TRUNCATE TABLE {table}")
        for body in order:
            ingest([body])
        seen.append(one(engine)["eval_score"])

    assert seen[0] == seen[1]


results = st.builds(
    Evaluation, st.integers(0, 3), st.sampled_from("ab"),
    st.one_of(st.none(), st.floats(-1, 1)), st.sampled_from(["", "x", "y"]),
)  # fmt: skip


@given(st.lists(results, min_size=1, max_size=5))
def test_the_worst_evaluation_does_not_depend_on_the_order(found: list[Evaluation]) -> None:
    taken = worst(found)

    assert {worst(order) for order in itertools.permutations(found)} == {taken}
    newest = {each.name: max(e.at_ns for e in found if e.name == each.name) for each in found}
    candidates = [each for each in found if each.at_ns == newest[each.name]]
    assert taken in candidates
    if len({(e.name, e.at_ns) for e in candidates}) == len(candidates):
        assert taken.height == min(each.height for each in candidates)


# ---- tools


def tool(number: str, parent: str, **more: Any) -> dict[str, Any]:
    said = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"}
    return {"trace": "a", "id": number, "parent": parent, "attributes": said} | more


def test_tools_beneath_a_request_are_its_own_and_those_of_tools_are_not_counted(
    ingest: Ingest, span_body: Body, engine: Engine
) -> None:
    agent = {"trace": "a", "id": "2", "parent": "1", "name": "agent"}
    inner = tool("5", "4", status=2)
    ingest([span_body(gateway(), agent, tool("3", "2", status=2), tool("4", "2"), inner)])

    assert (one(engine)["tool_calls"], one(engine)["tool_errors"]) == (2, 1)


def test_tools_beside_an_agents_calls_belong_to_the_call_before_them(
    ingest: Ingest, span_body: Body, engine: Engine
) -> None:
    def chat(number: str, start_ms: int) -> dict[str, Any]:
        said = {"gen_ai.operation.name": "chat"}
        return {"trace": "a", "id": number, "parent": "1", "start_ms": start_ms,
                "attributes": said}  # fmt: skip

    agent = {"trace": "a", "id": "1", "attributes": {"gen_ai.operation.name": "invoke_agent"}}
    group = {"trace": "a", "id": "7", "parent": "1", "name": "running tools", "start_ms": 20}
    ingest([span_body(
        agent, tool("2", "1", start_ms=1), chat("3", 10), group, tool("4", "7", start_ms=21),
        tool("5", "7", start_ms=22, status=2), chat("6", 30), chat("8", 50), tool("9", "1",
        start_ms=60),
    )])  # fmt: skip

    assert [(fact["tool_calls"], fact["tool_errors"]) for fact in facts(engine)] == [
        (2, 1), (None, None), (1, 0),
    ]  # fmt: skip


def test_parents_in_a_cycle_end_the_search(ingest: Ingest, span_body: Body, engine: Engine) -> None:
    ingest([span_body(gateway(), tool("3", "4"), {"trace": "a", "id": "4", "parent": "3"})])

    assert one(engine)["tool_calls"] is None


# ---- pace, and folders from before


def test_the_pace_of_a_stream_is_the_outermost_ones(
    ingest: Ingest, span_body: Body, engine: Engine
) -> None:
    inner = {"tokenweir.role": "router", "tokenweir.inter_token_latency.p95": 0.5}
    ingest([span_body(
        gateway(said={"tokenweir.inter_token_latency.p95": 0.04}),
        {"trace": "a", "id": "2", "parent": "1", "attributes": inner},
    )])  # fmt: skip

    assert one(engine)["itl_p95_ms"] == pytest.approx(40)


def test_a_folder_from_before_opens_and_what_it_holds_is_unknown(
    ingest: Ingest, span_body: Body, engine: Engine
) -> None:
    event = (1, EVENT, evaluation("a", 0.5)["attributes"])
    ingest([span_body(gateway(trace="b", events=[event]))])
    for table, columns in {
        "spans": ["evaluations", "itl_p95_ms", "eval_name", "eval_score", "eval_label"],
        "facts": COLUMNS.split(", "),
    }.items():
        engine.execute(f"ALTER TABLE {table} " + ", ".join(f"DROP COLUMN {c}" for c in columns))

    schema.create(engine)
    before = one(engine)
    ingest([span_body(gateway(start_ms=5, said={"evaluation.score": 0.25}))])
    seen = [fact["eval_score"] for fact in facts(engine)]
    # What is touched again is joined anew, with what the old spans still say.
    ingest([span_body({"trace": "b", "id": "7", "parent": "1"})])
    again = [fact["eval_score"] for fact in facts(engine)]

    assert before == UNKNOWN
    assert seen == [None, 0.25]
    assert again == [0.5, 0.25]
