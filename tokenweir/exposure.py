"""Nothing listens beyond loopback without a key."""

from __future__ import annotations

from base.errors import ConfigError
from base.listen import parse_listen
from tokenweir.settings import Settings


def refuse_open_doors(settings: Settings) -> None:
    """ConfigError if a surface would be open to the network and no key exists yet."""
    surfaces = {
        "--http": settings.http,
        "--otlp-http": settings.otlp_http,
        "--otlp-grpc": settings.otlp_grpc,
        "--keda": settings.keda,
    }
    open_ones = [
        f"{option} {address}"
        for option, address in surfaces.items()
        if not parse_listen(address, option).is_loopback
    ]
    if open_ones and not _has_keys(settings):
        raise ConfigError(
            f"{', '.join(open_ones)} would be open to the network without a key: make one with "
            f"`tokenweir key create --data {settings.data} --name NAME --role ROLE`, or listen "
            "on 127.0.0.1"
        )


def _has_keys(settings: Settings) -> bool:
    from base.clock import SystemClock
    from collector.keys import Authenticator
    from tokenweir.keys import open_control

    engine = open_control(settings)
    try:
        authenticator = Authenticator(engine, SystemClock())
        authenticator.refresh()
        return authenticator.has_keys
    finally:
        engine.dispose()
