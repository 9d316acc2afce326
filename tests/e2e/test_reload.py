"""Editing SLO documents of a running instance: history is kept, and what fires stays up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from tests.e2e.instance import Instance, serving, ticks_pass, wait_for
from tests.e2e.stream import streaming

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SLO = """
kind: slo
name: chat
objective: {objective}
window: 30m
group_by: [tenant]
good: {good}
tiers:
  - {{name: fast, severity: page, factor: 6, long: 2m, short: 1m}}
"""


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    (tmp_path / "slo.yaml").write_text(SLO.format(objective=95, good="outcome = 'good'"))
    settings = {"slo": {"evaluate_every": "1s"}, "alerts": {"keep_firing_for": "1s"}}
    (tmp_path / "tokenweir.yaml").write_text(yaml.safe_dump(settings))
    options = ["--config", tmp_path / "tokenweir.yaml", "--slo", tmp_path / "slo.yaml"]
    with serving(tmp_path / "data", options) as running:
        yield running


def test_an_edit_recounts_history_and_leaves_what_fires_alone(
    instance: Instance, tmp_path: Path
) -> None:
    with streaming(instance) as stream:
        stream.is_bad = True
        stream.burst(60, is_bad=True)
        firing = wait_for("a firing alert", lambda: alerts(instance))[0]
        before = verdict(instance)

        (tmp_path / "slo.yaml").write_text("kind: slo\nname: chat\nobjective: 101\n")
        refused = reload(instance)
        assert refused.status_code == 400
        assert "outside (0, 100)" in refused.text
        assert verdict(instance)["objective"] == 0.95

        (tmp_path / "slo.yaml").write_text(SLO.format(objective=94, good="http_status < 400"))
        changed = reload(instance)
        assert changed.status_code == 200, changed.text
        [version] = changed.json()["versions"]
        ticks_pass(instance, 3)

        after = verdict(instance)
        assert after["objective"] == 0.94
        assert after["total"] >= before["total"]
        [still] = alerts(instance)
        assert still["episode"] == firing["episode"]
        assert "objective: 95 -> 94" in version["changes"]
        history = instance.ask("slos/chat/versions")["versions"]
        assert [each["number"] for each in history] == [2, 1]
        assert history[0]["author"] == "ada"


def reload(instance: Instance) -> httpx.Response:
    url = f"{instance.endpoints['http']}/api/v1/slos/reload"
    return httpx.post(url, json={"by": "ada"}, timeout=60)


def verdict(instance: Instance) -> dict[str, float]:
    return dict(wait_for("a verdict", lambda: instance.ask("slos")["slos"])[0])


def alerts(instance: Instance) -> list[dict[str, str]]:
    return list(instance.ask("alerts", state="firing")["alerts"])
