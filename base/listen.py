"""Where a surface listens: HOST:PORT, with port 0 for any free one."""

from __future__ import annotations

import ipaddress
import socket
from contextlib import ExitStack
from dataclasses import dataclass

from base.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Listen:
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def at(self, port: int) -> Listen:
        """Name the same host with the port that was bound."""
        return Listen(self.host, port)

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse_listen(text: str, what: str) -> Listen:
    """Read HOST:PORT; `what` names the option in the error."""
    host, colon, port = text.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not colon or not port.isdecimal() or int(port) > 65_535:
        raise ConfigError(f"{what} is {text!r}: write HOST:PORT, for example 127.0.0.1:8080")
    return Listen(host, int(port))


def bind(listen: Listen) -> socket.socket:
    """Bind a TCP socket now, so that a taken port is an error at once and port 0 is known."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with ExitStack() as on_failure:
            sock = on_failure.enter_context(socket.socket(family, kind, proto))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(address)
            on_failure.pop_all()
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {listen}: {error.strerror}; choose another port, or 0 for a free one"
        ) from error
    return sock
