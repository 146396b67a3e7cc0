"""Counting what there is to decode, without decoding it: never less than there is."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.runtime.executors.outbound.json_tokens import TokenCounter, has_more_tokens

_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='ab,[{"\\é'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='a,"\\'), inner),
)


def tokens(value: Any) -> int:
    """Strings, openers and commas."""
    if isinstance(value, dict):
        members = sum(1 + tokens(member) for member in value.values())
        return 1 + members + max(len(value) - 1, 0)
    if isinstance(value, list):
        return 1 + sum(tokens(item) for item in value) + max(len(value) - 1, 0)
    return int(isinstance(value, str))


@given(_values)
def test_it_is_known_to_the_token_how_much_there_is(value: Any) -> None:
    text, count = json.dumps(value).encode(), tokens(value)
    assert not has_more_tokens(text, count)
    if count:
        assert has_more_tokens(text, count - 1)


def test_what_stands_in_a_text_counts_for_nothing() -> None:
    assert not has_more_tokens(json.dumps({"csv": "a,b,c\n" * 100_000}).encode(), 10)


@given(_values, st.integers(min_value=1, max_value=7))
def test_it_does_not_matter_how_a_text_is_cut_into_pieces(value: Any, size: int) -> None:
    text = json.dumps(value).encode()
    counter = TokenCounter()
    for start in range(0, len(text), size):
        counter.feed(text[start : start + size])
    assert counter.tokens == tokens(value)


def test_a_quote_in_a_comment_hides_nothing_that_follows() -> None:
    for end in (b"\n", b"\r", b"\x0b"):
        assert TokenCounter().feed_lines(b': "' + end + b"data: [[],[],[]]") == 7
