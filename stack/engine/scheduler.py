"""Who takes part in the next engine step: vLLM's scheduling rules.

Running sequences come first; each takes its next token or its next chunk of prompt, under one
token budget. When blocks run out, the least important one is put back and will be computed
again. Then waiting sequences are let in while there are seats, tokens and blocks.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from stack.engine.kv_cache import KvCache
from stack.engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """The scheduler's settings, named as vLLM's flags."""

    max_num_seqs: int = 128
    max_num_batched_tokens: int = 2048
    num_gpu_blocks: int = 28_000
    block_size: int = 16
    by_priority: bool = False


@dataclass(slots=True)
class Counters:
    """What the engine says about itself; the gauges are as of the last scheduled step."""

    running: int = 0
    waiting: int = 0
    cache_usage: float = 0.0
    prefix_queried_tokens: int = 0
    prefix_hit_tokens: int = 0
    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    generated_tokens: int = 0
    preemptions: int = 0


@dataclass(slots=True)
class Batch:
    """One step: prompt chunks as (sequence, new tokens), and sequences that make one token.

    `repeats` above 1 says that so many steps in a row would be scheduled the same way.
    """

    chunks: list[tuple[Sequence, int]] = field(default_factory=list)
    decodes: list[Sequence] = field(default_factory=list)
    repeats: int = 1

    @property
    def tokens(self) -> int:
        return len(self.decodes) + sum(count for _, count in self.chunks)

    def add(self, sequence: Sequence, take: int) -> None:
        if sequence.produced and take == 1 == sequence.length - sequence.computed:
            self.decodes.append(sequence)
        else:
            self.chunks.append((sequence, take))

    def remove(self, sequence: Sequence) -> int:
        """Take a sequence out again; return the tokens that become free."""
        if sequence in self.decodes:
            self.decodes.remove(sequence)
            return 1
        for entry in self.chunks:
            if entry[0] is sequence:
                self.chunks.remove(entry)
                return entry[1]
        return 0


class Scheduler:
    """The waiting queue, the running batch and their blocks."""

    def __init__(self, limits: EngineLimits) -> None:
        self.limits = limits
        self.cache = KvCache(limits.num_gpu_blocks, limits.block_size)
        self.counters = Counters()
        self.running: list[Sequence] = []
        self.waiting_count = 0
        self._waiting: list[tuple[int, int, Sequence]] = []

    def enqueue(self, sequence: Sequence) -> None:
        """Put a sequence in its place; one that was put back keeps its first place."""
        rank = sequence.work.priority if self.limits.by_priority else 0
        heapq.heappush(self._waiting, (rank, sequence.order, sequence))
        self.waiting_count += 1

    def leave_queue(self) -> None:
        """Count out a waiting sequence that was just marked as gone."""
        self.waiting_count -= 1

    def waiting_since(self) -> float:
        """Return when the earliest of those waiting was queued."""
        return min(s.queued_at for _, _, s in self._waiting if not s.is_gone)

    def drop_gone(self) -> None:
        """Free the blocks and seats of sequences that finished or were given up."""
        for sequence in self.running:
            if sequence.is_gone:
                self.cache.release(sequence.holding)
        self.running = [sequence for sequence in self.running if not sequence.is_gone]
        self.report()

    def report(self) -> None:
        """Refresh the gauges."""
        self.counters.running = len(self.running)
        self.counters.waiting = self.waiting_count
        self.counters.cache_usage = self.cache.usage

    def has_room(self, sequence: Sequence, tokens: int) -> bool:
        """Hold blocks for `tokens` more than are computed; False when there are not enough."""
        needed = self.cache.blocks_for(sequence.computed + tokens) - sequence.holding.blocks
        return needed <= 0 or self.cache.grow(sequence.holding, needed)

    def schedule(self, now: float) -> Batch | None:
        """Build the step that starts at `now`; None when nobody can take part."""
        batch = Batch()
        budget, preempted = self._continue_running(batch)
        if not (preempted and batch.tokens):
            self._admit(now, budget, batch)
        self.report()
        if not batch.tokens:
            return None
        if not batch.chunks and not preempted and len(batch.decodes) == len(self.running):
            batch.repeats = self._steps_alike(batch.decodes)
        return batch

    def _continue_running(self, batch: Batch) -> tuple[int, bool]:
        """Plan the running sequences; return the budget left and whether one was put back."""
        budget = self.limits.max_num_batched_tokens
        preempted = False
        index = 0
        while index < len(self.running) and budget > 0:
            sequence = self.running[index]
            take = min(sequence.length - sequence.computed, budget)
            while not self.has_room(sequence, take):
                preempted = True
                victim = self._victim()
                budget += batch.remove(victim)
                index -= self.running.index(victim) <= index
                self._put_back(victim)
                if victim is sequence:
                    break
            else:
                batch.add(sequence, take)
                budget -= take
            index += 1
        return budget, preempted

    def _admit(self, now: float, budget: int, batch: Batch) -> None:
        cache = self.cache
        while self.waiting_count and budget > 0 and len(self.running) < self.limits.max_num_seqs:
            sequence = self._first_waiting()
            # The last token is always computed: its output is the next token.
            reusable = sequence.work.hashes[: (sequence.length - 1) // cache.block_size]
            hits = cache.hits(reusable)
            cached = hits * cache.block_size
            take = min(sequence.length - cached, budget)
            holding = cache.admit(reusable[:hits], cache.blocks_for(cached + take) - hits)
            if holding is None:
                return
            heapq.heappop(self._waiting)
            self.waiting_count -= 1
            if sequence.scheduled_at is None:
                sequence.scheduled_at = now
                sequence.cached_tokens = cached
                self.counters.prefix_queried_tokens += sequence.work.prompt_tokens
                self.counters.prefix_hit_tokens += cached
            sequence.holding = holding
            sequence.computed = cached
            sequence.is_running = True
            self.running.append(sequence)
            batch.chunks.append((sequence, take))
            budget -= take

    def _first_waiting(self) -> Sequence:
        while self._waiting[0][2].is_gone:
            heapq.heappop(self._waiting)
        return self._waiting[0][2]

    def _victim(self) -> Sequence:
        """Choose who is put back: the least important, and of those the one that came last."""
        if self.limits.by_priority:
            return max(self.running, key=lambda s: (s.work.priority, s.order))
        return self.running[-1]

    def _put_back(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        self.cache.release(sequence.holding)
        sequence.computed = 0
        sequence.is_running = False
        sequence.preemptions += 1
        self.counters.preemptions += 1
        self.enqueue(sequence)

    def _steps_alike(self, decodes: list[Sequence]) -> int:
        """How many steps until a sequence completes or the blocks run out."""
        most = min(sequence.left for sequence in decodes)
        if self._blocks_wanted(decodes, most) <= self.cache.free:
            return most
        least = 1
        while most - least > 1:
            middle = (least + most) // 2
            if self._blocks_wanted(decodes, middle) <= self.cache.free:
                least = middle
            else:
                most = middle
        return least

    def _blocks_wanted(self, decodes: list[Sequence], steps: int) -> int:
        size = self.cache.block_size
        return sum(max(0, -(-(s.computed + steps) // size) - s.holding.blocks) for s in decodes)
