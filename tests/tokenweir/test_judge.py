from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from base.clock import ManualClock
from slo.verdict import Verdict
from tokenweir.judge import Judge

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


class FakeEvaluator:
    def __init__(self) -> None:
        self.asked: list[datetime] = []
        self.fails = False

    def evaluate(self, now: datetime) -> list[Verdict]:
        self.asked.append(now)
        if self.fails:
            raise RuntimeError("store is away")
        return [cast("Verdict", f"verdict {len(self.asked)}")]


def test_verdicts_reach_every_stage_in_order_even_when_one_fails() -> None:
    told: list[tuple[str, Sequence[Any], datetime]] = []

    def alerts(verdicts: Sequence[Verdict], now: datetime) -> None:
        told.append(("alerts", verdicts, now))
        raise RuntimeError("database is locked")

    def control(verdicts: Sequence[Verdict], now: datetime) -> None:
        told.append(("control", verdicts, now))

    clock = ManualClock(NOON)
    judge = Judge(
        FakeEvaluator(), [("alerts", alerts), ("control", control)], clock, timedelta(seconds=5)
    )

    judge.tick()

    assert [name for name, _, _ in told] == ["alerts", "control"]
    assert told[1][1:] == (("verdict 1",), NOON)
    assert judge.verdicts == ("verdict 1",)


def test_a_failed_evaluation_keeps_the_last_verdicts_and_tells_nobody() -> None:
    evaluator, told = FakeEvaluator(), list[object]()
    judge = Judge(
        evaluator,
        [("alerts", lambda verdicts, now: told.append(verdicts))],
        ManualClock(NOON),
        timedelta(seconds=5),
    )
    judge.tick()
    evaluator.fails = True

    judge.tick()

    assert judge.verdicts == ("verdict 1",)
    assert len(told) == 1


def test_the_loop_ticks_at_its_pace_until_it_is_stopped() -> None:
    clock, evaluator = ManualClock(NOON), FakeEvaluator()
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        clock.advance(timedelta(seconds=seconds))
        return len(waits) == 3

    judge = Judge(evaluator, [], clock, timedelta(seconds=5), wait)
    judge.start()
    judge._thread.join(timeout=5)

    assert waits == [5, 5, 5]
    assert [at - NOON for at in evaluator.asked] == [timedelta(seconds=s) for s in (0, 5, 10)]
