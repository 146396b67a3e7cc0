"""Counting what there is to decode, without decoding it: never less than there is."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.runtime.executors.bounded.json_tokens import has_more_tokens

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
