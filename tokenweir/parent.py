"""A child that outlives its supervisor would hold the store's lock: follow the parent instead."""

from __future__ import annotations

import os
import signal
import threading

from base.selfmon import Log

log = Log(__name__)

POLL_S = 0.5


def follow_parent(parent: int) -> None:
    """End this process with SIGTERM, and so with a drain, once `parent` is no longer its parent."""
    gone = threading.Event()

    def watch() -> None:
        while not gone.wait(POLL_S):
            if os.getppid() != parent:
                log.warning("supervisor_gone", parent=parent)
                os.kill(os.getpid(), signal.SIGTERM)
                return

    threading.Thread(target=watch, name="follow-parent", daemon=True).start()
