"""Keeps the gateway's policy document current, and alive while the control plane is away."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence

import httpx

from base.clock import Clock
from base.errors import BadInput
from base.selfmon import Log
from stack.gateway.policy import PolicyDocument, Rule, active_rules, parse_policy

log = Log(__name__)

WAIT_S = 25
_GRACE_S = 10.0
_LEAST_S = 0.5
_FIRST_BACKOFF_S = 0.5
_LONGEST_BACKOFF_S = 10.0


class PolicyClient:
    """Long-polls the control plane: `await run()` in a task.

    Any failure keeps the last document, whose rules end by themselves: fail static, then safe.
    """

    def __init__(
        self,
        control_url: str,
        gateway: str,
        client: httpx.AsyncClient,
        clock: Clock,
        *,
        headers: Mapping[str, str] | None = None,
        wait_s: int = WAIT_S,
    ) -> None:
        self._url = f"{control_url.rstrip('/')}/api/v1/policies/{gateway}"
        self._client = client
        self._clock = clock
        self._headers = dict(headers or {})
        self._wait_s = wait_s
        self._etag: str | None = None
        self._heard_at: float | None = None
        self.document: PolicyDocument | None = None
        self.failures = 0

    @property
    def rules(self) -> Sequence[Rule]:
        return active_rules(self.document, self._clock.now())

    @property
    def version(self) -> int:
        return self.document.version if self.document else 0

    @property
    def silence_s(self) -> float | None:
        """How long ago the control plane last answered; None before the first time."""
        return None if self._heard_at is None else self._clock.monotonic() - self._heard_at

    async def run(self) -> None:
        backoff = _FIRST_BACKOFF_S
        while True:
            asked_at = self._clock.monotonic()
            if await self.poll():
                backoff = _FIRST_BACKOFF_S
                # A server that does not hold the request must not be asked in a tight loop.
                await asyncio.sleep(max(0.0, asked_at + _LEAST_S - self._clock.monotonic()))
            else:
                await asyncio.sleep(backoff * (0.5 + random.random()))
                backoff = min(2 * backoff, _LONGEST_BACKOFF_S)

    async def poll(self) -> bool:
        """Ask once, waiting up to `wait_s` for a change. False when the answer was no use."""
        headers = {**self._headers, "x-policy-version": str(self.version)}
        if self._etag is not None:
            headers["if-none-match"] = self._etag
        try:
            answer = await self._client.get(
                self._url,
                params={"wait": self._wait_s},
                headers=headers,
                timeout=httpx.Timeout(self._wait_s + _GRACE_S, connect=3.0),
            )
        except httpx.HTTPError as error:
            return self._failed(type(error).__name__)
        if answer.status_code == httpx.codes.NOT_MODIFIED:
            return self._heard()
        if answer.status_code != httpx.codes.OK:
            return self._failed(f"status {answer.status_code}")
        try:
            document = parse_policy(answer.content)
        except BadInput as error:
            return self._failed(str(error))
        if document != self.document:
            log.info("policy_changed", version=document.version, rules=len(document.rules))
        self.document = document
        self._etag = answer.headers.get("etag")
        return self._heard()

    def _heard(self) -> bool:
        if self.failures:
            log.info("policy_source_back", failures=self.failures)
        self.failures = 0
        self._heard_at = self._clock.monotonic()
        return True

    def _failed(self, reason: str) -> bool:
        if self.failures == 0:
            log.warning("policy_source_away", reason=reason, rules_kept=len(self.rules))
        self.failures += 1
        return False
