"""One caller's request: sent, read, retried as a decent client would, or given up."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from dataclasses import dataclass

from stack.load.plan import Call, LoadPlan
from stack.wire.sse import AnswerFacts, StreamReader
from stack.wire.upstream import Answer, AnswerCut, NoAnswer, Upstream

_RETRIED = {429, 502, 503, 504}
_BACKOFF_S = 0.5


@dataclass(slots=True)
class Ending:
    """How a call ended. `status` 0 is "no answer", `kind` is one of `KINDS`."""

    kind: str
    status: int
    tries: int
    ttft_s: float | None
    took_s: float
    output_tokens: int


KINDS = ("ok", "refused", "failed", "cut", "left", "impatient", "unsent")


class Caller:
    """Sends calls to the gateway over one pool of connections."""

    def __init__(self, plan: LoadPlan, elapsed: Callable[[], float]) -> None:
        self._plan = plan
        self._elapsed = elapsed
        self._upstream = Upstream()
        self._rng = random.Random(plan.seed + 1)

    async def play(self, call: Call) -> Ending:
        """Send a call and follow it to its end, retries included."""
        began = self._elapsed()
        body = json.dumps({**call.body, "user": call.user}, separators=(",", ":")).encode()
        ending = Ending("failed", 0, 0, None, 0.0, 0)
        limit_s = call.leaves_after_s
        try:
            async with asyncio.timeout(limit_s):
                await self._try_until_done(call, body, ending)
        except TimeoutError:
            ending.kind = "left"
        ending.took_s = self._elapsed() - began
        return ending

    def close(self) -> None:
        self._upstream.close()

    async def _try_until_done(self, call: Call, body: bytes, ending: Ending) -> None:
        while True:
            ending.tries += 1
            wait_s = await self._try(call, body, ending)
            if wait_s is None or ending.tries > self._plan.retries:
                return
            await asyncio.sleep(wait_s)

    async def _try(self, call: Call, body: bytes, ending: Ending) -> float | None:
        """Send once; return how long to wait before another try, None when there is none."""
        headers = {
            "content-type": "application/json",
            "authorization": f"Bearer {self._plan.keys[call.tenant]}",
            "x-feature": call.feature,
        }
        if call.priority == "batch":
            headers["x-priority"] = "batch"
        began = self._elapsed()
        try:
            url = self._plan.gateway_url.rstrip("/") + call.path
            patience = self._plan.patience_s if call.priority == "interactive" else None
            async with asyncio.timeout(patience) as waiting:
                answer = await self._upstream.send("POST", url, headers, body)
                with answer:
                    ending.status = answer.status
                    if answer.status != 200:
                        await answer.read()
                        ending.kind = "refused" if answer.status < 500 else "failed"
                        return self._pause(answer, ending.tries)
                    await self._read(answer, call, ending, began, waiting)
        except TimeoutError:
            ending.kind = "impatient"
        except NoAnswer:
            ending.kind, ending.status = "failed", 0
            return self._jitter(_BACKOFF_S * 2**ending.tries)
        except AnswerCut:
            ending.kind = "cut"
        return None

    async def _read(
        self,
        answer: Answer,
        call: Call,
        ending: Ending,
        began: float,
        waiting: asyncio.Timeout,
    ) -> None:
        facts = AnswerFacts()
        if not call.body["stream"]:
            facts.learn(json.loads(await answer.read()))
            ending.output_tokens = facts.completion_tokens or 0
            ending.kind = "ok"
            return
        reader = StreamReader(facts, lambda: self._elapsed() - began, pass_usage=True)
        async for chunk in answer.chunks():
            reader.feed(chunk)
            if facts.ttft_s is not None and ending.ttft_s is None:
                ending.ttft_s = facts.ttft_s
                waiting.reschedule(None)  # the first token is there: no more impatience
        ending.kind = "ok" if facts.done and facts.error is None else "cut"
        if ending.kind == "ok":
            ending.output_tokens = facts.completion_tokens or int(call.body["max_tokens"])

    def _pause(self, answer: Answer, tries: int) -> float | None:
        if answer.status not in _RETRIED:
            return None
        asked = answer.headers.get("retry-after", "")
        wait_s = float(asked) if asked.isdigit() else self._jitter(_BACKOFF_S * 2**tries)
        return min(wait_s, self._plan.longest_wait_s)

    def _jitter(self, seconds: float) -> float:
        return seconds * self._rng.uniform(0.5, 1.5)
