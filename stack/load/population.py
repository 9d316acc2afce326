"""The invented customers of the demo: who sends what, how much, and how patiently.

The traces have no tenants; these are made up so that each shows something: a big one, a coding
tool with short answers, a batch job, a support bot with many users, and a quiet one that must
never cause a page.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from stack.load.traces import Source
from stack.wire.names import CHAT_PATH, COMPLETIONS_PATH

Priority = Literal["interactive", "batch"]


@dataclass(frozen=True, slots=True)
class Customer:
    """A tenant's habits. `weight` is its share of requests, relative to the others'."""

    tenant: str
    weight: float
    source: Source
    features: tuple[str, ...]
    users: int
    priority: Priority = "interactive"
    path: str = CHAT_PATH
    stream_share: float = 0.9
    abort_share: float = 0.01

    def user(self, rng: random.Random) -> str:
        """Draw a user; a few are far busier than the rest."""
        return f"{self.tenant}-u{int(self.users * rng.random() ** 2):03d}"


CUSTOMERS: tuple[Customer, ...] = (
    Customer("acme", 34, "conv", ("assistant", "search"), 40, abort_share=0.02),
    Customer("globex", 26, "code", ("code-completion",), 60, path=COMPLETIONS_PATH),
    Customer("initech", 18, "conv", ("reports",), 4, "batch", stream_share=0.0, abort_share=0.0),
    Customer("umbrella", 15, "conv", ("support-bot",), 120),
    Customer("hooli", 2, "conv", ("prototype",), 3),
)


def draw_customer(rng: random.Random, customers: Sequence[Customer] = CUSTOMERS) -> Customer:
    """Draw whose request comes next."""
    left = rng.random() * sum(customer.weight for customer in customers)
    for customer in customers:
        left -= customer.weight
        if left < 0:
            return customer
    return customers[-1]
