"""Checks a Standard Webhooks 1.0 signature: who sent it, when, and that nothing was changed."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from base.errors import BadInput, ConfigError

TOLERANCE = timedelta(minutes=5)
_PREFIX = "whsec_"


def read_secret(text: str) -> bytes:
    """Decode `whsec_<base64>`. Raises ConfigError; the message never shows the secret."""
    try:
        secret = base64.b64decode(text.strip().removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        raise ConfigError("the webhook secret is not whsec_ and base64") from None
    if not 24 <= len(secret) <= 64:
        raise ConfigError(f"the webhook secret has {len(secret)} bytes: 24 to 64 are allowed")
    return secret


def verify(headers: Mapping[str, str], body: bytes, secrets: Sequence[bytes], now: datetime) -> str:
    """Return the webhook id, the sender's idempotency key. Raises BadInput with the reason.

    Several secrets: one of them is being replaced by another.
    """
    webhook_id = headers.get("webhook-id", "")
    stamp = headers.get("webhook-timestamp", "")
    if not webhook_id or "." in webhook_id or not stamp.isascii() or not stamp.isdigit():
        raise BadInput("webhook-id or webhook-timestamp is missing or malformed")
    if abs(now.timestamp() - int(stamp)) > TOLERANCE.total_seconds():
        raise BadInput("webhook-timestamp is more than 5 minutes from now")
    signed = f"{webhook_id}.{stamp}.".encode() + body
    expected = [
        b"v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest())
        for secret in secrets
    ]
    given = headers.get("webhook-signature", "").encode().split(b" ")
    # Compare every pair, so that the time taken says nothing about which one matched.
    if not sum(hmac.compare_digest(one, other) for one in expected for other in given):
        raise BadInput("webhook-signature does not match")
    return webhook_id
