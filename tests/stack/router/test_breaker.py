from __future__ import annotations

from stack.router.breaker import Breaker, Circuit


def test_it_opens_after_failures_in_a_row_and_tries_once_later() -> None:
    moves: list[tuple[Circuit, Circuit]] = []
    breaker = Breaker(on_change=lambda was, now: moves.append((was, now)))

    for now in (0.0, 1.0, 2.0):
        assert breaker.allows(now)
        breaker.begin(now)
        breaker.failed(now)

    assert not breaker.allows(6.9)
    assert breaker.allows(7.0)
    breaker.begin(7.0)
    assert not breaker.allows(7.0)  # one trial, not a herd
    breaker.succeeded()
    assert breaker.allows(7.1)
    assert moves == [
        (Circuit.CLOSED, Circuit.OPEN),
        (Circuit.OPEN, Circuit.HALF_OPEN),
        (Circuit.HALF_OPEN, Circuit.CLOSED),
    ]


def test_a_success_in_between_starts_the_count_again() -> None:
    breaker = Breaker()

    for _ in range(10):
        breaker.failed(0)
        breaker.failed(0)
        breaker.succeeded()

    assert breaker.state is Circuit.CLOSED


def test_a_failed_trial_opens_it_again() -> None:
    breaker = Breaker()
    for _ in range(3):
        breaker.failed(0)
    breaker.begin(5)
    breaker.failed(5)

    assert not breaker.allows(9.9)
    assert breaker.allows(10)


def test_a_trial_whose_client_left_may_be_tried_again() -> None:
    breaker = Breaker()
    for _ in range(3):
        breaker.failed(0)
    breaker.begin(5)

    breaker.undecided()

    assert breaker.allows(5)
