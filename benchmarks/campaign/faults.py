"""What goes wrong in a campaign: each kind, what should page, and who should be named."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from benchmarks.campaign.facts import Alter, FaultyPlayer, cut
from stack.history.plan import MAX_TOKENS, Planned
from stack.history.spans import Answered
from stack.load.population import CUSTOMERS, Customer, draw_customer
from stack.load.traces import azure2023
from stack.wire.outcome import CLIENT_CLOSED, Reason, client_gone, failed

LASTS_S = 8400.0
BEGIN_S, END_S = 3600.0, 6600.0
PER_S = 1.5
RENAMED = "2.0-rc1"

Rate = Callable[[float], float]
Shape = Callable[[Planned, random.Random], Planned]


@dataclass(frozen=True)
class Fault:
    """One kind. `names` are the answers that count as right; none: nothing may page.

    `silent` is when no source is heard and no request arrives.
    """

    name: str
    names: Sequence[tuple[str, str]] = ()
    rate: Rate = lambda at: PER_S  # noqa: ARG005
    shape: Shape = lambda planned, rng: planned  # noqa: ARG005
    alter: Alter = lambda planned, answered, rng: answered  # noqa: ARG005
    engines: Callable[[FaultyPlayer], None] = lambda player: None  # noqa: ARG005
    version: Callable[[float], str] = lambda at: "1.9"  # noqa: ARG005
    flood: Callable[[random.Random], list[Planned]] = lambda rng: []  # noqa: ARG005
    customers: Sequence[Customer] = CUSTOMERS
    silent: tuple[float, float] | None = None


def during(at: float) -> bool:
    return BEGIN_S <= at < END_S


def arrivals(fault: Fault, rng: random.Random) -> Iterator[Planned]:
    """Plan the requests of one run, in order of time."""
    planned = fault.flood(rng)
    at, top = 0.0, max(fault.rate(60.0 * n) for n in range(round(LASTS_S) // 60)) or PER_S
    while (at := at + rng.expovariate(top)) < LASTS_S - 180:
        if rng.random() < fault.rate(at) / top:
            planned.append(fault.shape(usual(at, rng, fault.customers), rng))
    yield from sorted(planned, key=lambda each: each.at)


def usual(at: float, rng: random.Random, customers: Sequence[Customer] = CUSTOMERS) -> Planned:
    customer = draw_customer(rng, customers)
    like = rng.choice(azure2023(customer.source))
    return Planned(
        at=at,
        customer=customer,
        user=customer.user(rng),
        feature=rng.choice(customer.features),
        prompt_tokens=min(like.prompt_tokens, 4000),
        output_tokens=min(like.output_tokens, 300),
        max_tokens=MAX_TOKENS,
        stream=True,
        session=rng.getrandbits(40),
        leaves_after_s=None,
    )


def kinds(rng: random.Random) -> list[Fault]:
    """Make every kind for one seed: who is hit is drawn."""
    replica = rng.randrange(4)
    name = f"r{replica}"
    tenant = rng.choice(["acme", "globex", "umbrella"])
    hooli = next(c for c in CUSTOMERS if c.tenant == "hooli")
    return [
        Fault(
            "flood", [("tenant", tenant)],
            flood=lambda rng: _flood(rng, tenant, per_s=5.0, prompt_tokens=7000),
        ),
        Fault("long prompts", [("tenant", tenant)], shape=_longer(tenant, 12)),
        Fault(
            "KV thrash", [("tenant", tenant)],
            flood=lambda rng: _flood(rng, tenant, per_s=2.5, prompt_tokens=9000, output=900),
        ),
        Fault(
            "slow replica", [("replica", name)],
            engines=lambda player: player.slow(replica, 25, BEGIN_S, END_S),
        ),
        Fault(
            "stall", [("replica", name)],
            engines=lambda player: player.slow(replica, 250, BEGIN_S, END_S),
        ),
        Fault(
            "bad deploy", [("app_version", RENAMED)],
            version=lambda at: RENAMED if during(at) else "1.9",
            alter=_failing(lambda planned, _: during(planned.at), 0.3, Reason.INTERNAL_ERROR),
        ),
        Fault(
            "upstream 5xx", [("replica", name)],
            alter=_failing(_on(replica), 0.7, Reason.UPSTREAM_ERROR),
        ),
        Fault(
            "stream cuts", [("replica", name)],
            alter=_failing(_on(replica), 0.6, Reason.STREAM_CUT),
        ),
        Fault("client aborts", alter=_leaving(tenant)),
        Fault("telemetry loss", silent=(BEGIN_S, BEGIN_S + 600)),
        Fault(
            "quiet tenants", rate=lambda at: 0.02, customers=(hooli,),  # noqa: ARG005
            alter=_failing(lambda *_: True, 0.0005, Reason.TIMEOUT),
        ),
        Fault(
            "diurnal load",
            rate=lambda at: PER_S * (1 + 0.9 * math.sin(at / LASTS_S * 6 * math.pi)) / 1.2,
            alter=_failing(lambda *_: True, 0.0005, Reason.TIMEOUT),
        ),
    ]  # fmt: skip


def _flood(
    rng: random.Random, tenant: str, *, per_s: float, prompt_tokens: int, output: int = 150
) -> list[Planned]:
    customer = next(c for c in CUSTOMERS if c.tenant == tenant)
    out, at = [], BEGIN_S
    while (at := at + rng.expovariate(per_s)) < END_S:
        like = usual(at, rng, (customer,))
        out.append(
            replace(
                like,
                user=f"{tenant}-u000",
                prompt_tokens=round(prompt_tokens * rng.uniform(0.8, 1.2)),
                output_tokens=round(output * rng.uniform(0.8, 1.2)),
            )
        )
    return out


def _longer(tenant: str, times: int) -> Shape:
    def shape(planned: Planned, _: random.Random) -> Planned:
        if planned.customer.tenant != tenant or not during(planned.at):
            return planned
        longer = min(planned.prompt_tokens * times + 6000, 24_000)
        return replace(planned, prompt_tokens=longer)

    return shape


def _on(replica: int) -> Callable[[Planned, Answered], bool]:
    return lambda planned, answered: answered.replica == replica and during(planned.at)


def _failing(hits: Callable[[Planned, Answered], bool], share: float, reason: Reason) -> Alter:
    def alter(planned: Planned, answered: Answered, rng: random.Random) -> Answered:
        if hits(planned, answered) and rng.random() < share:
            return cut(answered, outcome=failed(reason, reason.value), status=500)
        return answered

    return alter


def _leaving(tenant: str) -> Alter:
    def alter(planned: Planned, answered: Answered, rng: random.Random) -> Answered:
        if planned.customer.tenant == tenant and during(planned.at) and rng.random() < 0.6:
            outcome = client_gone(0.3, None, 10.0)
            return cut(answered, outcome=outcome, status=CLIENT_CLOSED, first_token_at=None)
        return answered

    return alter
