"""Says once that a piece which asks nobody for a key can be reached from other machines."""

from __future__ import annotations

import ipaddress

from base.selfmon import Log

log = Log(__name__)


def warn_if_exposed(address: str, piece: str, open_to_all: str) -> None:
    """Log a warning if `address` (HOST:PORT) is not loopback; `open_to_all` names what is open."""
    if not is_loopback(address):
        log.warning("open_to_the_network", piece=piece, listen=address, without_key=open_to_all)


def is_loopback(address: str) -> bool:
    """Tell whether only this machine reaches HOST:PORT; a name other than localhost may not be."""
    host = address.rpartition(":")[0].strip("[]")
    if host in {"", "localhost"}:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
