"""OpenSLO objects by kind and name, whatever file they stand in."""

from __future__ import annotations

import re

from slo.imports.draft import string_of
from slo.imports.outcome import Refusal
from slo.located import Located

KINDS = (
    "SLO", "SLI", "Service", "DataSource", "AlertPolicy", "AlertCondition",
    "AlertNotificationTarget",
)  # fmt: skip
VERSIONS = (
    "openslo/v1", "openslo/v1alpha", "openslo/v2alpha",
    "openslo.com/v1", "openslo.com/v2alpha",  # the group as Kubernetes wants it
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9._|/\\]{0,253}[A-Za-z0-9])?")


class Objects:
    """Every object of the files read together: a reference may cross files."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Located] = {}

    def add(self, found: Located) -> None:
        metadata = found.get("metadata")
        name = string_of(metadata.get("name")) if metadata else ""
        self._found.setdefault((string_of(found.get("kind")), name), found)

    def get(self, kind: str, name: str) -> Located | None:
        return self._found.get((kind, name))

    def refer(self, kind: str, at: Located) -> Located:
        """Follow a reference; its target has to be among the files."""
        found = self.get(kind, string_of(at))
        if found is None:
            raise Refusal(
                at, f"{kind} {string_of(at)!r} is in none of the files: pass its file too"
            )
        return found


def is_openslo(document: Located) -> bool:
    return string_of(document.get("apiVersion")).startswith(("openslo/", "openslo.com/"))


def check_object(found: Located) -> tuple[Located, Located]:
    """Return metadata and spec of an object that has what every object must have."""
    version, kind = found.get("apiVersion"), string_of(found.get("kind"))
    if version is not None and string_of(version) not in VERSIONS:
        known = ", ".join(VERSIONS)
        raise Refusal(version, f"apiVersion {string_of(version)!r} is not one of {known}")
    if kind not in KINDS:
        raise Refusal(found.get("kind") or found, f"kind {kind!r} is not one of {', '.join(KINDS)}")
    metadata = found.get("metadata")
    if metadata is None or not isinstance(metadata.data, dict):
        raise Refusal(found, "metadata is missing")
    name = metadata.get("name")
    if not string_of(name):
        raise Refusal(metadata, "metadata.name is missing")
    if not _NAME.fullmatch(string_of(name)):
        raise Refusal(
            name or metadata,
            f"name {string_of(name)!r} must be letters, digits and dashes (RFC 1123)",
        )
    spec = found.get("spec")
    if spec is not None and not isinstance(spec.data, dict):
        raise Refusal(spec, "spec is not a mapping of fields")
    return metadata, spec or Located({}, found.line, found.file)
