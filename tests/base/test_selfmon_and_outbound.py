from __future__ import annotations

import io
import logging

import httpx
import pytest

from base.outbound import http_client, redact_url
from base.selfmon import Log, set_up_logging


@pytest.fixture
def lines() -> io.StringIO:
    stream = io.StringIO()
    before = logging.getLogger().handlers[:]
    set_up_logging(stream=stream)
    yield stream
    logging.getLogger().handlers[:] = before


def test_a_log_line_is_an_event_and_its_fields(lines: io.StringIO) -> None:
    Log("slo").info("slo_loaded", name="chat ttft", count=3, ratio=None)

    assert lines.getvalue().rstrip().endswith('slo slo_loaded name="chat ttft" count=3 ratio=null')


def test_a_redirect_is_never_followed() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(302, headers={"location": "http://169.254.169.254/"})

    with http_client(transport=httpx.MockTransport(answer)) as client:
        assert client.get("http://127.0.0.1/hook").status_code == 302


def test_an_address_in_an_error_keeps_no_path_and_no_password() -> None:
    assert redact_url("https://user:pw@hooks.example:8443/T0/B0/secret?k=v") == (
        "https://hooks.example:8443/…"
    )
