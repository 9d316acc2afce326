from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.matchers import Matcher, all_match, parse_matcher
from base.errors import BadInput


@pytest.mark.parametrize(
    ("text", "matcher"),
    [
        ("a=b", Matcher("a", "b")),
        ('a="b c"', Matcher("a", "b c")),
        ('a != "b"', Matcher("a", "b", is_equal=False)),
        ('a=~"b.*"', Matcher("a", "b.*", is_regex=True)),
        ("a!~b|c", Matcher("a", "b|c", is_regex=True, is_equal=False)),
        (r'a="say \"hi\""', Matcher("a", 'say "hi"')),
        (r'a=~"x\.y"', Matcher("a", r"x\.y", is_regex=True)),
        (r'a=~"x\\.y"', Matcher("a", r"x\.y", is_regex=True)),
        ('a=""', Matcher("a", "")),
    ],
)
def test_matchers_are_read_as_amtool_writes_them(text: str, matcher: Matcher) -> None:
    assert parse_matcher(text) == matcher


@given(st.text(), st.booleans(), st.booleans())
def test_a_matcher_that_is_written_is_read_back(value: str, regex: bool, equal: bool) -> None:
    try:
        matcher = Matcher("a", value, regex, equal)
    except BadInput:
        return

    assert parse_matcher(str(matcher)) == matcher


@pytest.mark.parametrize("text", ["", "a", "=b", "a.b=c", '1="x"', 'a=~"("'])
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse_matcher(text)


def test_a_missing_label_equals_an_empty_one_and_a_pattern_matches_all_of_a_value() -> None:
    assert Matcher("a", "").matches({})
    assert not Matcher("a", "", is_equal=False).matches({})
    assert not Matcher("a", "b", is_regex=True).matches({"a": "abc"})
    assert Matcher("a", "b", is_regex=True, is_equal=False).matches({"a": "abc"})
    assert all_match([Matcher("a", "x"), Matcher("b", "y")], {"a": "x", "b": "y"})
    assert not all_match([Matcher("a", "x"), Matcher("b", "y")], {"a": "x"})
