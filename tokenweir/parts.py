"""The composition root: every part of the server, made once, in the order it depends on."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

from a2wsgi import WSGIMiddleware
from fastapi import FastAPI

import actuators.api
import alerts.api
import alerts.api_v2
import collector.api
import cost.api
import dashboards.api
import slo.api
import slo.exclusion_api
import slo.schema
import slo.version_api
import store.schema
from actuators.drivers.build import build_drivers
from actuators.drivers.keda import KedaServer
from actuators.loop import ControlLoop
from alerts.delivery import DeliveryWorker
from alerts.engine import AlertEngine
from alerts.receivers import open_receivers
from base.clock import Clock
from base.outbound import http_client
from collector.counters import STATUS_FILE, read_status
from collector.dead_letter import FOLDER as DEAD_LETTERS
from collector.dead_letter import DeadLetters
from collector.keys import Authenticator
from collector.pipeline import Pipeline
from collector.privacy import Privacy
from collector.progress import ProgressFile
from collector.receiver import LOG_FOLDER
from collector.view import install as install_view
from collector.vocabulary import load as load_vocabulary
from collector.wal_reader import LogReader
from dashboards.app import create_app
from dashboards.deps import Deps
from dashboards.intake import IntakePorts
from slo.counters import RequestCounters
from slo.counts import SloCounts
from slo.documents import load_all
from slo.evaluator import Evaluator
from slo.exclusion_book import ExclusionsInForce
from slo.metrics import VerdictGauges
from slo.prometheus.source import PrometheusSource
from slo.spending.judge import CostJudge
from store.facts import FactBuilder
from store.ingest_stats import sender_counts
from store.open import open_engine as open_store
from store.rollup import RollupWriter
from store.sources import watermarks
from store.spans import SpanStore
from tokenweir.acts import action_notes, open_episodes
from tokenweir.datadir import read_endpoints
from tokenweir.http import ADDRESSES, add_not_found
from tokenweir.judge import Judge
from tokenweir.keys import open_control
from tokenweir.settings import Settings
from tokenweir.slo_reload import SloDocuments
from tokenweir.spending import LedgerSpending, Ticks
from tokenweir.upkeep import Upkeep

DRAIN = timedelta(seconds=15)
PAGE_THREADS = 4  # each holds a session of the store


class Parts:
    """What runs in the server process.

    Making it opens the databases and counts SLOs that are new; `start` begins the work, `stop`
    ends it with nothing half done.
    """

    def __init__(self, settings: Settings, http_url: str, clock: Clock) -> None:
        data = settings.data.absolute()
        self._clock = clock
        self.db = open_control(settings)
        self.store = open_store(settings.store_url)
        self.http = http_client()
        self.authenticator = Authenticator(self.db, clock)
        self.authenticator.refresh()
        self.prices = settings.cost.price_book()

        store.schema.create(self.store)
        vocabulary, taken = load_vocabulary(), settings.collector
        privacy = Privacy.of(vocabulary, keep_content=taken.keep_content, rules=taken.redact)
        install_view(self.store, vocabulary, privacy)
        slo.schema.create(self.store)
        documents = load_all(settings.slo_paths)
        slos = documents.slos
        counts = SloCounts(self.store, slos, settings.slo, clock)
        counts.ensure()
        self.dead_letters = DeadLetters(data / DEAD_LETTERS)
        self.costs = CostJudge(
            self.store, documents.costs, LedgerSpending(self.store, self.prices), settings.slo,
            settings.store.keep_facts,
        )  # fmt: skip
        self.pipeline = self._make_pipeline(settings, data, counts)

        self.prometheus = PrometheusSource(slos, settings.slo, self.store, self.http, clock)
        self._exclusions = ExclusionsInForce(self.db)
        self.evaluator = Evaluator(
            self.store, slos, settings.slo, self._exclusions, self.prometheus.problems, self.costs
        )
        self.documents = SloDocuments(
            settings.slo_paths, counts, self.prometheus, self.evaluator, self.costs, self.db, clock
        )
        self.documents.record_start(documents.every)
        alert_settings = settings.alerts
        if not alert_settings.external_url:
            alert_settings = alert_settings.model_copy(update={"external_url": http_url})
        receivers = open_receivers(alert_settings)
        self._receivers, self._external_url = receivers, alert_settings.external_url
        self.alerts = AlertEngine(self.db, receivers, alert_settings, clock, action_notes)
        self.delivery = DeliveryWorker(
            self.db, receivers, clock, self.http, jitter=random.random,
            max_age=alert_settings.max_age,
        )  # fmt: skip
        self.drivers = build_drivers(settings.actuators, self.store, self.db, clock, self.http)
        self.loop = ControlLoop(
            self.store, self.db, self.drivers, settings.actuators, clock,
            episodes=lambda now: open_episodes(self.db, now),
        )  # fmt: skip
        self.keda = KedaServer(self.drivers.signals, clock, settings.keda, settings.tls)
        self.judge = Judge(
            Ticks(self.evaluator),
            [
                ("gauges", VerdictGauges()),
                ("counters", RequestCounters(self.store, self.evaluator, clock.now)),
                ("alerts", lambda verdicts, now: self.alerts.tick(verdicts, now, self._names())),
                ("delivery", lambda _verdicts, _now: self.delivery.wake()),
                ("actions", self.loop.tick),
            ],
            clock,
            settings.slo.evaluate_every,
        )
        self.upkeep = Upkeep(self.store, self.authenticator, self.delivery, settings, clock)
        self._settings = settings

    def _make_pipeline(self, settings: Settings, data: Path, counts: SloCounts) -> Pipeline:
        return Pipeline(
            LogReader(data / LOG_FOLDER),
            SpanStore(self.store),
            FactBuilder(self.store, settings.store.trace_window),
            [RollupWriter(self.store), counts, self.costs],
            self._clock,
            progress=ProgressFile(data / LOG_FOLDER),
            dead_letters=self.dead_letters,
            batch_spans=settings.collector.batch_spans,
            batch_wait=timedelta(seconds=settings.collector.batch_s),
        )

    def attach(self, app: FastAPI) -> None:
        """Add every folder's endpoints, and the pages at the root, last."""
        clock = self._clock
        for router in (
            slo.api.router(self.store, self.evaluator, clock),
            slo.version_api.router(self.db, self.documents.reload),
            slo.exclusion_api.router(self.db, self.evaluator, clock),
            alerts.api.router(self.db, self.alerts, clock),
            alerts.api_v2.router(self.db, self._receivers, clock, self._external_url),
            actuators.api.router(self.db, self.loop, self.drivers, self._settings.actuators, clock),
            cost.api.router(self.store, self.prices, clock),
            dashboards.api.router(self.store, self.prices),
            collector.api.router(
                receiver_status=self._settings.data / STATUS_FILE,
                pipeline=self.pipeline,
                dead_letters=self.dead_letters,
                stored=lambda: sender_counts(self.store),
                watermarks=lambda now: watermarks(self.store, now),
                clock=clock,
            ),
        ):
            app.include_router(router)

        @app.get(ADDRESSES, tags=["instance"])
        def endpoints() -> dict[str, Any]:
            """Say where this instance listens; empty until all of it does."""
            return read_endpoints(self._settings.data) or {}

        add_not_found(app)
        pages: Any = WSGIMiddleware(
            create_app(self._deps()).server, workers=PAGE_THREADS
        )  # two spellings of ASGI
        app.mount("/", pages)

    def _deps(self) -> Deps:
        return Deps(
            engine=self.store,
            db=self.db,
            clock=self._clock,
            prices=self.prices,
            verdicts=lambda: self.judge.verdicts,
            slos=lambda: self.evaluator.slos,
            costs=lambda: self.costs.slos,
            spending=self.costs.history,
            exclusions=self._exclusions,
            intake=IntakePorts(
                status=lambda: read_status(self._settings.data / STATUS_FILE),
                pipeline=self.pipeline,
                letters=self.dead_letters.all,
                log_bytes=self._settings.collector.log_bytes,
            ),
        )

    def _names(self) -> set[str]:
        return {slo.name for slo in self.evaluator.slos} | {slo.name for slo in self.costs.slos}

    def start(self) -> str:
        """Begin taking the log in, judging and acting; returns KEDA's bound address."""
        keda = self.keda.start()
        self.pipeline.start()
        if self._settings.judging:
            self.delivery.start()
            self.prometheus.start()
            self.judge.start()
        self.upkeep.start()
        return keda

    def stop(self) -> None:
        """Take in what is acknowledged, finish what is out, let go of the databases."""
        self.drivers.policies.close()
        self.upkeep.stop()
        self.pipeline.drain(DRAIN)
        self.judge.stop()
        self.prometheus.stop()
        self.keda.stop()
        self.delivery.stop()
        self.pipeline.stop()
        self.http.close()
        self.store.close()
        self.db.dispose()

    def is_healthy(self) -> bool:
        """Ask the store a real question; the supervisor sets the deadline."""
        self.store.rows("SELECT max(minute) AS newest FROM source_minutes")
        return True
