"""A source that falls silent: what it was is frozen, and everybody says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.instance import Instance, serving, ticks_pass, wait_for
from tests.e2e.stream import streaming

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("e2e-alerts"), pytest.mark.timeout(300)]

STALE_AFTER_S = 5
SLO = """
kind: slo
name: chat
objective: 95
window: 30m
group_by: [tenant]
tiers:
  - {name: fast, severity: page, factor: 6, long: 2m, short: 1m}
"""
SETTINGS = {
    "slo": {"evaluate_every": "1s", "stale_after": f"{STALE_AFTER_S}s"},
    "alerts": {"group_wait": "0s", "keep_firing_for": "1s"},
    "actuators": {
        "tick": "1s", "window": "10s", "verify_within": "20s", "undo_every": "2s",
        "stale_after": f"{STALE_AFTER_S}s", "lease_ttl": "10m",
        "gateways": [{"name": "demo", "service": "tokenweir-gateway"}],
        "fleets": [{"name": "engines", "driver": "noop", "gateway": "demo", "tokens_per_s": 100}],
    },
}  # fmt: skip


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[Instance]:
    (tmp_path / "slo.yaml").write_text(SLO)
    (tmp_path / "tokenweir.yaml").write_text(yaml.safe_dump(SETTINGS))
    options = ["--config", tmp_path / "tokenweir.yaml", "--slo", tmp_path / "slo.yaml"]
    with serving(tmp_path / "data", options) as running:
        yield running


def test_a_silent_source_freezes_its_alerts_and_actions_and_says_so(instance: Instance) -> None:
    assert states(instance) == {"ABSENT"}
    with streaming(instance) as stream:
        stream.is_bad = True
        stream.burst(60, is_bad=True)
        firing = wait_for("a firing alert", lambda: alerts(instance)["acme"] or None)
        assert firing["state"] == "firing"
        assert firing["frozen"] is False
        wait_for("trust", lambda: scope(instance)["frozen"] is False)

    wait_for("a stale verdict", lambda: states(instance) == {"STALE"})
    wait_for("a frozen alert", lambda: alerts(instance)["acme"]["frozen"])
    wait_for("a frozen loop", lambda: scope(instance)["frozen"])
    leases = instance.ask("actions")["actions"]
    # What comes now is old: it ended before the silence began to count.
    stream.burst(60, is_bad=True, tenant="globex", ago_s=2 * STALE_AFTER_S)
    instance.settle()
    ticks_pass(instance, 6)

    assert states(instance) == {"STALE"}
    found = alerts(instance)
    assert found.keys() == {"acme"}, "nothing new fires"
    assert found["acme"]["state"] == "firing", "nothing resolves"
    assert found["acme"]["episode"] == firing["episode"]
    assert found["acme"]["frozen_since"] is not None
    assert "silent" in found["acme"]["frozen_reason"] or "stale" in found["acme"]["frozen_reason"]
    now_held = scope(instance)
    assert now_held["frozen"] is True
    assert any("silent" in why or "stale" in why for why in now_held["frozen_because"])
    assert now_held["done"] == []
    after = instance.ask("actions")["actions"]
    assert [lease["id"] for lease in after] == [lease["id"] for lease in leases], "no new lease"
    scaling = instance.get("/api/v1/scaling/engines")
    assert scaling.status_code >= 400, "stale is an error, never a number"

    with streaming(instance) as again:
        again.burst(3000, is_bad=False)
        again.burst(300, is_bad=False, tenant="globex")
        wait_for("speech again", lambda: states(instance) <= {"OK", "EXHAUSTED", "BURNING"})
        resolved = wait_for(
            "the resolve", lambda: (a := alerts(instance)["acme"])["state"] == "resolved" and a
        )
        assert resolved["frozen"] is False
        assert resolved["episode"] == firing["episode"]
        wait_for("trust again", lambda: scope(instance)["frozen"] is False)


def states(instance: Instance) -> set[str]:
    return {body["state"] for body in instance.ask("slos")["slos"]}


def alerts(instance: Instance) -> dict[str, dict[str, Any]]:
    """Alerts by tenant; an empty one where there is none."""
    found = {each["group"]["tenant"]: each for each in instance.ask("alerts")["alerts"]}
    return found or {"acme": {}}


def scope(instance: Instance) -> dict[str, Any]:
    [found] = instance.ask("actions")["scopes"]
    return dict(found)
