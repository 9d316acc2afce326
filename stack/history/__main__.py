"""`python -m stack.history --otlp URL`: sends a month of simulated history to a collector."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from stack.history.month import history
from stack.history.plan import HistorySettings
from stack.history.send import send_history
from stack.wire.bearer import bearer


def main() -> None:
    """Generate history up to now and send it."""
    given = _arguments()
    settings = HistorySettings(
        end=datetime.now(UTC),
        days=given.days,
        requests=given.requests,
        seed=given.seed,
        model=given.model,
    )
    report = send_history(history(settings), given.otlp, headers=bearer(given.otlp_key_file))
    sys.stdout.write(json.dumps(asdict(report)) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m stack.history", description="Send a month of simulated history as OTLP."
    )
    option = parser.add_argument
    option("--otlp", required=True, metavar="URL", help="OTLP/HTTP collector")
    option("--otlp-key-file", type=Path, metavar="FILE", help="the collector's key")
    option("--days", type=int, default=30)
    option("--requests", type=int, default=70_000)
    option("--seed", type=int, default=7)
    option("--model", default="tiny-llama")
    return parser.parse_args()


if __name__ == "__main__":
    main()
