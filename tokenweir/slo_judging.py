"""What `tokenweir slo backtest`, `plan` and `lint` have in common: reading what they are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from base.durations import format_duration
from base.errors import ConfigError
from slo.backtest.variants import TierSet
from slo.documents import load_all
from slo.fields import Report
from slo.located import Located, locate, read_documents
from slo.model import Slo
from slo.native import read_native
from slo.spending.model import CostSlo

_shown = Console()
out = _shown if _shown.is_terminal else Console(width=120)
err = Console(stderr=True)

_ANY_OBJECTIVE = 99.9999999  # whether a tier can fire is asked for each target, later


def read_slos(paths: Sequence[Path]) -> tuple[list[Slo], list[Slo | CostSlo]]:
    """Read SLOs; returns those over requests, and those about what requests do not show."""
    found = load_all(paths)
    if not found.every:
        raise ConfigError(f"no SLO is in {', '.join(map(str, paths)) or 'nothing'}: give --slo")
    elsewhere = [slo for slo in found.slos if slo.prometheus is not None]
    return [slo for slo in found.slos if slo.prometheus is None], [*elsewhere, *found.costs]


def read_tier_sets(names: Sequence[str], slo: Slo) -> list[TierSet]:
    """Read `--tiers`: derived, classic, or a file with a list of tiers, as they are for an SLO."""
    return [
        TierSet(name) if name in {"derived", "classic"} else _tier_file(Path(name), slo)
        for name in names
    ]


def _tier_file(path: Path, slo: Slo) -> TierSet:
    if not path.is_file():
        raise ConfigError(f"--tiers {path}: neither derived nor classic nor a file")
    documents = read_documents(path)
    tiers = documents[0] if documents else None
    if tiers is not None and isinstance(tiers.data, dict):
        tiers = tiers.get("tiers")
    if tiers is None or not isinstance(tiers.data, list) or not tiers.data:
        raise ConfigError(
            f"{path} holds no tiers: write a list such as "
            "[{name: fast, severity: page, factor: 6, long: 60s, short: 20s}]"
        )
    report = Report()
    said: dict[str, object] = {
        "kind": "slo",
        "name": slo.name,
        "objective": _ANY_OBJECTIVE,
        "window": f"{slo.window.total_seconds():.0f}s",
    }
    if slo.slices is not None:
        length = format_duration(slo.slices.length)
        said["slices"] = {"length": length, "good": float(slo.slices.share * 100)}
    fields = {name: locate(value, tiers.file, tiers.line) for name, value in said.items()}
    document = Located({**fields, "tiers": tiers}, tiers.line, tiers.file)
    found = read_native(document, report)
    if found is None:
        raise ConfigError("\n".join(report.problems))
    return TierSet(path.stem, found.tiers)


@contextmanager
def telling(doing: str) -> Iterator[Callable[[str], None]]:
    """Show a person who waits what is being done; says nothing where nobody looks."""
    with err.status(doing) as status:
        yield lambda said: status.update(f"{doing}: {said}")
