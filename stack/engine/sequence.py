"""What goes into the simulated engine, what comes out, and a sequence on its way through."""

from __future__ import annotations

from dataclasses import dataclass, field

from stack.engine.kv_cache import Holding


@dataclass(frozen=True, slots=True)
class Work:
    """One sequence to generate. `hashes` name the full blocks of its prompt, as chained hashes."""

    id: str
    prompt_tokens: int
    output_tokens: int
    hashes: tuple[int, ...] = ()
    priority: int = 0


@dataclass(frozen=True, slots=True)
class FirstToken:
    """A sequence's first token is out."""

    id: str
    at: float


@dataclass(frozen=True, slots=True)
class Finished:
    """A sequence is complete. Times are the engine's clock, in seconds."""

    id: str
    at: float
    queued_at: float
    scheduled_at: float
    first_token_at: float
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    preemptions: int

    @property
    def queue_s(self) -> float:
        """First queued to first scheduled; waiting again after a preemption is in `decode_s`."""
        return self.scheduled_at - self.queued_at

    @property
    def prefill_s(self) -> float:
        return self.first_token_at - self.scheduled_at

    @property
    def decode_s(self) -> float:
        return self.at - self.first_token_at

    @property
    def ttft_s(self) -> float:
        return self.first_token_at - self.queued_at

    @property
    def e2e_s(self) -> float:
        return self.at - self.queued_at


Event = FirstToken | Finished


@dataclass(frozen=True, slots=True)
class Given:
    """What a sequence had received when it was ended early."""

    tokens: int
    cached_tokens: int
    first_token_at: float | None


@dataclass(slots=True, eq=False)
class Sequence:
    """A sequence in the engine; compared by identity."""

    work: Work
    order: int
    queued_at: float
    holding: Holding = field(default_factory=Holding)
    computed: int = 0
    produced: int = 0
    cached_tokens: int = 0
    preemptions: int = 0
    scheduled_at: float | None = None
    first_token_at: float | None = None
    last_token_at: float = 0.0
    is_running: bool = False
    is_gone: bool = False

    @property
    def length(self) -> int:
        return self.work.prompt_tokens + self.produced

    @property
    def left(self) -> int:
        """Tokens still to produce."""
        return self.work.output_tokens - self.produced

    def finished(self, at: float) -> Finished:
        return Finished(
            id=self.work.id,
            at=at,
            queued_at=self.queued_at,
            scheduled_at=at if self.scheduled_at is None else self.scheduled_at,
            first_token_at=at if self.first_token_at is None else self.first_token_at,
            prompt_tokens=self.work.prompt_tokens,
            cached_tokens=self.cached_tokens,
            output_tokens=self.produced,
            preemptions=self.preemptions,
        )
