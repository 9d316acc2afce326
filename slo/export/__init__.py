"""SLOs as others read them: Prometheus rules, and OpenSLO v1 documents."""

from slo.export.apart import apart, why_not_apart
from slo.export.openslo import to_openslo
from slo.export.rules import to_rules, why_not

__all__ = ["apart", "to_openslo", "to_rules", "why_not", "why_not_apart"]
