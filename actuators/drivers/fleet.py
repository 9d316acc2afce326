"""A fleet with its own HTTP interface: GET and PUT /replicas."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import httpx
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from actuators.evidence import FleetState
from actuators.lease import Lease
from base.errors import Permanent, Retryable
from base.outbound import redact_url

_US = "tokenweir"


class _Replica(BaseModel):
    model_config = ConfigDict(extra="ignore")
    id: str
    state: str = "ready"


class _LastChange(BaseModel):
    model_config = ConfigDict(extra="ignore")
    by: str | None = None
    lease_id: str | None = None


class _Document(BaseModel):
    model_config = ConfigDict(extra="ignore")
    desired: int = Field(ge=0)
    ready: int = Field(ge=0)
    pending: int = Field(ge=0)
    min: int = Field(ge=0)
    max: int = Field(ge=0)
    replicas: tuple[_Replica, ...] = ()
    last_change: _LastChange | None = None


class HttpFleet:
    """Speaks to one fleet. Every failure names the fleet and what it said."""

    def __init__(self, name: str, url: str, http: httpx.Client) -> None:
        self._name = name
        self._url = f"{url.rstrip('/')}/replicas"
        self._http = http

    def read(self, now: datetime) -> FleetState:  # noqa: ARG002  it answers for the present
        """Ask the fleet how it is."""
        return _state(self._call("GET", None))

    def enact(self, lease: Lease, change: Mapping[str, Any], now: datetime) -> None:  # noqa: ARG002
        """Write the number of replicas; a fleet that grants another number has refused."""
        wanted = int(change["desired"])
        granted = self._call("PUT", {"desired": wanted, "lease_id": lease.id, "by": _US}).desired
        if granted != wanted:
            raise Permanent(f"fleet {self._name} granted {granted} replicas instead of {wanted}")

    def in_place(self, lease: Lease, now: datetime) -> bool | None:  # noqa: ARG002
        try:
            return self._call("GET", None).desired == int(lease.change["desired"])
        except (Permanent, Retryable):
            return None

    def _call(self, method: str, body: Mapping[str, Any] | None) -> _Document:
        where = f"fleet {self._name} at {redact_url(self._url)}"
        try:
            answer = self._http.request(method, self._url, json=body)
        except httpx.HTTPError as error:
            raise Retryable(f"{where} does not answer: {type(error).__name__}") from error
        if answer.status_code >= 500 or answer.status_code == httpx.codes.TOO_MANY_REQUESTS:
            raise Retryable(f"{where} answered {answer.status_code}")
        if answer.status_code != httpx.codes.OK:
            raise Permanent(f"{where} answered {answer.status_code} to {method}")
        try:
            return _Document.model_validate_json(answer.content)
        except ValidationError as error:
            raise Permanent(f"{where} answered something else than a replica document") from error


def _state(document: _Document) -> FleetState:
    last = document.last_change
    return FleetState(
        desired=document.desired,
        ready=document.ready,
        pending=document.pending,
        min=document.min,
        max=document.max,
        replicas=tuple(r.id for r in document.replicas if r.state == "ready"),
        changed_by=last.by if last else None,
        changed_lease=last.lease_id if last else None,
    )
