"""Amounts that policies add up: exact, never negative, never a secret."""

from __future__ import annotations

import pytest

from penstock.base.json import JsonObject
from penstock.governance.policy.amounts import AMOUNT_MAX, amount_of, count_value, sum_value, why_not_summed
from penstock.governance.policy.shapes import Unfit, record_of

SHAPE = record_of(
    {
        "type": "object",
        "required": ["amount"],
        "properties": {
            "amount": {"type": "number"},
            "seats": {"type": "integer", "default": 2},
            "note": {"type": "string"},
            "pin": {"type": "integer", "writeOnly": True},
            "order": {"type": "object", "properties": {"total": {"type": "number"}, "list": {"type": "array"}}},
        },
    }
)


@pytest.mark.parametrize(
    ("arguments", "path", "units"),
    [
        ({"amount": 12}, ("amount",), 120_000),
        ({"amount": 0.1}, ("amount",), 1_000),
        ({"amount": 0.0001}, ("amount",), 1),
        ({"amount": -5}, ("amount",), 0),
        ({"amount": -0.12345}, ("amount",), 0),
        ({"amount": 10**30}, ("amount",), AMOUNT_MAX),
        ({}, ("seats",), 20_000),
        ({}, ("amount",), 0),
        ({"amount": None}, ("amount",), 0),
        ({"order": {"total": 3.5}}, ("order", "total"), 35_000),
        ({}, ("order", "total"), 0),
    ],
)
def test_what_a_call_adds(arguments: JsonObject, path: tuple[str, ...], units: int) -> None:
    assert amount_of(SHAPE, arguments, path) == units


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"amount": "12"}, ("amount",)),
        ({"amount": True}, ("amount",)),
        ({"amount": 0.00001}, ("amount",)),
        ({"order": 3}, ("order", "total")),
        ({"note": "x"}, ("note",)),
        ({"pin": 1234}, ("pin",)),
        ({}, ("gone",)),
    ],
)
def test_what_cannot_be_added_up_refuses_the_call(arguments: JsonObject, path: tuple[str, ...]) -> None:
    with pytest.raises(Unfit):
        amount_of(SHAPE, arguments, path)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        (("note",), "not a number"),
        (("pin",), "a secret"),
        (("gone",), "not a declared argument"),
        (("order",), "not a number"),
        (("order", "gone"), "not a declared argument"),
        (("amount", "more"), "not a declared argument"),
    ],
)
def test_it_is_said_why_an_argument_is_not_added_up(path: tuple[str, ...], told: str) -> None:
    assert told in (why_not_summed(SHAPE, path) or "")
    assert why_not_summed(SHAPE, ("order", "total")) is None


def test_sums_are_decimals_and_counts_whole_numbers() -> None:
    assert sum_value(1_234_500) == {"__extn": {"fn": "decimal", "arg": "123.45"}}
    assert sum_value(AMOUNT_MAX + 5) == {"__extn": {"fn": "decimal", "arg": "922337203685477.5807"}}
    assert count_value(30_000) == 3
