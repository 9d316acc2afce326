from __future__ import annotations

import pytest

from base.errors import ConfigError
from base.listen import Listen, bind, parse_listen


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("127.0.0.1:8080", "127.0.0.1", 8080), ("[::1]:0", "::1", 0), (":4318", "127.0.0.1", 4318)],
)
def test_an_address_is_host_and_port(text: str, host: str, port: int) -> None:
    assert parse_listen(text, "--http") == Listen(host, port)


@pytest.mark.parametrize("text", ["8080", "localhost", "127.0.0.1:http", "127.0.0.1:70000", ""])
def test_a_wrong_address_names_its_option_and_the_right_form(text: str) -> None:
    with pytest.raises(ConfigError, match="--http is .*: write HOST:PORT"):
        parse_listen(text, "--http")


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("pod", False)],
)
def test_only_loopback_is_loopback(host: str, loopback: bool) -> None:
    assert Listen(host, 1).is_loopback is loopback


def test_port_zero_takes_a_free_port_and_a_taken_one_is_an_error() -> None:
    with bind(Listen("127.0.0.1", 0)) as first:
        first.listen()
        port = first.getsockname()[1]

        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}"):
            bind(Listen("127.0.0.1", port))
