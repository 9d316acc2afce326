"""Another objective for some groups of an SLO."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

import slo.schema
import store.schema
from alerts.settings import AlertSettings
from alerts.subject import subject_of
from base.clock import ManualClock
from slo.backtest.variants import TierSet, variant
from slo.counts import SloCounts
from slo.described import changes, describe
from slo.documents import read
from slo.evaluator import Evaluator, windows_of
from slo.fields import Report
from slo.located import locate
from slo.metrics import VerdictGauges
from slo.model import Slo
from slo.native import read_native
from slo.overrides import Chooser, Override
from slo.parse import parse_clauses
from slo.settings import SloSettings
from slo.targets import targets_of
from slo.tiers import Tier, classic, derive
from slo.verdict import Verdict
from store.engine import Engine
from store.open import open_engine
from tests.slo.made_facts import EPOCH, alive, fact, put

MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
HOUR = 60 * MINUTE
NOW = EPOCH + timedelta(days=2)
DOCUMENT: dict[str, Any] = {
    "kind": "slo", "name": "chat", "objective": 99, "group_by": ["tenant", "route"],
    "labels": {"team": "platform", "tier": "gold"}, "annotations": {"runbook": "r"},
}  # fmt: skip


def read_one(*overrides: Any, **fields: Any) -> Slo:
    report = Report()
    slo = read_native(locate(DOCUMENT | fields | {"overrides": list(overrides)}), report)
    assert slo is not None, report.problems
    return slo


def problems(tmp_path: Path, *overrides: str, head: str = "") -> list[str]:
    lines = ["kind: slo", "name: chat", "objective: 99", "group_by: [tenant, route]"]
    lines += [head] if head else []
    path = tmp_path / "slo.yaml"
    path.write_text("\n".join([*lines, "overrides:", *overrides]) + "\n")
    found = read([path])
    assert not found.slos
    return list(found.problems)


# ---- documents


def test_an_override_changes_what_it_says_and_leaves_the_rest() -> None:
    slo = read_one(
        {
            "match": {"tenant": ["acme", "beta"]},
            "objective": 99.9,
            "tiers": "classic",
            "min_bad": 7,
            "labels": {"team": "acme-desk"},
            "annotations": {"phone": "1"},
        },
    )

    acme = slo.for_group(("acme", "/v1"))
    other = slo.for_group(("calm", "/v1"))

    assert (acme.objective, other.objective) == (0.999, 0.99)
    assert acme.tiers == classic(slo.window, 7)
    assert other.tiers == slo.tiers == derive(0.99, slo.window)
    assert acme.labels == {"team": "acme-desk", "tier": "gold"}
    assert acme.annotations == {"runbook": "r", "phone": "1"}
    assert other.labels == slo.labels
    assert (acme.window, acme.good, acme.name) == (slo.window, slo.good, slo.name)
    assert slo.for_group(("beta", "")) is acme


def test_overrides_count_nothing_anew() -> None:
    with_one = read_one({"match": {"tenant": "acme"}, "objective": 50})

    assert with_one.definition == read_one().definition == with_one.variants[1].definition


def test_derived_tiers_are_derived_anew_and_written_ones_are_kept() -> None:
    tier = {"name": "fast", "factor": 6, "long": "1h", "short": "5m"}
    strict = {"match": {"tenant": "acme"}, "objective": 99.99, "min_bad": 9}

    derived = read_one(strict).variants[1]
    written = read_one(strict, tiers=[tier, tier | {"name": "own", "min_bad": 2}]).variants[1]

    assert derived.tiers == derive(0.9999, derived.window, 9)
    assert [(each.name, each.min_bad) for each in written.tiers] == [("fast", 9), ("own", 2)]


def test_the_first_override_that_matches_holds() -> None:
    slo = read_one(
        {"match": {"tenant": "acme", "route": "/chat"}, "objective": 99.99},
        {"match": {"tenant": "acme"}, "objective": 99.9},
        {"match": {"route": ["/chat", ""]}, "objective": 95},
    )

    def objective(*group: str) -> float:
        return slo.for_group(group).objective

    assert objective("acme", "/chat") == 0.9999
    assert objective("acme", "/embed") == 0.999
    assert objective("beta", "/chat") == objective("beta", "") == 0.95
    assert objective("beta", "/embed") == 0.99
    assert slo.for_group(()).objective == 0.99  # nothing was seen


members = st.sampled_from(["a", "b", "c", ""])
matches = st.dictionaries(
    st.sampled_from(["tenant", "route", "model"]),
    st.lists(members, min_size=1, max_size=3, unique=True),
    min_size=1,
)


@given(st.lists(matches, max_size=6), st.lists(st.tuples(members, members, members), max_size=8))
def test_the_chooser_does_what_trying_each_in_turn_does(
    asked: list[dict[str, list[str]]], groups: list[tuple[str, ...]]
) -> None:
    by = ("tenant", "route", "model")
    overrides = [
        Override(tuple((name, tuple(values)) for name, values in each.items()), 0.9, ())
        for each in asked
    ]
    chooser = Chooser(by, overrides)

    for group in groups:
        said = dict(zip(by, group, strict=True))
        fits = (
            number
            for number, each in enumerate(asked)
            if all(said[name] in values for name, values in each.items())
        )
        assert chooser.of(group) == next(fits, None)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("{objective: 99.9}", "line 6: match is missing"),
        ("{match: {}, objective: 99.9}", "line 6: match is empty"),
        ("{match: {model: m}, objective: 99.9}",
         "match names 'model', and the SLO is grouped by tenant, route: add it to group_by"),
        ("{match: {tenant: 7}, objective: 99.9}", "tenant 7 is not text: put it in quotes"),
        ("{match: {tenant: [a, a]}, objective: 99.9}", "match names tenant 'a' twice"),
        ("{match: {tenant: []}, objective: 99.9}", "tenant has no values"),
        ("{match: {tenant: a}}", "it changes nothing: give it one of objective, tiers"),
        ("{match: {tenant: a}, objective: 100}", "objective 100 is outside (0, 100)"),
        ("{match: {tenant: a}, min_bad: 0}", "min_bad 0 is not a whole number from 1"),
        ("{match: {tenant: a}, window: 7d}", "unknown field 'window': the fields here are "),
        ("{match: {tenant: a}, tiers: loud}", "tiers 'loud' is neither derived nor classic"),
        ("{match: {tenant: a}, objective: 90, tiers: classic}", "'fast' can never fire"),
        ("acme", "an override is a mapping"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_override_is_said_with_its_line(
    tmp_path: Path, override: str, said: str
) -> None:
    (first, *_) = problems(tmp_path, f"  - {override}")

    assert "slo 'chat' override 1" in first
    assert "line 6" in first
    assert said in first


def test_a_written_tier_that_cannot_fire_at_an_overrides_objective_is_refused(
    tmp_path: Path,
) -> None:
    head = "tiers: [{name: fast, factor: 20, long: 1h, short: 5m}]"

    (said,) = problems(
        tmp_path, "  - match: {tenant: a}", "    objective: 93", "    labels: {a: b}", head=head
    )

    assert "override 1 line 8: tier 'fast' of the SLO can never fire here" in said
    assert "a total outage burns at 14.29 and its factor is 20; give the override tiers" in said


def test_an_override_that_never_holds_is_refused(tmp_path: Path) -> None:
    said = problems(
        tmp_path,
        "  - {match: {tenant: [a, b]}, objective: 99.9}",
        "  - {match: {tenant: [b, a]}, objective: 99.8}",
        "  - {match: {route: /x, tenant: a}, objective: 99.7}",
        "  - {match: {route: /x}, objective: 99.6}",
    )

    assert len(said) == 2
    assert "override 2 line 7: tenant=b|a is matched by the one in line 6 already" in said[0]
    assert "override 3 line 8: it can never hold" in said[1]
    assert "the one in line 6 matches all that tenant=a, route=/x matches" in said[1]


def test_an_slo_without_groups_has_nothing_to_override() -> None:
    report = Report()
    document = DOCUMENT | {"group_by": [], "overrides": [{"match": {"tenant": "a"}, "min_bad": 1}]}

    assert read_native(locate(document), report) is None
    assert "the SLO is grouped by nothing" in report.problems[0]


def test_labels_of_a_prometheus_slo_are_members_too() -> None:
    slo = read_one(
        {"match": {"zone": "eu"}, "objective": 90},
        group_by=["zone"],
        prometheus={"total": "x_total", "bad": "y_total"},
    )

    assert slo.for_group(("eu",)).objective == 0.9


# ---- judged


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Three tenants on two routes: a burst of failures, a trickle, and one that is fine."""
    opened = open_engine(f"chdb://{tmp_path_factory.mktemp('store')}")
    store.schema.create(opened)
    slo.schema.create(opened)
    rows: list[dict[str, Any]] = []
    for number in range(1500):
        at = NOW - HOUR + SECOND * 2 * number
        tenant = ("acme", "beta", "calm")[number % 3]
        since = number > 1300 if tenant == "acme" else number % 60 == 1
        is_bad = tenant != "calm" and since
        rows.append(
            fact(at, number, tenant=tenant, route=("/a", "/b")[number % 2],
                 outcome="bad" if is_bad else "good", completion_tokens=number % 90 + 1,
                 eval_score=None if number % 4 else 0.3 + number % 5 / 10)
        )  # fmt: skip
    put(opened, rows)
    alive(opened, [NOW - MINUTE * number - SECOND for number in range(61)])
    yield opened
    opened.close()


def base(objective: float = 0.9, tiers: tuple[Tier, ...] | None = None) -> Slo:
    return Slo(
        "chat", objective, HOUR, parse_clauses("outcome = 'good'"),
        derive(objective, HOUR) if tiers is None else tiers, group_by=("tenant", "route"),
    )  # fmt: skip


def judge(engine: Engine, slo: Slo) -> dict[tuple[str, ...], Verdict]:
    SloCounts(engine, [slo], SloSettings(), ManualClock(NOW)).ensure()
    found = Evaluator(engine, [slo], SloSettings()).evaluate(NOW)
    return {tuple(each.group.values()): each for each in found}


TIERS = (
    Tier("odd", "page", 2, 17 * MINUTE, 70 * SECOND, 2),
    Tier("long", "ticket", 1, 40 * MINUTE, 3 * MINUTE, 3),
)
values = st.lists(st.sampled_from(["acme", "beta", "calm", "x"]), min_size=1, unique=True)


@settings(deadline=None, max_examples=12)
@given(values, st.sampled_from([0.8, 0.95, 0.99, 0.999]), st.sampled_from([None, TIERS]))
def test_a_group_under_an_override_is_judged_as_by_the_slo_written_alone(
    engine: Engine, tenants: list[str], objective: float, tiers: tuple[Tier, ...] | None
) -> None:
    alone = base(objective, tiers)
    override = Override(
        (("tenant", tuple(tenants)),), objective, alone.tiers, {"a": "b"}, {"c": "d"}
    )

    found = judge(engine, replace(base(), overrides=(override,)))
    expected = judge(engine, replace(alone, labels={"a": "b"}, annotations={"c": "d"}))
    others = judge(engine, base())

    assert len(found) == 6
    for group, verdict in found.items():
        assert verdict == (expected if group[0] in tenants else others)[group]


COUNTED: dict[str, dict[str, Any]] = {
    "weighted": {"weight": "completion_tokens"},
    "quality": {"eligible": "eval_score is not null", "good": "eval_score >= 0.5"},
    "calendar": {"calendar": "day"},
    "slices": {"slices": {"length": "1m", "good": 90}},
}


@pytest.mark.parametrize("kind", COUNTED)
def test_whatever_an_slo_counts_an_override_judges_as_the_slo_alone(
    engine: Engine, kind: str
) -> None:
    more = COUNTED[kind] | {"window": "1h", "labels": {}, "annotations": {}, "objective": 90}
    override = {"match": {"tenant": ["acme", "beta"]}, "objective": 97}

    found = judge(engine, read_one(override, **more))
    alone = judge(engine, read_one(**more | {"objective": 97}))
    others = judge(engine, read_one(**more))

    assert any(verdict.bad for verdict in found.values())
    assert found == {
        group: (alone if group[0] in {"acme", "beta"} else others)[group] for group in found
    }


@settings(deadline=None, max_examples=8)
@given(st.lists(matches, max_size=4))
def test_overrides_with_the_slos_own_values_change_nothing(
    engine: Engine, asked: list[dict[str, list[str]]]
) -> None:
    slo = base()
    overrides = tuple(
        Override(
            tuple((name, tuple(each[name])) for name in slo.group_by if name in each),
            slo.objective, slo.tiers,
        )
        for each in asked
        if each.keys() & set(slo.group_by)
    )  # fmt: skip

    assert judge(engine, replace(slo, overrides=overrides)) == judge(engine, slo)


def test_forecast_metrics_and_alert_labels_follow_the_override(engine: Engine) -> None:
    override = Override((("tenant", ("beta",)),), 0.98, derive(0.98, HOUR), {"team": "desk"})
    slo = replace(base(), overrides=(override,), labels={"team": "platform"})

    found = judge(engine, slo)
    beta = found["beta", "/b"]
    registry = CollectorRegistry()
    VerdictGauges(registry)(list(found.values()), NOW)
    shown = {
        sample.labels["group"]: sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name == "tokenweir_slo_objective_ratio"
    }

    assert beta.forecast is not None
    assert beta.budget_remaining == pytest.approx(1 - beta.bad / beta.total / 0.02)
    assert shown["tenant=beta,route=/b"] == 0.98
    assert shown["tenant=calm,route=/b"] == 0.9
    facts = subject_of(beta, AlertSettings()).facts
    assert (facts.labels["team"], facts.objective) == ("desk", 0.98)
    assert subject_of(found["calm", "/a"], AlertSettings()).facts.labels["team"] == "platform"


# ---- what is made of documents


def test_a_change_of_an_override_is_a_version_of_the_document() -> None:
    acme = {"match": {"tenant": "acme"}, "objective": 99.9}
    chat = {"match": {"route": "/chat"}, "objective": 99.5}

    before, after = (describe(read_one(each, chat)) for each in (acme, acme | {"objective": 99.95}))
    turned = describe(read_one(chat, acme))

    assert "overrides[tenant=acme].objective: 99.9 -> 99.95" in changes(before, after)
    assert changes(before, turned) == [
        "overrides: tenant=acme; route=/chat -> route=/chat; tenant=acme"
    ]


def test_what_if_the_target_were_another_keeps_objectives_that_are_stated() -> None:
    slo = read_one(
        {"match": {"tenant": "acme"}, "objective": 99.9},
        {"match": {"tenant": "beta"}, "min_bad": 9},
    )

    changed = variant(slo, 0.95, TierSet("document"))
    classics = variant(slo, 0.9, TierSet("classic"))

    assert [own.objective for own in changed.slo.variants] == [0.95, 0.999, 0.95]
    assert changed.slo.variants[2].tiers == derive(0.95, slo.window, 9)
    assert changed.slo.variants[1].tiers == derive(0.999, slo.window)
    assert classics.unfireable == ("fast", "fast (tenant=beta)")
    assert variant(slo, slo.objective, TierSet("document")).slo == slo


def test_targets_say_which_requests_have_another_objective() -> None:
    slo = read_one({"match": {"tenant": ["acme"]}, "objective": 99.9}, good="ttft_ms <= 800")

    found = targets_of(slo)

    assert found.objective == 0.99
    assert found.overrides == (({"tenant": ("acme",)}, 0.999),)


def test_each_objective_has_its_own_windows() -> None:
    tier = {"name": "odd", "factor": 2, "long": "17m", "short": "70s"}
    slo = read_one({"match": {"tenant": "acme"}, "tiers": [tier]})

    assert 17 * MINUTE in windows_of(slo.for_group(("acme", "")))
    assert 17 * MINUTE not in windows_of(slo.for_group(("beta", "")))
