"""What people and models said is not kept; what a rule names is gone, wherever it stood."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from base.errors import ConfigError
from collector.privacy import Privacy
from collector.redact_rule import RedactRule
from collector.view import install
from collector.vocabulary import load
from store.engine import Engine

Ingest = Callable[..., int]
Body = Callable[..., bytes]

CANARY = "canary-4111111111111111"
PLAIN = {"gen_ai.usage.input_tokens": 5, "gen_ai.request.model": "m", "app.step": "plan"}


@pytest.fixture(autouse=True)
def _as_before(engine: Engine) -> Iterator[None]:
    yield
    install(engine, load())


@pytest.fixture
def kept(ingest: Ingest, span_body: Body, engine: Engine) -> Callable[..., dict[str, Any]]:
    """Take one span in and read it back; `everything` is all that any table says of it."""

    def take(span: dict[str, Any], **more: Any) -> dict[str, Any]:
        ingest([span_body({"trace": "a", "id": "b", **span}, **more)])
        [row] = engine.rows("SELECT * FROM spans")
        tables = ("spans", "facts", "unknown_names", "rollup_10s", "alive", "source_minutes")
        return {**row, "everything": str([engine.rows(f"SELECT * FROM {t}") for t in tables])}

    return take


def names_of_content() -> list[str]:
    """List every name, with one of its family for a prefix."""
    return [name.replace("*", "0.content") for name in load().content]


def test_no_content_is_kept_whatever_its_name(kept: Callable[..., dict[str, Any]]) -> None:
    said = {name: f"{CANARY} {number}" for number, name in enumerate(names_of_content())}

    row = kept({"attributes": {**said, **PLAIN}}, resource={"llm.prompts": CANARY})

    assert CANARY not in row["everything"]
    assert (row["prompt_tokens"], row["model"]) == (5, "m")
    assert row["attributes"] == {"app.step": "plan"}


def test_no_content_of_any_type_is_kept(kept: Callable[..., dict[str, Any]]) -> None:
    nested = {"input.value": [CANARY, CANARY], "output.value": CANARY.encode(), "input.mime": "x"}

    row = kept({"attributes": nested})

    assert row["attributes"] == {"input.mime": "x"}


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("gen_ai.content.prompt", {"gen_ai.prompt": CANARY}),
        ("gen_ai.user.message", {"content": CANARY, "role": "user"}),
        ("gen_ai.choice", {"message": CANARY, "index": 0}),
        ("gen_ai.client.inference.operation.details", {"gen_ai.output.messages": CANARY}),
        ("ai.stream", {"ai.response.text": CANARY}),
    ],
)
def test_no_content_of_an_event_is_kept(
    name: str, attributes: dict[str, Any], kept: Callable[..., dict[str, Any]]
) -> None:
    row = kept({"events": [(1, name, attributes), (2, "retry", {"message": "again"})]})

    assert CANARY not in row["everything"]
    assert row["events.name"] == [name, "retry"]
    assert row["events.attributes"][1] == {"message": "again"}


def test_content_is_kept_where_it_is_asked_for(
    engine: Engine, kept: Callable[..., dict[str, Any]]
) -> None:
    install(engine, load(), Privacy.of(load(), keep_content=True))

    row = kept(
        {"attributes": {"input.value": CANARY}, "events": [(0, "gen_ai.x", {"body": CANARY})]}
    )

    assert row["attributes"] == {"input.value": CANARY}
    assert row["events.attributes"] == [{"body": CANARY}]


def test_an_attribute_of_a_rule_is_not_kept_even_where_it_has_a_column(
    engine: Engine, kept: Callable[..., dict[str, Any]]
) -> None:
    rules = [RedactRule(attribute="user.id"), RedactRule(attribute="http.request.header.*")]
    install(engine, load(), Privacy.of(load(), rules=rules))
    said = {"user.id": CANARY, "http.request.header.cookie": CANARY, "enduser.id": "u-7"}

    row = kept({"attributes": said}, resource={"user.id": CANARY, "host.name": "h"})

    assert CANARY not in row["everything"]
    assert (row["user_id"], row["attributes"], row["resource"]["host.name"]) == ("u-7", {}, "h")


def test_a_pattern_is_replaced_wherever_text_stands(
    engine: Engine, kept: Callable[..., dict[str, Any]]
) -> None:
    rules = [RedactRule(pattern=r"(can)ary-\d+", replace_by=r"\1 'x'")]
    install(engine, load(), Privacy.of(load(), rules=rules))
    everywhere: dict[str, Any] = {
        "a": f"is {CANARY}.", "tenant.id": CANARY, "list": [CANARY, "b"], "raw": CANARY.encode(),
    }  # fmt: skip

    row = kept(
        {
            "name": f"GET {CANARY}",
            "status": 2,
            "message": f"no {CANARY}",
            "attributes": everywhere,
            "events": [(0, CANARY, {"exception.message": f"{CANARY}{CANARY}"})],
        },
        resource={"service.name": CANARY},
        scope="http",
    )

    black = "can 'x'"
    assert CANARY not in row["everything"]
    assert row["attributes"]["a"] == f"is {black}."
    assert (row["name"], row["status_message"]) == (f"GET {black}", f"no {black}")
    assert (row["tenant"], row["service"], row["events.name"]) == (black, black, [black])
    assert row["events.attributes"] == [{"exception.message": black * 2}]
    assert {row["attributes"][name] for name in ("list", "raw")} == {"[redacted: nested]"}


@pytest.mark.parametrize(
    ("pattern", "replace_by", "says"),
    [
        ("(?=look)", "x", r"pattern '\(\?=look\)' is no regular"),
        ("a", r"\1", r"replace_by '\\\\1'"),
    ],
)
def test_what_the_engine_cannot_read_is_refused_by_name(
    engine: Engine, pattern: str, replace_by: str, says: str
) -> None:
    rules = [RedactRule(pattern=pattern, replace_by=replace_by)]

    with pytest.raises(ConfigError, match=says):
        install(engine, load(), Privacy.of(load(), rules=rules))


@pytest.mark.parametrize(
    "given", [{}, {"attribute": "a", "pattern": "b"}, {"attribute": "a*b"}, {"pattern": 5}]
)
def test_a_rule_says_one_thing(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="one of them|at the end only|valid string"):
        RedactRule.model_validate(given)
