"""Standard Webhooks 1.0 signatures, scheme v1 (HMAC-SHA256)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime

from base.errors import ConfigError

_PREFIX = "whsec_"
_MIN_BYTES = 24
_MAX_BYTES = 64


def decode_secret(text: str, *, where: str) -> bytes:
    """Read `whsec_<base64>`, with or without the prefix: 24 to 64 bytes.

    `where` names the setting in the error; the secret itself is never repeated.
    """
    try:
        key = base64.b64decode(text.strip().removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not _MIN_BYTES <= len(key) <= _MAX_BYTES:
        raise ConfigError(
            f"{where}: a webhook secret is whsec_ and the base64 of {_MIN_BYTES} to {_MAX_BYTES} "
            "random bytes; make one with: echo whsec_$(openssl rand -base64 32)"
        )
    return key


def signature_headers(
    keys: Sequence[bytes], message_id: str, at: datetime, body: bytes
) -> dict[str, str]:
    """Sign the exact bytes sent; `at` is the time of the attempt, the id stays across attempts.

    Several keys give several signatures, which is how a secret is rotated.
    """
    seconds = str(int(at.timestamp()))
    signed = b".".join((message_id.encode(), seconds.encode(), body))
    signatures = (
        "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        for key in keys
    )
    return {
        "webhook-id": message_id,
        "webhook-timestamp": seconds,
        "webhook-signature": " ".join(signatures),
    }
