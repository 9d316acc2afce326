"""Where a surface listens: HOST:PORT, with port 0 for any free one."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass

from base.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Listen:
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

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
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((listen.host, listen.port))
    except OSError as error:
        sock.close()
        raise ConfigError(
            f"cannot listen on {listen}: {error.strerror}; choose another port, or 0 for a free one"
        ) from error
    return sock
