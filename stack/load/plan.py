"""What the load generator will send: trace arrivals and lengths, invented callers, incidents."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Literal

from base.durations import parse_duration
from base.errors import ConfigError
from stack.load.population import CUSTOMERS, Customer, Priority, draw_customer
from stack.load.traces import Arrival, azure2023, mooncake
from stack.wire.filler import CHARS_PER_TOKEN, filler
from stack.wire.names import CHAT_PATH

Source = Literal["azure2023-conv", "azure2023-code", "mooncake"]

SYSTEM_TOKENS = 384
_NEW_SESSION = 0.55
_MOONCAKE_BLOCK_TOKENS = 512


@dataclass(frozen=True, slots=True)
class FloodPlan:
    """An incident: one tenant sends long prompts at a steady rate, none of them cacheable."""

    tenant: str
    rate: float
    prompt_tokens: int = 6000
    output_tokens: int = 100
    after_s: float = 0.0
    for_s: float = 60.0


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """A run against one gateway. `keys` are the tenants' API keys; only those tenants call.

    `rate` is the mean of requests a second beside floods; None for `duration_s` runs until
    stopped. `patience_s` is how long an interactive client waits for a first token.
    """

    gateway_url: str
    keys: Mapping[str, str]
    rate: float = 2.0
    duration_s: float | None = 60.0
    seed: int = 1
    model: str = "tiny-llama"
    source: Source = "azure2023-conv"
    floods: Sequence[FloodPlan] = ()
    weights: Mapping[str, float] | None = None
    retries: int = 2
    patience_s: float = 60.0
    longest_wait_s: float = 30.0
    most_in_flight: int = 1000


@dataclass(frozen=True, slots=True)
class Call:
    """One request to send at `at_s` after the start."""

    at_s: float
    tenant: str
    user: str
    feature: str
    priority: Priority
    path: str
    body: Mapping[str, Any]
    leaves_after_s: float | None
    is_flood: bool = False


def calls(plan: LoadPlan) -> Iterator[Call]:
    """Yield every call of a run in order of time; endless when the plan is."""
    merged = _merge([_usual(plan), *(_flood(plan, flood) for flood in plan.floods)])
    for call in merged:
        if plan.duration_s is not None and call.at_s >= plan.duration_s:
            return
        yield call


def parse_flood(text: str) -> FloodPlan:
    """Read `tenant=acme,rate=6,prompt_tokens=6000,for=60s,after=30s` from a command line."""
    renamed = {"for": "for_s", "after": "after_s"}
    known = {field.name for field in fields(FloodPlan)}
    found: dict[str, Any] = {}
    for pair in text.split(","):
        key, _, value = pair.partition("=")
        name = renamed.get(key, key)
        if name not in known or not value:
            raise ConfigError(
                f"flood {text!r}: cannot read {pair!r}; it is like "
                "tenant=acme,rate=6,prompt_tokens=6000,for=60s,after=30s"
            )
        found[name] = _flood_value(name, value, text)
    if not {"tenant", "rate"} <= set(found):
        raise ConfigError(f"flood {text!r} needs at least tenant=… and rate=…")
    return FloodPlan(**found)


def _flood_value(name: str, value: str, text: str) -> Any:
    if name == "tenant":
        return value
    try:
        if name.endswith("_s"):
            return parse_duration(value if value[-1].isalpha() else value + "s").total_seconds()
        return float(value) if name == "rate" else int(value)
    except ValueError as error:
        raise ConfigError(f"flood {text!r}: {name} is not a number: {value!r}") from error


def _usual(plan: LoadPlan) -> Iterator[Call]:
    if plan.rate <= 0:
        return
    rng = random.Random(plan.seed)
    customers = _callers(plan)
    trace = mooncake() if plan.source == "mooncake" else _azure(plan.source)
    pace = len(trace) / (trace[-1].at_s or 1.0) / plan.rate
    sessions: dict[str, int] = {}
    start = 0.0
    while True:  # the slice again and again
        for like in trace:
            customer = draw_customer(rng, customers)
            user = customer.user(rng)
            if user not in sessions or rng.random() < _NEW_SESSION:
                sessions[user] = rng.getrandbits(32)
            if plan.source != "mooncake":
                like = Arrival(like.at_s, *_lengths(rng, customer))  # noqa: PLW2901
            prompt = _prompt(customer, sessions[user], like)
            leaves = rng.random() < customer.abort_share
            yield Call(
                at_s=start + like.at_s * pace,
                tenant=customer.tenant,
                user=user,
                feature=rng.choice(customer.features),
                priority=customer.priority,
                path=customer.path,
                body=_body(
                    plan,
                    customer.path,
                    prompt,
                    like.output_tokens,
                    stream=rng.random() < customer.stream_share,
                ),
                leaves_after_s=0.05 + rng.expovariate(0.5) if leaves else None,
            )
        start += trace[-1].at_s * pace


def _flood(plan: LoadPlan, flood: FloodPlan) -> Iterator[Call]:
    if flood.tenant not in plan.keys:
        raise ConfigError(f"flood of {flood.tenant!r}: no key for this tenant")
    if flood.rate <= 0:
        raise ConfigError(f"flood of {flood.tenant!r}: rate must be above 0")
    for number in range(int(flood.rate * flood.for_s)):
        text = f"{plan.seed:08x}{number:08x}" + filler(0, flood.prompt_tokens - 4)
        yield Call(
            at_s=flood.after_s + number / flood.rate,
            tenant=flood.tenant,
            user=f"{flood.tenant}-batch",
            feature="bulk-import",
            priority="interactive",
            path=CHAT_PATH,
            body=_body(plan, CHAT_PATH, ("", text), flood.output_tokens, stream=True),
            leaves_after_s=None,
            is_flood=True,
        )


def _callers(plan: LoadPlan) -> tuple[Customer, ...]:
    """Take the invented customers that have a key; a tenant nobody invented is like acme."""
    known = {customer.tenant: customer for customer in CUSTOMERS}
    weights = plan.weights or {}
    callers = []
    for tenant in plan.keys:
        like = known.get(tenant) or Customer(tenant, 10, "conv", ("chat",), 10)
        weight = weights.get(tenant, like.weight)
        if weight > 0:
            values = {field.name: getattr(like, field.name) for field in fields(Customer)}
            callers.append(Customer(**{**values, "weight": weight}))
    if not callers:
        raise ConfigError("no tenant to call as: give the keys of at least one")
    return tuple(callers)


def _azure(source: Source) -> tuple[Arrival, ...]:
    return azure2023("code" if source == "azure2023-code" else "conv")


def _lengths(rng: random.Random, customer: Customer) -> tuple[int, int]:
    like = rng.choice(azure2023(customer.source))
    return like.prompt_tokens, like.output_tokens


def _prompt(customer: Customer, session: int, like: Arrival) -> tuple[str, str]:
    """Write (system, user) texts of the length asked for."""
    if like.prefix:
        blocks = (_mooncake_block(block) for block in like.prefix)
        return "", "".join(blocks)[: like.prompt_tokens * CHARS_PER_TOKEN]
    system_tokens = min(SYSTEM_TOKENS, like.prompt_tokens // 2)
    system = f"{customer.tenant:<16}"[:16] + filler(0, max(0, system_tokens - 4))
    rest = like.prompt_tokens - system_tokens
    return system, (f"{session:<16x}" + filler(0, max(0, rest - 4)))[: rest * CHARS_PER_TOKEN]


@lru_cache(maxsize=512)
def _mooncake_block(block: int) -> str:
    return f"{block:<16}" + filler(block, block + _MOONCAKE_BLOCK_TOKENS - 4)


def _body(
    plan: LoadPlan, path: str, prompt: tuple[str, str], output_tokens: int, *, stream: bool
) -> Mapping[str, Any]:
    system, user = prompt
    asked: dict[str, Any] = {"model": plan.model}
    if path == CHAT_PATH:
        messages = [{"role": "system", "content": system}] if system else []
        asked["messages"] = [*messages, {"role": "user", "content": user}]
    else:
        asked["prompt"] = system + user
    # The lengths are the trace's: the engine must not stop earlier.
    return {**asked, "max_tokens": output_tokens, "ignore_eos": True, "stream": stream}


def _merge(streams: Sequence[Iterator[Call]]) -> Iterator[Call]:
    return heapq.merge(*streams, key=lambda call: call.at_s)
