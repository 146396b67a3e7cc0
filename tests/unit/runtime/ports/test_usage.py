"""What results report is read with care: hosts outside send it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.runtime.ports.usage import reported_usage

NAMES = ["usage", "cost", "amount", "input_tokens"]
JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["usage", "cost", "amount", "input_tokens"]), inner)
    ),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("used", "counted"),
    [
        ({"input_tokens": 3, "output_tokens": 4}, (7, 0)),
        ({"inputTokens": 3, "output_tokens": 4}, (7, 0)),
        ({"tokens": "unknown", "cost": {"amount": "1.25", "currency": "USD"}}, (0, 1_250_000)),
        ({"cost": {"amount": "0.0000001", "currency": "USD"}}, (0, 1)),
        ({"cost": {"amount": "7", "currency": "EUR"}}, (0, 0)),
        ({"input_tokens": -3, "output_tokens": True}, (0, 0)),
        ({"cost": {"amount": "NaN", "currency": "USD"}}, (0, 0)),
        ({"cost": {"amount": "-1", "currency": "USD"}}, (0, 0)),
        ({"input_tokens": 10**30, "cost": {"amount": "1e40", "currency": "USD"}}, (10**15, 10**15)),
    ],
)
def test_tokens_and_dollars_are_counted(used: Any, counted: tuple[int, int]) -> None:
    assert reported_usage({"usage": used}) == counted


@pytest.mark.parametrize("extra", [None, {}, {"usage": None}, {"usage": 3}, [], "usage"])
def test_nothing_is_counted_where_nothing_is_reported(extra: Any) -> None:
    assert reported_usage(extra) is None


@given(JSON)
def test_whatever_is_sent_is_counted_or_not_and_never_fails(extra: Any) -> None:
    counted = reported_usage(extra)
    assert counted is None or all(0 <= count <= 2 * 10**15 for count in counted)
