"""The table of names: complete, unambiguous, and the store's columns."""

from __future__ import annotations

import pytest

from base.errors import ConfigError
from collector.vocabulary import LAYERS, load
from store.columns import VOCABULARY_COLUMNS


def test_the_vocabulary_and_the_store_name_the_same_columns() -> None:
    assert [column.name for column in load().columns] == list(VOCABULARY_COLUMNS)


def test_every_rule_names_a_known_layer() -> None:
    assert {rule.layer for rule in load().rules} <= set(LAYERS)


def test_seconds_become_milliseconds() -> None:
    columns = {column.name: column for column in load().columns}
    factors = {alias.name: alias.factor for alias in columns["ttft_ms"].aliases}

    assert factors["gen_ai.server.time_to_first_token"] == 1000
    assert factors["ai.response.msToFirstChunk"] == 1


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("columns: {a: {aliases: [x]}, b: {aliases: [x]}}", "'x' feeds both 'a' and 'b'"),
        ("columns: {a: {aliases: [x]}}\nsurprise: 1", "surprise"),
        ("columns: {a: {aliases: []}}", "aliases"),
        ("columns: {a: {unit: usd, aliases: [{name: x, unit: s}]}}", "can't be computed"),
    ],
)
def test_a_wrong_vocabulary_is_refused_with_the_reason(text: str, complaint: str) -> None:
    whole = f"version: 1\ninference_path: '^/v1/'\nlayers: []\n{text}"

    with pytest.raises(ConfigError, match=complaint):
        load(whole)


def test_a_rule_on_a_column_that_is_not_there_is_refused() -> None:
    text = (
        "version: 1\ninference_path: '^/v1/'\ncolumns: {a: {aliases: [x]}}\n"
        "layers: [{layer: llm, when: {has: [b]}}]"
    )

    with pytest.raises(ConfigError, match="no column 'b'"):
        load(text)
