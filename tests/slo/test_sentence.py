"""An SLO reads as a sentence that says what is judged, nothing less."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from slo.calendar import read_calendar
from slo.composite import Composite, Kind, Part
from slo.documents import load, read
from slo.model import Slo
from slo.parse import parse_clauses, parse_filter, parse_number
from slo.sentence import in_words, sentence
from slo.slices import make_slices
from slo.weight import UNITS, Weight

CHAT = Slo(
    "chat",
    0.95,
    timedelta(days=30),
    parse_clauses("outcome = 'good' and (ttft_ms <= 2000 or ttft_ms is null)"),
    (),
    eligible=parse_filter("route = '/v1/chat/completions'"),
    group_by=("tenant",),
)


def test_it_says_who_is_asked_about_what_must_hold_how_often_and_over_which_time() -> None:
    assert sentence(CHAT) == (
        "95 % of requests where route = '/v1/chat/completions' must have outcome = 'good' and"
        " (ttft_ms <= 2000 or ttft_ms is null), over 30 days, for each tenant."
    )


def test_without_a_filter_every_request_is_asked_about() -> None:
    said = sentence(replace(CHAT, objective=0.995, eligible=None, group_by=()))

    assert said.startswith("99.5 % of requests must have outcome = 'good'")


def test_what_a_request_weighs_is_said() -> None:
    by = parse_number("completion_tokens")

    said = sentence(replace(CHAT, weight=Weight(by, UNITS["tokens"])))

    assert said.startswith("95 % of tokens (completion_tokens) of requests where route")


def test_slices_of_time_are_said_with_what_makes_one_good() -> None:
    slices = make_slices(timedelta(minutes=1), 99.5)

    said = sentence(replace(CHAT, slices=slices))

    assert said.startswith(
        "95 % of slices of 1 minute must be good: in each, at least 99.5 % of requests where route"
    )


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Kind.ALL, "95 % of requests that any of fast, whole asks about must be good for each"),
        (Kind.SUM, "95 % of the verdicts of 3 × fast, whole must be good, over 30 days"),
    ],
)
def test_what_an_slo_is_made_of_is_said(kind: Kind, said: str) -> None:
    parts = (Part("fast", 3, good=CHAT.good), Part("whole", good=CHAT.good))

    assert said in sentence(replace(CHAT, composite=Composite(kind, parts)))


def test_calendar_periods_are_said_with_their_zone() -> None:
    said = sentence(replace(CHAT, calendars=(read_calendar("month", "Europe/Berlin"),)))

    assert "over 30 days and in each month of Europe/Berlin, for each tenant." in said


@pytest.mark.parametrize(
    ("events", "said"),
    [
        (
            "{total: 'http_requests_total', bad: 'http_requests_total{code=\"500\"}'}",
            (
                "99 % of what http_requests_total counts must not be counted by"
                ' http_requests_total{code="500"}, over 30 days.'
            ),
        ),
        ("{histogram: x_seconds, threshold: 500ms}", "observations of x_seconds must be at most"),
        ("{gauge: up}", "99 % of samples of up must not be 0, over 30 days."),
        (
            "{total_query: 'a[$window]', good_query: 'b[$window]'}",
            "99 % of what a[$window] counts must be counted by b[$window], over",
        ),
        (
            "{total_query: 'a[$window]', error_ratio_query: 'b[$window]'}",
            "what a[$window] counts must be good; b[$window] is the bad share",
        ),
    ],
)
def test_events_of_a_prometheus_server_are_said(tmp_path: Path, events: str, said: str) -> None:
    file = tmp_path / "slo.yaml"
    file.write_text(f"kind: slo\nname: x\nobjective: 99\nprometheus: {events}\n")

    assert said in sentence(load([file])[0])


@pytest.mark.parametrize(
    ("cost", "said"),
    [
        (
            "{at_most_usd: 0.004, per: good_request}",
            "An accepted request with outcome = 'good' may cost at most $0.004, over 30 days,",
        ),
        (
            "{at_most_usd: 2, per: task, idle: shared}",
            "$2, idle GPUs and overhead included",
        ),
    ],
)
def test_an_slo_about_cost_says_what_a_unit_may_cost(tmp_path: Path, cost: str, said: str) -> None:
    file = tmp_path / "slo.yaml"
    file.write_text(f"kind: slo\nname: x\ngroup_by: [tenant]\ncost: {cost}\n")

    assert said in sentence(read([file]).costs[0])


@pytest.mark.parametrize(
    ("length", "words"),
    [
        (timedelta(days=1), "1 day"),
        (timedelta(days=30), "30 days"),
        (timedelta(minutes=90), "90 minutes"),
        (timedelta(hours=5), "5 hours"),
        (timedelta(seconds=90), "1m30s"),
    ],
)
def test_lengths_are_said_in_the_largest_unit_that_fits(length: timedelta, words: str) -> None:
    assert in_words(length) == words
