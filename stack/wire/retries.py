"""One budget of retries for a request, whichever layer makes them: layers must not multiply."""

from __future__ import annotations

from typing import Final

RETRY_BUDGET: Final = 1
RETRY_HEADER: Final = "x-tokenweir-retries-left"
