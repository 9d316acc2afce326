"""From a request's bytes to its acknowledgement, the same for every transport."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from base.clock import Clock
from base.errors import BadInput, Retryable
from base.selfmon import Log
from collector import otlp_json
from collector.admission import Admission, RateLimit
from collector.counters import Counters
from collector.keys import Identity
from collector.refusal import Reason, Refused
from collector.wal import LogWriter
from collector.wal_records import LogRecord
from collector.wellformed import Checked, check

_LARGE_BYTES = 256 << 10  # parsing more than this on the event loop would delay other answers
_log = Log(__name__)


@dataclass(frozen=True, slots=True)
class Accepted:
    """On disk. Spans that were not valid are counted; they must not be sent again."""

    spans: int
    rejected: int
    complaint: str


class Intake:
    """Checks a body, appends it to the log, and returns once it is on disk."""

    def __init__(
        self,
        admission: Admission,
        rate: RateLimit,
        log: LogWriter,
        counters: Counters,
        clock: Clock,
        *,
        max_request_bytes: int,
    ) -> None:
        self.admission = admission
        self.counters = counters
        self.max_request_bytes = max_request_bytes
        self._rate = rate
        self._log = log
        self._clock = clock

    async def accept(
        self, body: bytes, identity: Identity, transport: str, *, is_json: bool = False
    ) -> Accepted:
        """Take one request. Raises Refused."""
        begun = self._clock.monotonic()
        checked = await self._check(body, is_json=is_json)
        if checked.spans:
            self._rate.take(identity.tenant or identity.source, checked.spans)
            await self._append(checked, identity)
        self.counters.accepted(
            identity,
            transport,
            spans=checked.spans,
            size=len(checked.body),
            rejected=checked.rejected,
            ack_s=self._clock.monotonic() - begun,
        )
        return Accepted(checked.spans, checked.rejected, checked.complaint)

    async def _check(self, body: bytes, *, is_json: bool) -> Checked:
        read = _from_json if is_json else check
        try:
            if is_json and len(body) > _LARGE_BYTES:
                return await asyncio.to_thread(read, body)
            return read(body)
        except BadInput as error:
            raise Refused(Reason.UNDECODABLE, str(error)) from error

    async def _append(self, checked: Checked, identity: Identity) -> None:
        record = LogRecord(
            body=checked.body,
            tenant=identity.tenant,
            source=identity.source,
            received_ns=int(self._clock.now().timestamp() * 1e9),
            spans=checked.spans,
        )
        try:
            written = self._log.append(record)
        except Retryable as error:
            raise Refused(Reason.OVERLOADED, str(error), error.after) from error
        try:
            await asyncio.wrap_future(written)
        except Retryable as error:
            raise Refused(Reason.DISK, str(error), error.after) from error


def _from_json(body: bytes) -> Checked:
    return check(otlp_json.to_protobuf(body))
