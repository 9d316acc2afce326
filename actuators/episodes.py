"""Which alert episode an action belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Engine

import alerts.read


def open_episodes(db: Engine, now: datetime) -> Mapping[str, str]:
    """Return the loudest open episode of each SLO; the pager and the lease then show one name."""
    loudest_last = reversed(alerts.read.active(db, now))
    return {alert.slo: alert.id for alert in loudest_last}
