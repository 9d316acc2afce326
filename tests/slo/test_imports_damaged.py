"""Documents damaged at random: each SLO is imported and loads, or is refused; nothing else."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slo.fields import Report
from slo.imports import import_files
from slo.imports.text import as_yaml
from slo.located import locate
from slo.native import read_native
from tests.slo.test_imports import SLOTH, openslo

PYRRA = """\
apiVersion: pyrra.dev/v1alpha1
kind: ServiceLevelObjective
metadata: {name: a, namespace: n, labels: {role: r}}
spec:
  target: "99"
  window: 2w
  alerting: {name: x, absent: false}
  indicator: {ratio: {errors: {metric: e}, total: {metric: t}, grouping: [zone]}}
"""
GENERATOR = """\
apiVersion: sre.google.com/v2
kind: ServiceLevelObjective
metadata: {name: a, labels: {team: t}}
spec:
  backend: prometheus
  method: good_bad_ratio
  goal: 0.99
  service_level_indicator: {filter_good: g, filter_valid: v}
"""
WINDOWS = """\
apiVersion: sloth.slok.dev/v1
kind: AlertWindows
spec:
  sloPeriod: 7d
  page: {quick: {errorBudgetPercent: 8, shortWindow: 5m, longWindow: 1h}}
"""
POLICIES = """\
  alertPolicies:
    - kind: AlertPolicy
      metadata: {name: p}
      spec:
        conditions:
          - kind: AlertCondition
            metadata: {name: c}
            spec:
              severity: page
              condition: {kind: burnrate, op: gt, threshold: 2, lookbackWindow: 1h}
"""
ALERTING = """\
    alerting:
      labels: {a: b}
      page_alert: {labels: {severity: p1}, disable: false}
      ticket_alert: {annotations: {x: y}}
"""
WHOLE = [
    yaml.safe_load(text)
    for text in (
        SLOTH.replace("QUERY", "sum(rate(e[{{.window}}]))") + ALERTING, PYRRA, GENERATOR, WINDOWS,
        openslo() + POLICIES,
        openslo(window="{duration: 1M, calendar: {startTime: 2026-01-01, timeZone: UTC}}",
                method="Timeslices", objective="{target: 0.9, timeSliceTarget: 1}"),
    )
]  # fmt: skip
VALUES = [
    None, True, 0, -1, 3.5, 1e308, 10**40, "", "x", "1m", "99", "{{x}}", "sum(", [], [1], ["x"], {},
    {"x": {}}, {"name": []}, [[[]]], "\x00", "é" * 300,
]  # fmt: skip


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    keys: list[Any] = []
    if isinstance(document, dict):
        keys = list(document)
    elif isinstance(document, list):
        keys = list(range(len(document)))
    found = [path] if path else []
    return found + [place for key in keys for place in places(document[key], (*path, key))]


@st.composite
def damaged(draw: st.DrawFn) -> Any:
    document = copy.deepcopy(draw(st.sampled_from(WHOLE)))
    for _ in range(draw(st.integers(1, 3))):
        found = places(document)
        if not found:
            break
        *path, key = draw(st.sampled_from(found))
        holder = document
        for step in path:
            holder = holder[step]
        if draw(st.booleans()):
            holder[key] = copy.deepcopy(draw(st.sampled_from(VALUES)))
        else:
            del holder[key]
    return document


@pytest.mark.slow
@settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(document=damaged())
def test_a_damaged_document_is_imported_or_refused(tmp_path: Path, document: Any) -> None:
    path = tmp_path / "slos.yaml"
    path.write_text(as_yaml(document), encoding="utf-8")

    found = import_files([path])

    assert found.imported or found.refused or found.passed_over
    for each in found.imported:
        assert read_native(locate(dict(each.document)), Report()) is not None
    for refusal in found.refused:
        assert refusal.reason
        assert refusal.line >= 1
