"""What differs between one server and a cluster: ENGINE and ON CLUSTER, nothing else."""

from __future__ import annotations

import re

_ENGINE = re.compile(r"ENGINE = (\w*MergeTree)\(([^)]*)\)")
_CREATE = re.compile(
    r"^((?:CREATE (?:TABLE|DATABASE|MATERIALIZED VIEW)(?: IF NOT EXISTS)?|ALTER TABLE|DROP TABLE"
    r"(?: IF EXISTS)?|DROP VIEW(?: IF EXISTS)?) \S+)"
)
# One path per table and shard; the macros are those every cluster's servers define.
_PATH = "'/clickhouse/tables/{uuid}/{shard}', '{replica}'"


def for_cluster(statement: str, cluster: str | None) -> str:
    """Adapt one DDL statement to a cluster; without one the text is unchanged."""
    if cluster is None:
        return statement
    placed = _CREATE.sub(rf"\1 ON CLUSTER '{cluster}'", statement.lstrip(), count=1)
    return _ENGINE.sub(_replicated, placed)


def _replicated(match: re.Match[str]) -> str:
    kind, arguments = match.groups()
    return f"ENGINE = Replicated{kind}({', '.join(part for part in (_PATH, arguments) if part)})"
