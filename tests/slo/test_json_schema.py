"""The schema and the reader say the same about a document's fields."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slo.documents import read_document
from slo.fields import Report
from slo.json_schema import FILE, schema, text
from slo.located import locate, read_documents
from slo.prometheus import document as prometheus_document

ROOT = Path(__file__).parents[2]
VALIDATOR = jsonschema_rs.Draft202012Validator(schema())

TIER = {"name": "t", "factor": 2, "long": "1h", "short": "5m"}
FACTS: dict[str, Any] = {
    "kind": "slo", "name": "chat", "objective": 95.5, "window": "30d", "group_by": ["tenant"],
    "calendar": [{"period": "month", "zone": "Europe/Berlin"}, "week"], "min_bad": 3,
    "slices": {"length": "5m", "good": 99.5},
    "eligible": "route = '/v1'", "good": {"a": "ttft_ms <= 2", "b": "outcome = 'good'"},
    "tiers": [TIER | {"severity": "ticket", "min_bad": 9, "hold": "10m"}],
    "labels": {"a": "b", "n": 1}, "annotations": {"c": "d"}, "description": "x",
    "overrides": [
        {"match": {"tenant": "acme"}, "objective": 99.9, "min_bad": 2, "tiers": [TIER],
         "labels": {"a": "c"}, "annotations": {"e": "f"}},
        {"match": {"tenant": ["beta", "calm"]}, "tiers": "derived"},
    ],
}  # fmt: skip
SHAPES: list[dict[str, Any]] = [
    {"total": "x", "bad": "y", "server": "main"},
    {"total": "x", "good": "y"},
    {"histogram": "x_seconds", "threshold": "500ms"},
    {"native_histogram": "x_seconds", "threshold": 0.5},
    {"gauge": "up"},
    {"total_query": "a[$window]", "bad_query": "b[$window]", "resolution": "5m"},
    {"total_query": "a[$window]", "good_query": "b[$window]"},
    {"total_query": "a[$window]", "error_ratio_query": "b[$window]"},
]
MINIMAL = {"kind": "slo", "name": "chat", "objective": 99}
COST: dict[str, Any] = {
    "kind": "slo", "name": "chat-cost", "group_by": ["tenant", "route"],
    "cost": {"at_most_usd": 0.004, "per": "good_request", "idle": "shared",
             "min_overspend_usd": 0.5},
    "tiers": [TIER | {"severity": "ticket"}], "calendar": "month", "eligible": "route = '/v1'",
    "overrides": [{"match": {"tenant": "a"}, "cost": {"at_most_usd": 1, "min_overspend_usd": 0},
                   "tiers": [TIER], "labels": {"a": "b"}}],
}  # fmt: skip
CHEAP = {"kind": "slo", "name": "chat-cost", "cost": {"at_most_usd": 2, "per": "task"}}
WEIGHED: list[dict[str, Any]] = [
    {"weight": "completion_tokens"},
    {"weight": {"by": "reported_cost_usd", "unit": "usd"}},
    {"weight": {"by": "engine_s", "unit": "seconds"}, "composite": {"all": ["a", "b"]}},
    {"composite": {"sum": {"a": 2, "b": 1}, "all": None}},
]
VALID = (
    [FACTS, MINIMAL, MINIMAL | {"tiers": "classic"}, COST, CHEAP]
    + [MINIMAL | {"prometheus": shape, "group_by": ["any"]} for shape in SHAPES]
    + [MINIMAL | each for each in WEIGHED]
    + [MINIMAL | {"composite": {"all": ["a"]}, "slices": {"length": "10s", "good": 100}}]
    + [MINIMAL | {"prometheus": shape, "slices": {"length": "5m", "good": 99}} for shape in SHAPES]
)

WRONG_VALUES = [
    None, True, 0, -1, 0.5, 101, 10**30, "", "x", "30", "1 month", "A", "a" * 65, [], [1], ["x"],
    {}, {"x": 1}, [[]], "outcome = 'good'", "5m", "slo", ["tenant"], "month",
]  # fmt: skip


def reads(document: Any) -> bool:
    return document.get("kind") == "slo" and read_document(locate(document), Report()) is not None


def fits(document: Any) -> bool:
    return VALIDATOR.is_valid(document)


def fields_of_the_reader(document: dict[str, Any]) -> set[str]:
    """Learn the fields from what the reader says about an unknown one."""
    report = Report()
    read_document(locate(document), report)
    (said,) = [p for p in report.problems if "unknown field 'zzz'" in p]
    return set(re.split(r", ", said.partition("the fields here are ")[2]))


def test_the_committed_files_are_what_the_code_makes() -> None:
    assert FILE.read_text(encoding="utf-8") == text()
    assert (ROOT / "docs" / FILE.name).read_text(encoding="utf-8") == text()
    assert json.loads(text()) == schema()


def test_every_field_of_the_reader_is_in_the_schema_and_the_other_way_round() -> None:
    properties = schema()["properties"]

    assert fields_of_the_reader(MINIMAL | {"zzz": 1}) == set(properties)
    tiers = properties["tiers"]["anyOf"][1]["items"]["properties"]
    assert fields_of_the_reader(MINIMAL | {"tiers": [TIER | {"zzz": 1}]}) == set(tiers)
    calendar = properties["calendar"]["anyOf"][0]["anyOf"][1]["properties"]
    override = properties["overrides"]["items"]["properties"]
    found = fields_of_the_reader(MINIMAL | {"overrides": [{"match": {}, "zzz": 1}]})
    assert found == set(override)
    found = fields_of_the_reader(MINIMAL | {"calendar": {"period": "day", "zzz": 1}})
    assert found == set(calendar)
    assert fields_of_the_reader(COST | {"zzz": 1}) == set(properties)
    cost = fields_of_the_reader(COST | {"cost": COST["cost"] | {"zzz": 1}})
    assert cost == set(properties["cost"]["properties"])
    slices = properties["slices"]["properties"]
    assert fields_of_the_reader(
        MINIMAL | {"slices": {"length": "1m", "good": 99, "zzz": 1}}
    ) == set(slices)
    shapes = [each for each in properties["prometheus"]["oneOf"] if "properties" in each]
    assert {key for each in shapes for key in each["properties"]} == prometheus_document._KEYS


@pytest.mark.parametrize("file", sorted((ROOT / "examples" / "slo").glob("*.yaml")))
def test_every_example_is_valid(file: Path) -> None:
    for document in read_documents(file):
        assert list(VALIDATOR.iter_errors(document.plain())) == []


@pytest.mark.parametrize("document", VALID)
def test_what_the_reader_takes_is_valid(document: dict[str, Any]) -> None:
    assert reads(document)
    assert fits(document)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "SLO"}, {"name": "Chat"}, {"name": None}, {"objective": 100}, {"objective": "99"},
        {"window": 30}, {"window": "1 month"}, {"group_by": "tenant"}, {"group_by": ["colour"]},
        {"calendar": "fortnight"}, {"calendar": {"zone": "UTC"}}, {"eligible": 5}, {"good": {}},
        {"good": [1]}, {"min_bad": 0}, {"min_bad": 1.5}, {"tiers": "none"}, {"tiers": [1]},
        {"tiers": [{"name": "x"}]}, {"tiers": [TIER | {"factor": 0}]},
        {"tiers": [TIER | {"severity": "warn"}]}, {"tiers": [TIER | {"colour": "red"}]},
        {"labels": ["a"]}, {"annotations": "a"}, {"overrides": {}}, {"overrides": [{}]},
        {"overrides": [{"match": {}, "objective": 99.9}]},
        {"overrides": [{"match": {"tenant": 5}, "objective": 9}], "group_by": ["tenant"]},
        {"overrides": [{"match": {"tenant": []}, "objective": 9}], "group_by": ["tenant"]},
        {"overrides": [{"match": {"tenant": "a"}, "window": "7d"}], "group_by": ["tenant"]},
        {"colour": "red"}, {"description": 5},
        {"weight": 1}, {"weight": {"unit": "usd"}}, {"weight": {"by": "engine_s", "unit": "eur"}},
        {"composite": []}, {"composite": {}}, {"composite": {"all": []}},
        {"composite": {"all": ["a", "a"]}}, {"composite": {"sum": {"a": 0}}},
        {"composite": {"all": ["a"], "sum": {"a": 1}}}, {"composite": {"most": ["a"]}},
        {"prometheus": {"gauge": "up"}, "weight": "completion_tokens"},
        {"slices": {"length": "1m", "good": 99}, "weight": "completion_tokens"},
        {"slices": {"length": "1m", "good": 99}, "composite": {"sum": {"a": 1}}},
        {"slices": "1m"}, {"slices": {"length": "1m"}}, {"slices": {"good": 99}},
        {"slices": {"length": "1m", "good": 101}}, {"slices": {"length": "1m", "good": 0}},
        {"slices": {"length": 60, "good": 99}}, {"slices": {"length": "1m", "good": "99"}},
        {"prometheus": {}}, {"prometheus": {"total": "x"}}, {"prometheus": "x"},
        {"prometheus": {"total": "x", "bad": "y", "good": "z"}},
        {"prometheus": {"gauge": "up", "threshold": 1}},
        {"prometheus": {"histogram": "x_seconds"}},
        {"prometheus": {"total_query": "x", "bad_query": "y[$window]"}},
        {"prometheus": {"total": "x", "bad": "y"}, "good": "outcome = 'good'"},
        {"prometheus": {"total": "x", "bad": "y"}, "group_by": ["a-b"]},
    ],
)  # fmt: skip
def test_what_is_wrong_in_its_shape_is_refused_by_both(change: dict[str, Any]) -> None:
    document = MINIMAL | change

    assert not reads(document)
    assert not fits(document)


@pytest.mark.parametrize(
    "change",
    [
        {"objective": 99}, {"min_bad": 5}, {"prometheus": {"gauge": "up"}}, {"tiers": "classic"},
        {"cost": {"per": "request"}}, {"cost": {"at_most_usd": 1}}, {"cost": "cheap"},
        {"cost": {"at_most_usd": 0, "per": "request"}},
        {"cost": {"at_most_usd": "1", "per": "request"}},
        {"cost": {"at_most_usd": 1, "per": "smile"}},
        {"cost": {"at_most_usd": 1, "per": "task", "idle": "mine"}},
        {"cost": {"at_most_usd": 1, "per": "task", "colour": "red"}},
        {"overrides": [{"match": {"tenant": "a"}, "objective": 9}], "group_by": ["tenant"]},
        {"overrides": [{"match": {"tenant": "a"}, "cost": {"per": "request"}}],
         "group_by": ["tenant"]},
        {"overrides": [{"match": {"tenant": "a"}, "cost": {"at_most_usd": 0}}],
         "group_by": ["tenant"]},
    ],
)  # fmt: skip
def test_what_makes_no_sense_of_a_cost_is_refused_by_both(change: dict[str, Any]) -> None:
    document = CHEAP | change

    assert not reads(document)
    assert not fits(document)


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(document, dict):
        keys: list[Any] = list(document)
    else:
        keys = list(range(len(document))) if isinstance(document, list) else []
    return found + [place for key in keys for place in places(document[key], (*path, key))]


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, Any]:
    """Change, drop or add a field somewhere in a valid document, up to three times."""
    document = copy.deepcopy(draw(st.sampled_from(VALID)))
    for _ in range(draw(st.integers(1, 3))):
        *path, key = draw(st.sampled_from(places(document)))
        holder: Any = document
        for step in path:
            holder = holder[step]
        action = draw(st.sampled_from(["change", "drop", "add"]))
        if action == "drop":
            del holder[key]
        elif action == "add" and isinstance(holder, dict):
            name = draw(st.sampled_from(["zzz", "window", "total", "good", "min_bad", "zone"]))
            holder[name] = copy.deepcopy(draw(st.sampled_from(WRONG_VALUES)))
        else:
            holder[key] = copy.deepcopy(draw(st.sampled_from(WRONG_VALUES)))
        if not places(document):
            break
    return document


@settings(deadline=None)
@given(damaged())
def test_the_schema_refuses_nothing_that_the_reader_takes(document: dict[str, Any]) -> None:
    assert fits(document) or not reads(document)
