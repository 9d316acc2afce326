"""All SLOs from Prometheus: which server each is asked of, and the pollers that ask."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import httpx

from base.clock import Clock
from base.errors import ConfigError
from base.selfmon import Log
from slo.model import Slo
from slo.prometheus.client import Credential, PrometheusClient
from slo.prometheus.poller import Poller
from slo.prometheus.reading import Reader
from slo.prometheus.rows import CountWriter
from slo.settings import SloSettings
from store.engine import Engine

log = Log(__name__)


def servers_of(slos: Sequence[Slo], settings: SloSettings) -> dict[str, list[Slo]]:
    """Group SLOs by server; ConfigError names every one whose server there is not."""
    known = ", ".join(settings.prometheus) or "none: write one under slo.prometheus"
    found: dict[str, list[Slo]] = defaultdict(list)
    problems = []
    for slo in slos:
        if slo.prometheus is None:
            continue
        name = slo.prometheus.server
        if name is None and len(settings.prometheus) == 1:
            name = next(iter(settings.prometheus))
        if name is None:
            problems.append(
                f"{slo.source}: slo {slo.name!r} does not say which Prometheus server: give "
                f"prometheus.server, one of those configured ({known})"
            )
        elif name not in settings.prometheus:
            problems.append(
                f"{slo.source}: slo {slo.name!r}: no Prometheus server is named {name!r}; "
                f"there are: {known}"
            )
        else:
            found[name].append(slo)
    if problems:
        raise ConfigError("\n".join(problems))
    return dict(found)


def check(slos: Sequence[Slo], settings: SloSettings) -> None:
    """Raise ConfigError if a server is missing, or the file of its secret; asks no server."""
    for name in servers_of(slos, settings):
        Credential(settings.prometheus[name], f"slo.prometheus.{name}").headers()


class PrometheusSource:
    """The pollers of all servers, one each."""

    def __init__(
        self,
        slos: Sequence[Slo],
        settings: SloSettings,
        engine: Engine,
        http: httpx.Client,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._http = http
        self._clock = clock
        self._writer = CountWriter(engine, settings, clock)
        self._is_running = False
        self._slos: tuple[Slo, ...] = ()
        self._pollers: list[Poller] = []
        self._take(slos)

    def _take(self, slos: Sequence[Slo]) -> None:
        check(slos, self._settings)
        self._slos = tuple(slos)
        self._pollers = [
            self._poller(name, some) for name, some in servers_of(slos, self._settings).items()
        ]

    def _poller(self, name: str, slos: Sequence[Slo]) -> Poller:
        server = self._settings.prometheus[name]
        client = PrometheusClient(name, server, self._http, self._clock)
        readers = [(slo, Reader(slo, client, server.replica_labels)) for slo in slos]
        writer = CountWriter(self._engine, self._settings, self._clock)
        return Poller(name, readers, writer, server, self._clock)

    def replace(self, slos: Sequence[Slo]) -> None:
        """Ask for other SLOs from now on. ConfigError, and nothing changes, if that cannot be."""
        check(slos, self._settings)
        was_running = self._is_running
        self.stop()
        self._take(slos)
        if was_running:
            self.start()

    def start(self) -> None:
        """Forget what no SLO counts any more, then begin asking."""
        self._is_running = True
        gone = self._writer.forget_others([slo for slo in self._slos if slo.prometheus])
        if gone:
            log.info("slo_prometheus_forgotten", slos=gone)
        for poller in self._pollers:
            poller.start()

    def stop(self) -> None:
        self._is_running = False
        for poller in self._pollers:
            poller.end()
        for poller in self._pollers:
            poller.stop()

    def problems(self) -> Mapping[str, str]:
        """Say, by SLO, why what is shown may be old or lack something."""
        return {name: text for each in self._pollers for name, text in each.problems().items()}
