"""Exported Prometheus rules, judged by promtool."""

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from base.errors import BadInput
from slo.documents import read
from slo.export import to_rules
from slo.imports.text import as_yaml
from slo.model import Slo

EXAMPLES = Path(__file__).parents[2] / "examples" / "slo"
TARGETS = ("90", "93", "95", "99", "99.5", "99.9", "99.99")

KINDS = {
    "bad": 'total: \'x_total{job="a"}\', bad: \'x_total{job="a",code=~"5.."}\'',
    "good": "total: x_total, good: 'x_total{code=\"200\"}'",
    "histogram": "histogram: 'y_seconds{job=\"a\"}', threshold: 500ms",
    "whole": "histogram: y_seconds, threshold: 2s",
    "native": "native_histogram: y_seconds, threshold: 500ms",
    "gauge": "gauge: 'up{job=\"a\"}'",
    "queries": "total_query: 'sum by (g) (increase(x_total[$window]))', "
    "bad_query: 'sum by (g) (increase(bad_total[$window]))', resolution: 5m",
    "part": "total_query: 'sum by (g) (rate(x[$window])) * $window_seconds', "
    "good_query: 'sum by (g) (rate(good[$window])) * $window_seconds'",
    "ratio": "total_query: 'count_over_time(r[$window])', "
    "error_ratio_query: 'avg_over_time(r[$window])'",
}


def slos_of(folder: Path, *documents: str) -> tuple[Slo, ...]:
    path = folder / "slos.yaml"
    path.write_text("\n---\n".join(documents), encoding="utf-8")
    found = read([path])
    assert found.problems == ()
    return found.slos


def document(name: str, objective: str = "99", *lines: str, sli: str = KINDS["bad"]) -> str:
    head = f"kind: slo\nname: {name}\nobjective: {objective}\nprometheus: {{{sli}}}"
    return "\n".join([head, *lines])


def rules_file(folder: Path, slos: Sequence[Slo]) -> Path:
    path = folder / "rules.yml"
    path.write_text(as_yaml(to_rules(slos)), encoding="utf-8")
    return path


def promtool(*arguments: str, folder: Path) -> str:
    done = subprocess.run(
        ["promtool", *arguments], cwd=folder, capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def unit_test(
    folder: Path,
    slos: Sequence[Slo],
    series: dict[str, str],
    checks: list[tuple[str, str, list[tuple[str, float]]]],
    interval: str = "30s",
    every: str = "",
) -> None:
    """Play samples, `interval` apart, and ask: (when, expression, [(labels, value)])."""
    tests: dict[str, Any] = {
        "rule_files": [rules_file(folder, slos).name],
        "evaluation_interval": every or interval,
        "tests": [{
            "interval": interval,
            "input_series": [{"series": k, "values": v} for k, v in series.items()],
            "promql_expr_test": [
                {
                    "expr": expression, "eval_time": when,
                    "exp_samples": [{"labels": labels, "value": value} for labels, value in found],
                }
                for when, expression, found in checks
            ],
        }],
    }  # fmt: skip
    (folder / "test.yml").write_text(yaml.safe_dump(tests), encoding="utf-8")
    promtool("test", "rules", "test.yml", folder=folder)


@pytest.mark.binary
def test_promtool_accepts_the_rules_of_every_example(tmp_path: Path) -> None:
    slos = read([EXAMPLES]).slos

    said = promtool("check", "rules", rules_file(tmp_path, slos).name, folder=tmp_path)

    assert "SUCCESS" in said


@pytest.mark.binary
def test_promtool_accepts_the_rules_of_slices(tmp_path: Path) -> None:
    documents = [
        f"kind: slo\nname: s{length}\nobjective: 95\nslices: {{length: {length}, good: 99}}"
        for length in ("10s", "1m", "1h")
    ]
    slos = slos_of(tmp_path, *documents)

    assert "SUCCESS" in promtool("check", "rules", rules_file(tmp_path, slos).name, folder=tmp_path)
    recorded = {rule.get("record") for g in to_rules(slos[2:])["groups"] for rule in g["rules"]}
    assert "slo:total:increase2h" in recorded  # an hour holds no whole slice for sure
    assert "slo:total:increase1h" not in recorded


@pytest.mark.binary
def test_slices_of_counters_are_good_or_bad_as_a_whole(tmp_path: Path) -> None:
    slos = slos_of(tmp_path, document("s", "95", "window: 6h", "slices: {length: 1m, good: 99}"))
    share = 'slo:bad:increase1h{slo="s"} / slo:total:increase1h{slo="s"}'
    tens = " ".join(f"{10 * number}x19" for number in range(1, 8))

    unit_test(
        tmp_path, slos,
        {  # two requests a second; in one minute of ten, ten of them fail
            'x_total{job="a",code="200"}': "0+60x160",
            'x_total{job="a",code="500"}': f"0x19 {tens}",
        },
        [("1h5m", f"abs({share} - 0.1) < bool 0.005", [('{slo="s"}', 1)]),
         ("1h5m", 'abs(slo:total:increase1h{slo="s"} - 60) <= bool 1', [('{slo="s"}', 1)])],
    )  # fmt: skip


@pytest.mark.binary
def test_promtool_accepts_the_rules_of_every_kind_of_indicator(tmp_path: Path) -> None:
    documents = [document(name, sli=sli) for name, sli in KINDS.items()]
    documents += [
        document(f"{name}-s", "90", "slices: {length: 5m, good: 99.9}", sli=sli)
        for name, sli in KINDS.items()
    ]
    documents += [
        document(f"{name}-g", "90", "group_by: [g, h]", sli=sli) for name, sli in KINDS.items()
    ]

    said = promtool(
        "check", "rules", rules_file(tmp_path, slos_of(tmp_path, *documents)).name, folder=tmp_path
    )

    assert "SUCCESS" in said


@pytest.mark.binary
@pytest.mark.slow
def test_a_total_outage_pages_within_five_minutes_at_every_target(tmp_path: Path) -> None:
    documents = [document(f"t{number}", target) for number, target in enumerate(TARGETS)]
    firing = 'count by (slo) (ALERTS{alertstate="firing",severity="page"}) > bool 0'

    unit_test(
        tmp_path, slos_of(tmp_path, *documents),
        {
            'x_total{job="a",code="200"}': "0+30x120 3600x20",  # one request a second, for 1 h
            'x_total{job="a",code="500"}': "0x120 30+30x20",
        },
        [
            ("1h", firing, []),
            ("1h5m", firing, [(f'{{slo="t{number}"}}', 1) for number in range(len(TARGETS))]),
        ],
    )  # fmt: skip


@pytest.mark.binary
def test_day_and_night_weigh_as_many_requests_as_they_had(tmp_path: Path) -> None:
    slos = slos_of(tmp_path, document("s", "95", "window: 1d"))
    share = '100 * slo:bad:increase1d{slo="s"} / slo:total:increase1d{slo="s"}'

    unit_test(
        tmp_path, slos,
        {  # twelve hours at 98 good and 2 bad a second, twelve at 1 good
            'x_total{job="a",code="200"}': "0+5880x720 4233660+60x740",
            'x_total{job="a",code="500"}': "0+120x720 86400x740",
        },
        [("24h10m", f"abs({share} - 1.980) < bool 0.01", [('{slo="s"}', 1)]),
         ("24h10m", "abs(slo:budget_remaining:ratio - (1 - 0.0198 / 0.05)) < bool 0.002",
          [('{slo="s"}', 1)])],
        interval="1m", every="5m",
    )  # fmt: skip


@pytest.mark.binary
def test_idleness_leaves_no_nan_behind(tmp_path: Path) -> None:
    slos = slos_of(tmp_path, document("s", "99"))
    names = sorted({
        rule["record"] for group in to_rules(slos)["groups"] for rule in group["rules"]
        if "record" in rule
    })  # fmt: skip
    times = ("45m", "1h15m", "1h35m", "3h")

    unit_test(
        tmp_path, slos,
        {
            'x_total{job="a",code="200"}': "0+60x60 3600x30 3660+60x120",
            'x_total{job="a",code="500"}': "0+1x60 60x30 60+0x120",
        },
        [(when, f"count({name} != {name})", []) for when in times for name in names]
        + [("1h25m", 'slo:burn_rate:ratio5m{slo="s"}', []),
           ("1h25m", 'slo:total:increase5m{slo="s"}', [(
               'slo:total:increase5m{slo="s"}', 0)])],
        interval="1m",
    )  # fmt: skip


@pytest.mark.binary
def test_a_quiet_healthy_group_pages_nobody_and_a_group_has_its_own_alert(tmp_path: Path) -> None:
    slos = slos_of(tmp_path, document("s", "99", "group_by: [g]"))
    firing = 'count by (g) (ALERTS{alertstate="firing",severity="page"})'

    unit_test(
        tmp_path, slos,
        {  # ten requests an hour, one of which fails; and a group that is down
            'x_total{job="a",code="200",g="quiet"}': "0x59 0+0.1x180",
            'x_total{job="a",code="500",g="quiet"}': "0x59 0x30 1x150",
            'x_total{job="a",code="200",g="down"}': "0+60x120 7200x120",
            'x_total{job="a",code="500",g="down"}': "0x120 0+60x120",
        },
        [("2h8m", firing, [('{g="down"}', 1)])],
        interval="1m",
    )  # fmt: skip


def test_tiers_windows_labels_and_texts_are_those_of_the_slo(tmp_path: Path) -> None:
    (slo,) = slos_of(tmp_path, document(
        "s", "99", "labels: {team: a, slo: mine, app.kubernetes.io/name: x}",
        "annotations: {note: 'say {{ hello }}'}", "description: all of it", "group_by: [zone]",
    ))  # fmt: skip

    alerts = [r for g in to_rules([slo])["groups"] for r in g["rules"] if "alert" in r]

    assert [(a["labels"]["tier"], a["labels"]["severity"]) for a in alerts] == [
        (tier.name, tier.severity) for tier in slo.tiers
    ]
    assert alerts[0]["labels"] | {} == {
        "team": "a", "slo_slo": "mine", "app_kubernetes_io_name": "x", "slo": "s",
        "tier": "outage", "severity": "page",
    }  # fmt: skip
    assert alerts[0]["annotations"]["note"] == 'say {{"{{"}} hello }}'
    assert alerts[0]["annotations"]["description"] == "all of it"
    assert "{{ $labels.zone }}" in alerts[0]["annotations"]["summary"]
    for alert, tier in zip(alerts, slo.tiers, strict=True):
        assert f">= {tier.factor!r}" in alert["expr"]
        assert f">= {tier.min_bad}" in alert["expr"]
        assert alert.get("keep_firing_for") is not None or tier.hold == timedelta(0)


def test_an_slo_without_tiers_has_no_alerts(tmp_path: Path) -> None:
    slos = slos_of(tmp_path, document("s", "99", "tiers: []"))

    assert not [r for g in to_rules(slos)["groups"] for r in g["rules"] if "alert" in r]


def test_a_group_label_that_the_rules_set_is_refused(tmp_path: Path) -> None:
    (slo,) = slos_of(tmp_path, document("s", "99", "group_by: [handler]"))
    slos = [replace(slo, group_by=("severity",))]  # a document that says so is refused, too

    with pytest.raises(BadInput, match="slo 's' is grouped by severity, which rules use"):
        to_rules(slos)


OVERRIDES = """overrides:
  - {match: {g: acme, h: [x, "y|z"]}, objective: 99.9, labels: {team: desk}}
  - {match: {g: [acme, beta]}, objective: 90, tiers: [{name: own, factor: 2, long: 30m, short: 3m}]}
  - {match: {h: x}, objective: 95}"""


@pytest.mark.binary
def test_promtool_accepts_the_rules_of_overrides_of_every_kind_of_indicator(tmp_path: Path) -> None:
    documents = [
        document(name, "99", "group_by: [g, h]", OVERRIDES, sli=sli) for name, sli in KINDS.items()
    ]

    said = promtool(
        "check", "rules", rules_file(tmp_path, slos_of(tmp_path, *documents)).name, folder=tmp_path
    )

    assert "SUCCESS" in said


@pytest.mark.binary
def test_each_group_is_held_against_its_own_objective_once(tmp_path: Path) -> None:
    slos = slos_of(tmp_path, document("s", "99", "group_by: [g, h]", "window: 6h", OVERRIDES))
    groups = {
        ("acme", "x"): 0.999, ("acme", "y|z"): 0.999, ("acme", "w"): 0.9, ("beta", "x"): 0.9,
        ("calm", "x"): 0.95, ("calm", "w"): 0.99,
    }  # fmt: skip
    samples = {}
    for g, h in groups:  # one of a hundred fails, then a twentieth
        labels = f'job="a",g="{g}",h="{h}"'
        samples[f'x_total{{{labels},code="200"}}'] = "0+99x120"
        samples[f'x_total{{{labels},code="500"}}'] = "0+1x60 61+5x60"
    each = [(f'{{g="{g}",h="{h}"}}', objective) for (g, h), objective in groups.items()]

    unit_test(
        tmp_path, slos, samples,
        [
            ("2h", "max by (g, h) (slo:objective:ratio)", each),
            ("2h", "count by (g, h) (slo:objective:ratio)", [(labels, 1) for labels, _ in each]),
            ("2h", "count by (g, h) (slo:burn_rate:ratio5m)", [(labels, 1) for labels, _ in each]),
            ("1h", "round(max by (g, h) (slo:burn_rate:ratio5m), 0.01)",
             [(labels, round(0.01 / (1 - objective), 2)) for labels, objective in each]),
            ("2h", 'count by (g, h, team) (ALERTS{alertstate="firing",tier="slow"})',
             [('{g="acme",h="x",team="desk"}', 1), ('{g="acme",h="y|z",team="desk"}', 1)]),
            ("2h", 'count by (tier, g) (slo:tier_evidence:nats{g="beta"})',
             [('{g="beta",tier="own"}', 1)]),
        ],
        interval="1m",
    )  # fmt: skip


def test_the_rules_of_an_slo_without_overrides_are_as_they_were(tmp_path: Path) -> None:
    one, other = (
        to_rules(slos_of(tmp_path, document("s", "99", "group_by: [g]", *more)))
        for more in ((), ("overrides: []",))
    )

    assert one == other
    assert one["groups"][0]["rules"][0]["expr"] == "vector(0.99)"
    assert "unless" not in one["groups"][0]["rules"][3]["expr"]
