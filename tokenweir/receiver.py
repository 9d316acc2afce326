"""The receiver process, as `up` starts it."""

from __future__ import annotations

from base.selfmon import set_up_logging
from collector.receiver import ReceiverSettings, run
from tokenweir.datadir import owned
from tokenweir.parent import follow_parent
from tokenweir.settings import Settings


def run_receiver(settings: Settings, parent: int | None) -> int:
    """Receive until SIGTERM; returns the exit status."""
    set_up_logging(settings.log_level)
    if parent is not None:
        follow_parent(parent)
    with owned(settings.data, "receiver"):
        run(
            ReceiverSettings(
                data=settings.data,
                control_url=settings.control_url,
                collector=settings.collector,
                otlp_grpc=settings.otlp_grpc,
                otlp_http=settings.otlp_http,
                tls=settings.tls,
            )
        )
    return 0
