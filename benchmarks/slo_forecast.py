"""How good the forecast of exhaustion is: `python benchmarks/slo_forecast.py`.

Services are simulated hour by hour for 90 days: daily and weekly load, noise of hours and days, a
bad share that is worse at the peak and differs by day; at some time it rises for good. The forecast
is asked for at some hours after the rise and compared with when the budget of 30 days is spent. The
naive formula is remaining x window / burn, with the burn of the last hour, and of the last day.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from datetime import UTC, datetime, timedelta

import numpy as np
from rich.console import Console
from rich.table import Table

from slo.budget import Count, allowance, budget_remaining, time_to_exhaustion
from slo.burn import burn_rate
from slo.forecast import Past, forecast

HOUR, WINDOW = timedelta(hours=1), timedelta(days=30)
STEPS = WINDOW // HOUR
START = datetime(2026, 1, 5, tzinfo=UTC)


AFTER = (2, 6, 24, 72, 168)  # hours after the rise
DAYS = 95


def simulated(
    rng: np.random.Generator, per_hour: float, objective: float
) -> tuple[np.ndarray, np.ndarray, int]:
    """Count good and bad by hour, and say in which hour the bad share rises."""
    hours = np.arange(DAYS * 24)
    day, of_day = hours // 24, hours % 24
    load = 1 + 0.7 * np.sin(2 * np.pi * (of_day - 9) / 24)
    load *= np.where(day % 7 >= 5, rng.uniform(0.3, 1), 1)
    load *= np.exp(rng.normal(0, 0.1, hours.size) + rng.normal(0, 0.1, DAYS)[day])
    total = rng.poisson(per_hour * load)
    unrest, wander = rng.choice([0.05, 0.1, 0.2]), np.zeros(DAYS)
    for each in range(1, DAYS):
        wander[each] = 0.6 * wander[each - 1] + rng.normal(0, unrest)
    share = allowance(objective) * rng.uniform(0.2, 0.7) * np.exp(wander[day])
    share *= 1 + rng.uniform(0, 0.8) * np.sin(2 * np.pi * (of_day - 9) / 24)
    rise = int(rng.integers(31 * 24, 61 * 24))
    share = np.where(hours >= rise, share * np.exp(rng.uniform(np.log(1.5), np.log(20))), share)
    bad = rng.binomial(total, np.clip(share * np.exp(rng.normal(0, 0.2, hours.size)), 0, 1))
    return total - bad, bad, rise


def spent_at(good: np.ndarray, bad: np.ndarray, objective: float) -> np.ndarray:
    """Say which hours end with nothing left."""
    sums = [np.concatenate(([0], np.cumsum(each))) for each in (good, bad)]
    ends = np.arange(1, good.size + 1)
    first = np.maximum(ends - STEPS, 0)
    g, b = (each[ends] - each[first] for each in sums)
    return b >= allowance(objective) * (g + b)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--services", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    found: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    took = []
    for _ in range(args.services):
        objective = float(rng.choice([0.9, 0.95, 0.99, 0.999]))
        good, bad, rise = simulated(rng, float(rng.choice([100, 1000, 10_000])), objective)
        spent = spent_at(good, bad, objective)
        for after in AFTER:
            now = rise + after
            ends = np.flatnonzero(spent[now : now + STEPS])
            if spent[now - 1] or not ends.size:
                continue  # spent already, or not within a window
            truth = ends[0] + 0.5
            count = Count(int(good[now - STEPS : now].sum()), int(bad[now - STEPS : now].sum()))
            # The step that holds now has just begun.
            past = Past(HOUR, np.append(good[:now], 0), np.append(bad[:now], 0))
            began = time.perf_counter()
            moment = START + HOUR * now
            said = forecast(past, moment, count, objective, WINDOW)
            took.append(time.perf_counter() - began)
            low, middle, high = (
                float(STEPS) if each is None else (each - moment) / HOUR
                for each in (said.earliest, said.at, said.latest)
            )
            left = budget_remaining(count, objective)
            plain = [
                STEPS if lasts is None else lasts / HOUR
                for hours in (1, 24)
                for last in [Count(*(int(e[now - hours : now].sum()) for e in (good, bad)))]
                for lasts in [time_to_exhaustion(left, burn_rate(last, objective), WINDOW)]
            ]
            row = (
                low - 0.5 <= truth <= high + 0.5 or (high >= STEPS and truth >= low - 0.5),
                *(abs(each - truth) for each in (middle, *plain)),
                high - low,
                middle - truth,
            )
            found[f"{after} h"].append(row)
            found["all"].append(row)
    table = Table(
        "after the rise", "asked", "80 % holds it", "error", "naive, 1 h", "naive, 1 d",
        "width", "bias", title="Forecasts of exhaustion, 30 days; medians in hours",
    )  # fmt: skip
    for after in (*(f"{each} h" for each in AFTER), "all"):
        held, *others = (np.array(each, float) for each in zip(*found[after], strict=True))
        medians = [f"{np.median(each):.1f}" for each in others]
        table.add_row(after, f"{held.size}", f"{held.mean():.0%}", *medians)
    Console().print(table)
    print(f"{np.median(took) * 1000:.1f} ms a forecast")


if __name__ == "__main__":
    main()
