from __future__ import annotations

import pytest
from pydantic import ValidationError

from actuators.settings import ActuatorSettings


def test_the_default_moves_nothing_because_nothing_is_named() -> None:
    settings = ActuatorSettings()

    assert settings.enabled
    assert settings.scopes() == ()


def test_a_fleet_without_a_gateway_is_a_scope_of_its_own() -> None:
    settings = ActuatorSettings.model_validate({"fleets": [{"name": "chat", "driver": "keda"}]})

    assert [s.name for s in settings.scopes()] == ["default"]
    assert [f.name for f in settings.fleets_behind("default")] == ["chat"]


def test_a_fleet_belongs_to_the_first_gateway_unless_it_names_another() -> None:
    fleets = [{"name": "a", "driver": "keda"}, {"name": "b", "driver": "keda", "gateway": "two"}]
    settings = ActuatorSettings.model_validate(
        {"gateways": [{"name": "one"}, {"name": "two"}], "fleets": fleets}
    )

    assert [f.name for f in settings.fleets_behind("one")] == ["a"]
    assert [f.name for f in settings.fleets_behind("two")] == ["b"]


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"fleets": [{"name": "a"}]}, "needs a url"),
        ({"fleets": [{"name": "a", "driver": "keda", "min": 5, "max": 2}]}, "min 5 is above max 2"),
        ({"fleets": [{"name": "a", "driver": "keda", "gateway": "x"}]}, "'x' is not listed"),
        ({"gateways": [{"name": "a"}, {"name": "a"}]}, "same name"),
        ({"window": "2m", "verify_within": "1m"}, "shorter than actuators.window"),
        ({"limits": {"max_shed_fraction": 1.0}}, "max_shed_fraction"),
        ({"tick": "0s"}, "greater than"),
        ({"unheard_of": 1}, "unheard_of"),
    ],
)
def test_a_section_that_makes_no_sense_says_why(section: object, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ActuatorSettings.model_validate(section)


def test_a_demo_scale_section_is_valid() -> None:
    ActuatorSettings.model_validate(
        {
            "tick": "2s", "window": "15s", "baseline": "90s", "stale_after": "30s",
            "lease_ttl": "60s", "verify_within": "45s", "calm_for": "15s", "undo_every": "5s",
            "remember_peak": "30s", "limits": {"cooldown": "10s", "changes_per_hour": 60},
            "gateways": [{"name": "demo", "ttl": "30s"}],
            "fleets": [{"name": "chat", "url": "http://127.0.0.1:1", "cold_start": "15s"}],
        }
    )  # fmt: skip
