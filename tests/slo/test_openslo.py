"""OpenSLO v1 files that others wrote: loaded, or refused for the reason given here."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from slo.documents import Loaded, read
from slo.interpret import holds
from slo.slices import make_slices
from slo.tiers import derive

FIXTURES = (
    Path(os.environ.get("TOKENWEIR_FIXTURES", Path(__file__).parents[3] / "shared" / "fixtures"))
    / "slo"
    / "openslo"
)
SDK, SDK_DATA, OSLO = (
    "go-sdk/pkg/openslo",
    "go-sdk/pkg/openslosdk/test_data",
    "oslo/test",
)

FOREIGN = "cannot be read here"
VERSION = "is not read yet: convert it to openslo/v1"
NAME = "must be lower case letters, digits and dashes"
CALENDAR = "calendar windows are not supported yet"

LOADED = [
    f"{SDK}/v1/examples/alert_conditions.yaml",
    f"{SDK}/v1/examples/data_sources.yaml",
    f"{SDK}/v1/examples/services.yaml",
    f"{SDK}/v1/examples/slis.yaml",
    f"{SDK_DATA}/decode/sequence_of_objects.json",
    f"{SDK_DATA}/decode/sequence_of_objects.yaml",
    f"{SDK_DATA}/decode/single_object.json",
    f"{SDK_DATA}/decode/single_object.yaml",
    f"{SDK_DATA}/inline/inputs/v1_alert_policies_keep_refs.yaml",
    f"{SDK_DATA}/inline/outputs/v1_alert_policies_keep_refs.yaml",
    f"{OSLO}/inputs/fmt/service.yaml",
    f"{OSLO}/outputs/fmt/service.yaml",
]
REFUSED = {
    f"{SDK}/v1alpha/examples/services.yaml": (VERSION,),
    f"{SDK}/v2alpha/examples/alert_conditions.yaml": (VERSION,),
    f"{SDK}/v2alpha/examples/data_sources.yaml": (VERSION,),
    f"{SDK}/v2alpha/examples/services.yaml": (VERSION,),
    f"{SDK}/v2alpha/examples/slis.yaml": (VERSION,),
    f"{SDK_DATA}/decode/v1_slos.yaml": ("line 17: a metric source of type 'Prometheus'",),
    f"{SDK_DATA}/encode/v1_slo.json": (FOREIGN,),
    f"{SDK_DATA}/encode/v1_slo.yaml": (FOREIGN,),
    f"{SDK_DATA}/inline/inputs/v1_alert_policies_invalid_condition.yaml": (
        "AlertCondition 'cpu-usage-breach' is not in any file read",
    ),
    f"{SDK_DATA}/inline/inputs/v1_slo.yaml": (FOREIGN, CALENDAR),
    f"{SDK_DATA}/inline/inputs/v1_slo_invalid_policy.yaml": (FOREIGN, CALENDAR),
    f"{SDK_DATA}/inline/outputs/v1_slo.yaml": (FOREIGN, CALENDAR),
    f"{OSLO}/inputs/validate/mix/1.yaml": (VERSION,),
    f"{OSLO}/inputs/validate/mix/2.yaml": (f"line 4: name 'example service' {NAME}",),
    f"{OSLO}/inputs/validate/mix/3.yaml": (VERSION,),
    f"{OSLO}/inputs/validate/unknown-field.yaml": (NAME, "line 6: unknown field 'markdown'"),
    f"{OSLO}/inputs/validate/v1.yaml": (NAME, FOREIGN, CALENDAR),
    f"{OSLO}/inputs/validate/v1alpha.yaml": (VERSION,),
    "spec/examples/budgeting-method/occurences-slo.yaml": ("metric source of type 'Any'",),
    "spec/examples/budgeting-method/timeslices-slo.yaml": (FOREIGN, CALENDAR),
}

needs_fixtures = pytest.mark.skipif(
    not FIXTURES.is_dir(), reason="the third-party files are not beside this checkout"
)


@needs_fixtures
@pytest.mark.parametrize("path", LOADED)
def test_a_file_without_slos_of_other_systems_loads(path: str) -> None:
    found = read([FIXTURES / path])

    assert found.problems == ()
    assert found.slos == ()


@needs_fixtures
@pytest.mark.parametrize("path", REFUSED)
def test_a_file_is_refused_with_line_and_reason(path: str) -> None:
    found = read([FIXTURES / path])

    assert found.slos == ()
    for reason in REFUSED[path]:
        assert any(reason in problem for problem in found.problems), found.problems
    assert all(" line " in problem for problem in found.problems)


@needs_fixtures
def test_the_tables_above_name_every_file() -> None:
    files = {
        str(path.relative_to(FIXTURES))
        for path in FIXTURES.rglob("*")
        if path.suffix in {".yaml", ".json"}
    }

    assert files == {*LOADED, *REFUSED}


@needs_fixtures
def test_a_month_written_as_one_minute_is_doubted() -> None:
    path = FIXTURES / "spec/examples/budgeting-method/timeslices-slo.yaml"

    (doubt,) = [each for each in read([path]).warnings if "minutes" in each]

    assert "line 27: 1m is 1 minutes in OpenSLO v1, which is no budget window: 30d is" in doubt


RATIO = """\
apiVersion: openslo/v1
kind: Service
metadata: {name: chat}
spec: {description: chat}
---
apiVersion: openslo/v1
kind: SLI
metadata: {name: served}
spec:
  ratioMetric:
    counter: true
    good:
      metricSource: {type: tokenweir, spec: {expression: "outcome = 'good' and ttft_ms <= 2000"}}
    total:
      metricSource:
        type: tokenweir
        spec: {expression: "route = '/v1/chat/completions'", dimensions: [tenant, model]}
---
apiVersion: openslo/v1
kind: SLO
metadata: {name: chat-ttft, labels: {env: [prod, eu]}, annotations: {runbook: x}}
spec:
  description: quick
  service: chat
  indicatorRef: served
  timeWindow: [{duration: 4w, isRolling: true}]
  budgetingMethod: Occurrences
  objectives:
    - {displayName: Good, target: 0.95}
"""


def read_text(folder: Path, *texts: str) -> Loaded:
    paths = []
    for number, text in enumerate(texts):
        paths.append(folder / f"{number}.yaml")
        paths[-1].write_text(text, encoding="utf-8")
    return read(paths)


def test_a_ratio_over_request_facts_becomes_an_slo(tmp_path: Path) -> None:
    found = read_text(tmp_path, RATIO)

    assert found.problems == ()
    assert found.warnings == ()
    (slo,) = found.slos
    assert (slo.name, slo.objective, slo.window) == ("chat-ttft", 0.95, timedelta(weeks=4))
    assert slo.group_by == ("tenant", "model")
    assert [clause.name for clause in slo.good] == ["outcome = 'good'", "ttft_ms <= 2000"]
    assert slo.tiers == derive(0.95, timedelta(weeks=4))
    assert slo.labels == {"env": "prod,eu", "service": "chat"}
    assert slo.annotations == {"runbook": "x"}


def test_references_cross_files_in_any_order(tmp_path: Path) -> None:
    service, sli, slo = RATIO.split("---\n")

    assert read_text(tmp_path, slo, service, sli).problems == ()
    assert "SLI 'served' is not in any file read" in read_text(tmp_path, slo).problems[0]


def test_bad_may_stand_for_good(tmp_path: Path) -> None:
    text = RATIO.replace("good:\n", "bad:\n").replace(
        "outcome = 'good' and ttft_ms <= 2000", "outcome = 'bad' or ttft_ms > 2000"
    )

    (slo,) = read_text(tmp_path, text).slos

    (clause,) = slo.good
    assert holds(clause.expression, {"outcome": "good", "ttft_ms": 1.0})
    assert not holds(clause.expression, {"outcome": "good", "ttft_ms": 3000.0})


def test_target_percent_is_a_hundred_times_target(tmp_path: Path) -> None:
    (slo,) = read_text(tmp_path, RATIO.replace("target: 0.95", "targetPercent: 99.5")).slos
    wrong = read_text(tmp_path, RATIO.replace("target: 0.95", "target: 99.5"))
    both = read_text(tmp_path, RATIO.replace("target: 0.95", "target: 0.9, targetPercent: 90"))

    assert slo.objective == 0.995
    assert "outside (0, 1): did you mean targetPercent: 99.5?" in wrong.problems[0]
    assert "either target (0.99) or targetPercent (99)" in both.problems[0]


SLICED = RATIO.replace("Occurrences", "Timeslices").replace(
    "target: 0.95", "target: 0.95, timeSliceTarget: 0.999, timeSliceWindow: WIDTH"
)


@pytest.mark.parametrize(("width", "minutes"), [("5m", 5), ("1", 1), ("1h", 60)])
def test_timeslices_become_slices(tmp_path: Path, width: str, minutes: int) -> None:
    length = timedelta(minutes=minutes)

    found = read_text(tmp_path, SLICED.replace("WIDTH", width))

    assert (found.problems, found.warnings) == ((), ())
    (slo,) = found.slos
    assert slo.slices == make_slices(length, 99.9)
    assert slo.tiers == derive(0.95, timedelta(weeks=4), 3, length)


def test_alerts_on_slices_look_at_whole_ones(tmp_path: Path) -> None:
    condition = "condition: {kind: burnrate, op: gte, threshold: 2, lookbackWindow: 1h}"
    policies = f"""  alertPolicies:
    - kind: AlertPolicy
      metadata: {{name: fast}}
      spec:
        conditions:
          - kind: AlertCondition
            metadata: {{name: fast}}
            spec: {{severity: page, {condition}}}
"""
    (slo,) = read_text(tmp_path, SLICED.replace("WIDTH", "10m") + policies).slos
    broken = read_text(tmp_path, SLICED.replace("WIDTH", "10m") + policies.replace("1h", "65m"))

    (tier,) = slo.tiers
    assert (tier.long, tier.short) == (timedelta(hours=1), timedelta(minutes=10))
    assert tier.min_bad == 3
    assert "long 1h5m is not whole slices of 10m: write 1h10m" in broken.problems[0]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("Timeslices", "RatioTimeslices"), "averages the ratios of slices"),
        (("Timeslices", "Sometimes"), "neither Occurrences nor Timeslices"),
        (("timeSliceTarget: 0.999", "displayName: x"), "timeSliceTarget is missing"),
        (("0.999", "99.9"), "up to 100, not at 9990"),
        (("WIDTH", "7m"), "slices of 7m do not fit in minutes and hours: write 6m"),
        (("WIDTH", "soon"), "timeSliceWindow: duration 'soon'"),
        (("duration: 4w", "duration: 50h"), "is not whole slices"),
    ],
)
def test_slices_that_cannot_be_counted_are_refused_with_their_line(
    tmp_path: Path, change: tuple[str, str], says: str
) -> None:
    text = SLICED.replace(*change).replace("displayName: Good, ", "", 1)
    text = text.replace("50h", "90m").replace("WIDTH", "1h")

    found = read_text(tmp_path, text)

    assert found.slos == ()
    assert any(says in problem for problem in found.problems), found.problems
    assert all(" line " in problem for problem in found.problems)


def test_slices_of_no_stated_length_are_minutes_with_a_warning(tmp_path: Path) -> None:
    found = read_text(tmp_path, SLICED.replace(", timeSliceWindow: WIDTH", ""))

    assert found.slos[0].slices == make_slices(timedelta(minutes=1), 99.9)
    assert "timeSliceWindow is missing: slices of 1m are taken" in found.warnings[0]


def test_each_objective_is_an_slo_of_its_own(tmp_path: Path) -> None:
    text = RATIO + "    - {displayName: Our SLA, target: 0.9}\n"

    assert [slo.name for slo in read_text(tmp_path, text).slos] == [
        "chat-ttft-good",
        "chat-ttft-our-sla",
    ]


@pytest.mark.parametrize(
    ("duration", "days", "doubts"), [("30d", 30, 0), ("1M", 30, 1), ("1m", 30, 1), ("1Q", 91, 1)]
)
def test_windows_without_a_fixed_length_are_doubted(
    tmp_path: Path, duration: str, days: int, doubts: int
) -> None:
    found = read_text(tmp_path, RATIO.replace("4w", duration))

    assert found.slos[0].window == timedelta(days=days)
    assert len(found.warnings) == doubts


THRESHOLD = """\
apiVersion: openslo/v1
kind: SLO
metadata: {name: quick}
spec:
  service: chat
  indicator:
    metadata: {name: first-token}
    spec:
      thresholdMetric:
        metricSource: {type: tokenweir, spec: {expression: ttft_ms, dimensions: [tenant]}}
  timeWindow: [{duration: 7d, isRolling: true}]
  budgetingMethod: Occurrences
  objectives:
    - {op: lte, value: 2000, target: 0.95}
"""


def test_a_threshold_is_compared_request_by_request(tmp_path: Path) -> None:
    (slo,) = read_text(tmp_path, THRESHOLD).slos

    assert [clause.name for clause in slo.good] == ["outcome = 'good'", "ttft_ms <= 2000"]
    assert slo.group_by == ("tenant",)


POLICY = """\
  alertPolicies:
    - kind: AlertPolicy
      metadata: {name: quick-burn}
      spec:
        alertWhenBreaching: true
        conditions:
          - kind: AlertCondition
            metadata: {name: fast}
            spec:
              severity: page
              condition:
                {kind: burnrate, op: gte, threshold: 6, lookbackWindow: 1h, alertAfter: 5m}
"""


def test_an_alert_policy_becomes_a_tier(tmp_path: Path) -> None:
    (slo,) = read_text(tmp_path, THRESHOLD + POLICY).slos

    (tier,) = slo.tiers
    assert (tier.name, tier.severity, tier.factor) == ("fast", "page", 6)
    assert (tier.long, tier.short) == (timedelta(hours=1), timedelta(minutes=5))


def test_an_alert_that_can_never_fire_is_refused(tmp_path: Path) -> None:
    found = read_text(tmp_path, THRESHOLD + POLICY.replace("threshold: 6", "threshold: 20"))

    assert "tier 'fast' can never fire: a total outage burns at 20" in found.problems[0]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("op: lte, ", "", "op is missing"),
        ("op: lte", "op: eq", "op 'eq' is not one of lt, lte, gt, gte"),
        ("value: 2000, ", "", "value is missing"),
        ("ttft_ms,", "tenant,", "is a text where a number is needed"),
        ("ttft_ms,", "sleep(9),", "is not allowed in a filter"),
        ("isRolling: true", "isRolling: false", CALENDAR),
        ("7d", "7x", "duration: duration '7x' is not like"),
        ("value: 2000", "value: 2000, compositeWeight: 1", "composite objectives are not"),
        ("first-token}", "first-token, colour: red}", "unknown field 'colour'"),
        ("  service: chat\n", "", "service is missing"),
    ],
)
def test_what_cannot_be_read_exactly_is_refused(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    assert old in THRESHOLD

    found = read_text(tmp_path, THRESHOLD.replace(old, new))

    assert found.slos == ()
    assert any(says in problem for problem in found.problems), found.problems
