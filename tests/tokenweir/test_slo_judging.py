"""The commands `slo backtest`, `plan` and `lint`, as processes: a store belongs to one of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import slo.schema
import store.schema
from store.open import open_engine
from tests.slo.made_facts import EPOCH, alive, fact, put
from tokenweir.datadir import write_endpoints

BEGIN = 1_767_225_600
SLO = """kind: slo
name: chat
objective: 95
window: 1h
group_by: [tenant]
good: outcome = 'good'
"""


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tokenweir", "slo", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    path = tmp_path / "slo.yaml"
    path.write_text(SLO)
    return path


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    """An hour of two tenants; everything of acme fails for five minutes."""
    lines = ["start,tenant,outcome,hue"]
    for second in range(3600):
        broken = 1800 <= second < 2100
        lines.append(f"{BEGIN + second},acme,{'bad' if broken else 'good'},1")
        lines.append(f"{BEGIN + second}.5,beta,good,1")
    path = tmp_path / "facts.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_backtest_pages_for_the_tenant_that_failed(
    documents: Path, facts: Path, tmp_path: Path
) -> None:
    incidents = tmp_path / "incidents.csv"
    incidents.write_text(f"start,end,tenant\n{BEGIN + 1800},{BEGIN + 2100},acme\n")

    done = run(
        "backtest", "--slo", documents, "--facts", facts, "--json", "--target", "99",
        "--tiers", "classic", "--incidents", incidents,
    )  # fmt: skip
    report: dict[str, Any] = json.loads(done.stdout)

    assert done.returncode == 0, done.stderr
    (alert,) = report["alerts"]
    assert (alert["slo"], alert["group"], alert["severity"]) == ("chat", {"tenant": "acme"}, "page")
    assert "2026-01-01T00:30:0" < alert["fired_at"] < "2026-01-01T00:31"
    assert alert["resolved_at"] > "2026-01-01T00:35"
    assert 0 < alert["time_to_detect_s"] < 60
    assert alert["is_false"] is False
    assert alert["summary"].startswith("chat{tenant=acme}")
    finals = {final["group"]["tenant"]: final for final in report["final"]}
    assert (finals["acme"]["good"], finals["acme"]["bad"]) == (3299, 300)
    assert finals["beta"]["budget_remaining"] == 1
    assert report["misses"] == []
    assert [each["time_to_detect_s"] < 60 for each in report["incidents"]] == [True]
    assert {(each["target"], each["tiers"]) for each in report["what_if"]} == {
        (95, "document"), (95, "classic"), (99, "document"), (99, "classic"),
    }  # fmt: skip
    assert report["input"]["ignored_columns"] == {"hue": [str(facts)]}


def test_rows_that_cannot_be_used_are_named_and_the_status_is_1(
    documents: Path, facts: Path
) -> None:
    with facts.open("a") as file:
        file.write("soon,acme,good,1\n")

    done = run("backtest", "--slo", documents, "--facts", facts)

    assert done.returncode == 1
    assert "1 page" in done.stdout
    assert "line 7202: start 'soon' is not a number" in done.stdout.replace("\n", " ")


def test_a_plan_for_the_worse_ends_with_2_and_an_error_with_1(
    documents: Path, facts: Path, tmp_path: Path
) -> None:
    new = tmp_path / "new.yaml"
    new.write_text(SLO.replace("95", "99"))
    where = ("--current", documents, "--facts", facts)

    same = run("plan", "--slo", documents, *where)
    worse = run("plan", "--slo", new, *where, "--json")
    wrong = run("plan", "--slo", tmp_path / "gone.yaml", *where)

    assert (same.returncode, worse.returncode, wrong.returncode) == (0, 2, 1)
    (planned,) = json.loads(worse.stdout)["slos"]
    acme = next(each for each in planned["groups"] if each["group"] == {"tenant": "acme"})
    assert acme["effects"][-1] == "budget spent"
    assert acme["after"]["budget_remaining"] < acme["before"]["budget_remaining"] < 0
    assert "nothing gets worse" in same.stdout
    assert "no such file" in wrong.stderr


def test_lint_ends_with_2_for_errors_and_1_for_warnings_that_count(
    documents: Path, facts: Path, tmp_path: Path
) -> None:
    dead = tmp_path / "dead.yaml"
    dead.write_text(SLO.replace("good:", "eligible: tenant = 'acne'\ngood:"))
    broken = tmp_path / "broken.yaml"
    broken.write_text(SLO + "eligible: ttft_ms < 1 and ttft_ms > 2\n")

    clean = run("lint", documents, "--strict")
    doubtful = run("lint", dead, "--facts", facts, "--strict", "--json")
    wrong = run("lint", broken)

    assert (clean.returncode, doubtful.returncode, wrong.returncode) == (0, 1, 2)
    found = {each["code"]: each for each in json.loads(doubtful.stdout)["findings"]}
    assert "'acme'" in found["unknown-value"]["message"]
    assert found["unknown-value"]["line"] == 6
    assert found["unknown-value"]["severity"] == "warning"


def test_a_folder_of_an_instance_is_read_and_one_that_runs_is_left_alone(
    documents: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    made = (
        "import sys; from tests.tokenweir.test_slo_judging import make_folder; "
        "from pathlib import Path; make_folder(Path(sys.argv[1]))"
    )
    subprocess.run([sys.executable, "-c", made, str(data)], check=True, timeout=120)

    done = run("backtest", "--slo", documents, "--data", data, "--json", "--every", "30s")
    write_endpoints(data, {"http": "http://127.0.0.1:1"})
    refused = run("backtest", "--slo", documents, "--data", data)

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["requests"] == 1200
    assert [(each["slo"], each["severity"]) for each in report["alerts"]] == [("chat", "page")]
    assert refused.returncode == 2
    assert "an instance runs on" in refused.stderr


def make_folder(data: Path) -> None:
    """Make what an instance leaves behind: a store with requests and their sources."""
    from datetime import timedelta

    data.mkdir()
    engine = open_engine(f"chdb://{data}/store")
    store.schema.create(engine)
    slo.schema.create(engine)
    second = timedelta(seconds=1)
    put(
        engine,
        [
            fact(EPOCH + n * second, n, outcome="bad" if 600 <= n < 900 else "good")
            for n in range(1200)
        ],
    )
    alive(engine, [EPOCH + 15 * n * second for n in range(80)])
    engine.close()


def test_a_folder_that_is_none_is_said_to_be_none(documents: Path, tmp_path: Path) -> None:
    done = run("backtest", "--slo", documents, "--data", tmp_path / "gone")

    assert done.returncode == 2
    assert "no such folder" in done.stderr
    assert not (tmp_path / "gone").exists()
