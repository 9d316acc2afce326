from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks.webhooks import Webhook

from alerts.signing import decode_secret, signature_headers
from base.errors import ConfigError


def whsec(key: bytes) -> str:
    return "whsec_" + base64.b64encode(key).decode()


@given(key=st.binary(min_size=24, max_size=64), text=st.dictionaries(st.text(), st.text()))
def test_the_reference_library_accepts_our_signature(key: bytes, text: dict[str, str]) -> None:
    import json

    body = json.dumps(text, ensure_ascii=False).encode()
    headers = signature_headers([decode_secret(whsec(key), where="x")], "msg1", _now(), body)

    assert Webhook(whsec(key)).verify(body, headers) == text


def test_during_a_rotation_both_secrets_verify() -> None:
    old, new = b"o" * 32, b"n" * 32
    headers = signature_headers([new, old], "msg1", _now(), b'{"a":1}')

    for key in (old, new):
        assert Webhook(whsec(key)).verify(b'{"a":1}', headers) == {"a": 1}


def test_the_specification_s_vector_is_met() -> None:
    key = decode_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", where="x")
    at = datetime.fromtimestamp(1614265330, UTC)

    headers = signature_headers([key], "msg_p5jXN8AQM9LWM0D4loKWxJek", at, b'{"test": 2432232314}')

    expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert headers["webhook-signature"] == expected


@pytest.mark.parametrize("text", ["", "whsec_", "short", "whsec_????", whsec(b"x" * 65)])
def test_a_bad_secret_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(ConfigError, match="openssl rand") as caught:
        decode_secret(text, where="alerts.receivers[pager].secret")

    assert "alerts.receivers[pager].secret" in str(caught.value)
    assert len(text) < 8 or text not in str(caught.value)


def _now() -> datetime:
    return datetime.now(UTC)
