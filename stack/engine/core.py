"""The simulation in real time: one timer wakes it when something is due, not once per token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from base.clock import Clock
from stack.engine.scheduler import Counters
from stack.engine.sequence import Finished, FirstToken, Work
from stack.engine.simulation import Simulation


@dataclass(slots=True, eq=False)
class Ticket:
    """A sequence under way: wait for `first`, count with `EngineCore.tokens`, wait for `done`."""

    work: Work
    arrived_at: float
    first: asyncio.Future[float]
    done: asyncio.Future[Finished]
    handover: asyncio.TimerHandle | None


class EngineCore:
    """Runs one simulated engine on the event loop it is used from.

    `handover_s` passes between a request's arrival and the engine's queue, as tokenising and the
    way to the engine process do in vLLM. Times are `clock.monotonic()`.
    """

    def __init__(self, simulation: Simulation, clock: Clock, handover_s: float) -> None:
        self._simulation = simulation
        self._clock = clock
        self._handover_s = handover_s
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._tickets: dict[str, Ticket] = {}
        self._handed_over = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_paused(self) -> bool:
        return self._simulation.is_paused

    @property
    def queued(self) -> int:
        """Sequences that wait, those on their way to the queue included."""
        return self._simulation.waiting + len(self._tickets) - self._handed_over

    @property
    def in_flight(self) -> int:
        return len(self._tickets)

    def fits(self, work: Work) -> bool:
        return self._simulation.fits(work.prompt_tokens, work.output_tokens)

    def start(self, work: Work) -> Ticket:
        """Take a sequence in."""
        ticket = Ticket(
            work,
            self._clock.monotonic(),
            self._loop.create_future(),
            self._loop.create_future(),
            None,
        )
        ticket.handover = self._loop.call_later(self._handover_s, self._hand_over, ticket)
        self._tickets[work.id] = ticket
        self._idle.clear()
        return ticket

    def tokens(self, ticket: Ticket) -> int:
        """Count the tokens that are out now."""
        if ticket.done.done() and not ticket.done.cancelled():
            return ticket.work.output_tokens
        return self._simulation.tokens(ticket.work.id, self._clock.monotonic())

    def end(self, ticket: Ticket) -> None:
        """Give up a sequence that is not complete; harmless for one that is."""
        if self._tickets.pop(ticket.work.id, None) is None:
            return
        if ticket.handover is not None:
            ticket.handover.cancel()
        else:
            self._handed_over -= 1
            self._simulation.abort(ticket.work.id, self._clock.monotonic())
        ticket.first.cancel()
        ticket.done.cancel()
        self._pump()

    def counters(self) -> Counters:
        """Bring the totals up to now and return them."""
        self._pump()
        return self._simulation.counters

    def control(self, act: Callable[[Simulation, float], None]) -> None:
        """Pause, resume or slow the simulation as of now."""
        act(self._simulation, self._clock.monotonic())
        self._pump()

    async def drained(self) -> None:
        """Return when nothing is in flight."""
        await self._idle.wait()

    def close(self) -> None:
        """Give up all that is in flight."""
        for ticket in list(self._tickets.values()):
            self.end(ticket)
        if self._timer is not None:
            self._timer.cancel()

    def _hand_over(self, ticket: Ticket) -> None:
        ticket.handover = None
        self._handed_over += 1
        self._simulation.submit(ticket.work, self._clock.monotonic())
        self._pump()

    def _pump(self) -> None:
        """Take what has happened, and set the timer for what will."""
        now = self._clock.monotonic()
        events, following = self._simulation.step(now)
        for event in events:
            ticket = self._tickets.get(event.id)
            if ticket is None:
                continue
            match event:
                case FirstToken():
                    ticket.first.set_result(event.at)
                case Finished():
                    del self._tickets[event.id]
                    self._handed_over -= 1
                    ticket.done.set_result(event)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if following is not None:
            self._timer = self._loop.call_later(max(0.0, following - now), self._pump)
        if not self._tickets:
            self._idle.set()
