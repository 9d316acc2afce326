"""vLLM's continuous batching as a pure discrete-event simulation: one engine in virtual time.

Time is whatever the caller says it is, in seconds: the bundled server calls `step` with its
clock, the history generator as fast as it can. No time passes in here, nothing is random, and
the same calls give the same answers.

Steps that only decode are alike until something happens, so they are run as one: the cost of the
simulation grows with requests, not with tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from stack.engine.calibration import Timing
from stack.engine.scheduler import Batch, Counters, EngineLimits, Scheduler
from stack.engine.sequence import Event, FirstToken, Given, Sequence, Work

_TINY = 1e-9


class StepObserver(Protocol):
    """Is told of every step; the server's histograms are made of it."""

    def step(self, tokens: int, times: int) -> None:
        """Take note of `times` equal steps in a row that processed `tokens` each."""
        ...

    def gap(self, seconds: float, times: int) -> None:
        """Take note of `times` tokens that came so long after the one before them."""
        ...


@dataclass(slots=True)
class _Run:
    """A batch in execution: `steps` equal steps from `start` on."""

    start: float
    step_s: float
    steps: int
    batch: Batch

    @property
    def end(self) -> float:
        return self.start + self.step_s * self.steps

    def steps_by(self, now: float) -> int:
        """Count the steps that are complete at `now`."""
        return max(0, min(self.steps, math.floor((now - self.start) / self.step_s + _TINY)))

    def cut(self, now: float) -> None:
        """End with the step in flight at `now`, so that newcomers can join the next one."""
        in_flight = math.ceil((now - self.start) / self.step_s - _TINY)
        self.steps = min(self.steps, max(1, in_flight))


class Simulation:
    """One engine core. Calls must come with times that never go backwards."""

    def __init__(
        self, limits: EngineLimits, timing: Timing, observer: StepObserver | None = None
    ) -> None:
        self._scheduler = Scheduler(limits)
        self._normal_timing = timing
        self._timing = timing
        self._observer = observer
        self._sequences: dict[str, Sequence] = {}
        self._run: _Run | None = None
        self._boundary = 0.0
        self._events: list[Event] = []
        self._next_order = 0
        self._is_paused = False

    @property
    def counters(self) -> Counters:
        """Totals, and gauges as of the last step: they stand still when the engine does."""
        return self._scheduler.counters

    @property
    def waiting(self) -> int:
        """Sequences that wait now, whether or not a step has reported them yet."""
        return self._scheduler.waiting_count

    @property
    def is_idle(self) -> bool:
        return not self._sequences

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    @property
    def blocks_accounted(self) -> int:
        """Blocks over all states; anything but the size of the cache is a leak."""
        return self._scheduler.cache.accounted()

    def fits(self, prompt_tokens: int, output_tokens: int) -> bool:
        """Say whether the cache could ever hold such a sequence."""
        cache = self._scheduler.cache
        return cache.blocks_for(prompt_tokens + output_tokens) <= cache.blocks

    def submit(self, work: Work, now: float) -> None:
        """Queue a sequence at `now`; it is considered at the next step boundary."""
        if work.prompt_tokens < 1 or work.output_tokens < 1:
            raise ValueError(f"request {work.id!r} needs at least one token in and one out")
        if not self.fits(work.prompt_tokens, work.output_tokens):
            raise ValueError(f"request {work.id!r} is longer than the whole cache")
        self._catch_up(now)
        sequence = Sequence(work, self._next_order, queued_at=now)
        self._next_order += 1
        self._sequences[work.id] = sequence
        self._scheduler.enqueue(sequence)

    def abort(self, work_id: str, now: float) -> Given | None:
        """End a sequence early; None when it is unknown or already complete."""
        self._catch_up(now)
        sequence = self._sequences.pop(work_id, None)
        if sequence is None:
            return None
        given = Given(
            self._tokens_by(sequence, now), sequence.cached_tokens, sequence.first_token_at
        )
        sequence.is_gone = True
        if not sequence.is_running:
            self._scheduler.leave_queue()
        elif self._run is None:  # else its blocks are freed when the step in flight ends
            self._scheduler.drop_gone()
        return given

    def pause(self, now: float) -> None:
        """Stop after the step in flight and keep everything, as `/pause?mode=keep` does."""
        self._catch_up(now)
        self._is_paused = True

    def resume(self, now: float) -> None:
        self._catch_up(now)
        self._is_paused = False
        self._boundary = max(self._boundary, now)

    def slow_down(self, factor: float, now: float) -> None:
        """From the next step on, take `factor` times as long as calibrated; 1 is normal."""
        self._catch_up(now)
        self._timing = self._normal_timing.slowed(factor)

    def step(self, now: float) -> tuple[list[Event], float | None]:
        """Advance to `now`: what happened since the last call, and when to call again.

        None means that nothing will happen until something is submitted or resumed.
        """
        self._advance(now, start_at_now=True)
        events, self._events = self._events, []
        return events, self._run.end if self._run else None

    def tokens(self, work_id: str, now: float) -> int:
        """Count the tokens a sequence has produced by `now`; 0 when it is not here."""
        sequence = self._sequences.get(work_id)
        return self._tokens_by(sequence, now) if sequence else 0

    def _catch_up(self, now: float) -> None:
        """Complete what ended by `now` and make way at the next step boundary."""
        self._advance(now, start_at_now=False)
        if self._run is not None:
            self._run.cut(now)

    def _advance(self, now: float, *, start_at_now: bool) -> None:
        # Whatever is submitted at one instant must meet in one batch, so a batch that would
        # start at `now` waits for `step`, which says that no more is to come.
        while True:
            if self._run is not None:
                if self._run.end > now:
                    return
                self._complete(self._run)
            start = self._next_start()
            if start is None or start > now or (start == now and not start_at_now):
                return
            batch = self._scheduler.schedule(start)
            if batch is None:
                return
            self._run = _Run(start, self._step_s(batch), batch.repeats, batch)

    def _next_start(self) -> float | None:
        if self._is_paused:
            return None
        if self._scheduler.running:
            return self._boundary
        if self._scheduler.waiting_count:
            return max(self._boundary, self._scheduler.waiting_since())
        return None

    def _step_s(self, batch: Batch) -> float:
        if not batch.chunks:
            return self._timing.decode_s(len(batch.decodes))
        chunks = [(sequence.computed, count) for sequence, count in batch.chunks]
        return self._timing.mixed_s(chunks, len(batch.decodes))

    def _tokens_by(self, sequence: Sequence, now: float) -> int:
        run = self._run
        if run is None or sequence not in run.batch.decodes:
            return sequence.produced
        return sequence.produced + run.steps_by(now)

    def _complete(self, run: _Run) -> None:
        end = run.end
        for sequence in run.batch.decodes:
            self._scheduler.has_room(sequence, run.steps)
            sequence.computed += run.steps
            self._observe_gaps(sequence, run)
            self._emit(sequence, run.steps, end)
        for sequence, count in run.batch.chunks:
            self._share_prompt(sequence, count)
            sequence.computed += count
            if sequence.computed == sequence.length:
                if sequence.produced:  # it was preempted: its next token was long in coming
                    self._observe_gaps(sequence, run)
                else:
                    self.counters.prompt_tokens += sequence.work.prompt_tokens
                    self.counters.cached_prompt_tokens += sequence.cached_tokens
                self._emit(sequence, 1, end)
        if self._observer:
            self._observer.step(run.batch.tokens, run.steps)
        if any(sequence.is_gone for sequence in self._scheduler.running):
            self._scheduler.drop_gone()
        self._boundary = end
        self._run = None

    def _emit(self, sequence: Sequence, tokens: int, end: float) -> None:
        sequence.produced += tokens
        sequence.last_token_at = end
        self.counters.generated_tokens += tokens
        if sequence.is_gone:
            return
        if sequence.first_token_at is None:
            sequence.first_token_at = end
            self._events.append(FirstToken(sequence.work.id, end))
        if sequence.left == 0:
            sequence.is_gone = True
            del self._sequences[sequence.work.id]
            self._events.append(sequence.finished(end))

    def _share_prompt(self, sequence: Sequence, count: int) -> None:
        """Publish the prompt blocks that a chunk completed."""
        hashes, size = sequence.work.hashes, self._scheduler.cache.block_size
        first = sequence.computed // size
        filled = min((sequence.computed + count) // size, len(hashes))
        if len(sequence.holding.shared) == first < filled:
            self._scheduler.cache.share(sequence.holding, hashes[first:filled])

    def _observe_gaps(self, sequence: Sequence, run: _Run) -> None:
        if self._observer is None:
            return
        self._observer.gap(run.start + run.step_s - sequence.last_token_at, 1)
        if run.steps > 1:
            self._observer.gap(run.step_s, run.steps - 1)
