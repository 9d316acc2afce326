"""What importers make of documents, format by format, and of input that is none."""

from pathlib import Path
from typing import Any

import pytest

from slo.documents import read
from slo.imports import Imported, Imports, Refused, import_files
from slo.imports.files import MOST_BYTES
from slo.imports.text import document_text, report_lines

SLOTH = """\
version: prometheus/v1
service: shop
labels: {team: a}
slos:
  - name: Availability
    objective: 99.9
    sli:
      events:
        error_query: QUERY
        total_query: sum(rate(x_total{job="a"}[{{.window}}]))
"""
OPENSLO = """\
apiVersion: openslo/v1
kind: SLO
metadata: {name: web}
spec:
  service: shop
  indicator:
    metadata: {name: web}
    spec:
      INDICATOR
  timeWindow:
    - WINDOW
  budgetingMethod: METHOD
  objectives:
    - OBJECTIVE
"""
RATIO = """ratioMetric:
        counter: true
        good: {metricSource: {type: Prometheus, spec: {query: 'x_total{code="200"}'}}}
        total: {metricSource: {type: Prometheus, spec: {query: x_total}}}"""
THRESHOLD = "thresholdMetric: {metricSource: {type: Prometheus, spec: {query: 'avg(lag)'}}}"


def import_text(folder: Path, text: str, name: str = "slos.yaml") -> Imports:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    found = import_files([path])
    out = folder / "out"
    out.mkdir(exist_ok=True)
    for each in found.imported:
        (out / f"{each.name}.yaml").write_text(document_text(each), encoding="utf-8")
    assert read([out]).problems == ()
    return found


def one(folder: Path, text: str) -> Imported:
    found = import_text(folder, text)
    assert found.refused == ()
    (imported,) = found.imported
    return imported


def refused(folder: Path, text: str) -> Refused:
    (found,) = import_text(folder, text).refused
    return found


def openslo(
    indicator: str = RATIO, window: str = "{duration: 28d, isRolling: true}",
    method: str = "Occurrences", objective: str = "{target: 0.99}",
) -> str:  # fmt: skip
    text = OPENSLO.replace("INDICATOR", indicator).replace("WINDOW", window)
    return text.replace("METHOD", method).replace("OBJECTIVE", objective)


def notes(imported: Imported, kind: str) -> str:
    return "\n".join(note.text for note in imported.notes if note.kind == kind)


TOTAL = 'x_total{job="a"}'


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ('sum(rate(x_total{job="a",code="500"}[{{.window}}]))',
         {"total": TOTAL, "bad": 'x_total{job="a",code="500"}'}),
        ("sum(rate(e_total[{{ .window }}])) OR on() vector(0)", {"total": TOTAL, "bad": "e_total"}),
        ('(sum(rate(x_total{job="a"}[{{.window}}])) - sum(rate(x_bucket{le="0.4"}[{{.window}}])))',
         {"total": TOTAL, "good": 'x_bucket{le="0.4"}'}),
        ("sum(rate(a_total[{{.window}}])) + sum(rate(b_total[{{.window}}]))",
         {"total_query": 'sum(increase(x_total{job="a"}[$window]))',
          "bad_query": "sum(increase(a_total[$window])) + sum(increase(b_total[$window]))",
          "resolution": "5m"}),
        ("sum(rate(a_total[{{.window}}]) > 0.5)",
         {"total_query": 'sum(increase(x_total{job="a"}[$window]))',
          "bad_query": "(sum(rate(a_total[$window]) > 0.5)) * $window_seconds",
          "resolution": "5m"}),
        ('sum(rate({__name__=~"a|b"}[{{.window}}]))',
         {"total_query": 'sum(increase(x_total{job="a"}[$window]))',
          "bad_query": 'sum(increase({__name__=~"a|b"}[$window]))',
          "resolution": "5m"}),
    ],
)  # fmt: skip
def test_a_query_is_taken_apart_where_that_is_exact(
    tmp_path: Path, query: str, fields: dict[str, Any]
) -> None:
    imported = one(tmp_path, SLOTH.replace("QUERY", f"'{query}'"))

    assert imported.document["prometheus"] == fields


def test_sloth_gives_service_labels_period_and_alerts(tmp_path: Path) -> None:
    text = (
        SLOTH.replace("QUERY", "sum(rate(e_total[{{.window}}]))")
        + """\
    alerting:
      name: ShopAlert
      labels: {category: c}
      page_alert: {labels: {severity: p1, route: x}}
      ticket_alert: {labels: {route: y}, annotations: {only: here}}
---
apiVersion: sloth.slok.dev/v1
kind: AlertWindows
spec:
  sloPeriod: 7d
  page:
    quick: {errorBudgetPercent: 8, shortWindow: 5m, longWindow: 1h}
  ticket:
    slow: {errorBudgetPercent: 40, shortWindow: 6h, longWindow: 3d}
"""
    )
    imported = one(tmp_path, text)
    document = imported.document

    assert (document["name"], document["window"]) == ("shop-availability", "7d")
    assert document["labels"] == {"service": "shop", "team": "a", "category": "c"}
    assert document["annotations"] == {
        "alert_name": "ShopAlert", "page_route": "x", "ticket_route": "y", "only": "here",
    }  # fmt: skip
    assert [(t["name"], t["factor"], t["long"]) for t in document["tiers"]] == [
        ("page-quick", 13.44, "1h"), ("ticket-slow", 1, "3d"),
    ]  # fmt: skip
    assert "severity=p1 of page alerts is severity=page here" in notes(imported, "fixed")
    assert "had factor 0.933333, which alerts while the objective is met" in notes(
        imported, "fixed"
    )


def test_one_alert_switched_off_leaves_the_tiers_of_the_other(tmp_path: Path) -> None:
    text = (
        SLOTH.replace("QUERY", "sum(rate(e_total[{{.window}}]))")
        + """\
    alerting: {page_alert: {disable: true}}
"""
    )
    document = one(tmp_path, text).document

    assert {tier["severity"] for tier in document["tiers"]} == {"ticket"}


def test_a_sloth_plugin_makes_a_draft(tmp_path: Path) -> None:
    text = SLOTH[: SLOTH.index("      events")] + "      plugin: {id: a/b, options: {x: y}}\n"
    imported = one(tmp_path, text)

    assert imported.draft
    assert "a Sloth plugin" in notes(imported, "lost")
    assert imported.document["annotations"]["sli_origin"] == "{'id': 'a/b', 'options': {'x': 'y'}}"


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("{duration: 4w, isRolling: true}", ("28d", None)),
        ("{duration: 1Q, isRolling: true}", ("91d", None)),
        ("{duration: 1M, calendar: {startTime: 2026-01-01 00:00:00, timeZone: Europe/Berlin}}",
         ("30d", {"period": "month", "zone": "Europe/Berlin"})),
        ("{duration: 1Y, isRolling: false, calendar: {startTime: 2026-01-01, timeZone: UTC}}",
         ("365d", {"period": "year", "zone": "UTC"})),
        ("{duration: 1w, isRolling: false}", ("7d", {"period": "week", "zone": "UTC"})),
        ("{duration: 5d, isRolling: false, calendar: {startTime: x, timeZone: UTC}}", ("5d", None)),
    ],
)  # fmt: skip
def test_time_windows_roll_or_follow_the_calendar(
    tmp_path: Path, window: str, expected: tuple[str, Any]
) -> None:
    document = one(tmp_path, openslo(window=window)).document

    assert (document["window"], document.get("calendar")) == expected


@pytest.mark.parametrize(
    ("objective", "method", "fields"),
    [
        ("{op: lt, value: 5, target: 0.99}", "Occurrences",
         {"total_query": "sum(count_over_time((avg(lag))[$window:1m]))",
          "bad_query": "sum(sum_over_time(((avg(lag)) >= bool 5)[$window:1m]))"}),
        ("{op: gte, value: 0, targetPercent: 99, timeSliceTarget: 0.9, timeSliceWindow: 1}",
         "Timeslices",
         {"total_query": "sum(count_over_time((avg(lag))[$window:1m]))",
          "bad_query": "sum(sum_over_time(((avg(lag)) < bool 0)[$window:1m]))"}),
    ],
)  # fmt: skip
def test_a_threshold_judges_every_minute(
    tmp_path: Path, objective: str, method: str, fields: dict[str, str]
) -> None:
    document = one(tmp_path, openslo(THRESHOLD, method=method, objective=objective)).document

    assert document["prometheus"] == fields


def test_time_slices_of_a_ratio_are_events(tmp_path: Path) -> None:
    objective = "{target: 0.99, timeSliceTarget: 0.95, timeSliceWindow: 5m}"
    imported = one(tmp_path, openslo(method="Timeslices", objective=objective))

    assert imported.document["prometheus"] == {"total": "x_total", "good": 'x_total{code="200"}'}
    assert imported.document["slices"] == {"length": "5m", "good": 95}
    assert "slices of 5m, judged by their events" in notes(imported, "kept")


def test_time_slices_of_another_length_are_events_of_a_query(tmp_path: Path) -> None:
    objective = "{target: 0.99, timeSliceTarget: 0.95, timeSliceWindow: 7m}"
    imported = one(tmp_path, openslo(method="Timeslices", objective=objective))
    fields = imported.document["prometheus"]

    assert fields["total_query"].startswith("count_over_time((1 - ((sum(increase(x_total{")
    assert fields["total_query"].endswith("[$window:7m])")
    assert "> bool 0.05)[$window:7m])" in fields["bad_query"]
    assert "each slice of 7m with traffic is an event" in notes(imported, "kept")


OWN = """ratioMetric:
        counter: true
        good: {metricSource: {type: tokenweir, spec: {expression: "ttft_ms <= 2000"}}}
        total: {metricSource: {type: tokenweir, spec: {dimensions: [tenant]}}}"""
POLICY = """
  alertPolicies:
    - kind: AlertPolicy
      metadata: {name: fast}
      spec:
        conditions:
          - kind: AlertCondition
            metadata: {name: fast}
            spec:
              severity: page
              condition: {kind: burnrate, op: gte, threshold: 2, lookbackWindow: 1h}
"""


def test_time_slices_of_requests_are_slices_and_alerts_look_at_whole_ones(tmp_path: Path) -> None:
    objective = "{target: 0.99, timeSliceTarget: 0.95, timeSliceWindow: 10m}"
    imported = one(tmp_path, openslo(OWN, method="Timeslices", objective=objective) + POLICY)

    assert imported.document["slices"] == {"length": "10m", "good": 95}
    assert "prometheus" not in imported.document
    (tier,) = imported.document["tiers"]
    assert (tier["long"], tier["short"]) == ("1h", "10m")
    assert "its short window 5m is 10m, whole slices" in notes(imported, "fixed")


@pytest.mark.parametrize(
    ("method", "width", "says"),
    [
        ("RatioTimeslices", "1m", "averages the ratios of slices"),
        ("Timeslices", "7m", "slices of 7m do not fit in minutes and hours"),
    ],
)
def test_slices_of_requests_that_are_not_counted_are_refused(
    tmp_path: Path, method: str, width: str, says: str
) -> None:
    objective = f"{{target: 0.99, timeSliceTarget: 0.95, timeSliceWindow: {width}}}"

    assert says in refused(tmp_path, openslo(OWN, method=method, objective=objective)).reason


def test_several_objectives_and_composites_are_slos_of_their_own(tmp_path: Path) -> None:
    composite = openslo().replace(openslo().split("  indicator:")[1].split("  timeWindow")[0], "")
    composite = composite.replace("  indicator:", "").replace("    - {target: 0.99}", """\
    - displayName: Fast enough
      target: 0.9
      compositeWeight: 2
      indicatorRef: fast
    - target: 0.99
      indicator:
        metadata: {name: web}
        spec:
          ratioMetric:
            rawType: failure
            raw: {metricSource: {type: Prometheus, spec: {query: error_ratio}}}
""") + """\
---
apiVersion: openslo/v1
kind: SLI
metadata: {name: fast}
spec:
  ratioMetric:
    bad: {metricSource: {metricSourceRef: prom, spec: {query: 'sum by (zone) (rate(slow[5m]))'}}}
    total: {metricSource: {metricSourceRef: prom, spec: {query: 'sum by (zone) (rate(all[5m]))'}}}
---
apiVersion: openslo/v1
kind: DataSource
metadata: {name: prom}
spec: {type: Thanos, connectionDetails: {}}
"""  # fmt: skip
    found = import_text(tmp_path, composite)
    fast, second = found.imported

    assert (fast.name, second.name) == ("web-fast-enough", "web-2")
    assert fast.document["prometheus"] == {"total": "all", "bad": "slow"}
    assert fast.document["group_by"] == ["zone"]
    assert "the fixed range [5m] gives way to each window judged" in notes(fast, "fixed")
    assert "a composite of several indicators" in notes(fast, "lost")
    assert second.document["prometheus"]["error_ratio_query"] == (
        "avg_over_time((error_ratio)[$window:1m])"
    )
    assert "every minute weighs the same" in notes(second, "lost")


def test_alert_policies_become_tiers_that_can_fire(tmp_path: Path) -> None:
    text = (
        openslo(objective="{target: 0.9}")
        + """\
  alertPolicies:
    - alertPolicyRef: burn
---
apiVersion: openslo/v1
kind: AlertPolicy
metadata: {name: burn}
spec:
  alertWhenNoData: true
  alertWhenResolved: false
  conditions:
    - conditionRef: fast
    - kind: AlertCondition
      metadata: {name: slow}
      spec:
        severity: ticket
        condition: {kind: burnrate, op: gt, threshold: 2, lookbackWindow: 40d}
---
apiVersion: openslo/v1
kind: AlertCondition
metadata: {name: fast}
spec:
  severity: critical
  condition: {kind: burnrate, op: lte, threshold: 14.4, lookbackWindow: 1h, alertAfter: 2h}
"""
    )
    imported = one(tmp_path, text)

    assert imported.document["tiers"] == [
        {"name": "fast", "severity": "page", "factor": 5.5, "long": "1h", "short": "5m"}
    ]
    assert "a total outage burns at 10, its factor was 14.4 and is 5.5" in notes(imported, "fixed")
    lost = notes(imported, "lost")
    assert "alert 'slow' looks back 40d, longer than the budget window 28d" in lost
    assert "alertWhenNoData" in lost
    assert "a resolve is always sent" in lost


def test_all_versions_of_openslo_say_the_same(tmp_path: Path) -> None:
    v2 = openslo().replace("openslo/v1", "openslo.com/v2alpha").replace("indicator:", "sli:")
    v2 = v2.replace(
        RATIO,
        """ratioMetric:
        good: {dataSourceSpec: {type: Prometheus}, spec: {query: 'x_total{code="200"}'}}
        total: {dataSourceSpec: {type: Prometheus}, spec: {query: x_total}}""",
    )
    v1alpha = """\
apiVersion: openslo/v1alpha
kind: SLO
metadata: {name: web}
spec:
  service: shop
  budgetingMethod: Occurrences
  objectives:
    - target: 0.99
      ratioMetrics:
        incremental: true
        good: {source: prometheus, queryType: promql, query: 'x_total{code="200"}'}
        total: {source: prometheus, queryType: promql, query: x_total}
  timeWindows:
    - {unit: Day, count: 28, isRolling: true}
"""
    first, second, third = (one(tmp_path, text).document for text in (openslo(), v2, v1alpha))

    assert first == second == third


def test_pyrra_gives_buckets_native_histograms_gauges_and_grouping(tmp_path: Path) -> None:
    text = """\
apiVersion: pyrra.dev/v1alpha1
kind: ServiceLevelObjectiveList
items:
  - metadata: {name: a, namespace: n, labels: {pyrra.dev/team: t}}
    spec:
      target: "99"
      window: 2w
      alerting: {disabled: true, absent: true}
      indicator:
        latency:
          success: {metric: 'h_bucket{le="0.5"}'}
          total: {metric: h_count}
          grouping: [zone]
  - metadata: {name: b}
    spec:
      target: 0.5
      window: 28d
      indicator: {latencyNative: {latency: 200ms, total: {metric: h}}}
  - metadata: {name: c}
    spec: {target: "99", window: 7d, indicator: {bool_gauge: {metric: 'up{job="a"}'}}}
"""
    found = import_text(tmp_path, text)
    a, b, c = (each.document for each in found.imported)

    assert a["prometheus"] == {"total": "h_count", "good": 'h_bucket{le="0.5"}'}
    assert (a["group_by"], a["tiers"], a["window"]) == (["zone"], [], "14d")
    assert a["labels"] == {"team": "t", "namespace": "n"}
    assert b["prometheus"] == {"native_histogram": "h", "threshold": "200ms"}
    assert b["objective"] == 0.5
    assert "write 50 if that was meant" in notes(found.imported[1], "lost")
    assert c["prometheus"] == {"gauge": 'up{job="a"}'}


def test_anchors_and_merges_are_followed(tmp_path: Path) -> None:
    text = """\
version: prometheus/v1
service: shop
slos:
  - &base
    name: a
    objective: 99
    sli: &sli
      events:
        error_query: sum(rate(e[{{.window}}]))
        total_query: sum(rate(t[{{.window}}]))
  - <<: *base
    name: b
    objective: 95
"""
    first, second = import_text(tmp_path, text).imported

    assert (second.name, second.document["objective"]) == ("shop-b", 95)
    assert first.document["prometheus"] == second.document["prometheus"]


def test_the_same_name_twice_is_kept_apart(tmp_path: Path) -> None:
    text = SLOTH.replace("QUERY", "sum(rate(e_total[{{.window}}]))")
    found = import_text(tmp_path, f"{text}---\n{text}---\n{text.replace('99.9', '99')}")

    assert [each.name for each in found.imported] == ["shop-availability", "shop-availability-2"]
    assert [each.reason[:14] for each in found.passed_over] == ["is the same as"]


def test_a_metric_of_another_system_is_kept_as_a_draft(tmp_path: Path) -> None:
    datadog = RATIO.replace("Prometheus", "Datadog")
    imported = one(tmp_path, openslo(datadog))

    assert imported.draft
    assert "Datadog" in imported.document["annotations"]["sli_origin"]
    assert "which only Datadog can answer" in notes(imported, "lost")


def test_an_indicator_over_request_facts_stays_one(tmp_path: Path) -> None:
    own = """ratioMetric:
        bad: {metricSource: {type: tokenweir, spec: {expression: "ttft_ms > 2000"}}}
        total:
          metricSource:
            type: tokenweir
            spec: {expression: "route = '/v1'", dimensions: [tenant]}"""
    document = one(tmp_path, openslo(own)).document

    assert document["good"] == "not (ttft_ms > 2000)"
    assert document["eligible"] == "route = '/v1'"
    assert document["group_by"] == ["tenant"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (openslo(objective="{target: 1.0}"), "target 1 is outside [0, 1)"),
        (openslo(objective="{target: 99.9}"), "write targetPercent: 99.9"),
        (openslo(objective="{targetPercent: 0}"), "objective 0 is outside (0, 100)"),
        (openslo(objective="{displayName: x}"), "either target (0.99) or targetPercent (99)"),
        (openslo(method="Monthly"), "budgetingMethod 'Monthly' is none of"),
        (openslo(window="{duration: soon, isRolling: true}"), "duration 'soon' is not like"),
        (openslo(window="{duration: 2Y, isRolling: true}"), "is not between 1 minute and 366 days"),
        (openslo(THRESHOLD), "a thresholdMetric needs lt, lte, gt or gte"),
        (openslo("indicatorRef: x"), "an indicator has either ratioMetric or thresholdMetric"),
        (openslo().replace("openslo/v1", "openslo/v3"), "'openslo/v3' is not one of openslo/v1"),
        (openslo().replace("kind: SLO", "kind: Slo"), "kind 'Slo' is not one of SLO"),
        (openslo(window="{duration: 1M, calendar: {timeZone: Mars/Base, startTime: x}}"),
         "'Mars/Base' is not an IANA time zone"),
        (SLOTH.replace("QUERY", "sum(rate(x["), "the query is not PromQL"),
        (SLOTH.replace("QUERY", "the bad requests"), "'the' stands beside 'bad'"),
        (SLOTH.replace("QUERY", "sum(rate(x{{.Filter}}[5m]))"), "the template '{{.Filter}}'"),
        (SLOTH.replace("service: shop", ""), "service is missing"),
        ("apiVersion: v1\nkind: ConfigMap\n", "v1 ConfigMap is no format of SLOs that is known"),
        ("- 1\n- 2\n", "not an SLO"),
        ("", "holds no document"),
        ("a: b: c", "not YAML"),
        ("a: 1\na: 2\n", "'a' is written twice (first on line 1)"),
        ("a: !!python/object:os.system x", "the tag tag:yaml.org,2002:python/object:os.system"),
        ("a: &a [*a]", "nested too deeply"),
        ("[" * 4000, "nested too deeply"),
        ("x: " + "a" * MOST_BYTES, "more than"),
        ("slos: {{ .Values.slos }}", "fill them in first"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_refused_and_says_why(
    tmp_path: Path, text: str, reason: str
) -> None:
    found = import_text(tmp_path, text)

    assert found.imported == ()
    assert reason in "\n".join(each.reason for each in found.refused)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "slos.yaml"
    path.write_bytes(b"\x7fELF\x00\xff\xfe")

    (found,) = import_files([path]).refused

    assert "cannot be read" in found.reason


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    (found,) = import_files([tmp_path / "nowhere.yaml"]).refused

    assert "No such file" in found.reason


def test_a_bomb_of_aliases_is_refused_soon(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]

    assert "more than 200000 values" in refused(tmp_path, "\n".join(lines)).reason


@pytest.mark.parametrize("field", ["spec", "objectives", "timeWindow", "indicator"])
@pytest.mark.parametrize("value", ["5", "[]", "{}", "x", "[1]", "{a: 1}"])
def test_a_field_of_the_wrong_kind_is_a_refusal_not_an_accident(
    tmp_path: Path, field: str, value: str
) -> None:
    lines = openslo().splitlines()
    at = next(n for n, line in enumerate(lines) if line.strip() == f"{field}:")
    indent = len(lines[at]) - len(lines[at].lstrip())
    end = next(
        (n for n in range(at + 1, len(lines))
         if len(lines[n]) - len(lines[n].lstrip()) <= indent), len(lines),
    )  # fmt: skip
    text = "\n".join([*lines[:at], f"{lines[at]} {value}", *lines[end:]])

    found = import_text(tmp_path, text)

    assert len(found.imported) + len(found.refused) == 1


def test_the_report_tells_every_document_and_every_change(tmp_path: Path) -> None:
    good = SLOTH.replace("QUERY", "sum(rate(e_total[{{.window}}]))")
    found = import_text(tmp_path, good + good[good.index("  - name") :].replace("99.9", "101"))
    lines = list(report_lines(found))

    assert lines[0].startswith("imported shop-availability: Sloth SLO 'Availability'")
    assert any(line.startswith("    kept  line 8: rates of two counters") for line in lines)
    assert any("line 12: Sloth SLO 'Availability': objective 101" in line for line in lines)
    assert lines[-1] == "1 imported, 1 refused, 0 passed over"


# Kinds that documents of others taught us, each written anew.


def windows_pair(kind: str) -> str:
    return openslo(objective="{target: 0.999}") + "".join(
        f"""\
{"  alertPolicies: [page-5m, {alertPolicyRef: page-1h}]" if number == 0 else ""}
---
apiVersion: openslo/v1
kind: AlertPolicy
metadata: {{name: page-{window}}}
spec:
  conditions:
    - kind: AlertCondition
      metadata: {{name: page-{window}}}
      spec:
        severity: page
        condition: {{kind: {kind}, op: gte, threshold: 14.4, lookbackWindow: {back}}}
  notificationTargets: [{{targetRef: somebody}}]
"""
        for number, (window, back) in enumerate((("5m", "5m"), ("1h", "-1h")))
    )


def test_two_conditions_that_are_the_windows_of_one_tier_become_it(tmp_path: Path) -> None:
    imported = one(tmp_path, windows_pair("multi-window-multi-burn-rate"))

    assert imported.document["tiers"] == [
        {"name": "page-1h", "severity": "page", "factor": 14.4, "long": "1h", "short": "5m"}
    ]
    fixed = notes(imported, "fixed")
    assert "'page-5m' and 'page-1h' are the two windows of one tier" in fixed
    assert "lookbackWindow -1h looks back 1h" in fixed
    assert "notification target 'somebody'" in notes(imported, "lost")


def test_a_condition_about_something_else_is_lost_and_the_slo_is_not(tmp_path: Path) -> None:
    imported = one(tmp_path, windows_pair("budget-left"))

    assert "tiers" not in imported.document
    assert "'budget-left' is not burnrate: its alert is left out" in notes(imported, "lost")


@pytest.mark.parametrize(
    ("window", "days"), [("duration: Week", "7d"), ("duration: 30 days", "30d"),
                         ("duration: Month", "30d")],
)  # fmt: skip
def test_windows_may_be_words(tmp_path: Path, window: str, days: str) -> None:
    text = openslo(window=f"{{{window}, isRolling: true}}")

    assert one(tmp_path, text).document["window"] == days


def test_a_week_that_starts_on_monday_is_a_week(tmp_path: Path) -> None:
    calendar = "{startTime: Monday, timeZone: Europe/Paris}"
    text = openslo(window=f"{{duration: Week, isRolling: false, calendar: {calendar}}}")
    imported = one(tmp_path, text)

    assert imported.document["calendar"] == {"period": "week", "zone": "Europe/Paris"}
    assert "startTime" not in notes(imported, "lost")


def test_a_quantile_is_a_value_and_le_no_group(tmp_path: Path) -> None:
    quantile = "histogram_quantile(0.9, sum(rate(x_bucket[{{.Window}}])) by (le))"
    imported = one(
        tmp_path,
        openslo(
            THRESHOLD.replace("avg(lag)", quantile), objective="{op: lt, value: 2, target: 0.9}"
        ),
    )

    assert "group_by" not in imported.document
    assert "x_bucket[5m]" in imported.document["prometheus"]["bad_query"]


def test_a_source_that_is_the_query_alone_and_a_group_with_a_dot(tmp_path: Path) -> None:
    text = openslo().replace("openslo/v1", "openslo.com/v1")
    for query in ("'x_total{code=\"200\"}'", "x_total"):
        text = text.replace(f"spec: {{query: {query}}}", f"spec: {query}")

    assert one(tmp_path, text).document["prometheus"] == {
        "total": "x_total", "good": 'x_total{code="200"}',
    }  # fmt: skip


def test_a_foreign_threshold_needs_no_operator_to_be_a_draft(tmp_path: Path) -> None:
    text = openslo(THRESHOLD.replace("Prometheus", "sumologic-logs"))

    assert one(tmp_path, text).draft


def test_slo_generator_before_its_release_wrote_camel_case(tmp_path: Path) -> None:
    imported = one(
        tmp_path,
        """\
apiVersion: cloud.google.com/v1
kind: ServiceLevelObjective
metadata: {name: shop-availability, labels: {team: a}}
spec:
  description: ok
  goal: 0.999
  backend: prometheus
  method: good_bad_ratio
  serviceLevelIndicator:
    filterGood: 'x_total{code="200"}[window]'
    filterValid: x_total[window]
""",
    )

    assert imported.document["prometheus"] == {"total": "x_total", "good": 'x_total{code="200"}'}
    assert imported.document["objective"] == 99.9


def test_other_objects_of_that_group_are_no_slos(tmp_path: Path) -> None:
    found = import_text(
        tmp_path, "apiVersion: cloud.google.com/v1\nkind: BackendConfig\nspec: {timeoutSec: 4}\n"
    )

    assert "no format of SLOs that is known" in found.refused[0].reason


def test_a_pyrra_slo_whose_group_is_left_out_is_one(tmp_path: Path) -> None:
    imported = one(
        tmp_path,
        """\
apiVersion: v1alpha1
kind: ServiceLevelObjective
metadata: {name: web, creationTimestamp: null}
spec:
  target: "90"
  window: 28d
  indicator:
    ratio: {errors: {metric: 'x_total{code="500"}'}, total: {metric: x_total}, grouping: null}
status: {}
""",
    )

    assert imported.document["prometheus"] == {"total": "x_total", "bad": 'x_total{code="500"}'}


def test_a_comment_does_not_swallow_the_bracket_behind_it(tmp_path: Path) -> None:
    query = "|\n          sum(rate(x_total{a='#1'}[{{.window}}])) * 2  # twice\n          # done"
    imported = one(tmp_path, SLOTH.replace("QUERY", query))

    query = imported.document["prometheus"]["bad_query"]
    assert "twice" not in query
    assert "'#1'" in query


def test_a_window_in_the_objective_is_taken(tmp_path: Path) -> None:
    text = openslo(objective="{target: 0.9, timeWindow: [{duration: 7d, isRolling: true}]}")
    text = text.replace("  timeWindow:\n    - {duration: 28d, isRolling: true}\n", "", 1)
    imported = one(tmp_path, text)

    assert imported.document["window"] == "7d"


def test_the_last_line_says_what_is_a_draft_and_what_goes_by_slices(tmp_path: Path) -> None:
    sliced = openslo(method="Timeslices", objective="{target: 0.9, timeSliceTarget: 0.9}")
    foreign = openslo(THRESHOLD.replace("Prometheus", "datadog")).replace("name: web}", "name: b}")
    *_, last = report_lines(import_text(tmp_path, f"{sliced}---\n{foreign}"))

    assert last == (
        "2 imported (1 as drafts, without an indicator; 1 by time slices), 0 refused, 0 passed over"
    )
