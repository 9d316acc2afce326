from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from alerts.machine import KEEP_RESOLVED, step, withdraw
from alerts.model import (
    AlertState,
    Burning,
    Clear,
    Condition,
    Reading,
    Severity,
    Turn,
    Unknown,
)

T0 = datetime(2026, 11, 30, 17, 0, tzinfo=UTC)
PAGE = Burning(Severity.PAGE, "fast", timedelta(0), timedelta(minutes=5))
TICKET = Burning(Severity.TICKET, "drift", timedelta(0), timedelta(minutes=30))
SILENT = Unknown("the source is silent")


def play(*readings: tuple[float, Reading]) -> tuple[AlertState, list[Turn]]:
    """Feed (minute, reading) pairs to a fresh alert."""
    state, turns = AlertState(), []
    for minute, reading in readings:
        state, new = step(state, reading, T0 + timedelta(minutes=minute), fingerprint="f" * 16)
        turns += new
    return state, turns


def test_a_burn_fires_at_once_when_nothing_holds_it() -> None:
    state, turns = play((0, PAGE))

    assert turns == [Turn.FIRED]
    assert (state.condition, state.severity, state.fired_at) == ("firing", Severity.PAGE, T0)
    assert state.episode is not None
    assert len(state.episode) == 26


def test_a_held_burn_is_pending_first() -> None:
    held = Burning(Severity.PAGE, "fast", timedelta(minutes=2), timedelta(0))

    state, turns = play((0, held), (1, held), (2, held))

    assert turns == [Turn.PENDING, Turn.FIRED]
    assert state.fired_at == T0 + timedelta(minutes=2)


def test_a_pending_alert_that_clears_vanishes() -> None:
    held = Burning(Severity.PAGE, "fast", timedelta(minutes=2), timedelta(0))

    state, turns = play((0, held), (1, Clear()))

    assert turns == [Turn.PENDING, Turn.CALMED]
    assert state == AlertState()


def test_a_clear_alert_is_kept_for_the_short_window_before_it_resolves() -> None:
    state, turns = play((0, PAGE), (1, Clear()), (5, Clear()), (6, Clear()))

    assert turns == [Turn.FIRED, Turn.CLEARING, Turn.RESOLVED]
    assert state.resolved_at == T0 + timedelta(minutes=6)


def test_a_burn_that_returns_while_clearing_stays_the_same_episode() -> None:
    before, _ = play((0, PAGE))

    after, turns = play((0, PAGE), (1, Clear()), (3, PAGE), (4, Clear()), (8, Clear()))

    assert turns == [Turn.FIRED, Turn.CLEARING, Turn.RETURNED, Turn.CLEARING]
    assert after.episode == before.episode


def test_a_ticket_that_becomes_a_page_is_the_same_episode() -> None:
    state, turns = play((0, TICKET), (1, PAGE))

    assert turns == [Turn.FIRED, Turn.RAISED]
    assert state.severity is Severity.PAGE
    assert state.fired_at == T0


def test_a_page_becomes_a_ticket_only_after_the_page_tier_kept_quiet() -> None:
    state, turns = play((0, PAGE), (1, TICKET), (5, TICKET))
    assert (state.severity, turns) == (Severity.PAGE, [Turn.FIRED])

    state, turns = play((0, PAGE), (1, TICKET), (5, TICKET), (6, TICKET))

    assert (state.severity, turns) == (Severity.TICKET, [Turn.FIRED, Turn.LOWERED])
    assert state.keep_for == TICKET.keep_for


def test_a_page_that_returns_starts_the_quiet_time_over() -> None:
    state, _ = play((0, PAGE), (1, TICKET), (5, PAGE), (6, TICKET), (10, TICKET))

    assert state.severity is Severity.PAGE


def test_silence_neither_resolves_nor_counts_as_calm() -> None:
    state, turns = play((0, PAGE), (1, Clear()), (2, SILENT), (60, SILENT), (61, Clear()))

    assert turns == [Turn.FIRED, Turn.CLEARING, Turn.FROZE, Turn.THAWED]
    assert state.condition is Condition.CLEARING

    state, turns = play((0, PAGE), (1, Clear()), (2, SILENT), (61, Clear()), (65, Clear()))
    assert turns[-1] is Turn.RESOLVED


def test_silence_never_fires() -> None:
    held = Burning(Severity.PAGE, "fast", timedelta(minutes=2), timedelta(0))

    state, turns = play((0, held), (1, SILENT), (60, SILENT), (60.5, held))

    assert turns == [Turn.PENDING, Turn.FROZE, Turn.THAWED]
    assert state.condition is Condition.PENDING


def test_a_frozen_alert_says_why() -> None:
    state, _ = play((0, PAGE), (1, SILENT), (2, Unknown("no verdict")))

    assert state.frozen_since == T0 + timedelta(minutes=1)
    assert state.frozen_reason == "no verdict"


def test_a_resolved_alert_that_burns_again_is_a_new_episode() -> None:
    first, _ = play((0, PAGE))

    second, turns = play((0, PAGE), (1, Clear()), (6, Clear()), (7, PAGE))

    assert turns == [Turn.FIRED, Turn.CLEARING, Turn.RESOLVED, Turn.FIRED]
    assert second.episode != first.episode


def test_a_resolved_alert_is_forgotten_after_a_quarter_of_an_hour() -> None:
    kept = KEEP_RESOLVED.total_seconds() / 60

    state, _ = play((0, PAGE), (1, Clear()), (6, Clear()), (5.9 + kept, Clear()))
    assert state.condition is Condition.RESOLVED

    state, _ = play((0, PAGE), (1, Clear()), (6, Clear()), (6 + kept, SILENT))
    assert state == AlertState()


def test_a_withdrawn_alert_resolves_even_when_frozen() -> None:
    state, _ = play((0, PAGE), (1, SILENT))

    state, turns = withdraw(state, T0 + timedelta(minutes=2))

    assert turns == (Turn.RESOLVED,)
    assert not state.is_frozen


def test_a_redone_step_names_the_same_episode() -> None:
    once, _ = step(AlertState(), PAGE, T0, fingerprint="a" * 16)
    again, _ = step(AlertState(), PAGE, T0, fingerprint="a" * 16)
    other, _ = step(AlertState(), PAGE, T0, fingerprint="b" * 16)

    assert once.episode == again.episode != other.episode


READINGS = st.sampled_from([PAGE, TICKET, Clear(), SILENT])


@given(st.lists(st.tuples(st.integers(1, 400), READINGS), max_size=60))
def test_turns_of_an_episode_always_make_sense(steps: list[tuple[int, Reading]]) -> None:
    state, now = AlertState(), T0
    open_episode: str | None = None
    for seconds, reading in steps:
        now += timedelta(seconds=seconds)
        before = state
        state, turns = step(state, reading, now, fingerprint="f" * 16)
        if isinstance(reading, Unknown):
            assert not {Turn.FIRED, Turn.RESOLVED, Turn.RAISED, Turn.LOWERED} & set(turns)
        if Turn.FIRED in turns:
            assert open_episode is None
            open_episode = state.episode
        if open_episode is not None:
            assert state.episode == open_episode
        if Turn.RESOLVED in turns:
            assert before.condition is Condition.CLEARING
            open_episode = None
        assert state.is_open == (open_episode is not None)
        assert state.is_frozen <= isinstance(reading, Unknown)
