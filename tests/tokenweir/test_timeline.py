from __future__ import annotations

from datetime import UTC, datetime, timedelta

from rich.console import Console

from base.clock import ManualClock
from tokenweir.timeline import Step, Timeline


def seen_after(clock: ManualClock, seconds: float, calls: list[str], key: str) -> Step:
    async def check() -> str | None:
        calls.append(key)
        clock.advance(timedelta(seconds=1))
        return f"{key} seen" if clock.monotonic() >= seconds else None

    return Step(key, key.title(), within_s=20, check=check)


async def test_steps_are_seen_in_their_order_with_their_times() -> None:
    clock, calls = ManualClock(datetime(2026, 1, 1, tzinfo=UTC)), list[str]()
    alert, page = seen_after(clock, 3, calls, "alert"), seen_after(clock, 0, calls, "page")
    page.after = "alert"
    timeline = Timeline([alert, page], clock, poll_s=0)
    order: list[str] = []

    assert await timeline.run(lambda step: order.append(step.key))

    assert order == ["alert", "page"]
    assert alert.seen_at_s == 3
    assert calls.index("page") == 3, "the page is not looked for before the alert"


async def test_a_step_that_never_comes_fails_the_timeline_after_its_limit() -> None:
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    never = seen_after(clock, 1e9, [], "undo")
    timeline = Timeline([never], clock, poll_s=0)

    assert not await timeline.run(lambda _: None)

    console = Console(width=100)
    with console.capture() as capture:
        console.print(timeline.table())
    assert "✗" in capture.get()
    assert "—" in capture.get()


async def test_a_step_seen_too_late_is_not_in_time() -> None:
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    late, other = seen_after(clock, 15, [], "late"), seen_after(clock, 0, [], "other")
    late.within_s = 10

    assert not await Timeline([late, other], clock, poll_s=0).run(lambda _: None)
    assert not late.in_time


async def test_a_seen_step_is_one_line_however_long_its_note() -> None:
    clock, calls = ManualClock(datetime(2026, 1, 1, tzinfo=UTC)), list[str]()
    alert, undo = seen_after(clock, 0, calls, "alert"), seen_after(clock, 1e9, calls, "undo")
    timeline = Timeline([alert, undo], clock, poll_s=0)
    waited_for: list[list[str]] = []
    await timeline.run(lambda _: None, lambda: waited_for.append(timeline.missing()))
    alert.note = "long " * 50
    console = Console(width=100)
    with console.capture() as capture:
        timeline.show(alert, console)

    assert waited_for[0] == ["Undo"]
    assert capture.get().count("\n") == 1
    assert "✓   1 s  Alert" in capture.get()
