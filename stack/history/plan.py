"""The month before the demo: who asked for what, when, and what went wrong.

Everything is drawn from one seed. Times are seconds since the start of the history.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from stack.engine.scheduler import EngineLimits
from stack.load.population import CUSTOMERS, Customer, draw_customer
from stack.load.traces import BINS_PER_DAY, azure2023, weekly_shape

BIN_S = 900
QUIET_END_S = 180.0
"""No request starts in the last minutes, so that all have ended when the live stack takes over."""
MAX_TOKENS = 1024
_CLIENT_ERRORS = 0.004
_OVER_QUOTA = 0.003
_NEW_SESSION = 0.55
_LENGTH_LIMITED = 0.08


@dataclass(frozen=True, slots=True)
class Flood:
    """A tenant sends long prompts far above its habits."""

    tenant: str
    days_before_end: float
    lasts_s: float
    per_s: float
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class SlowReplica:
    """A replica runs at a fraction of its speed."""

    replica: int
    days_before_end: float
    lasts_s: float
    factor: float


@dataclass(frozen=True, slots=True)
class BadDeploy:
    """A gateway version that fails a share of requests, until it is replaced."""

    version: str
    fixed_by: str
    days_before_end: float
    lasts_s: float
    failing_share: float


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """What to invent. `end` is where the live stack takes over."""

    end: datetime
    days: int = 30
    requests: int = 70_000
    seed: int = 7
    model: str = "tiny-llama"
    replicas: tuple[str, ...] = ("r0", "r1")
    gpu_type: str = "h100"
    gpu_count: int = 4
    speed: float = 1.0
    limits: EngineLimits = field(
        # The same cache in blocks of 128 tokens: an eighth of the bookkeeping.
        default_factory=lambda: EngineLimits(num_gpu_blocks=3500, block_size=128)
    )
    gateway: str = "gw-0"
    router: str = "rt-0"
    version: str = "0.9"
    customers: tuple[Customer, ...] = CUSTOMERS
    floods: tuple[Flood, ...] = (Flood("umbrella", 21.4, 100, 3.0, 7000),)
    slow_replicas: tuple[SlowReplica, ...] = (SlowReplica(1, 12.3, 5400, 5.0),)
    bad_deploys: tuple[BadDeploy, ...] = (BadDeploy("1-rc", "1", 5.2, 2700, 0.25),)

    @property
    def start(self) -> datetime:
        return self.end - timedelta(days=self.days)

    @property
    def seconds(self) -> float:
        return self.days * 86_400.0

    def at(self, days_before_end: float) -> float:
        return self.seconds - days_before_end * 86_400


@dataclass(slots=True)
class Planned:
    """One request as its client meant it; `fate` is what the gateway does before the engine."""

    at: float
    customer: Customer
    user: str
    feature: str
    prompt_tokens: int
    output_tokens: int
    max_tokens: int
    stream: bool
    session: int
    leaves_after_s: float | None
    fate: str = ""


def plan(settings: HistorySettings) -> Iterator[Planned]:
    """Yield the requests of the whole history in order of time."""
    rng = random.Random(settings.seed)
    bins = round(settings.days * BINS_PER_DAY)
    shape = [_shape(settings.start + timedelta(seconds=BIN_S * index)) for index in range(bins)]
    scale = settings.requests / sum(shape)
    sessions: dict[str, int] = {}
    for index, rate in enumerate(shape):
        start = index * BIN_S
        times = [start + rng.random() * BIN_S for _ in range(_poisson(rng, rate * scale))]
        requests = [_usual(settings, rng, at, sessions) for at in times]
        for flood in settings.floods:
            requests += _flooding(settings, flood, rng, start)
        requests.sort(key=lambda request: request.at)
        for request in requests:
            if request.at < settings.seconds - QUIET_END_S:
                _decide_fate(settings, request, rng)
                yield request


def _shape(moment: datetime) -> float:
    return weekly_shape(moment.weekday(), moment.hour * 4 + moment.minute // 15)


def _usual(
    settings: HistorySettings, rng: random.Random, at: float, sessions: dict[str, int]
) -> Planned:
    customer = draw_customer(rng, settings.customers)
    like = rng.choice(azure2023(customer.source))
    user = customer.user(rng)
    if user not in sessions or rng.random() < _NEW_SESSION:
        sessions[user] = rng.getrandbits(40)
    is_limited = rng.random() < _LENGTH_LIMITED
    leaves = rng.random() < customer.abort_share
    return Planned(
        at=at,
        customer=customer,
        user=user,
        feature=customer.features[int(len(customer.features) * rng.random() ** 1.5)],
        prompt_tokens=like.prompt_tokens,
        output_tokens=min(like.output_tokens, MAX_TOKENS),
        max_tokens=min(like.output_tokens, MAX_TOKENS) if is_limited else MAX_TOKENS,
        stream=rng.random() < customer.stream_share,
        session=sessions[user],
        leaves_after_s=0.05 + rng.expovariate(0.5) if leaves else None,
    )


def _flooding(
    settings: HistorySettings, flood: Flood, rng: random.Random, start: float
) -> list[Planned]:
    """Make the part of a flood that falls into the bin from `start`."""
    customer = next((c for c in settings.customers if c.tenant == flood.tenant), None)
    begin = settings.at(flood.days_before_end)
    low, high = max(start, begin), min(start + BIN_S, begin + flood.lasts_s)
    if customer is None or low >= high or begin < 0:
        return []
    return [
        Planned(
            at=low + (high - low) * rng.random(),
            customer=customer,
            user=f"{customer.tenant}-u000",
            feature=customer.features[0],
            prompt_tokens=round(flood.prompt_tokens * rng.uniform(0.8, 1.2)),
            output_tokens=rng.randint(50, 250),
            max_tokens=MAX_TOKENS,
            stream=True,
            session=rng.getrandbits(40),
            leaves_after_s=None,
        )
        for _ in range(_poisson(rng, flood.per_s * (high - low)))
    ]


def _decide_fate(settings: HistorySettings, request: Planned, rng: random.Random) -> None:
    drawn = rng.random()
    if drawn < _CLIENT_ERRORS:
        request.fate = "client_error"
    elif drawn < _CLIENT_ERRORS + _OVER_QUOTA:
        request.fate = "quota"
    for deploy in settings.bad_deploys:
        since = request.at - settings.at(deploy.days_before_end)
        if 0 <= since < deploy.lasts_s and rng.random() < deploy.failing_share:
            request.fate = "internal_error"


def version_at(settings: HistorySettings, at: float) -> str:
    """Return the gateway's version at a moment."""
    version = settings.version
    for deploy in sorted(settings.bad_deploys, key=lambda d: -d.days_before_end):
        begin = settings.at(deploy.days_before_end)
        if begin >= 0 and at >= begin:
            version = deploy.version if at < begin + deploy.lasts_s else deploy.fixed_by
    return version


def _poisson(rng: random.Random, mean: float) -> int:
    if mean > 50:
        return max(0, round(rng.gauss(mean, math.sqrt(mean))))
    limit, count, product = math.exp(-mean), 0, rng.random()
    while product > limit:
        count += 1
        product *= rng.random()
    return count
