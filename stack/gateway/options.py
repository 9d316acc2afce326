"""What the command lines of `stack.gateway` and `stack.up` say about waiting."""

from __future__ import annotations

import argparse

from stack.gateway.app import GatewaySettings


def add_waiting_options(parser: argparse.ArgumentParser) -> None:
    """Add how many requests may be inside, how many may wait, and for how long."""
    base = GatewaySettings("")
    option = parser.add_argument
    option("--max-concurrency", type=int, default=base.places, help="requests inside at once")
    option("--max-waiting", type=int, default=base.waiting, help="for a place; more get 429")
    option("--longest-wait", type=float, default=base.longest_wait_s, metavar="S", help="then 429")
