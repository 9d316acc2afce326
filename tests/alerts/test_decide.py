from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.decide import Candidate, Pace, Reason, Told, decide
from alerts.model import Severity

NOW = datetime(2026, 11, 30, 17, 0, tzinfo=UTC)
AGO = NOW - timedelta(minutes=2)
PAGE, TICKET = Severity.PAGE, Severity.TICKET
PACE = Pace(timedelta(0), timedelta(minutes=1), timedelta(hours=4), send_resolved=True)


def fires(severity: Severity = PAGE, **changes: Any) -> Candidate:
    values: dict[str, Any] = {"fired_at": AGO, "is_muted": False, "is_acked": False} | changes
    return Candidate(severity, **values)


LONG_AGO = NOW - timedelta(hours=5)
JUST_NOW = NOW - timedelta(seconds=5)

TABLE = [
    ("nothing was or is", {}, Told(), None),
    ("no entry, something fires", {"a": fires()}, Told(), Reason.FIRST),
    ("no entry, only muted", {"a": fires(is_muted=True)}, Told(), None),
    ("an unknown one fires", {"a": fires(), "b": fires()}, Told({"a": PAGE}, at=AGO), Reason.NEW),
    ("too soon for news", {"a": fires(), "b": fires()}, Told({"a": PAGE}, at=JUST_NOW), None),
    (
        "a page among tickets is never too soon",
        {"a": fires(TICKET), "b": fires(PAGE)},
        Told({"a": TICKET}, at=JUST_NOW),
        Reason.NEW,
    ),
    ("all ended", {}, Told({"a": PAGE}, at=JUST_NOW), Reason.ALL_RESOLVED),
    ("perhaps heard, ended", {}, Told(maybe={"a": PAGE}), Reason.ALL_RESOLVED),
    ("refused, ended", {}, Told(refused={"a": PAGE}, at=AGO), None),
    ("perhaps heard, fires", {"a": fires()}, Told(maybe={"a": PAGE}), Reason.FIRST),
    ("refused, fires", {"a": fires()}, Told(refused={"a": PAGE}, at=AGO), None),
    ("refused long ago", {"a": fires()}, Told(refused={"a": PAGE}, at=LONG_AGO), Reason.REPEAT),
    ("one ended", {"a": fires()}, Told({"a": PAGE, "b": PAGE}, at=AGO), Reason.SOME_RESOLVED),
    ("louder", {"a": fires(PAGE)}, Told({"a": TICKET}, at=JUST_NOW), Reason.RAISED),
    ("quieter", {"a": fires(TICKET)}, Told({"a": PAGE}, at=AGO), Reason.LOWERED),
    ("unchanged", {"a": fires()}, Told({"a": PAGE}, at=AGO), None),
    ("unchanged for long", {"a": fires()}, Told({"a": PAGE}, at=LONG_AGO), Reason.REPEAT),
    ("acknowledged", {"a": fires(is_acked=True)}, Told({"a": PAGE}, at=LONG_AGO), None),
    ("silenced since", {"a": fires(is_muted=True)}, Told({"a": PAGE}, at=LONG_AGO), None),
]


@pytest.mark.parametrize(("case", "firing", "told", "reason"), TABLE, ids=[c[0] for c in TABLE])
def test_the_decision_table(
    case: str, firing: dict[str, Candidate], told: Told, reason: Reason | None
) -> None:
    decision = decide(firing, told, PACE, NOW)

    assert (decision.reason if decision else None) == reason


def test_group_wait_counts_from_the_first_alert() -> None:
    pace = Pace(timedelta(minutes=3), timedelta(0), timedelta(hours=4), send_resolved=True)

    assert decide({"a": fires()}, Told(), pace, NOW) is None
    assert decide({"a": fires()}, Told(), pace, NOW + timedelta(minutes=1)) is not None


EPISODES = st.sampled_from("abcd")
SEVERITIES = st.dictionaries(EPISODES, st.sampled_from(Severity), max_size=4)
CANDIDATES = st.dictionaries(
    EPISODES,
    st.builds(
        Candidate,
        st.sampled_from(Severity),
        st.just(AGO),
        is_muted=st.booleans(),
        is_acked=st.booleans(),
    ),
    max_size=4,
)
TOLD = st.builds(
    Told, SEVERITIES, SEVERITIES, SEVERITIES, at=st.sampled_from([None, JUST_NOW, AGO, LONG_AGO])
)


@given(CANDIDATES, TOLD)
def test_a_decision_lists_all_that_is_known_and_ends_only_what_was_heard(
    firing: dict[str, Candidate], told: Told
) -> None:
    decision = decide(firing, told, PACE, NOW)

    if decision is not None:
        heard = {*told.firing, *told.maybe}
        assert set(decision.resolved) == heard - firing.keys()
        assert set(decision.firing) >= heard & firing.keys()
        assert not any(firing[e].is_muted for e in decision.firing if e not in heard)


@given(CANDIDATES, TOLD)
def test_once_it_is_delivered_there_is_nothing_more_to_say(
    firing: dict[str, Candidate], told: Told
) -> None:
    decision = decide(firing, told, PACE, NOW)

    if decision is not None:
        knows = Told(firing=decision.firing, resolved=decision.resolved, at=NOW)
        assert decide(firing, knows, PACE, NOW + timedelta(seconds=1)) is None
