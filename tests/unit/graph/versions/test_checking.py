"""What is wrong with the values of a single node or edge."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.graph.schema.read import read_schema
from penstock.graph.versions.checking import check_identifier, check_values
from penstock.graph.versions.entities import ViolationKind

READING = read_schema(
    """
    node Item {
        name: String @key
        size: I64?
        state: enum(on, off)?
        code: String?
        tags: [String]?
        at: Vector(2)?
        @range(size, 1..10)
        @check(code, "[a-z]+")
    }
    edge Link: Item -> Item
    """
)
assert READING.schema is not None, READING.findings
ITEM = READING.schema.node_types["Item"]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"name": "a", "size": 1, "state": "on", "code": "abc", "tags": ("x",), "at": (1.0, 2.0)}, None),
        ({"name": "a"}, None),
        ({}, ViolationKind.REQUIRED),
        ({"name": None}, ViolationKind.REQUIRED),
        ({"name": "a", "size": 0}, ViolationKind.RANGE),
        ({"name": "a", "size": 11}, ViolationKind.RANGE),
        ({"name": "a", "state": "maybe"}, ViolationKind.ENUM),
        ({"name": "a", "code": "abc1"}, ViolationKind.CHECK),
        ({"name": "a", "colour": "red"}, ViolationKind.UNKNOWN_PROPERTY),
        ({"name": "a\0"}, ViolationKind.VALUE),
        ({"name": "a", "tags": ("\ud800",)}, ViolationKind.VALUE),
        ({"name": "a", "at": (1.0,)}, ViolationKind.VALUE),
        ({"name": "a", "size": 1 << 63}, ViolationKind.VALUE),
    ],
)
def test_each_violation_of_a_value_is_found(values: dict[str, Any], kind: ViolationKind | None) -> None:
    found = {each.kind for each in check_values(ITEM, values, "a")}
    assert found - {ViolationKind.RANGE} == (set() if kind in (None, ViolationKind.RANGE) else {kind})
    assert kind is None or kind in found


def test_a_partial_check_looks_only_at_what_is_given() -> None:
    assert check_values(ITEM, {"size": 5}, "a", partial=True) == []


@pytest.mark.parametrize("identifier", ["", "a\0", "x" * 1_001, "\udc00"])
def test_an_identifier_that_cannot_be_stored_is_refused(identifier: str) -> None:
    assert [each.kind for each in check_identifier(ITEM, identifier)] == [ViolationKind.VALUE]


def test_an_ordinary_identifier_is_fine() -> None:
    assert check_identifier(ITEM, "Müller & Söhne") == []
