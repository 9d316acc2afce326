from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from base.clock import ManualClock, SystemClock
from base.errors import ConfigError, Permanent, Retryable
from collector.dead_letter import DeadLetters
from collector.pipeline import BucketListener, Pipeline
from collector.progress import ProgressFile
from collector.wal import LogWriter
from collector.wal_reader import LogReader
from collector.wal_records import LogRecord, list_segments, segment_path
from store.otlp import SpanRecord

BUCKET = datetime(2026, 11, 30, 18, 0, 10, tzinfo=UTC)


class Crash(BaseException):
    """The process dies here: nothing catches it."""


class FakeStore:
    """Remembers bodies per token, as the engine does; dies or fails when told to."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.tokens: dict[str, int] = {}
        self.failures: list[BaseException] = []
        self.after: list[BaseException] = []
        self.seqs: list[int] = []

    def insert(self, records: Sequence[SpanRecord], token: str, seq: int) -> None:
        if self.failures:
            raise self.failures.pop(0)
        for record in records:
            if b"poison" in record.body:
                raise Permanent("cannot parse protobuf")
        if token not in self.tokens:
            self.tokens[token] = seq
            self.bodies += [record.body for record in records]
        self.seqs.append(seq)
        if self.after:
            raise self.after.pop(0)


class FakeFacts:
    def __init__(self) -> None:
        self.seqs: list[int] = []
        self.failures: list[BaseException] = []

    def refresh(self, seq: int) -> Sequence[datetime]:
        if self.failures:
            raise self.failures.pop(0)
        self.seqs.append(seq)
        return [BUCKET]


class FakeListener:
    def __init__(self) -> None:
        self.calls: list[tuple[Sequence[datetime], int]] = []
        self.failures: list[BaseException] = []

    def refresh(self, buckets: Sequence[datetime], version: int) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.calls.append((buckets, version))


class World:
    """A log folder and everything behind it; `pipeline` is a new process over the same disk."""

    def __init__(self, folder: Path, clock: ManualClock | SystemClock) -> None:
        self.folder = folder
        self.clock = clock
        self.store = FakeStore()
        self.facts = FakeFacts()
        self.listener = FakeListener()
        self.writer = LogWriter(folder / "wal", segment_bytes=500)
        self.letters = DeadLetters(folder / "dead-letter")

    def write(self, *bodies: bytes, spans: int = 1) -> None:
        received = int(self.clock.now().timestamp() * 1e9)
        for body in bodies:
            self.writer.append(LogRecord(body, "acme", "key:gw", received, spans)).result(10)

    def pipeline(self, listeners: Sequence[BucketListener] = (), batch_spans: int = 10) -> Pipeline:
        return Pipeline(
            LogReader(self.folder / "wal"),
            self.store,
            self.facts,
            listeners or [self.listener],
            self.clock,
            progress=ProgressFile(self.folder / "wal"),
            dead_letters=self.letters,
            batch_spans=batch_spans,
            batch_wait=timedelta(0),
        )


@pytest.fixture
def world(tmp_path: Path, clock: ManualClock) -> World:
    return World(tmp_path, clock)


def wait_until(condition: object, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def finish(pipeline: Pipeline) -> None:
    more = True
    while more:
        with contextlib.suppress(Permanent):
            more = pipeline.step()


def test_a_batch_goes_through_every_stage_in_order(world: World) -> None:
    world.write(b"a", b"b")
    pipeline = world.pipeline()

    assert pipeline.step()

    assert world.store.bodies == [b"a", b"b"]
    seq = world.store.seqs[0]
    assert world.facts.seqs == [seq]
    assert world.listener.calls == [([BUCKET], seq)]
    assert not pipeline.step()
    assert pipeline.status().spans == 2


def test_a_batch_ends_at_its_number_of_spans(world: World) -> None:
    world.write(*[b"x"] * 5, spans=4)
    pipeline = world.pipeline(batch_spans=8)

    while pipeline.step():
        pass

    assert pipeline.status().batches == 3


def test_batch_numbers_grow_even_when_the_progress_file_is_lost(
    world: World, clock: ManualClock
) -> None:
    world.write(b"a")
    world.pipeline().step()
    (world.folder / "wal" / "progress.json").unlink()
    clock.advance(timedelta(seconds=1))
    world.write(b"b")
    world.pipeline().step()

    assert world.store.seqs[1] > world.store.seqs[0]


def test_a_crash_after_the_insert_repeats_the_same_range_under_the_same_token(
    world: World,
) -> None:
    world.write(b"a", b"b")
    world.store.after = [Crash()]
    with pytest.raises(Crash):
        world.pipeline().step()
    world.write(b"c")  # arrives before the restart; must not join the range

    restarted = world.pipeline()
    while restarted.step():
        pass

    assert world.store.bodies == [b"a", b"b", b"c"]
    assert len(world.store.tokens) == 2
    assert world.store.seqs[0] == world.store.seqs[1]


@pytest.mark.parametrize("stage", ["store", "facts", "listener"])
def test_a_failing_stage_is_tried_again_without_repeating_the_others(
    world: World, stage: str
) -> None:
    world.write(b"a")
    getattr(world, stage).failures = [RuntimeError("broken")]
    pipeline = world.pipeline()

    with pytest.raises(RuntimeError):
        pipeline.step()
    assert pipeline.step()

    assert world.store.seqs == world.facts.seqs
    assert len(world.store.seqs) == len(world.listener.calls) == 1


def test_the_position_is_committed_only_after_the_listeners(world: World) -> None:
    world.write(b"a")
    world.listener.failures = [Crash()]
    with pytest.raises(Crash):
        world.pipeline().step()

    assert world.pipeline().step()
    assert len(world.listener.calls) == 1


def test_a_poisoned_request_is_set_aside_with_its_reason_and_the_rest_goes_in(
    world: World,
) -> None:
    world.write(b"a", b"b", b"poison", b"c", b"d")
    pipeline = world.pipeline()
    pipeline.step()

    assert sorted(world.store.bodies) == [b"a", b"b", b"c", b"d"]
    [letter] = world.letters.all()
    assert letter.file.read_bytes() == b"poison"
    assert letter.reason == "cannot parse protobuf"
    assert (letter.tenant, letter.source, letter.spans) == ("acme", "key:gw", 1)
    assert pipeline.status().dead_lettered == 1


def test_a_crash_while_a_poisoned_batch_is_narrowed_down_changes_nothing(world: World) -> None:
    world.write(b"a", b"b", b"poison", b"c")
    world.store.after = [Crash()]
    with pytest.raises(Crash):
        world.pipeline().step()

    world.pipeline().step()

    assert world.store.bodies == [b"a", b"b", b"c"]
    assert len(world.letters.all()) == 1


def test_a_store_that_takes_nothing_is_doubted_before_the_data_are(world: World) -> None:
    world.write(b"poison", b"poison")
    pipeline = world.pipeline()
    for _ in range(5):
        with pytest.raises(Permanent):
            pipeline.step()
    assert world.letters.all() == []

    pipeline.step()

    assert len(world.letters.all()) == 2


def test_an_outage_dead_letters_nothing(world: World) -> None:
    world.write(b"a")
    world.store.failures = [Retryable("engine away"), OSError("no route")]
    pipeline = world.pipeline()
    for _ in range(2):
        with pytest.raises((Retryable, OSError)):
            pipeline.step()
    pipeline.step()

    assert world.store.bodies == [b"a"]
    assert world.letters.all() == []


def test_consumed_segments_are_freed(world: World) -> None:
    for _ in range(6):
        world.write(b"x" * 400)
    pipeline = world.pipeline()
    while pipeline.step():
        pass

    assert len(list_segments(world.folder / "wal")) == 1


def test_lag_is_the_age_of_the_oldest_waiting_request(world: World, clock: ManualClock) -> None:
    pipeline = world.pipeline()
    assert pipeline.lag().age is None
    world.write(b"a")
    clock.advance(timedelta(seconds=7))

    assert pipeline.lag().age == timedelta(seconds=7)
    assert pipeline.lag().bytes > 0
    pipeline.step()
    assert pipeline.lag().age is None


def test_damage_in_an_old_segment_does_not_stop_the_log(world: World) -> None:
    for _ in range(3):
        world.write(b"x" * 400)
    path = segment_path(world.folder / "wal", 2)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    pipeline = world.pipeline()
    while pipeline.step():
        pass

    assert len(world.store.bodies) == 2


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"consumed": [1, "x"], "seq": 1, "inflight": null}',
        '{"consumed": [1, 0], "seq": -1, "inflight": null}',
        '{"consumed": [1, 0], "seq": 1, "inflight": [1]}',
    ],
)
def test_an_unreadable_progress_file_says_what_to_do(world: World, text: str) -> None:
    (world.folder / "wal" / "progress.json").write_text(text)

    with pytest.raises(ConfigError, match="delete it"):
        world.pipeline()


def test_the_thread_survives_failures_and_drains(tmp_path: Path) -> None:
    world = World(tmp_path, SystemClock())
    world.store.failures = [Retryable("away", timedelta(milliseconds=10))]
    world.facts.failures = [RuntimeError("bug")]
    pipeline = world.pipeline()
    pipeline.start()
    world.write(*[b"%d" % number for number in range(30)])

    assert pipeline.drain(timedelta(seconds=10))

    assert len(world.store.bodies) == 30
    assert pipeline.status().error is None
    assert pipeline.stop()


def test_the_present_error_can_be_seen_and_drain_gives_up_in_time(tmp_path: Path) -> None:
    world = World(tmp_path, SystemClock())
    world.store.failures = [OSError("no route")] * 1000
    world.write(b"a")
    pipeline = world.pipeline()
    pipeline.start()

    wait_until(lambda: pipeline.status().error == "insert: OSError: no route")
    assert not pipeline.drain(timedelta(milliseconds=50))
    assert pipeline.stop()


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_crashes_anywhere_neither_lose_nor_repeat_a_request(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    world = World(tmp_path_factory.mktemp("crash"), ManualClock(BUCKET))
    bodies = [b"%d" % number for number in range(data.draw(st.integers(1, 12)))]
    poisoned = data.draw(st.sets(st.sampled_from(bodies), max_size=2))
    pipeline = world.pipeline(batch_spans=3)
    for body in bodies:
        world.write(body + b"poison" if body in poisoned else body)
        for place in data.draw(st.lists(st.sampled_from(["before", "after", "facts", "listener"]))):
            {
                "before": world.store.failures,
                "after": world.store.after,
                "facts": world.facts.failures,
                "listener": world.listener.failures,
            }[place].append(Crash())
        try:
            pipeline.step()
        except Crash:
            pipeline = world.pipeline(batch_spans=3)
        except Permanent:
            pass
    world.store.failures, world.store.after = [], []
    world.facts.failures, world.listener.failures = [], []
    finish(pipeline)
    world.writer.close()

    assert sorted(world.store.bodies) == sorted(b for b in bodies if b not in poisoned)
    assert len(world.letters.all()) == len(poisoned)
