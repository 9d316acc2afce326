"""A limit that grows with the uncached prompt judges queueing, whatever the lengths of prompts.

Prompt times are those measured on GPUs (`stack.engine.calibration`); both mixes wait alike.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from slo.expression import Expression
from slo.interpret import holds
from slo.parse import parse_filter
from stack.engine.calibration import load_timing

PROMPT_MS = load_timing().prompt_ms
REQUESTS = 20_000
SHORT, LONG = (256, 1024), (24_000, 40_000)


def mix(lengths: tuple[int, int]) -> Iterator[dict[str, float]]:
    rng = random.Random(7)
    for _ in range(REQUESTS):
        cached = rng.choice([0, 128])
        prompt = rng.randint(*lengths) + cached
        waited_ms = rng.expovariate(1 / 400)
        ttft_ms = PROMPT_MS.at(prompt - cached) + waited_ms
        yield {"ttft_ms": ttft_ms, "prompt_tokens": prompt, "cached_tokens": cached}


def sli(limit: Expression, lengths: tuple[int, int]) -> float:
    return sum(holds(limit, row) for row in mix(lengths)) / REQUESTS


def test_short_and_long_prompts_that_wait_alike_are_as_good() -> None:
    a_token = (PROMPT_MS.at(LONG[1]) - PROMPT_MS.at(SHORT[0])) / (LONG[1] - SHORT[0])
    base = 1000 + PROMPT_MS.at(SHORT[0]) - a_token * SHORT[0]
    limit = parse_filter(f"ttft_ms <= {base} + {a_token} * (prompt_tokens - cached_tokens)")

    short, long = sli(limit, SHORT), sli(limit, LONG)

    assert 0.9 < short < 0.95
    assert abs(short - long) < 0.01


def test_under_one_limit_for_all_long_prompts_are_bad_by_their_length() -> None:
    limit = parse_filter("ttft_ms <= 2000")

    assert sli(limit, SHORT) - sli(limit, LONG) > 0.9
