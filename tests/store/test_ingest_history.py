"""What was taken in over time, by sender, from the bookkeeping of real batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.engine import Engine
from store.ingest_history import activity, first_taken_in, taken_in, unknown_names
from store.sources import watermarks

START = datetime.fromtimestamp(1_796_000_000, UTC)
RECEIVED = START + timedelta(seconds=5)
HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)
SENDERS = (("a", ""), ("b", "acme"), ("c", "globex"))


def a_span(number: int, **more: Any) -> dict[str, Any]:
    return {"trace": f"{number:x}", "id": f"{number:x}", "name": "llm_request", "kind": 2} | more


def put(engine: Engine, at_s: int, sender: int, accepted: int, late: int, twice: int) -> None:
    source, tenant = SENDERS[sender]
    when, seq = int(START.timestamp()) + at_s, int(START.timestamp() + at_s) * 1000 + 7
    engine.execute(
        f"INSERT INTO ingest_batches VALUES ({seq}, '{source}', '{tenant}', {when}, {accepted},"
        f" {late})"
    )
    for _ in range(2):  # a batch that is done again
        engine.execute(
            f"INSERT INTO ingest_duplicates VALUES ({seq}, '{source}', '{tenant}', {twice})"
        )


def test_spans_of_a_batch_are_counted_when_they_were_received(
    ingest: Callable[..., int], span_body: Callable[..., bytes], engine: Engine
) -> None:
    ingest([span_body(a_span(1), a_span(2, attributes={"gen_ai.odd": 1}))], source="a")
    ingest([span_body(a_span(3))], source="b", tenant="acme")
    # The batches of these tests are numbered 1, 2, 3.
    start = datetime.fromtimestamp(0, UTC)

    found = activity(engine, start, RECEIVED + SECOND)
    [step] = taken_in(engine, start, RECEIVED + SECOND, 60)
    [name] = unknown_names(engine, RECEIVED - HOUR, RECEIVED)

    assert [(f.source, f.tenant, f.accepted, f.last) for f in found] == [
        ("a", "", 2, RECEIVED), ("b", "acme", 1, RECEIVED),
    ]  # fmt: skip
    assert (step.accepted, step.start_s % 60) == (3, 0)
    assert (name.name, name.spans, name.senders, name.last) == (
        "gen_ai.odd", 1, ("a",), RECEIVED.date(),
    )  # fmt: skip
    assert activity(engine, RECEIVED + SECOND, RECEIVED + HOUR) == []
    assert first_taken_in(engine) == RECEIVED


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 599), st.integers(0, 2), st.integers(1, 99), st.integers(0, 9),
            st.integers(0, 9),
        ),
        max_size=8,
        unique_by=lambda batch: batch[:2],
    ),
    st.sampled_from([None, "acme"]),
)  # fmt: skip
def test_steps_and_senders_add_up_to_the_batches_of_the_window(
    clear: Callable[[], None],
    engine: Engine,
    batches: list[tuple[int, int, int, int, int]],
    tenant: str | None,
) -> None:
    clear()
    for batch in batches:
        put(engine, *batch)
    start, end = START + 100 * SECOND, START + 500 * SECOND

    inside = [
        b for b in batches
        if 100 <= b[0] < 500 and (tenant is None or SENDERS[b[1]][1] in {tenant, ""})
    ]  # fmt: skip
    by_step: Counter[int] = Counter()
    for at, _, accepted, _, _ in inside:
        by_step[(int(START.timestamp()) + at) // 60 * 60] += accepted
    steps = taken_in(engine, start, end, 60, tenant)
    senders = activity(engine, start, end, tenant)

    assert {s.start_s: s.accepted for s in steps} == dict(by_step)
    for name, column in (("accepted", 2), ("late", 3), ("duplicate", 4)):
        total = sum(batch[column] for batch in inside)
        assert sum(getattr(s, name) for s in steps) == total
        assert sum(getattr(s, name) for s in senders) == total
    assert {(s.source, s.tenant) for s in senders} == {SENDERS[b[1]] for b in inside}


def test_without_batches_nothing_is_known(engine: Engine) -> None:
    assert first_taken_in(engine) is None
    assert activity(engine, START, START + HOUR) == []


@pytest.mark.parametrize(("since", "heard"), [(START - HOUR, 1), (START + HOUR, 0)])
def test_watermarks_of_the_last_days_leave_out_who_was_last_heard_before(
    ingest: Callable[..., int],
    span_body: Callable[..., bytes],
    engine: Engine,
    since: datetime,
    heard: int,
) -> None:
    ingest([span_body(a_span(1))])

    assert len(watermarks(engine, START + 2 * HOUR, since)) == heard
