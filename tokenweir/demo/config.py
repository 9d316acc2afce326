"""tokenweir.yaml of the demonstration: everything as in production, with shorter times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FILES = Path(__file__).parent
SLO_FILE = FILES / "slo.yaml"
PRICES = FILES / "prices.yaml"

MIN_REPLICAS = 2
MAX_REPLICAS = 4
COLD_START_S = 8
STACK_OPTIONS = (
    f"--engines={MIN_REPLICAS}",
    f"--min={MIN_REPLICAS}",
    f"--max={MAX_REPLICAS}",
    f"--cold-start={COLD_START_S}",
    "--speed=2",  # answers end within seconds even when prefills are in their way
    "--max-concurrency=64",  # so a queue in front of the engines is seconds long, not minutes,
    "--longest-wait=5",  # and who finds no place is told so while it still listens
)

USUAL_RATE = 3.0  # requests a second of all tenants: about a tenth of what two engines can do


@dataclass(frozen=True, slots=True)
class Flood:
    """What one tenant does in the incident: long prompts, short answers, no patience for more."""

    tenant: str = "acme"
    rate: int = 8
    prompt_tokens: int = 12_000
    output_tokens: int = 16
    for_s: int = 120

    @property
    def option(self) -> str:
        """Write it as the load generator reads it."""
        return (
            f"tenant={self.tenant},rate={self.rate},prompt_tokens={self.prompt_tokens},"
            f"output_tokens={self.output_tokens},for={self.for_s}s"
        )


FLOOD = Flood()


def write_config(path: Path, stack: Mapping[str, Any]) -> None:
    """Write the settings that join the control plane to a running reference stack."""
    path.write_text(yaml.safe_dump(settings(stack), sort_keys=False))


def settings(stack: Mapping[str, Any]) -> dict[str, Any]:
    """`stack` is what `python -m stack.up` printed: addresses, names, the pager's secret."""
    return {
        "cost": {"prices": str(PRICES)},
        "slo": {"evaluate_every": "2s", "stale_after": "30s"},
        "alerts": {
            "receivers": [
                {
                    "name": "pager",
                    "type": "webhook",
                    "url": stack["pager_webhook"],
                    "secret_file": stack["pager_secret_file"],
                    "severities": ["page"],
                }
            ],
            "group_wait": "1s",
            "group_interval": "15s",
            "keep_firing_for": "10s",
        },
        "actuators": {
            "tick": "2s",
            "window": "15s",
            "baseline": "90s",
            "stale_after": "30s",
            "lease_ttl": "60s",
            "verify_within": "45s",
            "cold_for": "60s",
            "calm_for": "15s",
            "undo_every": "5s",
            "remember_peak": "30s",
            "gateways": [{"name": stack["gateway_name"], "service": "tokenweir-gateway",
                          "slos": ["demo-chat"]}],
            "fleets": [
                {
                    "name": "engines",
                    "url": stack["fleet"],
                    "gateway": stack["gateway_name"],
                    "min": MIN_REPLICAS,
                    "max": MAX_REPLICAS,
                    "cold_start": f"{COLD_START_S}s",
                }
            ],
            "thresholds": {"queueing_ms": 1000},  # below it, this machine's own hiccups
            "limits": {
                "protected_priorities": [],
                "cooldown": "10s",
                "changes_per_hour": 60,
            },
        },
    }  # fmt: skip
