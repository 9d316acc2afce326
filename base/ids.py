"""Identifiers that sort by the time they were made."""

from __future__ import annotations

import secrets

from base.clock import Clock

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def new_id(clock: Clock) -> str:
    """Make a ULID: 48 bits of milliseconds, 80 random bits, 26 characters."""
    return ulid(int(clock.now().timestamp() * 1000), secrets.randbits(80))


def ulid(unix_ms: int, entropy: int) -> str:
    """Write a ULID from its parts, for ids that must come out the same from the same seed."""
    value = unix_ms << 80 | entropy
    return "".join(_CROCKFORD[value >> shift & 31] for shift in range(125, -1, -5))
