"""The command `tokenweir slo backtest`, from its arguments to its exit status."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from base.errors import ConfigError
from slo.backtest.truth import read_incidents
from slo.backtest.variants import TierSet, variants
from slo.checks import SMALLEST_SHARE
from slo.model import Slo
from slo.plan import unjudged_of
from tokenweir.slo_backtest import Backtest
from tokenweir.slo_backtest_json import report_json
from tokenweir.slo_backtest_view import show
from tokenweir.slo_history import Wanted, load, open_source
from tokenweir.slo_judging import out, read_slos, read_tier_sets, telling


@dataclass(frozen=True, slots=True)
class Asked:
    """What to answer: `targets` in percent, `tiers` by name or file, `incidents` a CSV."""

    slo: Sequence[Path]
    targets: Sequence[float] = ()
    tiers: Sequence[str] = ()
    incidents: Path | None = None
    as_json: bool = False


def run_backtest(asked: Asked, wanted: Wanted) -> int:
    """Judge and print; 1 if rows were not used."""
    slos, skipped = read_slos(asked.slo)
    if not slos:
        raise ConfigError("; ".join(f"{slo.name}: {unjudged_of(slo)}" for slo in skipped))
    objectives = [_objective(percent) for percent in asked.targets]
    sets = {slo.name: read_tier_sets(asked.tiers, slo) for slo in slos}
    incidents = None if asked.incidents is None else read_incidents(asked.incidents)
    with open_source(wanted) as source, telling("judging") as told:
        all_windows = _every_variant(slos, objectives, sets)
        history = load(source, slos, wanted, told, all_windows)
        if history is None:
            raise ConfigError(_nothing(source.reading.bad))
        told("holding tiers against it")
        backtest = Backtest(history, source.settings.slo, source.settings.alerts, incidents)
        outcomes = [backtest.run(slo) for slo in slos]
        what_if = (
            [each for slo in slos for each in backtest.what_if(slo, objectives, sets[slo.name])]
            if objectives or asked.tiers
            else []
        )
    reading = source.reading
    if asked.as_json:
        report = report_json(backtest, history, reading, outcomes, what_if, skipped)
        sys.stdout.write(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    else:
        show(out, backtest, history, reading, outcomes, what_if, skipped)
    return 1 if reading.bad else 0


def _every_variant(
    slos: Sequence[Slo], objectives: Sequence[float], sets: dict[str, list[TierSet]]
) -> list[Slo]:
    return [variant.slo for slo in slos for variant in variants(slo, objectives, sets[slo.name])]


def _objective(percent: float) -> float:
    objective = round(percent / 100, 12)
    if not SMALLEST_SHARE <= objective <= 1 - SMALLEST_SHARE:
        raise ConfigError(f"--target {percent:g} is outside (0, 100)")
    return objective


def _nothing(bad: int) -> str:
    if bad:
        return f"no request could be used: {bad:,} rows are wrong"
    return "there is no request that these SLOs ask about: nothing can be judged"
