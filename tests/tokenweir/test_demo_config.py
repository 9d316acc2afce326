"""The demonstration's settings, SLOs and stack fit each other."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from slo.documents import load as load_slos
from slo.model import Slo
from slo.tiers import can_fire
from stack import up
from stack.gateway.demo_tenants import DEFAULT
from stack.load.plan import parse_flood
from tokenweir.demo import config
from tokenweir.demo.steps import SLO, World, incident_steps
from tokenweir.settings import Settings, load_settings

STACK = {
    "gateway_name": "demo",
    "fleet": "http://127.0.0.1:1",
    "pager_webhook": "http://127.0.0.1:2/webhook",
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    secret = tmp_path / "pager-secret"
    secret.write_text("whsec_" + "QUFB" * 8)
    path = tmp_path / "tokenweir.yaml"
    config.write_config(path, {**STACK, "pager_secret_file": str(secret)})
    return load_settings(path, {"data": tmp_path, "slo_paths": [config.SLO_FILE]})


@pytest.fixture
def slos(settings: Settings) -> dict[str, Slo]:
    return {slo.name: slo for slo in load_slos(settings.slo_paths)}


@pytest.fixture
def stack() -> Any:
    return up.parser().parse_args(["--data=.", *config.STACK_OPTIONS])


def test_the_gateway_is_steered_by_an_slo_that_pages(
    settings: Settings, slos: dict[str, Slo]
) -> None:
    (gateway,) = settings.actuators.gateways
    (pager,) = settings.alerts.receivers

    assert gateway.slos == (SLO,)
    assert {tier.severity for tier in slos[SLO].tiers} == set(pager.severities) == {"page"}


def test_every_tier_can_fire_at_its_objective(slos: dict[str, Slo]) -> None:
    assert all(can_fire(tier.factor, slo.objective) for slo in slos.values() for tier in slo.tiers)


def test_a_request_is_over_before_it_leaves_the_short_window(
    slos: dict[str, Slo], stack: Any
) -> None:
    """Windows are by start: what waits longer than the short one would never be seen in it."""
    (tier,) = slos[SLO].tiers

    assert timedelta(seconds=2 * stack.longest_wait) < tier.short


def test_evidence_is_as_young_as_the_page(settings: Settings, slos: dict[str, Slo]) -> None:
    (tier,) = slos[SLO].tiers

    assert settings.actuators.window <= tier.short
    assert settings.actuators.stale_after > timedelta(seconds=20)  # two heartbeats
    assert settings.slo.stale_after > timedelta(seconds=20)


def test_the_fleet_is_bounded_as_the_stack_is(settings: Settings, stack: Any) -> None:
    (fleet,) = settings.actuators.fleets

    assert (fleet.min, fleet.max) == (stack.min, stack.max)
    assert stack.engines == fleet.min
    assert fleet.cold_start == timedelta(seconds=stack.cold_start)


def test_the_flood_is_of_a_tenant_that_exists_and_no_more_can_carry_it(stack: Any) -> None:
    flood = parse_flood(config.FLOOD.option)

    assert flood.tenant in {tenant.id for tenant in DEFAULT}
    assert flood.for_s == config.FLOOD.for_s
    # An H100 replica of the calibrated model prefills about 9,000 tokens a second.
    assert flood.rate * flood.prompt_tokens > stack.max * stack.speed * 9_000


def test_the_engines_have_a_price(settings: Settings, stack: Any) -> None:
    assert settings.cost.prices is not None
    assert f"type: {stack.gpu_type}," in Path(settings.cost.prices).read_text("utf-8")


def test_every_step_has_its_limit_and_waits_for_one_that_exists() -> None:
    steps = incident_steps(World(None, "", {}))  # type: ignore[arg-type]  nothing is asked
    keys = {step.key for step in steps}

    assert {step.after for step in steps} - {None} <= keys
    assert [step.within_s for step in steps if step.key == "alert"] == [90]
    assert max(step.within_s for step in steps) <= 300
