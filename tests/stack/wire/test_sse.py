from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stack.wire.gaps import Gaps
from stack.wire.sse import AnswerFacts, StreamReader


def event(document: Any) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"


def delta(content: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": finish}
    return event({"model": "tiny", "choices": [choice], "usage": None})


USAGE = event(
    {
        "model": "tiny",
        "choices": [],
        "usage": {
            "prompt_tokens": 11,
            "completion_tokens": 4,
            "prompt_tokens_details": {"cached_tokens": 8},
        },
    }
)
STREAM = b"".join(
    [
        event({"choices": [{"delta": {"role": "assistant", "content": ""}}]}),
        b": a comment\n\n",
        delta("Grüße \U0001f600"),
        delta('"usage": {"error": [DONE]'),
        delta("", "stop"),
        USAGE,
        b"data: [DONE]\n\n",
    ]
)


@given(st.lists(st.integers(1, len(STREAM)), max_size=30), st.booleans())
def test_however_the_bytes_are_cut_the_same_is_learned_and_passed_on(
    cuts: list[int], pass_usage: bool
) -> None:
    facts = AnswerFacts()
    reader = StreamReader(facts, lambda: 0.25, pass_usage=pass_usage)
    edges = [0, *sorted(cuts), len(STREAM)]

    passed = b"".join(reader.feed(STREAM[a:b]) for a, b in pairwise(edges) if a < b)

    assert passed == (STREAM if pass_usage else STREAM.replace(USAGE, b""))
    assert facts == AnswerFacts(
        ttft_s=0.25,
        model="tiny",
        prompt_tokens=11,
        completion_tokens=4,
        cached_tokens=8,
        finish_reasons=["stop"],
        done=True,
    )


def test_the_first_token_is_the_first_content_and_not_the_role() -> None:
    facts, times = AnswerFacts(), iter([1.0, 2.0])
    reader = StreamReader(facts, lambda: next(times), pass_usage=False)

    reader.feed(event({"choices": [{"delta": {"role": "assistant", "content": ""}}]}))
    assert facts.ttft_s is None
    reader.feed(delta("Hi"))
    reader.feed(delta("there"))

    assert facts.ttft_s == 1.0


@pytest.mark.parametrize(
    "choice",
    [
        {"text": "a"},
        {"delta": {"reasoning_content": "hm"}},
        {"delta": {"tool_calls": [{"index": 0}]}},
    ],
)
def test_text_reasoning_and_tool_calls_are_content_too(choice: dict[str, Any]) -> None:
    facts = AnswerFacts()

    StreamReader(facts, lambda: 1.0, pass_usage=False).feed(event({"choices": [choice]}))

    assert facts.ttft_s == 1.0


def test_nothing_said_is_none_and_never_zero() -> None:
    facts = AnswerFacts()

    StreamReader(facts, lambda: 1.0, pass_usage=False).feed(delta("Hi"))

    assert facts.prompt_tokens is None
    assert facts.completion_tokens is None
    assert facts.cached_tokens is None


def test_the_p95_of_the_gaps_is_that_of_the_events_as_they_came() -> None:
    facts = AnswerFacts()
    times = iter([1.0, 1.1, 1.4, 1.5, 9.0])
    reader = StreamReader(facts, lambda: next(times), pass_usage=False)

    reader.feed(event({"choices": [{"delta": {"role": "assistant", "content": ""}}]}))
    reader.feed(delta("one"))
    assert facts.gaps.p95_s() is None
    reader.feed(delta("two"))
    reader.feed(b": still there\n\n")
    reader.feed(delta("three") + delta("four"))
    reader.feed(delta("five", "stop"))
    reader.feed(delta("", "stop") + USAGE + b"data: [DONE]\n\n")

    assert facts.gaps.p95_s() == pytest.approx(0.3)


@given(st.lists(st.tuples(st.floats(0, 9), st.integers(1, 4)), min_size=1, max_size=30))
def test_the_p95_is_the_nearest_rank_of_all_gaps(pieces: list[tuple[float, int]]) -> None:
    gaps, now, every = Gaps(), 0.0, []
    for wait, events in pieces:
        before, now = now, now + wait
        every += [now - before, *[0.0] * (events - 1)]
        gaps.came(now, events)
    every = sorted(every[1:])

    assert gaps.p95_s() == (every[-(-95 * len(every) // 100) - 1] if every else None)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_events_do_no_harm(noise: bytes) -> None:
    facts = AnswerFacts()
    reader = StreamReader(facts, lambda: 1.0, pass_usage=False)

    reader.feed(noise)
    reader.feed(b"\n\ndata: {not json\n\ndata: 7\n\n")

    assert facts.error is None
