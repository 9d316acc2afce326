"""The control plane's shedding policy: what a document says about one request.

A document is a list of rules, each with its own end. The gateway decides alone: the same request
id and rule always give the same answer, so a decision can be checked afterwards from the span.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from base.errors import BadInput


class Match(BaseModel):
    """Which requests a rule is about; None matches everything."""

    model_config = ConfigDict(frozen=True)
    tenant: str | None = None
    route: str | None = None
    priority: str | None = None
    model: str | None = None


class Rule(BaseModel):
    """One lease's wish. Unknown fields are ignored: an older gateway obeys what it knows."""

    model_config = ConfigDict(frozen=True)
    id: str
    match: Match = Match()
    action: str = "shed"
    fraction: float | None = Field(default=None, ge=0, le=1)
    max_concurrency: int | None = Field(default=None, ge=0)
    retry_after_s: float = Field(default=10, ge=0)
    reason: str = ""
    expires_at: AwareDatetime


class PolicyDocument(BaseModel):
    """What one gateway is asked to do."""

    model_config = ConfigDict(frozen=True)
    gateway: str
    version: int
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """The request a policy is asked about. `active` counts its tenant's requests in flight."""

    request_id: str
    tenant: str
    route: str
    priority: str
    model: str
    active: int


@dataclass(frozen=True, slots=True)
class Shed:
    """A refusal by policy. The reason goes to the client: it names the cause, not people."""

    rule_id: str
    reason: str
    retry_after_s: float


def parse_policy(raw: bytes) -> PolicyDocument:
    """Read a document. Raises BadInput, and the gateway keeps the one it has."""
    try:
        return PolicyDocument.model_validate_json(raw)
    except ValidationError as error:
        raise BadInput(f"policy document: {error}") from error


def active_rules(document: PolicyDocument | None, now: datetime) -> Sequence[Rule]:
    """Give the rules still in force: each ends at its own time, whatever became of its author."""
    if document is None:
        return ()
    return [rule for rule in document.rules if rule.expires_at > now]


def decide(rules: Sequence[Rule], request: Candidate) -> Shed | None:
    """Find the first rule that refuses a request; None lets it pass."""
    for rule in rules:
        if not _matches(rule.match, request):
            continue
        over = rule.max_concurrency is not None and request.active >= rule.max_concurrency
        drawn = rule.fraction is not None and draw(rule.id, request.request_id) < rule.fraction
        if over or drawn:
            return Shed(rule.id, rule.reason or rule.action, rule.retry_after_s)
    return None


def draw(rule_id: str, request_id: str) -> float:
    """Map a request to a number in [0, 1), evenly, and independently for each rule."""
    digest = hashlib.blake2b(f"{rule_id}\n{request_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64


def _matches(match: Match, request: Candidate) -> bool:
    wanted = (match.tenant, match.route, match.priority, match.model)
    actual = (request.tenant, request.route, request.priority, request.model)
    return all(want is None or want == have for want, have in zip(wanted, actual, strict=True))
