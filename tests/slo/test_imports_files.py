"""Every third-party file beside this checkout, with what becomes of it and why."""

import os
import subprocess
from pathlib import Path

import pytest

from slo.documents import read
from slo.export import to_rules
from slo.imports import Imports, import_files
from slo.imports.text import as_yaml, document_text

FIXTURES = (
    Path(os.environ.get("TOKENWEIR_FIXTURES", Path(__file__).parents[3] / "shared" / "fixtures"))
    / "slo"
)
SDK, SDK_DATA = "openslo/go-sdk/pkg/openslo", "openslo/go-sdk/pkg/openslosdk/test_data"
OSLO, PYRRA, GENERATOR = "openslo/oslo/test", "pyrra/examples", "slo-generator"
SLOTH, SLOTH_DATA = "sloth/examples", "sloth/test/integration/prometheus/testdata"

# Files of SLOs: how many documents they make.
IMPORTED = {
    f"{SDK_DATA}/decode/v1_slos.yaml": 1,
    f"{SDK_DATA}/encode/v1_slo.json": 1,
    f"{SDK_DATA}/encode/v1_slo.yaml": 1,
    f"{SDK_DATA}/inline/inputs/v1_slo.yaml": 2,
    f"{SDK_DATA}/inline/outputs/v1_slo.yaml": 2,
    f"{PYRRA}/caddy-response-latency.yaml": 1,
    f"{PYRRA}/kubernetes/manifests/slos/slo-apiserver-read-cluster-latency.yaml": 1,
    f"{PYRRA}/kubernetes/manifests/slos/slo-apiserver-read-response-errors.yaml": 1,
    f"{PYRRA}/kubernetes/manifests/slos/slo-coredns-response-errors.yaml": 1,
    f"{PYRRA}/kubernetes/manifests/slos/slo-kubelet-request-errors.yaml": 1,
    f"{PYRRA}/kubernetes/manifests/slos/slo-prometheus-notification-errors.yaml": 1,
    f"{PYRRA}/kubernetes/manifests/slos/slo-prometheus-operator-http-errors.yaml": 1,
    f"{PYRRA}/kubernetes/manifests/slos/slo-prometheus-query-errors.yaml": 1,
    f"{PYRRA}/nginx.yaml": 2,
    f"{PYRRA}/prometheus-http.yaml": 1,
    f"{PYRRA}/pyrra-connect-errors.yaml": 1,
    f"{PYRRA}/pyrra-connect-latency.yaml": 1,
    f"{PYRRA}/thanos-grpc.yaml": 1,
    f"{GENERATOR}/samples/prometheus/slo_prom_metrics_availability_query_sli.yaml": 1,
    f"{GENERATOR}/samples/prometheus/slo_prom_metrics_availability_ratio.yaml": 1,
    f"{SLOTH}/getting-started.yml": 1,
    f"{SLOTH}/home-wifi.yml": 2,
    f"{SLOTH}/k8s-getting-started.yml": 1,
    f"{SLOTH}/multifile.yml": 2,
    f"{SLOTH}/no-alerts.yml": 1,
    f"{SLOTH}/openslo-getting-started.yml": 1,
    f"{SLOTH_DATA}/in-base.yaml": 2,
    f"{SLOTH_DATA}/validate/good/good-aa.yaml": 2,
    f"{SLOTH_DATA}/validate/good/good-ab.yaml": 2,
    f"{SLOTH_DATA}/validate/good/good-openslo.yaml": 1,
    # Must fail in Sloth, as its README says, where 28 days meet alert windows for 30 days alone.
    # They are a window as good as any in OpenSLO, the format of the file, so here it is imported.
    f"{SLOTH_DATA}/validate/bad/bad-openslo.yaml": 1,
}

# SLOs whose metrics only another system can be asked for: everything else is taken over.
DRAFTS = {
    "openslo/spec/examples/budgeting-method/occurences-slo.yaml": 1,
    "openslo/spec/examples/budgeting-method/timeslices-slo.yaml": 2,
    f"{GENERATOR}/samples/cloud_monitoring/slo_gae_app_availability.yaml": 1,
    f"{GENERATOR}/samples/datadog/slo_dd_app_availability_ratio.yaml": 1,
    f"{GENERATOR}/samples/test/test1.yaml": 1,
    f"{GENERATOR}/tests/unit/fixtures/dummy_slo_config.json": 1,
    f"{GENERATOR}/tests/unit/fixtures/slo_config_v1.yaml": 1,
    f"{GENERATOR}/tests/unit/fixtures/slo_config_v2.yaml": 1,
}

# Objects that are no SLO: read, and taken in by SLOs that name them.
OBJECTS = {
    f"{SDK}/v1/examples/alert_conditions.yaml": 2,
    f"{SDK}/v1/examples/data_sources.yaml": 2,
    f"{SDK}/v1/examples/services.yaml": 2,
    f"{SDK}/v1/examples/slis.yaml": 4,
    f"{SDK}/v1alpha/examples/services.yaml": 1,
    f"{SDK}/v2alpha/examples/alert_conditions.yaml": 2,
    f"{SDK}/v2alpha/examples/data_sources.yaml": 2,
    f"{SDK}/v2alpha/examples/services.yaml": 2,
    f"{SDK}/v2alpha/examples/slis.yaml": 5,
    f"{SDK_DATA}/decode/sequence_of_objects.json": 2,
    f"{SDK_DATA}/decode/sequence_of_objects.yaml": 2,
    f"{SDK_DATA}/decode/single_object.json": 1,
    f"{SDK_DATA}/decode/single_object.yaml": 1,
    f"{SDK_DATA}/inline/inputs/v1_alert_policies_keep_refs.yaml": 3,
    f"{SDK_DATA}/inline/outputs/v1_alert_policies_keep_refs.yaml": 3,
    f"{OSLO}/inputs/fmt/service.yaml": 1,
    f"{OSLO}/outputs/fmt/service.yaml": 1,
    f"{SLOTH}/windows/7d.yaml": 1,
    "sloth/internal/alert/windows/google-28d.yaml": 1,
    "sloth/internal/alert/windows/google-30d.yaml": 1,
}

NAME = "must be letters, digits and dashes"
# Files that hold something wrong, with the line and the reason.
REFUSED = {
    f"{SDK_DATA}/inline/inputs/v1_alert_policies_invalid_condition.yaml": [
        (8, "AlertCondition 'cpu-usage-breach' is in none of the files"),
    ],
    f"{SDK_DATA}/inline/inputs/v1_slo_invalid_policy.yaml": [
        (9, "AlertPolicy 'no-policy' is in none of the files"),
    ],
    f"{OSLO}/inputs/validate/mix/1.yaml": [(4, NAME)],
    f"{OSLO}/inputs/validate/mix/2.yaml": [(4, NAME)],
    f"{OSLO}/inputs/validate/mix/3.yaml": [(4, NAME)],
    f"{OSLO}/inputs/validate/unknown-field.yaml": [(4, NAME)],
    f"{OSLO}/inputs/validate/v1.yaml": [(59, NAME)],
    f"{OSLO}/inputs/validate/v1alpha.yaml": [
        (4, NAME), (22, "timeSliceTarget is required with budgetingMethod Timeslices"),
    ],
    f"{GENERATOR}/samples/elasticsearch/slo_elk_test_ratio.yaml": [
        (27, "objective 100 leaves no budget"),
    ],
    f"{SLOTH_DATA}/in-invalid-version.yaml": [(1, "'prometheus/v999' is not prometheus/v1")],
    f"{SLOTH_DATA}/validate/bad/bad-aa.yaml": [(28, "objective 101 is outside (0, 100)")],
    f"{SLOTH_DATA}/validate/bad/bad-ab.yaml": [(28, "objective 101 is outside (0, 100)")],
}  # fmt: skip

RULES, REPORT, CONFIG = (
    "Prometheus rules, not", "a report of slo-generator, not", "a configuration of slo-generator",
)  # fmt: skip
# Goldens, reports, settings, schemas: no SLOs at all.
NOT_SLOS = {
    "LICENSE-Apache-2.0.txt": "not YAML",
    "README.md": "not YAML",
    f"{OSLO}/outputs/validate/mix": "not YAML",
    f"{OSLO}/outputs/validate/v1": "not YAML",
    f"{OSLO}/outputs/validate/v1alpha": "not YAML",
    f"{GENERATOR}/samples/config.yaml": CONFIG,
    f"{GENERATOR}/samples/test/config.yaml": CONFIG,
    f"{GENERATOR}/tests/unit/fixtures/config.yaml": CONFIG,
    f"{GENERATOR}/tests/unit/fixtures/dummy_config.json": CONFIG,
    f"{GENERATOR}/tests/unit/fixtures/dd_error.json": "not an SLO",
    f"{GENERATOR}/tests/unit/fixtures/dd_success.json": "not an SLO",
    f"{GENERATOR}/tests/unit/fixtures/schemas/config.json": "a JSON schema",
    f"{GENERATOR}/tests/unit/fixtures/schemas/slo.json": "a JSON schema",
    f"{GENERATOR}/tests/unit/fixtures/slo_report_v1.json": REPORT,
    f"{GENERATOR}/tests/unit/fixtures/slo_report_v2.json": REPORT,
    "slo-libsonnet/examples/http-request-error-burnrate.yaml": RULES,
    "slo-libsonnet/examples/http-request-errors.yaml": RULES,
    "slo-libsonnet/examples/http-request-latency.yaml": RULES,
    f"{SLOTH}/_gen/getting-started.yml": RULES,
    f"{SLOTH}/_gen/home-wifi.yml": RULES,
    f"{SLOTH}/_gen/k8s-getting-started.yml": RULES,
    f"{SLOTH}/_gen/multifile.yml": RULES,
    f"{SLOTH}/_gen/no-alerts.yml": RULES,
    f"{SLOTH}/_gen/openslo-getting-started.yml": RULES,
    f"{SLOTH_DATA}/out-base-28d.yaml.tpl": "fill them in first",
    f"{SLOTH_DATA}/out-base-no-recordings.yaml.tpl": RULES,
    f"{SLOTH_DATA}/out-base.yaml.tpl": "fill them in first",
}

needs_fixtures = pytest.mark.skipif(
    not FIXTURES.is_dir(), reason="the third-party files are not beside this checkout"
)


def problems_of(imports: Imports, folder: Path) -> tuple[str, ...]:
    for each in imports.imported:
        (folder / f"{each.name}.yaml").write_text(document_text(each), encoding="utf-8")
    found = read([folder])
    assert len(found.slos) == len(imports.imported) or found.problems
    return found.problems + found.warnings


@needs_fixtures
def test_every_file_is_in_this_table() -> None:
    listed = [*IMPORTED, *DRAFTS, *OBJECTS, *REFUSED, *NOT_SLOS]
    files = {str(p.relative_to(FIXTURES)) for p in FIXTURES.rglob("*") if p.is_file()}

    assert len(files) == 98
    assert sorted(listed) == sorted(files)


@needs_fixtures
@pytest.mark.parametrize("file", IMPORTED)
def test_a_file_of_slos_is_imported_and_loads(file: str, tmp_path: Path) -> None:
    found = import_files([FIXTURES / file])

    assert (len(found.imported), found.refused) == (IMPORTED[file], ())
    assert not any(each.draft for each in found.imported)
    assert problems_of(found, tmp_path) == ()


@needs_fixtures
def test_what_fails_in_sloth_for_its_window_keeps_that_window(tmp_path: Path) -> None:
    (found,) = import_files([FIXTURES / SLOTH_DATA / "validate/bad/bad-openslo.yaml"]).imported

    assert (found.document["window"], found.document["objective"]) == ("28d", 99.9)
    assert "tiers" not in found.document  # derived for 28 days, where Sloth has a table for 30


@needs_fixtures
@pytest.mark.parametrize("file", DRAFTS)
def test_an_slo_of_another_system_is_a_draft_that_loads(file: str, tmp_path: Path) -> None:
    found = import_files([FIXTURES / file])

    assert (len(found.imported), found.refused) == (DRAFTS[file], ())
    assert all(each.draft for each in found.imported)
    assert all("sli_origin" in each.document["annotations"] for each in found.imported)
    assert all(any(note.kind == "lost" for note in each.notes) for each in found.imported)
    assert problems_of(found, tmp_path) == ()


@needs_fixtures
@pytest.mark.parametrize("file", OBJECTS)
def test_a_file_of_other_objects_is_read(file: str) -> None:
    found = import_files([FIXTURES / file])

    assert (found.imported, found.refused) == ((), ())
    assert len(found.passed_over) == OBJECTS[file]


@needs_fixtures
@pytest.mark.parametrize("file", REFUSED)
def test_what_is_wrong_is_refused_with_its_line_and_reason(file: str) -> None:
    found = import_files([FIXTURES / file])

    assert [each.line for each in found.refused] == [line for line, _ in REFUSED[file]]
    for refused, (_, reason) in zip(found.refused, REFUSED[file], strict=True):
        assert reason in refused.reason
        assert refused.file.endswith(file)


@needs_fixtures
@pytest.mark.parametrize("file", NOT_SLOS)
def test_what_is_no_slo_is_refused_as_such(file: str) -> None:
    found = import_files([FIXTURES / file])

    assert found.imported == ()
    assert found.refused
    assert NOT_SLOS[file] in found.refused[0].reason


@needs_fixtures
def test_the_contradictory_example_of_the_spec_becomes_a_month_with_notes() -> None:
    found = import_files([FIXTURES / "openslo/spec/examples/budgeting-method/timeslices-slo.yaml"])
    (first, second) = found.imported
    fixed = [note.text for note in first.notes if note.kind == "fixed"]

    assert first.document["window"] == "30d"
    assert first.document["calendar"] == {"period": "month", "zone": "America/New_York"}
    assert any("1m is 1 minutes, which is no budget window" in text for text in fixed)
    assert any("op means nothing on a ratio objective" in text for text in fixed)
    assert (first.document["objective"], second.document["objective"]) == (99.5, 99)


@needs_fixtures
def test_all_files_together_give_every_document_a_name_of_its_own(tmp_path: Path) -> None:
    found = import_files([FIXTURES])
    names = [each.name for each in found.imported]

    assert len(names) == len(set(names))
    assert problems_of(found, tmp_path) == ()


@needs_fixtures
@pytest.mark.binary
def test_what_is_imported_is_promql_to_prometheus(tmp_path: Path) -> None:
    found = import_files([FIXTURES])
    assert problems_of(found, tmp_path) == ()
    rules = tmp_path / "rules.yml"
    slos = read([tmp_path]).slos
    rules.write_text(as_yaml(to_rules(slos)), encoding="utf-8")

    done = subprocess.run(
        ["promtool", "check", "rules", "rules.yml"], cwd=tmp_path, capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
    assert len(slos) == len(found.imported)
