"""What an engine's error means for the batch that met it: set its data aside, or try again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from base.errors import Permanent, Retryable, TokenweirError
from store.chdb_engine import as_tokenweir
from store.engine import Engine
from store.spans import SpanRecord, SpanStore


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("Code: 32. DB::Exception: Read after eof. (ATTEMPT_TO_READ_AFTER_EOF)", Permanent),
        ("Code: 444. DB::Exception: corrupted. (UNKNOWN_PROTOBUF_FORMAT)", Permanent),
        ("Code: 117. DB::Exception: Incorrect data. (INCORRECT_DATA)", Permanent),
        ("Code: 36. DB::Exception: Invalid protobuf data: OneOf has more than one", Permanent),
        ("Code: 36. DB::Exception: Bad settings. (BAD_ARGUMENTS)", Retryable),
        ("Code: 241. DB::Exception: memory limit exceeded. (MEMORY_LIMIT_EXCEEDED)", Retryable),
        ("Code: 243. DB::Exception: Cannot reserve. (NOT_ENOUGH_SPACE)", Retryable),
        ("Code: 252. DB::Exception: Too many parts. (TOO_MANY_PARTS)", Retryable),
        ("Code: 159. DB::Exception: Timeout exceeded. (TIMEOUT_EXCEEDED)", Retryable),
        ("Code: 60. DB::Exception: Unknown table. (UNKNOWN_TABLE)", Retryable),
        ("Code: 1001. DB::Exception: std::exception (STD_EXCEPTION)", Retryable),
        ("something else broke", Retryable),
    ],
)  # fmt: skip
def test_only_the_data_can_be_at_fault_for_good(message: str, kind: type[TokenweirError]) -> None:
    assert type(as_tokenweir(RuntimeError(message))) is kind


@pytest.mark.parametrize("wrong", [b"\xff\xff\xff", b"\x0a\x05abc", b"\x0a\x7f", b"hello world"])
def test_a_body_that_is_no_trace_request_is_given_up(wrong: bytes, engine: Engine) -> None:
    record = SpanRecord(wrong, "", "test", 1)

    with pytest.raises(Permanent, match="Code: "):
        SpanStore(engine).insert([record], wrong.hex(), 1)


def test_a_good_body_is_tried_again_when_the_table_is_gone(
    engine: Engine, span_body: Callable[..., bytes]
) -> None:
    record = SpanRecord(span_body({"trace": "a", "id": "b"}), "", "test", 1)
    engine.execute("RENAME TABLE spans TO spans_elsewhere")
    try:
        with pytest.raises(Retryable):
            SpanStore(engine).insert([record], "gone", 1)
    finally:
        engine.execute("RENAME TABLE spans_elsewhere TO spans")
