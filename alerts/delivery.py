"""The delivery worker: claim, seal, send, classify, settle.

At least once: a worker that dies after sending leaves a message that is sent again under the same
webhook-id and dedup_key, by which receivers know it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import httpx
from sqlalchemy import Connection, Engine

from alerts import book, endpoints, ledger, outbox, silences
from alerts.compose import labels_of
from alerts.metrics import ATTEMPTS, DROPPED
from alerts.notifiers.dialect import Request
from alerts.outbox import Claim
from alerts.outcome import Answer, Fate, Outcome, classify_error, redact
from alerts.receivers import Receiver
from base.clock import Clock
from base.db import transaction
from base.ids import new_id
from base.selfmon import Log

_log = Log("alerts.delivery")

SCHEDULE = tuple(timedelta(seconds=s) for s in (5, 15, 30, 60, 120, 300))  # after the first try
LEASE = timedelta(seconds=60)  # four times as long as a request may take
MAX_AGE = timedelta(hours=24)
KEEP_SETTLED = timedelta(days=30)
KEEP_HEARTBEATS = timedelta(hours=1)
_LEAST_WAIT = timedelta(seconds=1)
_BODY_LIMIT = 4096
_BATCH = 64
_POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class Report:
    """What one run did."""

    attempts: int = 0
    delivered: int = 0
    retried: int = 0
    dead: int = 0
    withdrawn: int = 0


def backoff(attempt: int, jitter: float) -> timedelta:
    """Wait a share of the schedule after the attempt of this number (from 1); at least a second."""
    return max(_LEAST_WAIT, SCHEDULE[min(attempt, len(SCHEDULE)) - 1] * jitter)


class DeliveryWorker:
    """Sends what the outbox holds. Any number of workers may share one database.

    `jitter` gives numbers in [0, 1): full jitter, so that many senders do not return together.
    """

    def __init__(
        self,
        db: Engine,
        receivers: Sequence[Receiver],
        clock: Clock,
        http: httpx.Client,
        *,
        jitter: Callable[[], float],
        max_age: timedelta = MAX_AGE,
    ) -> None:
        self._db = db
        self._receivers = tuple(receivers)
        self._clock = clock
        self._http = http
        self._jitter = jitter
        self._max_age = max_age
        self._stop = threading.Event()
        self._news = [threading.Event() for _ in self._receivers]
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Run one thread per receiver, so that a slow one delays nobody else."""
        for receiver, news in zip(self._receivers, self._news, strict=True):
            thread = threading.Thread(
                target=self._loop,
                args=(receiver, news),
                name=f"deliver-{receiver.name}",
                daemon=True,
            )
            thread.start()
            self._threads.append(thread)

    def wake(self) -> None:
        """Say that a tick has enqueued something."""
        for news in self._news:
            news.set()

    def stop(self, timeout_s: float = 20.0) -> None:
        """Finish the requests that are out, then stop; what is queued stays queued."""
        self._stop.set()
        self.wake()
        for thread in self._threads:
            thread.join(timeout_s)

    def run_once(self, now: datetime) -> Report:
        """Send everything that is due now."""
        report = Report()
        for receiver in self._receivers:
            report = _sum(report, self._drain(receiver, now))
        return report

    def prune(self, now: datetime) -> int:
        """Delete old settled messages; call it now and then."""
        with transaction(self._db) as connection:
            return outbox.prune(connection, now - KEEP_SETTLED, now - KEEP_HEARTBEATS)

    def _loop(self, receiver: Receiver, news: threading.Event) -> None:
        while not self._stop.is_set():
            news.clear()
            try:
                self._drain(receiver, None)
            except Exception:  # noqa: BLE001  a thread that ends silently pages nobody
                _log.exception("delivery_failed", receiver=receiver.name)
            news.wait(_POLL_S)

    def _drain(self, receiver: Receiver, now: datetime | None) -> Report:
        report = Report()
        for _ in range(_BATCH):
            if self._stop.is_set():
                break
            at = now or self._clock.now()
            claimed = self._claim(receiver, at)
            if claimed is None:
                break
            report = _sum(report, self._deliver(receiver, claimed, at))
        return report

    def _claim(self, receiver: Receiver, at: datetime) -> Claim | None:
        with transaction(self._db) as connection:
            if not outbox.has_due(connection, receiver.name, at):
                return None
            if not endpoints.may_send(connection, receiver.name, at):
                return None
            return outbox.claim(connection, receiver.name, at, new_id(self._clock), LEASE)

    def _deliver(self, receiver: Receiver, claim: Claim, at: datetime) -> Report:
        if self._is_silenced(claim, at):
            return Report(withdrawn=1)
        outcome = self._send(receiver, claim, at)
        ATTEMPTS.labels(receiver=receiver.name, fate=str(outcome.fate)).inc()
        # The answer may have taken a while; a replay's clock stands still.
        done_at = max(at, self._clock.now())
        with transaction(self._db) as connection:
            report = self._settle(connection, claim, outcome, done_at)
        level = _log.info if outcome.fate is Fate.DELIVERED else _log.warning
        level(
            "notification",
            receiver=receiver.name,
            fate=str(outcome.fate),
            attempt=claim.attempt,
            reason=outcome.reason,
            id=claim.message.id,
        )
        return report

    def _send(self, receiver: Receiver, claim: Claim, at: datetime) -> Outcome:
        notifier = receiver.notifier
        secrets = notifier.secrets()
        try:
            answer = _post(self._http, notifier.seal(claim.message.body, claim.message.id, at))
        except Exception as error:  # noqa: BLE001  every failure has a fate
            outcome = classify_error(error)
        else:
            # Redacted before it is cut, so that no half of a secret is left.
            safe = replace(answer, body=redact(answer.body, secrets))
            outcome = notifier.classify(safe, at)
        return replace(outcome, reason=redact(outcome.reason, secrets))

    def _is_silenced(self, claim: Claim, at: datetime) -> bool:
        """Withdraw a message whose alerts have all been silenced since it was queued.

        One that brings an end, or a heartbeat, goes out all the same.
        """
        message = claim.message
        if not message.firing or message.resolved:
            return False
        with transaction(self._db) as connection:
            active = silences.active(connection, at)
            if not active:
                return False
            episodes = book.find_episodes(connection, message.firing)
            covered = (silences.covering(active, labels_of(e), at) for e in episodes.values())
            if not episodes or not all(covered):
                return False
            if claim.maybe_heard:
                _doubt(connection, claim)
            outbox.finish(connection, claim, "superseded", at, reason="silenced", code=None)
        DROPPED.labels(receiver=message.receiver, reason="silenced").inc()
        return True

    def _settle(
        self, connection: Connection, claim: Claim, outcome: Outcome, at: datetime
    ) -> Report:
        """Write what became of an attempt: message, what the receiver knows, its health."""
        message, code, reason = claim.message, outcome.status, outcome.reason
        key = (message.receiver, message.group_key)
        match outcome.fate:
            case Fate.DELIVERED:
                endpoints.delivered(connection, message.receiver, at)
                if outbox.finish(connection, claim, "delivered", at, reason=reason, code=code):
                    ledger.write(connection, key, ledger.after_delivery(message, at))
                return Report(attempts=1, delivered=1)
            case Fate.RETRY if not self._is_too_old(claim, at):
                endpoints.failed(connection, message.receiver, at, reason, outcome.after)
                wait = max(backoff(claim.attempt, self._jitter()), outcome.after or timedelta(0))
                outbox.postpone(
                    connection,
                    claim,
                    at + wait,
                    reason=reason,
                    code=code,
                    maybe_heard=outcome.maybe_heard,
                )
                return Report(attempts=1, retried=1)
            case Fate.RETRY:
                endpoints.failed(connection, message.receiver, at, reason, outcome.after)
                self._give_up(connection, claim, outcome, at, status="dropped")
            case Fate.REFUSED | Fate.GONE:
                is_gone = outcome.fate is Fate.GONE
                endpoints.broke(connection, message.receiver, at, reason, disable=is_gone)
                self._give_up(connection, claim, outcome, at, status="dead")
        return Report(attempts=1, dead=1)

    def _give_up(
        self, connection: Connection, claim: Claim, outcome: Outcome, at: datetime, status: str
    ) -> None:
        message = claim.message
        reason, code = outcome.reason, outcome.status
        if outbox.finish(connection, claim, status, at, reason=reason, code=code):
            key = (message.receiver, message.group_key)
            knew = ledger.read(connection, key)
            if claim.maybe_heard:  # an earlier attempt may have arrived
                knew = knew.believing(message.firing)
            after = ledger.after_refusal if status == "dead" else ledger.after_giving_up
            ledger.write(connection, key, after(knew, message, at))
        DROPPED.labels(receiver=message.receiver, reason=status).inc()

    def _is_too_old(self, claim: Claim, at: datetime) -> bool:
        """Say whether an end or a heartbeat waited too long; what still fires is never too old."""
        return not claim.message.firing and at - claim.created_at >= self._max_age


def _doubt(connection: Connection, claim: Claim) -> None:
    key = (claim.message.receiver, claim.message.group_key)
    knew = ledger.read(connection, key)
    ledger.write(connection, key, knew.believing(claim.message.firing))


def _post(http: httpx.Client, request: Request) -> Answer:
    """Send, and read no more of the answer than is worth reading."""
    with http.stream(
        "POST", request.url, headers=dict(request.headers), content=request.body
    ) as response:
        body = b""
        for chunk in response.iter_bytes(_BODY_LIMIT):
            body += chunk
            if len(body) >= _BODY_LIMIT:
                break
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status_code, headers, body.decode("utf-8", "replace"))


def _sum(left: Report, right: Report) -> Report:
    return Report(
        left.attempts + right.attempts,
        left.delivered + right.delivered,
        left.retried + right.retried,
        left.dead + right.dead,
        left.withdrawn + right.withdrawn,
    )
