"""The program beside a real Prometheus: what it scrapes is judged, and its silence freezes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.instance import Instance, serving, wait_for
from tests.slo.prometheus.binary import Target, prometheus

pytestmark = [
    pytest.mark.binary,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="needs Debian's prometheus"),
]

SLO = """
kind: slo
name: api-errors
objective: 90
window: 1h
group_by: [handler]
prometheus:
  total: http_requests_total
  bad: 'http_requests_total{code="500"}'
tiers:
  - {name: fast, severity: page, factor: 2, long: 10m, short: 2m}
"""
STALE_AFTER_S = 10


def test_what_prometheus_scrapes_is_judged_until_it_falls_silent(tmp_path: Path) -> None:
    target = Target()
    target.text = 'http_requests_total{code="200",handler="/a"} 1000\n'
    config = {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [{"job_name": "api", "static_configs": [{"targets": [target.address]}]}],
    }
    try:
        with prometheus(tmp_path, yaml.safe_dump(config)) as url:
            server = {"url": url, "poll_every": "1s", "stale_after": f"{STALE_AFTER_S}s"}
            settings = {"slo": {"evaluate_every": "1s", "prometheus": {"main": server}}}
            (tmp_path / "tokenweir.yaml").write_text(yaml.safe_dump(settings))
            (tmp_path / "slo.yaml").write_text(SLO)
            options = ["--config", tmp_path / "tokenweir.yaml", "--slo", tmp_path / "slo.yaml"]
            target.wait_for_scrapes(2)
            target.text = (
                'http_requests_total{code="200",handler="/a"} 1030\n'
                'http_requests_total{code="500",handler="/a"} 50\n'
            )
            target.wait_for_scrapes(2)
            with serving(tmp_path / "tokenweir", options) as instance:
                found = wait_for("counts", lambda: judged(instance, total=80, state="BURNING"))
                assert found["group"] == {"handler": "/a"}
                assert (found["good"], found["bad"]) == (30, 50)
                wait_for("all history", lambda: judged(instance, problem=None))

                target.close()  # the target is gone: Prometheus answers, and has nothing new
                frozen = wait_for("a frozen verdict", lambda: judged(instance, state="STALE"))
                assert (frozen["good"], frozen["bad"]) == (30, 50)
    finally:
        target.close()


def test_a_server_that_is_gone_is_said_and_not_zero(tmp_path: Path) -> None:
    server = {"url": "http://127.0.0.1:9", "poll_every": "1s"}
    settings = {"slo": {"evaluate_every": "1s", "prometheus": {"main": server}}}
    (tmp_path / "tokenweir.yaml").write_text(yaml.safe_dump(settings))
    (tmp_path / "slo.yaml").write_text(SLO)
    options = ["--config", tmp_path / "tokenweir.yaml", "--slo", tmp_path / "slo.yaml"]

    with serving(tmp_path / "tokenweir", options) as instance:
        said = wait_for("a problem", lambda: (judged(instance) or {}).get("problem"))
        verdict = judged(instance)
        metrics = instance.get("/metrics").text

    assert "prometheus 'main' at http://127.0.0.1:9/" in said
    assert verdict is not None
    assert (verdict["state"], verdict["sli"]) == ("ABSENT", None)
    assert 'tokenweir_slo_prometheus_reads_total{result="retry",server="main"}' in metrics


def judged(instance: Instance, **wanted: Any) -> dict[str, Any] | None:
    for verdict in instance.get("/api/v1/slos").json()["slos"]:
        if all(verdict[name] == value for name, value in wanted.items()):
            return dict(verdict)
    return None
