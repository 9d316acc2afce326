"""Findings of the linter: documents alone, and held against requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slo.backtest.facts_file import Reading, read_facts
from slo.backtest.history import grid_for, make_history
from slo.backtest.scratch import Scratch, columns_read, judge_batches
from slo.documents import files_of, read
from slo.interpret import holds
from slo.lint import Finding, Level, check_documents, exit_status, read_findings
from slo.lint_data import Sightings, check_data
from slo.parse import parse_filter
from slo.satisfiable import can_hold
from slo.settings import SloSettings
from store.engine import Engine

IMPOSSIBLE = [
    "ttft_ms < 100 and ttft_ms > 200",
    "ttft_ms < 100 and ttft_ms >= 100",
    "ttft_ms = 5 and ttft_ms != 5",
    "ttft_ms between 5 and 3",
    "ttft_ms < 0",
    "ttft_ms is null and ttft_ms < 3",
    "not (ttft_ms < 100 or ttft_ms >= 100)",
    "route = 'a' and route = 'b'",
    "route in ('a', 'b') and route not in ('a', 'b')",
    "route like '/v1/%' and route = '/v2/chat'",
    "outcome != 'good' and outcome != 'bad' and outcome != 'excluded'",
    "streaming and not streaming",
    "1 = 2",
    "(route = 'a' or route = 'b') and route = 'c'",
]
POSSIBLE = [
    "ttft_ms <= 100 and ttft_ms >= 100",
    "ttft_ms is null or ttft_ms < 3",
    "route in ('a', 'b') and route != 'a'",
    "ttft_ms < prompt_tokens and ttft_ms > prompt_tokens",
    "ttft_ms > 5 or (ttft_ms < 1 and ttft_ms > 2)",
    "route != 'a' and route != 'b'",
    "not (ttft_ms < 100 and route = 'a')",
]


def linted(tmp_path: Path, text: str) -> list[Finding]:
    path = tmp_path / "slo.yaml"
    path.write_text(text)
    loaded = read([path])
    return [*read_findings(loaded, files_of([path])), *check_documents(loaded.slos)]


def codes(found: list[Finding]) -> list[tuple[str, int]]:
    return sorted((each.code, each.line) for each in found)


@pytest.mark.parametrize("text", IMPOSSIBLE)
def test_what_no_request_can_meet_is_found(text: str) -> None:
    assert not can_hold([parse_filter(text)])


@pytest.mark.parametrize("text", POSSIBLE)
def test_what_some_request_may_meet_is_left_alone(text: str) -> None:
    assert can_hold([parse_filter(text)])


atoms = st.sampled_from(
    [
        "ttft_ms < 2", "ttft_ms >= 2", "ttft_ms = 1", "ttft_ms != 1", "ttft_ms is null",
        "route = 'a'", "route != 'a'", "route in ('a', 'b')", "route like 'a%'", "route is null",
        "outcome = 'bad'", "outcome in ('good', 'excluded')", "streaming", "2 > ttft_ms",
        "ttft_ms + 1 > 2",
    ]
)  # fmt: skip
conditions = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} and {pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} or {pair[1]})"),
        inner.map(lambda text: f"(not {text})"),
    ),
    max_leaves=6,
)
rows = st.fixed_dictionaries(
    {
        "ttft_ms": st.sampled_from([None, 0.0, 1.0, 1.5, 2.0, 3.0]),
        "route": st.sampled_from([None, "a", "ab", "b", "c"]),
        "outcome": st.sampled_from(["good", "bad", "excluded"]),
        "streaming": st.sampled_from([None, True, False]),
    }
)


@settings(max_examples=200, deadline=None)
@given(text=conditions, row=rows)
def test_what_a_request_meets_is_never_called_impossible(text: str, row: dict[str, Any]) -> None:
    condition = parse_filter(text)

    assert can_hold([condition]) or not holds(condition, row)


def test_documents_alone_show_what_cannot_work_and_where(tmp_path: Path) -> None:
    found = linted(
        tmp_path,
        """kind: slo
name: contradiction
objective: 97.5
eligible: outcome = 'bad'
good: outcome = 'good'
---
kind: slo
name: passes
objective: 97.5
good: ttft_ms <= 2000
tiers:
  - {name: slow, severity: page, factor: 0.5, long: 1h, short: 5m}
  - {name: fast, severity: page, factor: 2, long: 60s, short: 5s}
---
kind: slo
name: dead
objective: 90
tiers:
  - {name: fast, factor: 14.4, long: 1h, short: 5m}
---
kind: slo
name: silent
objective: 90
tiers: []
---
kind: slo
name: twin
objective: 90
good: outcome = 'good'
---
kind: slo
name: wrong
objective: 101
""",
    )

    assert codes(found) == [
        ("document-invalid", 33),
        ("failures-pass", 7),
        ("filter-contradiction", 5),
        ("no-tiers", 24),
        ("short-window-below-resolution", 13),
        ("tier-factor-below-one", 12),
        ("tier-unfireable", 19),
        ("twin", 26),
    ]
    assert {each.file for each in found} == {str(tmp_path / "slo.yaml")}
    assert exit_status(found, strict=False) == 2


def test_slices_that_a_budget_or_a_tier_cannot_hold_are_found(tmp_path: Path) -> None:
    found = linted(
        tmp_path,
        """kind: slo
name: hours
objective: 99.9
slices: {length: 1h, good: 99}
tiers:
  - {name: fast, factor: 10, long: 2h, short: 1h}
  - {name: slow, factor: 2, long: 6h, short: 1h}
""",
    )

    assert codes(found) == [("slice-exceeds-budget", 4), ("tier-few-slices", 6)]
    assert "0.72 slices of 1h: one bad slice" in found[0].message
    assert "make long 3h or more" in found[1].cure


def test_a_clean_document_has_no_findings(tmp_path: Path) -> None:
    found = linted(tmp_path, "kind: slo\nname: good\nobjective: 99\n")

    assert found == []
    assert exit_status(found, strict=True) == 0


def test_warnings_count_only_where_they_are_asked_to() -> None:
    warning = Finding("x", Level.WARNING, "", 0, "", "")

    assert exit_status([warning], strict=False) == 0
    assert exit_status([warning], strict=True) == 1
    assert exit_status([Finding("x", Level.INFO, "", 0, "", "")], strict=True) == 0


def held_against(
    engine: Engine, tmp_path: Path, text: str, facts: dict[str, list[Any]]
) -> dict[str, Finding]:
    (tmp_path / "slo.yaml").write_text(text)
    slos = read([tmp_path / "slo.yaml"]).slos
    import pyarrow.parquet as pq

    pq.write_table(pa.table(facts), tmp_path / "facts.parquet")
    columns = columns_read(slos)
    sightings = Sightings(slos)
    with Scratch(engine, columns) as scratch:
        batches = read_facts([tmp_path / "facts.parquet"], columns, Reading())
        found = judge_batches(
            scratch, engine, slos, batches, lambda facts: sightings.look(engine, facts)
        )
    history = make_history(found, grid_for(slos, SloSettings().evaluate_every))
    return {each.code: each for each in check_data(slos, sightings, history)}


SECONDS = [1_767_225_600.0 + n for n in range(0, 36_000, 10)]
REQUESTS: dict[str, list[Any]] = {
    "start": SECONDS,
    "tenant": ["busy" if n % 60 else "quiet" for n in range(len(SECONDS))],
    "route": ["/v1/chat/completions"] * len(SECONDS),
    "outcome": ["good"] * len(SECONDS),
    "ttft_ms": [100.0 if n % 4 else None for n in range(len(SECONDS))],
}


def test_a_value_that_never_occurs_is_named_with_what_was_meant(
    engine: Engine, tmp_path: Path
) -> None:
    text = "kind: slo\nname: s\nobjective: 99\neligible: route = '/v1/chat/completion'\n"

    found = held_against(engine, tmp_path, text, REQUESTS)

    assert set(found) == {"unknown-value", "eligible-matches-nothing"}
    assert "'/v1/chat/completions'" in found["unknown-value"].message
    assert found["unknown-value"].line == 4


def test_filters_that_never_decide_are_found(engine: Engine, tmp_path: Path) -> None:
    text = """kind: slo
name: s
objective: 99
eligible: route = '/v1/chat/completions'
good:
  answered: outcome = 'good'
  first token: ttft_ms <= 2000
  impossible: ttft_ms > 200
  priced: reported_cost_usd < 1
"""

    found = held_against(engine, tmp_path, text, REQUESTS)

    assert {
        "eligible-matches-everything", "good-matches-everything", "good-matches-nothing",
        "good-undecided", "column-never-known",
    } <= set(found)  # fmt: skip
    assert found["good-matches-everything"].line == 6
    assert "reported_cost_usd" in found["column-never-known"].message


def test_groups_too_quiet_for_their_tiers_are_counted(engine: Engine, tmp_path: Path) -> None:
    text = """kind: slo
name: s
objective: 99
group_by: [tenant]
tiers:
  - {name: fast, severity: page, factor: 10, long: 1h, short: 5m, min_bad: 20}
"""

    found = held_against(engine, tmp_path, text, REQUESTS)

    assert "1 of 2 groups (50%)" in found["low-traffic"].message
    assert found["low-traffic"].level is Level.WARNING
    assert "pages after" in found["time-to-page"].message


@pytest.mark.parametrize(
    ("slices", "says"),
    [
        ("{length: 1m, good: 90}", "median slice of 1m holds 6 requests, and 100%"),
        ("{length: 1m, good: 80}", None),
        ("{length: 5m, good: 95}", None),
        ("{length: 10s, good: 100}", None),
    ],
)
def test_slices_that_one_failure_makes_bad_are_found(
    engine: Engine, tmp_path: Path, slices: str, says: str | None
) -> None:
    text = f"kind: slo\nname: s\nobjective: 99\nslices: {slices}\n"

    found = held_against(engine, tmp_path, text, REQUESTS)

    assert ("slice-few-requests" in found) == (says is not None)
    if says is not None:
        assert says in found["slice-few-requests"].message
        assert found["slice-few-requests"].line == 4


def test_groups_that_send_enough_are_not_low_traffic(engine: Engine, tmp_path: Path) -> None:
    found = held_against(engine, tmp_path, "kind: slo\nname: s\nobjective: 99\n", REQUESTS)

    assert "low-traffic" not in found


def test_an_override_that_no_group_has_or_that_changes_nothing_is_found(
    engine: Engine, tmp_path: Path
) -> None:
    text = """kind: slo
name: s
objective: 99
group_by: [tenant]
overrides:
  - match: {tenant: quite}
    objective: 99.9
  - match: {tenant: busy}
    objective: 99
  - match: {tenant: quiet}
    tiers: [{name: own, factor: 2, long: 2m, short: 5s}]
"""

    found = held_against(engine, tmp_path, text, REQUESTS)
    alone = linted(tmp_path, text)

    unseen = found["override-unseen"]
    assert (unseen.level, unseen.line) == (Level.WARNING, 6)
    assert "tenant=quite holds for none of 2 groups: tenant is never 'quite'" in unseen.message
    assert "there are 'quiet'" in unseen.message
    assert found["low-traffic"].line == 10  # of the one group that the third is for
    assert codes(alone) == [("override-idle", 8), ("short-window-below-resolution", 11)]
    assert exit_status(alone, strict=True) == 1


def test_an_override_with_a_tier_that_cannot_fire_is_an_error_at_its_line(tmp_path: Path) -> None:
    text = """kind: slo
name: s
objective: 99
group_by: [tenant]
tiers: [{name: fast, factor: 14.4, long: 1h, short: 5m}]
overrides:
  - {match: {tenant: a}, objective: 90}
"""

    (found,) = linted(tmp_path, text)

    assert (found.code, found.line, found.slo) == ("tier-unfireable", 7, "s")
    assert exit_status([found], strict=False) == 2
