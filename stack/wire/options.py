"""Command line options that several processes share."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_otlp_options(parser: argparse.ArgumentParser) -> None:
    """Add where spans are sent, and with which key."""
    parser.add_argument(
        "--otlp", metavar="URL", help="OTLP/HTTP collector; none: no spans are sent"
    )
    parser.add_argument(
        "--otlp-key-file",
        type=Path,
        metavar="FILE",
        help="the collector's key, sent as `Authorization: Bearer …`",
    )
