from hypothesis import given
from hypothesis import strategies as st

from stack.wire.filler import CHARS_PER_TOKEN, block_hashes, count_tokens, filler


@given(st.integers(0, 50_000), st.integers(0, 5_000), st.integers(0, 5_000))
def test_an_answer_sent_in_pieces_is_the_answer_sent_whole(
    start: int, first: int, second: int
) -> None:
    middle, stop = start + first, start + first + second

    assert filler(start, middle) + filler(middle, stop) == filler(start, stop)
    assert count_tokens(filler(start, stop)) == stop - start


def test_every_token_of_the_filler_is_a_word_and_a_space() -> None:
    text = filler(0, 200)

    assert all(text[i + CHARS_PER_TOKEN - 1] == " " for i in range(0, 800, CHARS_PER_TOKEN))


@given(st.text(max_size=400), st.text(max_size=200), st.text(max_size=200))
def test_prompts_share_as_many_block_names_as_they_share_full_blocks(
    common: str, left: str, right: str
) -> None:
    one, other = block_hashes(common + left, 4), block_hashes(common + right, 4)

    shared = sum(a == b for a, b in zip(one, other, strict=False))
    assert shared >= len(common) // (4 * CHARS_PER_TOKEN)
    assert one[:shared] == other[:shared]


def test_a_salt_separates_equal_prompts_and_token_ids_count_one_each() -> None:
    prompt = "same " * 100

    assert not set(block_hashes(prompt, 16, "a")) & set(block_hashes(prompt, 16, "b"))
    assert count_tokens([5, 6, 7]) == 3
    assert len(block_hashes(list(range(40)), 16)) == 2
