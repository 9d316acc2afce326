"""Requests for `tokenweir slo backtest` and its like: of files, or of a data folder at rest."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
from sqlalchemy import inspect
from sqlalchemy.engine import make_url

import slo.schema
import store.schema
from base.db import open_engine
from base.durations import parse_duration, parse_instant
from base.errors import ConfigError
from slo.backtest.cells import Gathered
from slo.backtest.facts_file import Reading, read_facts
from slo.backtest.heard import ALIVE, Heard, heard_by_requests, read_heard
from slo.backtest.history import History, extent_of, grid_for, make_history, read_store
from slo.backtest.scratch import Scratch, columns_named, columns_read, judge_batches
from slo.exclusion import Excluded, resolve
from slo.exclusion_book import ExclusionsInForce
from slo.model import Slo
from slo.tables import exclusions
from store.engine import Engine
from store.open import open_engine as open_store
from tokenweir.datadir import last_run, owned, read_endpoints
from tokenweir.settings import Settings, load_settings

Told = Callable[[str], None]
"""Hears what is being done, for people who wait."""

Look = Callable[[str], None]
"""Is told where a batch of requests can be read, as SQL."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Where requests are, and what is asked of them."""

    facts: Sequence[Path] = ()
    data: Path | None = None
    config: Path | None = None
    since: datetime | None = None
    until: datetime | None = None
    every: timedelta | None = None
    sources: str = "alive"
    columns: Sequence[str] = ()
    """Columns of files that are read beside those that the SLOs name."""


def wanted(
    facts: Sequence[Path] | None,
    data: Path | None,
    config: Path | None,
    *,
    since: str | None = None,
    until: str | None = None,
    every: str | None = None,
    sources: str = "alive",
) -> Wanted:
    """Read arguments as they are written."""
    first, last = (None if text is None else parse_instant(text) for text in (since, until))
    if first is not None and last is not None and first > last:
        raise ConfigError("--from is after --to")
    step = None if every is None else parse_duration(every)
    if step is not None and step <= timedelta(0):
        raise ConfigError("--every must be longer than nothing")
    return Wanted(facts or (), data, config, first, last, step, sources)


@dataclass(frozen=True, slots=True)
class Source:
    """An open engine, and how to judge what is in it."""

    engine: Engine
    settings: Settings
    judge: Callable[[Sequence[Slo], Told, Look | None], Gathered]
    heard: Callable[[Gathered], Heard | None]
    reading: Reading = field(default_factory=Reading)


@contextmanager
def open_source(wanted: Wanted) -> Iterator[Source]:
    """Open what was asked for; ConfigError says what is wrong with it and what to do."""
    if (wanted.data is None) == (not wanted.facts):
        raise ConfigError("say where requests are: --facts FILE, or --data DIR (one of them)")
    if wanted.sources not in {"alive", "requests"}:
        raise ConfigError(f"--sources {wanted.sources!r}: alive or requests")
    if wanted.data is None:
        with _of_files(wanted) as source:
            yield source
    else:
        with _of_folder(wanted, wanted.data) as source:
            yield source


def load(
    source: Source,
    slos: Sequence[Slo],
    wanted: Wanted,
    told: Told,
    variants: Sequence[Slo] = (),
    also: Look | None = None,
) -> History | None:
    """Judge every request and lay it out in time; None where there is none.

    The windows of `variants` can be counted as well; `also` looks at each batch of requests.
    """
    found = source.judge(slos, told, also)
    heard = source.heard(found)
    every = wanted.every or source.settings.slo.evaluate_every
    grid = grid_for([*slos, *variants], every)
    return make_history(found, grid, wanted.since, wanted.until, heard)


@contextmanager
def _of_files(wanted: Wanted) -> Iterator[Source]:
    settings = load_settings(wanted.config, {})
    reading = Reading()
    with tempfile.TemporaryDirectory(prefix="tokenweir-") as folder:
        engine = open_store(f"chdb://{folder}")
        try:
            store.schema.create(engine)
            slo.schema.create(engine)

            def judge(slos: Sequence[Slo], told: Told, also: Look | None) -> Gathered:
                columns = columns_read(slos, wanted.columns)
                named = columns_named(slos)
                batches = read_facts(wanted.facts, columns, reading, named)
                with Scratch(engine, columns) as scratch:
                    told_batches = _telling(batches, told)
                    return judge_batches(scratch, engine, slos, told_batches, also)

            def heard(found: Gathered) -> Heard | None:
                return ALIVE if wanted.sources == "alive" else heard_by_requests(found.starts_us())

            yield Source(engine, settings, judge, heard, reading)
        finally:
            engine.close()


@contextmanager
def _of_folder(wanted: Wanted, data: Path) -> Iterator[Source]:
    """Open the store of an instance that does not run: it belongs to one process at a time."""
    if not data.is_dir():
        raise ConfigError(f"{data}: no such folder: give the --data of an instance")
    config = wanted.config or last_run(data).config
    settings = load_settings(config, {"data": data})
    is_embedded = settings.store_url.startswith("chdb:")
    if is_embedded and not (data / "store").is_dir() and settings.store.url is None:
        raise ConfigError(f"{data} holds no store: nothing was ever received there")
    if is_embedded and read_endpoints(data) is not None:
        raise ConfigError(
            f"an instance runs on {data}, and its store belongs to it alone: stop it for as long "
            "as this takes (nothing acknowledged is lost, but senders have to wait), give a copy "
            "of the folder made while it was stopped, or requests in files with --facts"
        )
    with owned(data, "server", wait_s=0.5) if is_embedded else nullcontext():
        engine = open_store(settings.store_url)
        reading = Reading()
        try:

            def judge(slos: Sequence[Slo], told: Told, also: Look | None) -> Gathered:
                found = Gathered()
                extent = extent_of(engine)
                if extent is not None:
                    excluded = _excluded(settings, slos, *extent)
                    for reading.rows in read_store(engine, slos, found, excluded, also):
                        told(f"{reading.rows:,} requests judged")
                return found

            yield Source(engine, settings, judge, lambda _found: read_heard(engine), reading)
        finally:
            engine.close()


def _telling(batches: Iterator[pa.Table], told: Told) -> Iterator[pa.Table]:
    rows = 0
    for batch in batches:
        yield batch
        rows += batch.num_rows
        told(f"{rows:,} requests judged")


def _excluded(
    settings: Settings, slos: Sequence[Slo], first: datetime, last: datetime
) -> list[Excluded]:
    """Read the exclusions in force, without making a database where there is none."""
    file = make_url(settings.control_url).database or ""
    if settings.control_url.startswith("sqlite") and not Path(file).exists():
        return []
    db = open_engine(settings.control_url)
    try:
        if not inspect(db).has_table(exclusions.name):
            return []
        return resolve(ExclusionsInForce(db)(), slos, first, last + timedelta(microseconds=1))
    finally:
        db.dispose()
