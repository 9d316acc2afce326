"""Plays planned requests through simulated engines and writes what each process would have said."""

from __future__ import annotations

import heapq
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from stack.engine.calibration import load_timing
from stack.engine.sequence import Finished, FirstToken, Work
from stack.engine.simulation import Simulation
from stack.history.plan import HistorySettings, Planned
from stack.history.spans import TO_ENGINE_S, Answered, SpanWriter
from stack.router.choice import Balance, Option, choose
from stack.wire.outcome import CLIENT_CLOSED, Outcome, Reason, answered, client_gone, failed

HANDOVER_S = 0.006
PATIENCE_S = 30.0
"""How long an interactive client waits for the first token."""
FAULT_S = 10.0
"""A client that leaves after waiting longer than this counts against us, as at the gateway."""
DEADLINE_S = 120.0
_SYSTEM_PROMPT_BLOCKS = 3
_SESSIONS_REMEMBERED = 2000


class Player:
    """Plays planned requests through the simulated engines and writes what came of them."""

    def __init__(self, settings: HistorySettings) -> None:
        self.writer = SpanWriter(settings)
        self._settings = settings
        timing = load_timing().slowed(1 / settings.speed)
        self._engines = [Simulation(settings.limits, timing) for _ in settings.replicas]
        self._next = [math.inf] * len(self._engines)  # when each has something to say
        self._load = [0] * len(self._engines)
        self._pending: dict[str, _Pending] = {}
        self._balance = Balance()
        self._last_used = [0] * len(self._engines)
        self._sessions: dict[int, list[int]] = {}  # session -> blocks each replica saw of it
        self._system_seen: defaultdict[tuple[str, int], int] = defaultdict(int)
        self._tenants = {c.tenant: index for index, c in enumerate(settings.customers)}
        self._order = itertools.count()
        self._agenda: list[tuple[float, int, Callable[[float], None]]] = []
        for slow in settings.slow_replicas:
            begin = settings.at(slow.days_before_end)
            if begin >= 0:
                self._at(begin, partial(self._slow_down, slow.replica, slow.factor))
                self._at(begin + slow.lasts_s, partial(self._slow_down, slow.replica, 1.0))

    def arrive(self, planned: Planned) -> None:
        """Take one request; calls come in order of time."""
        self.run_until(planned.at)
        if planned.fate:
            self.writer.request(planned, _refused(planned))
            return
        blocks = planned.prompt_tokens // self._settings.limits.block_size
        replica, decision = self._choose(planned, blocks)
        work_id = str(next(self._order))
        self._pending[work_id] = _Pending(planned, replica, decision)
        self._load[replica] += 1
        work = Work(
            work_id,
            planned.prompt_tokens,
            planned.output_tokens,
            self._hashes(planned, blocks),
        )
        self._at(planned.at + TO_ENGINE_S + HANDOVER_S, partial(self._submit, work))
        if planned.leaves_after_s is not None:
            self._at(planned.at + planned.leaves_after_s, partial(self._leave, work_id))
        if planned.customer.priority == "interactive":
            self._at(planned.at + PATIENCE_S, partial(self._lose_patience, work_id))
        self._at(planned.at + DEADLINE_S, partial(self._time_out, work_id))

    def run_until(self, end: float) -> None:
        """Let everything up to `end` happen."""
        while self._agenda and self._agenda[0][0] <= end:
            now, _, act = heapq.heappop(self._agenda)
            self._step(now)
            act(now)
        self._step(end)

    def _at(self, when: float, act: Callable[[float], None]) -> None:
        heapq.heappush(self._agenda, (when, next(self._order), act))

    def _step(self, now: float) -> None:
        for replica, engine in enumerate(self._engines):
            if self._next[replica] > now:
                continue
            events, following = engine.step(now)
            self._next[replica] = math.inf if following is None else following
            for event in events:
                match event:
                    case FirstToken():
                        self._pending[event.id].first_token_at = event.at
                    case Finished():
                        self._finish(event)

    def _slow_down(self, replica: int, factor: float, now: float) -> None:
        self._engines[replica].slow_down(factor, now)
        self._next[replica] = now

    def _submit(self, work: Work, now: float) -> None:
        pending = self._pending.get(work.id)
        if pending is not None:  # else its client left on the way
            self._engines[pending.replica].submit(work, now)
            self._next[pending.replica] = now

    def _finish(self, end: Finished) -> None:
        pending = self._pending.pop(end.id)
        self._load[pending.replica] -= 1
        self.writer.request(
            pending.planned,
            Answered(
                outcome=answered(()),
                status=200,
                end=end.at,
                replica=pending.replica,
                decision=pending.decision,
                first_token_at=end.first_token_at,
                finished=end,
            ),
        )

    def _leave(self, work_id: str, now: float) -> None:
        pending = self._pending.get(work_id)
        if pending is not None:
            streamed = pending.first_token_at if pending.planned.stream else None
            outcome = client_gone(now - pending.planned.at, streamed, FAULT_S)
            self._give_up(work_id, now, outcome, CLIENT_CLOSED)

    def _lose_patience(self, work_id: str, now: float) -> None:
        pending = self._pending.get(work_id)
        if pending is not None and pending.first_token_at is None:
            self._leave(work_id, now)

    def _time_out(self, work_id: str, now: float) -> None:
        if work_id in self._pending:
            self._give_up(work_id, now, failed(Reason.TIMEOUT, "timeout"), 504)

    def _give_up(self, work_id: str, now: float, outcome: Outcome, unsent_status: int) -> None:
        """End a request without an answer: the engine has no span for it, the others do."""
        pending = self._pending.pop(work_id)
        self._engines[pending.replica].abort(work_id, now)
        self._next[pending.replica] = now
        self._load[pending.replica] -= 1
        started = pending.planned.stream and pending.first_token_at is not None
        self.writer.request(
            pending.planned,
            Answered(
                outcome=outcome,
                status=200 if started else unsent_status,
                end=now,
                replica=pending.replica,
                decision=pending.decision,
                first_token_at=pending.first_token_at,
            ),
        )

    def _choose(self, planned: Planned, blocks: int) -> tuple[int, str]:
        """Choose as the router does, from what it would remember of prefixes."""
        seen = self._sessions.setdefault(planned.session, [0] * len(self._engines))
        tenant = planned.customer.tenant
        options = [
            Option(
                name=name,
                url=name,
                load=self._load[index],
                tokens=0,
                last_used=self._last_used[index],
                matched=min(blocks, max(seen[index], self._system_seen[tenant, index])),
            )
            for index, name in enumerate(self._settings.replicas)
        ]
        choice = choose(options, blocks, self._balance)
        if choice is None:
            raise ValueError("history needs at least one replica")
        replica = options.index(choice.option)
        self._last_used[replica] = next(self._order)
        seen[replica] = max(seen[replica], blocks)
        self._system_seen[tenant, replica] = min(blocks, _SYSTEM_PROMPT_BLOCKS)
        if len(self._sessions) > _SESSIONS_REMEMBERED:
            del self._sessions[next(iter(self._sessions))]
        return replica, f"{choice.stage} {choice.reason}"

    def _hashes(self, planned: Planned, blocks: int) -> tuple[int, ...]:
        """Name a prompt's blocks: its tenant's system prompt, then its session's conversation."""
        system = min(blocks, _SYSTEM_PROMPT_BLOCKS)
        tenant = -1000 * (1 + self._tenants[planned.customer.tenant])
        session = planned.session << 16
        return (*range(tenant, tenant + system), *range(session + system, session + blocks))


@dataclass(slots=True)
class _Pending:
    planned: Planned
    replica: int
    decision: str
    first_token_at: float | None = None


def _refused(planned: Planned) -> Answered:
    """Say how the gateway ends a request that never reaches the router."""
    outcome, status, took_s = _REFUSALS[planned.fate]
    return Answered(outcome=outcome, status=status, end=planned.at + took_s)


_REFUSALS: Mapping[str, tuple[Outcome, int, float]] = {
    "client_error": (failed(Reason.CLIENT_ERROR, "invalid_request"), 400, 0.001),
    "quota": (failed(Reason.QUOTA, "rate_limit_exceeded"), 429, 0.0008),
    "internal_error": (failed(Reason.INTERNAL_ERROR, "KeyError"), 500, 0.003),
}
