"""Seeded faults against the judge: `python -m benchmarks.slo_campaign [--seeds 20]`.

Twelve kinds, each played on the simulator (four engines, five tenants, 140 minutes, the fault from
minute 60 to 110), judged as a running server judges (backtest at the live cadence), with two SLOs:
all chat requests, and the same by tenant. Printed by kind: recall (a page between the fault's begin
and five minutes after its end), pages that nothing explains, time to page, and whether the page
names the right cause first. Kinds that break nothing must page nobody.

Times are of events: a request counts when it started, as budgets do. A live server learns of a
failure when the request has ended, up to its time-out later.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from statistics import median

from rich.console import Console
from rich.table import Table

import slo.schema
import store.schema
from alerts.settings import AlertSettings
from benchmarks.campaign.facts import FactWriter, FaultyPlayer, minutes_of, store_facts
from benchmarks.campaign.faults import BEGIN_S, END_S, LASTS_S, Fault, arrivals, kinds
from slo.backtest.cells import Gathered
from slo.backtest.heard import read_heard
from slo.backtest.history import grid_for, make_history, read_store
from slo.backtest.truth import Incident
from slo.causes import read_causes
from slo.model import Slo
from slo.parse import parse_clauses
from slo.settings import SloSettings
from slo.tiers import derive
from slo.verdict import Causes
from stack.engine.scheduler import EngineLimits
from stack.history.plan import HistorySettings
from store.engine import Engine
from store.open import open_engine
from tokenweir.slo_backtest import Alert, Backtest

START = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
WINDOW = timedelta(days=30)
GOOD = parse_clauses("outcome = 'good' and (ttft_ms is null or ttft_ms <= 1500)")
WHOLE = Slo("chat", 0.999, WINDOW, GOOD, derive(0.999, WINDOW))
BY_TENANT = Slo("chat-by-tenant", 0.999, WINDOW, GOOD, derive(0.999, WINDOW), group_by=("tenant",))
LATE = timedelta(minutes=5)


@dataclass
class Tally:
    """What came of all runs of one kind."""

    runs: int = 0
    paged: int = 0
    named: int = 0
    false_pages: int = 0
    pages: int = 0
    seconds: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def main() -> None:
    """Play every kind with every seed, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--kinds", nargs="*", help="only these")
    args = parser.parse_args()
    tallies: dict[str, Tally] = {}
    breaks: dict[str, bool] = {}
    began, requests = time.perf_counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        engine = open_engine(f"chdb://{folder}")
        store.schema.create(engine)
        slo.schema.create(engine)
        for seed in range(args.seeds):
            for fault in kinds(random.Random(seed)):
                if args.kinds and fault.name not in args.kinds:
                    continue
                breaks[fault.name] = bool(fault.names)
                requests += play(engine, fault, seed)
                note(tallies.setdefault(fault.name, Tally()), engine, fault, seed)
        engine.close()
    show(tallies, breaks)
    took = time.perf_counter() - began
    print(f"{requests:,} requests in {sum(t.runs for t in tallies.values())} runs, {took:.0f} s")


def play(engine: Engine, fault: Fault, seed: int) -> int:
    """Simulate one run and store its facts and when its source was heard."""
    settings = HistorySettings(
        end=START + timedelta(days=1),
        days=1,
        replicas=("r0", "r1", "r2", "r3"),
        limits=EngineLimits(num_gpu_blocks=1200, block_size=128),
        floods=(),
        slow_replicas=(),
        bad_deploys=(),
    )
    rng = random.Random(f"{fault.name} {seed}")
    writer = FactWriter(settings, fault.alter, rng, fault.version)
    player = FaultyPlayer(settings, writer)
    fault.engines(player)
    for planned in arrivals(fault, rng):
        player.arrive(planned)
    player.run_until(LASTS_S + 600)
    low, high = fault.silent or (0.0, 0.0)
    rows = [row for row in writer.rows if not low <= row["at"] < high]
    heard = [
        at for at in minutes_of(START, LASTS_S)
        if not low <= (at - START).total_seconds() < high
    ]  # fmt: skip
    values = ", ".join(
        f"(toDateTime({int(at.timestamp())}, 'UTC'), 'gateway', 'gateway', '0', "
        f"toDateTime64({int(at.timestamp())}, 9, 'UTC'), "
        f"toDateTime64({int(at.timestamp()) + 59}, 9, 'UTC'))"
        for at in heard
    )
    engine.execute("TRUNCATE TABLE source_minutes")
    engine.execute(
        "INSERT INTO source_minutes (minute, layer, service, instance, first, last) "
        f"VALUES {values}"
    )
    return store_facts(engine, rows, START)


def note(tally: Tally, engine: Engine, fault: Fault, seed: int) -> None:
    """Judge one run, and count what was right."""
    incident = Incident(START + timedelta(seconds=BEGIN_S), START + timedelta(seconds=END_S))
    slos = (WHOLE, BY_TENANT)
    found = Gathered()
    for _ in read_store(engine, slos, found, []):
        pass
    settings = SloSettings()
    grid = grid_for(slos, settings.evaluate_every)
    until = START + timedelta(seconds=LASTS_S)
    history = make_history(found, grid, START, until, read_heard(engine))
    if history is None:
        raise RuntimeError(f"{fault.name}: nothing was played")
    backtest = Backtest(history, settings, AlertSettings(), [incident])
    pages = [(one, page) for one in slos for page in backtest.run(one).pages]
    tally.runs += 1
    tally.pages += len(pages)
    mine = [
        (one, page)
        for one, page in pages
        if fault.names and incident.start <= paged(page) <= incident.end + LATE
    ]
    tally.false_pages += len(pages) - len(mine)
    if not fault.names:
        tally.wrong += [f"seed {seed}: {one.name} {page.group} paged" for one, page in pages]
        return
    if not mine:
        tally.wrong.append(f"seed {seed}: no page")
        return
    one, first = min(mine, key=lambda pair: (paged(pair[1]), pair[0].name))
    tally.paged += 1
    tally.seconds.append((paged(first) - incident.start).total_seconds())
    causes = read_causes(engine, one, [first.group], paged(first), timedelta(hours=1))
    said = named(one, first, causes.get(first.group))
    if said in fault.names:
        tally.named += 1
    else:
        tally.wrong.append(f"seed {seed}: {one.name} {first.group} named {said}")


def paged(page: Alert) -> datetime:
    return page.paged_at or page.fired_at


def named(one: Slo, page: Alert, causes: Causes | None) -> tuple[str, str] | None:
    """Say what a page names first: who grew, else where the failures are, else its own group."""
    if causes is not None and causes.surges:
        return causes.surges[0].dimension, causes.surges[0].value
    if causes is not None and causes.suspects:
        return causes.suspects[0].dimension, causes.suspects[0].value
    return (one.group_by[0], page.group[0]) if one.group_by else None


def show(tallies: dict[str, Tally], breaks: dict[str, bool]) -> None:
    table = Table("fault", "runs", "paged", "named", "unexplained", "s to page, median")
    for name, tally in tallies.items():
        should = breaks[name]
        table.add_row(
            name,
            str(tally.runs),
            f"{tally.paged}" if should else "must not",
            f"{tally.named}" if should else "",
            str(tally.false_pages),
            f"{median(tally.seconds):.0f}" if tally.seconds else "",
        )
    broken = [tally for name, tally in tallies.items() if breaks[name]]
    runs, hits = sum(t.runs for t in broken), sum(t.paged for t in broken)
    pages = sum(t.pages for t in tallies.values())
    unexplained = sum(t.false_pages for t in tallies.values())
    table.add_section()
    table.add_row(
        "all",
        str(sum(t.runs for t in tallies.values())),
        f"recall {hits / runs:.1%}" if runs else "",
        f"{sum(t.named for t in broken) / hits:.1%}" if hits else "",
        f"precision {1 - unexplained / pages:.1%}" if pages else "",
        f"{_median([s for t in broken for s in t.seconds])}",
    )
    console = Console()
    console.print(table)
    for name, tally in tallies.items():
        for text in tally.wrong[:5]:
            console.print(f"  {name}: {text}", highlight=False)


def _median(values: Sequence[float]) -> str:
    return f"{median(values):.0f}" if values else ""


if __name__ == "__main__":
    main()
