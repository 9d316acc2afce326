"""OTLP 1.11 for traces, sentence by sentence, over every transport of the real receiver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.collector.conformance import (
    cases_json,
    cases_protobuf,
    cases_spans,
    cases_transport,
    test_connections,
    test_retries,
)
from tests.collector.conformance.case import Case, Final, Taken, Transport
from tests.collector.conformance.client import TYPES, Client, Disk, Told, comparable
from tests.collector.conformance.rules import RULES

CASES = [*cases_spans.CASES, *cases_protobuf.CASES, *cases_json.CASES, *cases_transport.CASES]
RUNS = [(case, transport) for case in CASES for transport in case.on]
RETRYABLE_HTTP = {429, 502, 503, 504}
RETRYABLE_GRPC = {1, 4, 10, 11, 14, 15}  # and RESOURCE_EXHAUSTED with a RetryInfo


@pytest.fixture(scope="module")
def client(receiver: Any) -> Iterator[Client]:
    made = Client(receiver.http, receiver.grpc)
    yield made
    made.close()


@pytest.fixture(scope="module")
def disk(receiver: Any) -> Disk:
    return Disk(receiver.data)


def _name(run: tuple[Case, Transport]) -> str:
    case, transport = run
    return f"{transport}: {case.rule}: {case.name}"


@pytest.mark.parametrize("run", RUNS, ids=_name)
def test_the_receiver_does_what_the_specification_says(
    client: Client, disk: Disk, run: tuple[Case, Transport]
) -> None:
    case, transport = run
    disk.news()

    told = client.send(case, transport)

    if isinstance(case.answer, Taken):
        _is_taken(told, case.answer)
    else:
        _is_final(told, case.answer)
    if transport in TYPES and "content-type" not in case.headers:
        assert told.headers["content-type"] == TYPES[transport]
    expected = [] if case.expected is None else [comparable(case.expected)]
    assert [comparable(each) for each in disk.news()] == expected


def _is_taken(told: Told, answer: Taken) -> None:
    assert told.status is None, told.status
    assert told.http in {200, None}
    assert told.response is not None
    if answer.rejected == 0:
        assert not told.response.HasField("partial_success")
        return
    partial = told.response.partial_success
    assert partial.rejected_spans == answer.rejected
    assert answer.says in partial.error_message
    assert told.size < 1000


def _is_final(told: Told, answer: Final) -> None:
    assert told.status is not None, "it was taken"
    assert told.http in {answer.http, None}
    assert told.code == answer.code
    assert answer.says in told.status.message
    assert told.status.message
    assert told.size < 2500
    assert told.retry_s is None
    assert "retry-after" not in told.headers
    assert told.http not in RETRYABLE_HTTP
    assert told.http is not None or told.code not in RETRYABLE_GRPC
    assert told.says_what_is_bad == (answer.http == 400 or (answer.code == 3 and told.http is None))
    for name, value in answer.headers.items():
        assert told.headers[name] == value


def test_every_rule_has_a_case_and_no_two_cases_are_the_same() -> None:
    names = [_name(run) for run in RUNS]

    checked = {case.rule for case in CASES} | test_connections.CHECKED | test_retries.CHECKED
    assert checked == set(RULES)
    assert len(names) == len(set(names))
    assert len(CASES) >= 150
