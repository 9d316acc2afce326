"""SLOs for tests of what counts: documents read as files are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slo.components import with_components
from slo.fields import Report
from slo.located import locate
from slo.model import Slo
from slo.native import read_native


def read_slos(documents: Sequence[Mapping[str, Any]], report: Report | None = None) -> list[Slo]:
    """Read documents, given without `kind`, `objective` and `window` where those do not matter."""
    report = report or Report()
    found = []
    for number, each in enumerate(documents, start=1):
        document = {"kind": "slo", "objective": 90, "window": "1h"} | dict(each)
        located = locate(document, "slo.yaml", number * 10)
        slo = read_native(located, report)
        if slo is not None:
            found.append((slo, located))
    return list(with_components(found, report))


def read_one(**fields: Any) -> Slo:
    (slo,) = read_slos([{"name": "one"} | fields])
    return slo
