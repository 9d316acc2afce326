"""Laws of the simulated engine that must hold whatever is thrown at it."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stack.engine.calibration import load_timing
from stack.engine.scheduler import EngineLimits
from stack.engine.sequence import Event, Finished, FirstToken, Work
from stack.engine.simulation import Simulation

TIMING = load_timing()
ROOMY = EngineLimits()
TIGHT = EngineLimits(max_num_seqs=4, max_num_batched_tokens=64, num_gpu_blocks=24, block_size=16)


@dataclass
class Script:
    """Requests as (arrival, work) and the times at which some are given up."""

    arrivals: list[tuple[float, Work]]
    aborts: dict[str, float] = field(default_factory=dict)


def play(limits: EngineLimits, script: Script) -> tuple[Simulation, list[Event]]:
    simulation = Simulation(limits, TIMING)
    moments = [(at, 0, work) for at, work in script.arrivals]
    moments += [(at, 1, work_id) for work_id, at in script.aborts.items()]
    for at, kind, subject in sorted(moments, key=lambda m: (m[0], m[1])):
        if kind == 0:
            simulation.submit(subject, at)
        else:
            simulation.abort(subject, at)
        assert simulation.blocks_accounted == limits.num_gpu_blocks
    return simulation, run_out(simulation)


def run_out(simulation: Simulation) -> list[Event]:
    """Step from event to event until nothing is left to do."""
    events, following = simulation.step(100.0)
    while following is not None:
        more, following = simulation.step(following)
        events += more
    return events


def finished(events: list[Event]) -> dict[str, Finished]:
    return {e.id: e for e in events if isinstance(e, Finished)}


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    count = draw(st.integers(1, 14))
    arrivals = []
    for index in range(count):
        prompt = draw(st.integers(1, 200))
        prefix = draw(st.integers(0, 2))
        hashes = tuple(prefix * 1000 + block for block in range(prompt // 16))
        work = Work(
            f"r{index}",
            prompt,
            draw(st.integers(1, 120)),
            hashes,
            priority=draw(st.integers(0, 2)),
        )
        arrivals.append((draw(st.floats(0, 4)), work))
    given_up = draw(st.sets(st.integers(0, count - 1), max_size=4))
    aborts = {f"r{i}": arrivals[i][0] + draw(st.floats(0, 3)) for i in given_up}
    return Script(sorted(arrivals, key=lambda a: a[0]), aborts)


limits = st.sampled_from(
    [
        ROOMY,
        TIGHT,
        EngineLimits(3, 32, 22, 16, by_priority=True),
        EngineLimits(8, 2048, 40, 16, by_priority=True),
    ]
)


@settings(max_examples=80, deadline=None)
@given(limits, scripts())
def test_every_token_asked_for_is_produced_once_and_no_block_leaks(
    limits: EngineLimits, script: Script
) -> None:
    simulation, events = play(limits, script)

    done = finished(events)
    wanted = {work.id: work for _, work in script.arrivals}
    assert set(done) | set(script.aborts) == set(wanted)
    assert all(done[i].output_tokens == wanted[i].output_tokens for i in done)
    assert len(done) == sum(isinstance(e, Finished) for e in events)
    assert simulation.is_idle
    assert simulation.blocks_accounted == limits.num_gpu_blocks
    assert simulation._scheduler.cache.usage == pytest.approx(0)


@settings(max_examples=80, deadline=None)
@given(limits, scripts())
def test_no_phase_is_negative_and_the_phases_add_up(limits: EngineLimits, script: Script) -> None:
    _, events = play(limits, script)

    for end in finished(events).values():
        assert end.queue_s >= 0
        assert end.prefill_s > 0
        assert end.decode_s >= 0
        assert end.queue_s + end.prefill_s + end.decode_s == pytest.approx(end.e2e_s)
        assert 0 <= end.cached_tokens < end.prompt_tokens


@settings(max_examples=100, deadline=None)
@given(limits, scripts())
def test_the_same_script_plays_the_same_way_twice(limits: EngineLimits, script: Script) -> None:
    assert play(limits, script)[1] == play(limits, script)[1]


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([ROOMY, TIGHT]), scripts())
def test_without_priorities_who_came_first_is_scheduled_first(
    limits: EngineLimits, script: Script
) -> None:
    _, events = play(limits, Script(script.arrivals))

    done = finished(events)
    order = [done[work.id].scheduled_at for _, work in script.arrivals]
    assert order == sorted(order)


@settings(max_examples=60, deadline=None)
@given(limits, scripts(), st.lists(st.floats(0, 12), max_size=30))
def test_looking_at_the_engine_more_often_changes_nothing(
    limits: EngineLimits, script: Script, looks: list[float]
) -> None:
    simulation = Simulation(limits, TIMING)
    events: list[Event] = []
    moments: list[tuple[float, Work | None]] = [*script.arrivals, *((at, None) for at in looks)]
    for at, work in sorted(moments, key=lambda m: (m[0], m[1] is None)):
        if work is None:
            events += simulation.step(at)[0]
        else:
            simulation.submit(work, at)
    events += run_out(simulation)

    undisturbed = finished(play(limits, Script(script.arrivals))[1])
    assert finished(events).keys() == undisturbed.keys()
    for work_id, end in finished(events).items():
        assert end.at == pytest.approx(undisturbed[work_id].at)
        assert end.first_token_at == pytest.approx(undisturbed[work_id].first_token_at)


def test_one_request_alone_takes_its_prefill_and_its_decode_steps() -> None:
    _, events = play(ROOMY, Script([(5.0, Work("a", 512, 101))]))

    end = finished(events)["a"]
    assert end.queue_s == 0
    assert end.ttft_s == pytest.approx(TIMING.mixed_s([(0, 512)], 0))
    assert end.decode_s == pytest.approx(100 * TIMING.decode_s(1))


def test_tokens_can_be_counted_while_a_request_decodes() -> None:
    simulation = Simulation(ROOMY, TIMING)
    simulation.submit(Work("a", 512, 101), 0.0)
    simulation.step(0.0)
    simulation.step(10.0)
    simulation.submit(Work("b", 512, 101), 20.0)
    events, _ = simulation.step(20.0)
    first = simulation.step(20.1)[0]

    assert simulation.tokens("a", 20.0) == 0
    assert events == []
    assert isinstance(first[0], FirstToken)
    assert simulation.tokens("b", first[0].at + 10.5 * TIMING.decode_s(1)) == 11


def test_a_prompt_seen_before_is_read_from_the_cache() -> None:
    hashes = tuple(range(64))
    script = Script([(0.0, Work("a", 1030, 5, hashes)), (2.0, Work("b", 1030, 5, hashes))])

    done = finished(play(ROOMY, script)[1])

    assert done["a"].cached_tokens == 0
    assert done["b"].cached_tokens == 1024
    assert done["b"].ttft_s < done["a"].ttft_s / 2


def test_the_last_prompt_token_is_computed_even_when_the_whole_prompt_is_cached() -> None:
    hashes = tuple(range(4))
    script = Script([(0.0, Work("a", 64, 2, hashes)), (2.0, Work("b", 64, 2, hashes))])

    assert finished(play(ROOMY, script)[1])["b"].cached_tokens == 48


def test_an_old_prefix_makes_room_for_a_new_one() -> None:
    limits = EngineLimits(num_gpu_blocks=8)
    old, new = tuple(range(6)), tuple(range(10, 16))
    script = Script(
        [
            (0.0, Work("a", 97, 1, old)),
            (2.0, Work("b", 97, 1, new)),
            (4.0, Work("c", 97, 1, old)),
        ]
    )

    assert finished(play(limits, script)[1])["c"].cached_tokens < 96


def test_when_blocks_run_out_the_latest_is_preempted_and_its_wait_counts_as_decode() -> None:
    limits = EngineLimits(num_gpu_blocks=24)
    script = Script([(0.0, Work("a", 160, 160)), (0.0, Work("b", 160, 160))])

    simulation, events = play(limits, script)

    done = finished(events)
    assert done["a"].preemptions == 0
    assert done["b"].preemptions == 1
    assert simulation.counters.preemptions == 1
    assert done["b"].queue_s == 0
    assert done["b"].decode_s > done["a"].decode_s * 1.3


def test_an_important_request_overtakes_the_queue() -> None:
    limits = EngineLimits(max_num_seqs=1, by_priority=True)
    works = [Work("low-1", 100, 50, priority=5), Work("low-2", 100, 50, priority=5)]
    script = Script([(0.0, work) for work in works] + [(0.1, Work("high", 100, 50, priority=0))])

    done = finished(play(limits, script)[1])

    assert done["high"].scheduled_at < done["low-2"].scheduled_at


def test_an_aborted_request_frees_its_seat_at_the_next_step() -> None:
    limits = EngineLimits(max_num_seqs=1)
    script = Script([(0.0, Work("a", 100, 5000)), (0.1, Work("b", 100, 5))], aborts={"a": 1.0})

    done = finished(play(limits, script)[1])

    assert "a" not in done
    assert done["b"].scheduled_at == pytest.approx(1.0, abs=0.04)


def test_an_abort_says_what_had_been_given() -> None:
    simulation = Simulation(ROOMY, TIMING)
    simulation.submit(Work("a", 100, 500), 0.0)
    _, prefilled = simulation.step(0.0)
    assert prefilled is not None
    simulation.step(prefilled)

    given_up = simulation.abort("a", prefilled + 10.5 * TIMING.decode_s(1))

    assert given_up is not None
    assert given_up.tokens == 11
    assert given_up.first_token_at == prefilled
    assert simulation.abort("a", prefilled + 20) is None


def test_a_paused_engine_keeps_its_gauges_while_requests_pile_up() -> None:
    simulation = Simulation(ROOMY, TIMING)
    simulation.pause(0.0)
    for index in range(25):
        simulation.submit(Work(f"r{index}", 10, 1), 1.0)
    simulation.step(5.0)

    assert (simulation.counters.running, simulation.counters.waiting) == (0, 0)
    assert simulation.waiting == 25

    simulation.resume(6.0)
    events = run_out(simulation)
    assert finished(events)["r0"].queue_s == pytest.approx(5.0)


def test_a_slow_replica_is_slow_from_the_next_step_on() -> None:
    simulation = Simulation(ROOMY, TIMING)
    simulation.slow_down(4, 0.0)
    simulation.submit(Work("a", 512, 2), 0.0)

    end = finished(run_out(simulation))["a"]

    assert end.decode_s == pytest.approx(4 * TIMING.decode_s(1))


def test_a_request_longer_than_the_cache_is_refused() -> None:
    simulation = Simulation(TIGHT, TIMING)

    with pytest.raises(ValueError, match="longer than the whole cache"):
        simulation.submit(Work("a", 400, 1), 0.0)
