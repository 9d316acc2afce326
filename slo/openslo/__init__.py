"""OpenSLO v1 documents read as SLOs over request facts."""

from slo.openslo.reader import OpenSloReader

__all__ = ["OpenSloReader"]
