"""One store after another, each fed the same spans in its own way; what it holds, as JSON.

`python -m tests.e2e.taken_in FOLDER TRAFFIC WAY...` writes FOLDER/<way>.json for every way: 0 is in
order, once, at once; any other number is the seed of an order, repetitions, batches and crashes.
It is a process of its own because it opens and closes many stores.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient

import cost.api
import dashboards.api
import slo.api
import slo.schema
import store.schema
import store.spans
from base.clock import ManualClock
from base.durations import format_instant
from collector.dead_letter import DeadLetters
from collector.pipeline import Pipeline
from collector.progress import Progress, ProgressFile
from collector.view import install
from collector.vocabulary import load as load_vocabulary
from collector.wal import LogWriter
from collector.wal_reader import LogReader
from collector.wal_records import LogRecord
from cost.pricefile import load_price_book
from slo.counts import SloCounts
from slo.documents import load as load_slos
from slo.evaluator import Evaluator
from slo.settings import SloSettings
from store.engine import Engine, Params
from store.facts import FactBuilder
from store.ingest_stats import sender_counts
from store.open import open_engine
from store.rollup import RollupWriter
from store.spans import SpanStore
from tests.e2e.otlp import SECOND, Sent, export
from tests.e2e.traffic import BASE, NOW, traffic

ROOT = Path(__file__).resolve().parents[2]
SLOS = [ROOT / "examples/slo/production.yaml", ROOT / "examples/slo/demo.yaml"]
CRASHES = 6
BATCHES = [90, 400, 50_000]  # spans
TIMES = 3  # every span is sent this often

# Everything derived; what only says when or in which batch a row was written is left out.
TABLES = {
    "facts": "* EXCEPT (version, deleted)",
    "rollup_10s": "* EXCEPT (version, deleted)",
    "rollup_1m": "* EXCEPT (version, deleted)",
    "rollup_1h": "* EXCEPT (version, deleted)",
    "slo_counts_10s": "* EXCEPT (version, deleted)",
    "slo_counts_1m": "* EXCEPT (version, deleted)",
    "slo_counts_1h": "* EXCEPT (version, deleted)",
    "alive": "*",
    "spans": "* EXCEPT (version, received, seq, source)",
}


class Crash(BaseException):
    """The process dies here."""


class Fate:
    """Decides, before and after every write, whether the process dies."""

    def __init__(self, rng: random.Random, crashes: int) -> None:
        self._rng = rng
        self._left = crashes
        self.met = 0
        self.armed = False

    def tempt(self) -> None:
        if self.armed and self.met < self._left and self._rng.random() < 0.04:
            self.met += 1
            raise Crash


class MortalEngine:
    """The real engine in a process that can die before and after every write."""

    def __init__(self, engine: Engine, fate: Fate) -> None:
        self._engine = engine
        self._fate = fate

    @property
    def cluster(self) -> str | None:
        return self._engine.cluster

    def rows(self, sql: str, params: Params | None = None) -> list[dict[str, Any]]:
        return self._engine.rows(sql, params)

    def arrow(self, sql: str, params: Params | None = None) -> Any:
        return self._engine.arrow(sql, params)

    def execute(self, sql: str, params: Params | None = None) -> None:
        self._fate.tempt()
        self._engine.execute(sql, params)
        self._fate.tempt()

    def insert_protobuf(
        self, table: str, data: bytes, schema: str, message: str, token: str
    ) -> None:
        self._fate.tempt()
        self._engine.insert_protobuf(table, data, schema, message, token)
        self._fate.tempt()

    def insert_arrow(self, table: str, data: Any, token: str | None = None) -> None:
        self._fate.tempt()
        self._engine.insert_arrow(table, data, token)
        self._fate.tempt()

    def close(self) -> None:
        self._engine.close()


class MortalProgress(ProgressFile):
    def __init__(self, folder: Path, fate: Fate) -> None:
        super().__init__(folder)
        self._fate = fate

    def save(self, progress: Progress) -> None:
        self._fate.tempt()
        super().save(progress)
        self._fate.tempt()


class Store:
    """A folder with a log and a store; `reopen` is the next process on it."""

    def __init__(self, folder: Path, rng: random.Random, crashes: int) -> None:
        self._folder = folder
        self._rng = rng
        self.fate = Fate(rng, crashes)
        self.clock = ManualClock(NOW + timedelta(minutes=1))
        self.slos = load_slos(SLOS)
        self.log = LogWriter(folder / "wal")
        self.engine = open_engine(f"chdb://{folder}/store")
        store.schema.create(self.engine)
        install(self.engine, load_vocabulary())
        slo.schema.create(self.engine)
        self.reopen()

    def reopen(self, batch_spans: int = 50_000) -> None:
        """Start over with nothing but what is on disk."""
        engine: Any = MortalEngine(self.engine, self.fate)
        counts = SloCounts(engine, self.slos, SloSettings(), self.clock)
        counts.ensure()
        self.pipeline = Pipeline(
            LogReader(self._folder / "wal"),
            SpanStore(engine),
            FactBuilder(engine),
            [RollupWriter(engine), counts],
            self.clock,
            progress=MortalProgress(self._folder / "wal", self.fate),
            dead_letters=DeadLetters(self._folder / "dead-letter"),
            batch_spans=batch_spans,
        )

    def append(self, requests: Sequence[Sequence[Sent]]) -> None:
        received = int(NOW.timestamp()) * SECOND
        for spans in requests:
            body = export(spans).SerializeToString()
            self.log.append(LogRecord(body, "", "loopback", received, len(spans))).result(10)

    def take_in(self) -> None:
        """Take what the log holds, dying and coming back as fate has it."""
        self.fate.armed = True
        while True:
            try:
                if not self.pipeline.step():
                    break
            except Crash:
                self.fate.armed = False
                if self._rng.random() < 0.3:
                    self.engine.close()
                    self.engine = open_engine(f"chdb://{self._folder}/store")
                self.reopen(self._rng.choice(BATCHES))
                self.fate.armed = True
        self.fate.armed = False

    def close(self) -> None:
        self.log.close()
        self.engine.close()


def in_order(store: Store, sent: Sequence[Sent]) -> None:
    store.append([sent])
    store.take_in()


def in_disorder(store: Store, sent: Sequence[Sent], rng: random.Random) -> None:
    """Send every span three times, shuffled, in requests and batches of any size, some late."""
    late = {each.key for each in rng.sample(list(sent), len(sent) // 8)}
    shuffled = [each for each in sent for _ in range(TIMES)]
    rng.shuffle(shuffled)
    shuffled.sort(key=lambda each: each.key in late)
    while shuffled:
        requests = []
        for _ in range(rng.randrange(1, 8)):
            size = rng.choice([1, 20, 60, 200])
            requests.append(shuffled[:size])
            del shuffled[:size]
        store.append([spans for spans in requests if spans])
        if rng.random() < 0.4:
            store.reopen(rng.choice(BATCHES))
        store.take_in()
        store.clock.advance(timedelta(milliseconds=rng.randrange(1, 4000)))


def contents(store: Store) -> dict[str, Any]:
    """Say all that the store holds and all that the API says of it."""
    found: dict[str, Any] = {}
    for table, columns in TABLES.items():
        rows = store.engine.rows(f"SELECT {columns} FROM {table} FINAL")
        found[table] = sorted(json.dumps(row, default=_plain, sort_keys=True) for row in rows)
    client = TestClient(_api(store))
    nows = [BASE + timedelta(minutes=61, seconds=s) for s in (0, 10, 7.123456)] + [BASE, NOW]
    for now in nows:
        found[f"slos {now}"] = _asked(client, "/api/v1/slos", now=now.isoformat())
    span = {"from": format_instant(BASE - timedelta(days=26)), "to": format_instant(NOW)}
    for by in ("tenant,route", "model,replica", "feature,user_id"):
        found[f"cost {by}"] = _asked(client, "/api/v1/cost", by=by, **span)
    found["requests"] = _asked(client, "/api/v1/requests", limit="1000")
    counts = sender_counts(store.engine)
    found["ingest"] = {
        "accepted": sum(each.accepted for each in counts),
        "duplicate": sum(each.duplicate for each in counts),
        "crashes": store.fate.met,
    }
    return found


def _api(store: Store) -> FastAPI:
    app = FastAPI()
    book = load_price_book(ROOT / "examples/prices/demo.yaml")
    evaluator = Evaluator(store.engine, store.slos, SloSettings())
    app.include_router(slo.api.router(store.engine, evaluator, store.clock))
    app.include_router(cost.api.router(store.engine, book, store.clock))
    app.include_router(dashboards.api.router(store.engine, book))
    return app


def _asked(client: TestClient, path: str, **params: str) -> str:
    answer = client.get(path, params=params)
    assert answer.status_code == 200, answer.text
    return answer.text


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else str(value)


def main(folder: Path, traffic_seed: int, ways: Sequence[int]) -> None:
    store_spans: Any = store.spans
    store_spans.CHUNK_BYTES = 40_000  # so that a batch is several inserts, and can die between them
    sent = traffic(traffic_seed)
    for way in ways:
        rng = random.Random(way)
        opened = Store(folder / f"store-{way}", rng, CRASHES if way else 0)
        if way:
            in_disorder(opened, sent, rng)
        else:
            in_order(opened, sent)
        (folder / f"{way}.json").write_text(json.dumps(contents(opened)))
        opened.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), [int(way) for way in sys.argv[3:]])
