import pytest
from hypothesis import given
from hypothesis import strategies as st

from base.errors import ConfigError
from stack.engine.calibration import load_timing

TIMING = load_timing()


@pytest.mark.parametrize(("tokens", "ms"), [(512, 60), (1024, 106), (2048, 201), (4096, 463)])
def test_prefill_takes_what_was_measured(tokens: int, ms: int) -> None:
    assert TIMING.mixed_s([(0, tokens)], 0) * 1000 == pytest.approx(ms, rel=0.01)


@pytest.mark.parametrize(("batch", "ms"), [(1, 29.5), (8, 31.4), (16, 32.8), (32, 36.9)])
def test_a_decode_step_takes_what_was_measured(batch: int, ms: float) -> None:
    assert TIMING.decode_s(batch) * 1000 == pytest.approx(ms, rel=0.01)


def test_prompts_computed_together_cost_as_much_as_one_of_their_length() -> None:
    assert TIMING.mixed_s([(0, 512), (0, 512)], 0) == TIMING.mixed_s([(0, 1024)], 0)


def test_a_chunk_behind_a_long_context_costs_more_than_the_same_chunk_alone() -> None:
    assert TIMING.mixed_s([(2048, 2048)], 0) > TIMING.mixed_s([(0, 2048)], 0)


def test_a_slowed_replica_takes_longer_by_the_factor() -> None:
    assert TIMING.slowed(3).decode_s(4) == pytest.approx(3 * TIMING.decode_s(4))


def test_an_unmeasured_model_is_refused_with_the_choices() -> None:
    with pytest.raises(ConfigError, match="llama2-70b h100-80gb TP4"):
        load_timing("gpt-9")


@given(st.integers(1, 20_000), st.integers(1, 20_000), st.integers(0, 200))
def test_more_tokens_never_take_less_time(a: int, b: int, decodes: int) -> None:
    few, many = sorted((a, b))

    assert TIMING.mixed_s([(0, few)], decodes) <= TIMING.mixed_s([(0, many)], decodes)
