"""How long it takes to read SLOs from Prometheus: `python benchmarks/slo_prometheus.py`.

The time that making the server's answers takes is left out: what is measured is ours, parsing,
counting and storing.
"""

from __future__ import annotations

import json
import re
import resource
import tempfile
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

import httpx

import slo.schema
import store.schema
from base.clock import ManualClock
from slo.evaluator import Evaluator
from slo.model import Slo
from slo.prometheus.client import PrometheusClient
from slo.prometheus.reading import Memory, Reader
from slo.prometheus.rows import CountWriter
from slo.prometheus.selector import parse_selector
from slo.prometheus.sli import Counters, PrometheusSli
from slo.settings import PrometheusSettings, SloSettings
from slo.tiers import derive
from store.open import open_engine

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
T0 = round(NOON.timestamp()) * 1000
EVERY_MS = 15_000


def main() -> None:
    settings = SloSettings(prometheus={"main": PrometheusSettings(url="http://p:9090")})
    sli = PrometheusSli(
        Counters(
            parse_selector("requests_total"), parse_selector('requests_total{code="500"}'), "bad"
        )
    )
    window = timedelta(days=30)
    judged = Slo(
        name="x", objective=0.99, window=window, good=(), tiers=derive(0.99, window),
        group_by=("handler",), prometheus=sli,
    )  # fmt: skip
    clock = ManualClock(NOON)
    print("| series | groups | read | samples | read and counted | stored | stored again |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        engine = open_engine(f"chdb://{folder}")
        store.schema.create(engine)
        slo.schema.create(engine)
        writer = CountWriter(engine, settings, clock)
        for series, groups in ((20, 5), (1000, 50)):
            for span, name in ((900_000, "15 m, a poll"), (6 * 3_600_000, "6 h, history")):
                start = (T0 - span) // 600_000 * 600_000
                answers = Answers(series, groups)
                http = httpx.Client(transport=httpx.MockTransport(answers))
                asks = PrometheusClient("main", settings.prometheus["main"], http, clock)
                reader = Reader(judged, asks)
                began = time.perf_counter()
                reading = reader.read(Memory(start), start, T0, T0)
                counted = time.perf_counter()
                writer.write(judged, reading)
                stored = time.perf_counter()
                writer.write(judged, reading)
                again = time.perf_counter()
                samples = series * ((T0 - start) // EVERY_MS)
                times = (counted - began - answers.seconds, stored - counted, again - stored)
                print(f"| {series} | {groups} | {name} | {samples:,} | "
                      + " | ".join(f"{each * 1000:,.0f} ms" for each in times) + " |")  # fmt: skip
        began = time.perf_counter()
        verdicts = Evaluator(engine, [judged], settings).evaluate(NOON)
        print(
            f"\nevaluation, {len(verdicts)} groups: {(time.perf_counter() - began) * 1000:.0f} ms"
        )
        engine.close()
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB")


class Answers:
    """Answers for any range, and adds up how long it took to make them."""

    def __init__(self, series: int, groups: int) -> None:
        self.seconds = 0.0
        self._labels = [
            {
                "__name__": "requests_total", "job": "api", "instance": f"{n // 10}:1",
                "handler": f"/{n % groups}", "code": "500" if n % 10 == 0 else "200",
            }
            for n in range(series)
        ]  # fmt: skip

    def __call__(self, request: httpx.Request) -> httpx.Response:
        began = time.perf_counter()
        form = {key: values[0] for key, values in parse_qs(request.content.decode()).items()}
        found = re.fullmatch(r"requests_total(\{.*\})?\[(\d+)ms\]", form["query"])
        result: list[dict[str, Any]] = []
        if found:
            last = round(float(form["time"]) * 1000)
            first = -(-(last - int(found.group(2))) // EVERY_MS) * EVERY_MS
            values = [[at / 1000, str(at // 1000)] for at in range(first, last + 1, EVERY_MS)]
            result = [
                {"metric": labels, "values": values}
                for labels in self._labels
                if not found.group(1) or labels["code"] == "500"
            ]
        data = {"resultType": "matrix", "result": result}
        body = json.dumps({"status": "success", "data": data}).encode()
        self.seconds += time.perf_counter() - began
        return httpx.Response(200, content=body)


if __name__ == "__main__":
    main()
