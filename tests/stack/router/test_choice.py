from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stack.router.affinity import BLOCK_CHARS, MOST_BLOCKS, PrefixTable, prefix_blocks
from stack.router.choice import Balance, Option, choose


def option(name: str, **fields: Any) -> Option:
    base: dict[str, Any] = {"load": 0, "tokens": 0, "last_used": 0, "matched": 0}
    return Option(name=name, url=f"http://{name}", **{**base, **fields})


def test_the_worker_that_knows_the_prefix_is_chosen() -> None:
    choice = choose([option("a"), option("b", matched=8, load=2)], 10, Balance())

    assert choice is not None
    assert choice.option.name == "b"
    assert choice.stage == "prefix_hit"
    assert choice.reason == "b: prefix 8/10, load 2, least 0"


def test_a_short_match_is_not_worth_it() -> None:
    choice = choose([option("a"), option("b", matched=2, load=2)], 10, Balance())

    assert choice is not None
    assert (choice.option.name, choice.stage) == ("a", "prefix_miss")


@pytest.mark.parametrize(
    ("load", "least", "stage"),
    [
        (8, 0, "prefix_hit"),
        (9, 0, "load_imbalance"),
        (40, 31, "prefix_hit"),  # 9 more, but not 1.3 times as many
        (50, 31, "load_imbalance"),
    ],
)
def test_a_prefix_is_given_up_when_both_limits_of_imbalance_are_passed(
    load: int, least: int, stage: str
) -> None:
    options = [option("a", load=least), option("b", matched=10, load=load)]

    choice = choose(options, 10, Balance(absolute=8, relative=1.3))

    assert choice is not None
    assert choice.stage == stage


def test_without_a_prefix_the_least_loaded_is_chosen() -> None:
    options = [option("a", load=2), option("b", load=1, tokens=9), option("c", load=1, tokens=3)]

    choice = choose(options, 0, Balance())

    assert choice is not None
    assert (choice.option.name, choice.stage) == ("c", "missing_tokens")


def test_equally_loaded_workers_take_turns() -> None:
    choice = choose([option("a", last_used=50), option("b", last_used=10)], 4, Balance())

    assert choice is not None
    assert choice.option.name == "b"


def test_nobody_there_is_none() -> None:
    assert choose([], 3, Balance()) is None


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 1000), st.integers(0, 20)), min_size=1),
    st.integers(0, 20),
)
def test_no_choice_is_worse_than_the_imbalance_limits(
    workers: list[tuple[int, int, int]], blocks: int
) -> None:
    balance = Balance()
    options = [
        option(str(n), load=load, tokens=tokens, matched=min(matched, blocks))
        for n, (load, tokens, matched) in enumerate(workers)
    ]

    choice = choose(options, blocks, balance)

    assert choice is not None
    least = min(o.load for o in options)
    gap = choice.option.load - least
    assert gap <= balance.absolute or choice.option.load <= balance.relative * least


def test_blocks_name_everything_before_them() -> None:
    same = "s" * BLOCK_CHARS * 3
    first = prefix_blocks("m", [same, "tail one" * 200])
    second = prefix_blocks("m", [same, "tail two" * 200])

    shared = [a == b for a, b in zip(first, second, strict=True)]

    assert shared[:3] == [True] * 3
    assert not any(shared[4:])
    assert prefix_blocks("other", [same])[0] != prefix_blocks("m", [same])[0]


def test_a_short_prompt_has_no_blocks_and_a_long_one_not_too_many() -> None:
    assert prefix_blocks("m", ["hi"]) == ()
    assert len(prefix_blocks("m", ["x" * 10_000_000])) == MOST_BLOCKS
    assert prefix_blocks("m", ["\ud800" * BLOCK_CHARS])  # half a surrogate pair, as JSON allows


def test_a_table_counts_leading_blocks_and_forgets_the_oldest() -> None:
    table = PrefixTable(remembered=3)
    blocks = [bytes([n]) for n in range(4)]

    table.remember(blocks[:2])
    assert table.matched(blocks) == 2
    assert table.matched([blocks[1], blocks[0]]) == 2
    table.remember(blocks[2:])

    assert len(table) == 3
    assert table.matched(blocks) == 0
