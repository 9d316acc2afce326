"""The exported rules in a real Prometheus, held against our own verdicts on the same traffic."""

import random
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import pytest
from prometheus_client import CollectorRegistry

from base.clock import ManualClock
from slo.counters import BORN_AT_ZERO, REQUESTS, RequestCounters
from slo.counts import SloCounts
from slo.evaluator import Evaluator
from slo.export import to_rules
from slo.model import Slo
from slo.parse import parse_clauses
from slo.settings import SloSettings
from slo.slices import make_slices
from slo.tiers import derive
from slo.verdict import Verdict
from store.engine import Engine
from tests.slo.made_facts import EPOCH, alive, fact, put

START = EPOCH + timedelta(days=1)
SCRAPE, LENGTH = timedelta(seconds=30), timedelta(minutes=36)
WINDOW = timedelta(minutes=30)
SLO = Slo(
    name="availability",
    objective=0.95,
    window=WINDOW,
    good=parse_clauses("outcome = 'good'"),
    tiers=derive(0.95, WINDOW),
    group_by=("tenant",),
)
SLICED = replace(
    SLO,
    name="minutes",
    objective=0.99,
    tiers=derive(0.99, WINDOW, 3, timedelta(minutes=1)),
    slices=make_slices(timedelta(minutes=1), 80),
)
RECORDED = re.compile(r"(slo:[a-z_]+:[a-z0-9]+)\{slo=\"[a-z]+\"(?:,tier=\"([a-z]+)\")?\}")


class Scraped:
    """A server's own counters, scraped while its traffic goes on: OpenMetrics with times."""

    def __init__(self, engine: Engine) -> None:
        self.clock = ManualClock(START)
        self._registry = CollectorRegistry()
        counts = SloCounts(engine, [SLO, SLICED], SloSettings(), self.clock)
        counts.ensure()
        evaluator = Evaluator(engine, [SLO, SLICED], SloSettings())
        counters = RequestCounters(engine, evaluator, self.clock.now, self._registry)
        random.seed(4)
        number = 0
        self.lines: dict[str, list[str]] = {}
        self._collect()
        alive(engine, [START + timedelta(minutes=at) for at in range(-2, 37)])
        while self.clock.now() < START + LENGTH:
            begun = self.clock.now()
            self.clock.advance(SCRAPE)
            facts = []
            if begun >= START + BORN_AT_ZERO:  # known before the first request
                for tenant, per_scrape in (("acme", 60), ("globex", 12)):
                    for _ in range(per_scrape):
                        number += 1
                        bad = random.random() < self._bad_share(tenant, begun)
                        at = begun + timedelta(seconds=random.uniform(0, 29.9))
                        outcome = "bad" if bad else "good"
                        facts.append(fact(at, number, tenant=tenant, outcome=outcome))
            else:
                facts = [
                    fact(begun, number + 1, tenant="acme"),
                    fact(begun, number + 2, tenant="globex"),
                ]
                number += 2
            put(engine, facts)
            buckets = [begun + timedelta(seconds=at) for at in (0, 10, 20)]
            counts.refresh(buckets, number)
            if begun in {START, START + BORN_AT_ZERO} or self.clock.now() >= START + LENGTH:
                self.verdicts = evaluator.evaluate(self.clock.now())
            counters(self.verdicts, self.clock.now())
            self._collect()

    @staticmethod
    def _bad_share(tenant: str, at: datetime) -> float:
        broken = tenant == "acme" and at >= START + timedelta(minutes=26)
        return 1.0 if broken else 0.02

    def _collect(self) -> None:
        for metric in self._registry.collect():
            for sample in metric.samples:
                labels = ",".join(f'{key}="{value}"' for key, value in sample.labels.items())
                at = self.clock.now().timestamp()
                line = f"{REQUESTS}{{{labels}}} {sample.value:g} {at:.0f}"
                self.lines.setdefault(labels, []).append(line)

    def openmetrics(self) -> str:
        head = f"# TYPE {REQUESTS.removesuffix('_total')} counter\n"
        return head + "\n".join(line for each in self.lines.values() for line in each) + "\n# EOF\n"


@contextmanager
def prometheus(folder: Path, openmetrics: str) -> Iterator[httpx.Client]:
    (folder / "samples").write_text(openmetrics, encoding="utf-8")
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", "samples", "data"],
        cwd=folder, check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    (folder / "prometheus.yml").write_text("{}", encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = "{}:{}".format(*free.getsockname())
    process = subprocess.Popen(
        [
            "prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data",
            "--storage.tsdb.retention.time=100y", f"--web.listen-address={address}",
        ],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        with httpx.Client(base_url=f"http://{address}", timeout=30) as client:
            for _ in range(150):
                try:
                    if client.get("/-/ready").status_code == 200:
                        break
                except httpx.TransportError:
                    pass
                time.sleep(0.1)
            yield client
    finally:
        process.terminate()
        process.wait(20)


class Rules:
    """Asks a rule's expression with what it reads written out, as if recorded just now."""

    def __init__(self, client: httpx.Client, at: datetime, slo: Slo) -> None:
        self._client = client
        self._at = at
        self._name = slo.name
        rules = [rule for group in to_rules([slo])["groups"] for rule in group["rules"]]
        self._recorded = {
            (rule["record"], rule["labels"].get("tier", "")): rule
            for rule in rules
            if "record" in rule
        }
        self.alerts = {rule["labels"]["tier"]: rule["expr"] for rule in rules if "alert" in rule}
        self._busiest = [rule for rule in rules if rule.get("record", "").endswith("hour:rate")]

    def ask(self, expression: str) -> dict[str, float]:
        """Answer by tenant."""
        answer = self._client.post(
            "/api/v1/query",
            data={"query": self._written_out(expression), "time": f"{self._at.timestamp():.0f}"},
        ).json()
        assert answer["status"] == "success", answer
        return {
            each["metric"].get("tenant", ""): float(each["value"][1])
            for each in answer["data"]["result"]
        }

    def _written_out(self, expression: str) -> str:
        expression = re.sub(
            r"slo:requests_per_hour:rate\{[^}]*window=~\"([^\"]+)\"\}", self._rates, expression
        )
        return RECORDED.sub(self._rule, expression)

    def _rates(self, found: re.Match[str]) -> str:
        lengths = found[1].split("|")
        rates = [
            f'label_replace({self._written_out(rule["expr"])},"window",'
            f'"{rule["labels"]["window"]}","","")'
            for rule in self._busiest
            if rule["labels"]["window"] in lengths
        ]
        return f"({' or '.join(rates)})"

    def _rule(self, found: re.Match[str]) -> str:
        rule = self._recorded[found[1], found[2] or ""]
        inner = f'label_replace({self._written_out(rule["expr"])},"slo","{self._name}","","")'
        return f'label_replace({inner},"tier","{found[2]}","","")' if found[2] else inner


@pytest.mark.binary
@pytest.mark.slow
def test_exported_rules_agree_with_our_verdicts(engine: Engine, tmp_path: Path) -> None:
    scraped = Scraped(engine)

    with prometheus(tmp_path, scraped.openmetrics()) as client:
        agree(scraped, SLO, Rules(client, scraped.clock.now(), SLO))
        agree(scraped, SLICED, Rules(client, scraped.clock.now(), SLICED))


def agree(scraped: Scraped, slo: Slo, rules: Rules) -> None:
    verdicts: dict[str, Verdict] = {
        each.group["tenant"]: each for each in scraped.verdicts if each.slo == slo.name
    }

    remaining = rules.ask(f'slo:budget_remaining:ratio{{slo="{slo.name}"}}')
    burns = {
        window: rules.ask(f'slo:burn_rate:ratio{window}{{slo="{slo.name}"}}')
        for window in ("5m", "30m")
    }
    firing = {tier: set(rules.ask(expr)) for tier, expr in rules.alerts.items()}

    assert verdicts.keys() == {"acme", "globex"}
    for tenant, verdict in verdicts.items():
        assert verdict.budget_remaining is not None
        assert remaining[tenant] == pytest.approx(verdict.budget_remaining, rel=0.03, abs=0.05)
        for window, found in burns.items():
            assert found[tenant] == pytest.approx(verdict.burn[window], rel=0.05, abs=0.1)
    assert firing == {
        tier.name: {
            tenant for tenant, verdict in verdicts.items()
            if next(t for t in verdict.tiers if t.name == tier.name).burning
        }
        for tier in slo.tiers
    }  # fmt: skip
    assert any(firing.values())
