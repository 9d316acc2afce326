"""A price book says what is wrong and where, and prices a request by its own date."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from base.errors import ConfigError
from cost.pricefile import load_price_book, parse_price_book

EXAMPLE = Path(__file__).parents[2] / "examples" / "prices" / "demo.yaml"


def test_the_example_is_a_valid_price_book() -> None:
    book = load_price_book(EXAMPLE)

    assert book.name == "demo"
    assert book.gpu_price("h100", date(2026, 11, 1)) is not None


def test_the_price_in_force_on_the_day_counts() -> None:
    book = load_price_book(EXAMPLE)

    before = book.gpu_price("h100", date(2026, 6, 30))
    after = book.gpu_price("h100", date(2026, 7, 1))

    assert before is not None
    assert before.per_hour == Decimal("2.99")
    assert after is not None
    assert after.per_hour == Decimal("2.49")


def test_a_day_before_the_first_price_has_no_price() -> None:
    assert load_price_book(EXAMPLE).gpu_price("h100", date(2024, 12, 31)) is None


def test_an_unknown_model_has_no_price() -> None:
    assert load_price_book(EXAMPLE).token_price("nobody-knows", date(2026, 1, 1)) is None


def test_two_providers_with_two_prices_are_no_price_for_an_unknown_provider() -> None:
    book = parse_price_book(
        """
tokens:
  - {model: m, provider: a, from: 2026-01-01, input: 1, output: 2}
  - {model: m, provider: b, from: 2026-01-01, input: 3, output: 4}
""",
        "prices.yaml",
    )

    assert book.token_price("m", date(2026, 2, 1)) is None
    from_b = book.token_price("m", date(2026, 2, 1), provider="b")
    assert from_b is not None
    assert from_b.input == Decimal(3)


def test_cached_tokens_are_billed_once_and_at_their_own_price() -> None:
    book = parse_price_book(
        "tokens: [{model: m, from: 2026-01-01, input: 0.6, cached_input: 0.1, output: 2.4}]",
        "prices.yaml",
    )

    price = book.token_price("m", date(2026, 1, 1))

    assert price is not None
    assert price.price(1000, 400, 50) == 600 * 600_000 + 400 * 100_000 + 50 * 2_400_000


def test_an_empty_file_prices_nothing() -> None:
    assert parse_price_book("# nothing yet\n", "prices.yaml").tokens == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tokens:\n  - model: m\n    from: 2026-01-01\n    input: -1\n    output: 2\n", "line 4"),
        ("gpus:\n  - type: h100\n    from: soon\n    per_hour: 2\n", "line 3"),
        ("gpus:\n  - type: h100\n    per_hour: 2\n", "line 2: gpus.0.from: Field required"),
        ("name: x\ncurency: USD\n", "line 2: curency: Extra inputs"),
        ("name: x\ncurrency: EUR\n", "line 2: currency: Input should be 'USD'"),
        ("gpus: [\n", "line 2"),
        ("- 1\n", "line 1"),
        (
            (
                "gpus:\n  - {type: a, from: 2026-01-01, per_hour: 1}\n"
                "  - {type: a, from: 2026-01-01, per_hour: 2}\n"
            ),
            "line 3: gpus for 'a' from 2026-01-01 is already given in line 2",
        ),
    ],
)
def test_an_error_names_the_file_and_the_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_price_book(text, "prices.yaml")

    assert str(caught.value).startswith("prices.yaml ")
    assert message in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.yaml: No such file"):
        load_price_book(tmp_path / "gone.yaml")
