"""OpenSLO documents that obey the specification's rules and import back to the same SLO."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from base.errors import BadInput
from slo.documents import read
from slo.export import apart, to_openslo
from slo.fields import Report
from slo.imports.draft import BEYOND
from slo.imports.files import import_files
from slo.imports.openslo import import_plain
from slo.imports.text import as_yaml
from slo.interpret import holds
from slo.located import Located, locate, read_documents
from slo.model import Slo
from slo.native import read_native
from tests.slo.test_json_schema import FACTS, MINIMAL, SHAPES

EXAMPLES = Path(__file__).parents[2] / "examples" / "slo"

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
LABEL_KEY = re.compile(r"[a-zA-Z0-9]([-_.a-zA-Z0-9]{0,61}[a-zA-Z0-9])?")
DURATION = re.compile(r"[1-9][0-9]*[mhdwMQY]")


def read_one(document: Any) -> Slo:
    report = Report()
    slo = read_native(locate(dict(document)), report)
    assert slo is not None, report.problems
    return replace(slo, source="")


def check_metadata(metadata: dict[str, Any]) -> None:
    assert DNS_LABEL.fullmatch(metadata["name"])
    assert metadata.keys() <= {"name", "displayName", "labels", "annotations"}
    for key, value in metadata.get("labels", {}).items():
        assert LABEL_KEY.fullmatch(key)
        assert isinstance(value, str)
    for key, value in metadata.get("annotations", {}).items():
        prefix, _, name = key.rpartition("/")
        assert LABEL_KEY.fullmatch(name)
        assert not prefix or re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", prefix)
        assert isinstance(value, str)


def check_against_the_specification(document: dict[str, Any]) -> None:
    """Apply the rules of OpenSLO v1 (README of the specification, validation of its Go SDK)."""
    assert document["apiVersion"] == "openslo/v1"
    assert document["kind"] == "SLO"
    assert document.keys() == {"apiVersion", "kind", "metadata", "spec"}
    check_metadata(document["metadata"])
    spec = document["spec"]
    assert spec.keys() <= {
        "description", "service", "indicator", "timeWindow", "budgetingMethod", "objectives",
        "alertPolicies",
    }  # fmt: skip
    assert len(spec.get("description", "")) <= 1050
    assert spec["service"]
    assert spec["budgetingMethod"] in {"Occurrences", "Timeslices"}
    check_metadata(spec["indicator"]["metadata"])
    ratio = spec["indicator"]["spec"]["ratioMetric"]
    assert "total" in ratio
    assert ("good" in ratio) != ("bad" in ratio)
    for part in ratio.keys() - {"counter"}:
        assert ratio[part]["metricSource"]["spec"]
    (window,) = spec["timeWindow"]
    assert DURATION.fullmatch(window["duration"])
    assert window["isRolling"] is True
    assert "calendar" not in window
    (objective,) = spec["objectives"]
    objective = dict(objective)
    if spec["budgetingMethod"] == "Timeslices":
        assert 0 < objective.pop("timeSliceTarget") <= 1
        assert DURATION.fullmatch(objective.pop("timeSliceWindow"))
    assert objective.keys() == {"targetPercent"}
    assert 0 <= objective["targetPercent"] < 100
    for policy in spec.get("alertPolicies", []):
        assert policy["kind"] == "AlertPolicy"
        check_metadata(policy["metadata"])
        (condition,) = policy["spec"]["conditions"]
        assert condition["kind"] == "AlertCondition"
        check_metadata(condition["metadata"])
        assert condition["spec"]["severity"]
        inner = condition["spec"]["condition"]
        assert (inner["kind"], inner["op"]) == ("burnrate", "gte")
        assert DURATION.fullmatch(inner["lookbackWindow"])
        assert DURATION.fullmatch(inner["alertAfter"])


def round_trip(document: dict[str, Any]) -> None:
    slo = read_one(document)
    written = yaml.safe_load(as_yaml(to_openslo(slo, document)))

    check_against_the_specification(written)
    assert read_one(import_plain(written)) == slo


names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,62}[a-z0-9])?", fullmatch=True)
texts = st.dictionaries(
    st.text("abcdefgz.-_/ é", min_size=1, max_size=8), st.text(max_size=20), max_size=3
)
durations = st.sampled_from(["5m", "90m", "1h30m", "45s", "36h", "7d", "4w", "30d", "90d"])


@st.composite
def tiers(draw: st.DrawFn) -> list[dict[str, Any]]:
    spans = [("1h", "5m"), ("90s", "20s"), ("6h", "30m"), ("1d", "90m")]
    chosen = draw(st.lists(st.sampled_from(spans), max_size=3, unique=True))
    return [
        {
            "name": f"Tier {number}", "severity": draw(st.sampled_from(["page", "ticket"])),
            "factor": draw(st.sampled_from([1, 1.5, 2])), "long": long, "short": short,
            **draw(st.sampled_from([{}, {"min_bad": 3}, {"hold": "7m"}])),
        }
        for number, (long, short) in enumerate(chosen)
    ]  # fmt: skip


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    document = MINIMAL | {
        "name": draw(names),
        "objective": draw(st.sampled_from([50, 90, 99, 99.9, 99.95, 99.999, 33.333])),
    }
    if draw(st.booleans()):
        document |= {"prometheus": draw(st.sampled_from(SHAPES))}
        document |= draw(st.sampled_from([{}, {"group_by": ["zone", "handler"]}]))
    else:
        for key in ("good", "eligible", "group_by"):
            document |= draw(st.sampled_from([{}, {key: FACTS[key]}]))
        document |= draw(st.sampled_from([{}, {"good": "outcome = 'good' and ttft_ms <= 2"}]))
        document |= draw(st.sampled_from([{}, {"slices": {"length": "10s", "good": 99.95}}]))
    optional: dict[str, st.SearchStrategy[Any]] = {
        "window": durations, "labels": texts, "annotations": texts, "tiers": tiers(),
        "description": st.text(max_size=1200), "min_bad": st.integers(1, 9),
        "calendar": st.just(FACTS["calendar"]),
    }  # fmt: skip
    for key, values in optional.items():
        if draw(st.booleans()):
            document[key] = draw(values)
    assume(read_native(locate(document), Report()) is not None)
    return document


@settings(deadline=None)
@given(documents())
def test_what_is_exported_imports_back_to_the_same_slo(document: dict[str, Any]) -> None:
    round_trip(document)


def test_a_full_document_comes_back() -> None:
    round_trip(FACTS)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_kind_of_prometheus_indicator_comes_back(shape: dict[str, Any]) -> None:
    round_trip(MINIMAL | {"prometheus": shape, "group_by": ["zone"], "labels": {"service": "a"}})


def test_only_what_openslo_cannot_say_stands_beside_it() -> None:
    tier = {"name": "fast", "severity": "page", "factor": 2, "long": "1h", "short": "5m"}
    document = MINIMAL | {
        "window": "28d", "tiers": [tier], "labels": {"service": "shop"},
        "prometheus": {"total": "x_total", "bad": 'x_total{code="500"}'},
    }  # fmt: skip
    written = to_openslo(read_one(document), document)
    in_seconds = to_openslo(read_one(document), document | {"min_bad": 7})

    assert "annotations" not in written["metadata"]
    assert in_seconds["metadata"]["annotations"] == {BEYOND: '{"min_bad": 7}'}


def native_examples() -> list[Located]:
    """Read the examples that OpenSLO has words for: it has none for cost."""
    every = [each for file in EXAMPLES.glob("*.yaml") for each in read_documents(file)]
    return [each for each in every if each.get("cost") is None]


def test_every_example_comes_back_through_files(tmp_path: Path) -> None:
    documents = native_examples()
    written = [to_openslo(read_one(each.plain()), each.plain()) for each in documents]
    (tmp_path / "openslo.yaml").write_text("---\n".join(map(as_yaml, written)), encoding="utf-8")

    found = import_files([tmp_path / "openslo.yaml"])

    assert (len(found.imported), found.refused) == (len(documents), ())
    before = {slo.name: replace(slo, source="") for slo in read([EXAMPLES]).slos}
    assert {each.name: read_one(each.document) for each in found.imported} == before
    assert not [n for each in found.imported for n in each.notes if n.kind != "kept"]


def test_what_is_exported_is_read_beside_native_documents(tmp_path: Path) -> None:
    documents = native_examples()
    written = [to_openslo(read_one(each.plain()), each.plain()) for each in documents]
    (tmp_path / "openslo.yaml").write_text("---\n".join(map(as_yaml, written)), encoding="utf-8")

    found = read([tmp_path])

    assert (found.problems, found.warnings) == ((), ())
    before = {slo.name: replace(slo, source="") for slo in read([EXAMPLES]).slos}
    assert {slo.name: replace(slo, source="") for slo in found.slos} == before


def test_a_damaged_annotation_is_refused(tmp_path: Path) -> None:
    written = to_openslo(read_one(FACTS), FACTS)
    for text, reason in (("{", "is not JSON"), ("[]", "is not a mapping"), ('{"x": 1}', "'x'")):
        written["metadata"]["annotations"][BEYOND] = text
        (tmp_path / "o.yaml").write_text(as_yaml(written), encoding="utf-8")

        (refused,) = import_files([tmp_path / "o.yaml"]).refused

        assert reason in refused.reason


GROUPED = MINIMAL | {
    "group_by": ["tenant", "route"], "eligible": "model = 'm' or model is null",
    "overrides": [
        {"match": {"tenant": "acme", "route": ["/a", ""]}, "objective": 99.9, "labels": {"x": "y"}},
        {"match": {"tenant": ["acme", "", "it's"]}, "tiers": "classic", "min_bad": 3},
        {"match": {"route": "/a"}, "objective": 95},
    ],
}  # fmt: skip


def test_each_objective_becomes_a_document_about_its_own_groups() -> None:
    slo = read_one(GROUPED)
    parts = apart(slo, GROUPED)
    alone = [read_one(said) for _, said in parts]

    for own, said in parts:
        assert read_one(said) == replace(read_one(said), tiers=own.tiers, labels=own.labels)
        round_trip(said)
    assert [each.name for each in alone] == ["chat", *(f"chat-override-{n}" for n in (1, 2, 3))]
    for tenant in ("acme", "it's", "beta", None):
        for route in ("/a", "/b", None):
            request = {"tenant": tenant, "route": route, "model": None}
            asked = [each for each in alone if each.eligible and holds(each.eligible, request)]
            assert [each.objective for each in asked] == [
                slo.for_group((tenant or "", route or "")).objective
            ]
            assert asked[0].tiers == slo.for_group((tenant or "", route or "")).tiers


def test_selectors_are_narrowed_and_what_cannot_be_is_refused() -> None:
    document = MINIMAL | {
        "group_by": ["zone", "handler"],
        "prometheus": {"total": "x_total", "bad": 'x_total{code="500"}'},
        "overrides": [
            {"match": {"zone": ["eu", "us.1"]}, "objective": 95},
            {"match": {"handler": "/"}, "objective": 90},
        ],
    }
    several = document | {"overrides": [{"match": {"zone": "eu", "handler": "/"}, "objective": 95}]}
    queries = document | {"prometheus": SHAPES[5]}

    others, eu, root = (said["prometheus"] for _, said in apart(read_one(document), document))

    assert eu["bad"] == r'x_total{code="500",zone=~"eu|us\\.1"}'
    assert root["total"] == r'x_total{handler="/",zone!~"eu|us\\.1"}'
    assert others["total"] == r'x_total{zone!~"eu|us\\.1",handler!="/"}'
    for refused, why in ((several, "several members at once"), (queries, "queries cannot be")):
        with pytest.raises(BadInput, match=why):
            apart(read_one(refused), refused)
