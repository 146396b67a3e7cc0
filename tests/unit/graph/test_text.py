"""Text search, ranking and distances."""

from __future__ import annotations

import math
import struct

import pytest

from penstock.graph import text


@pytest.mark.parametrize(
    ("value", "query", "searched", "matched"),
    [
        ("The quick brown fox", "quick", 1, 1),
        ("The quick brown fox", "fox quick", 1, 0),
        ("The quick brown fox", "QUICK Brown", 1, 1),
        ("The quick brown fox", "slow fox", 0, 0),
        ("Über naïve Ärzte", "uber arzte", 1, 0),
        ("a b", "", 0, 0),
        ("", "a", 0, 0),
        (None, "a", None, None),
        ("a", None, None, None),
    ],
)
def test_words_are_found(value: str | None, query: str | None, searched: int | None, matched: int | None) -> None:
    assert text.search(value, query) == searched
    assert text.match_text(value, query) == matched


@pytest.mark.parametrize(
    ("value", "query", "edits", "found"),
    [
        ("kitten", "sitten", 1, 1),
        ("kitten", "sitting", 2, 0),
        ("kitten", "sitting", 3, 1),
        ("kitten mitten", "kiten miten", 1, 1),
        ("kitten", "", 2, 0),
        (None, "a", 1, None),
    ],
)
def test_words_are_found_with_a_few_edits(value: str | None, query: str, edits: int, found: int | None) -> None:
    assert text.fuzzy(value, query, edits) == found


def _scores(values: list[str], query: str) -> list[float | None]:
    statistics = text.Bm25Statistics()
    for value in values:
        statistics.step(value, query)
    stored = statistics.finalize()
    return [text.bm25(value, query, stored) for value in values]


def test_more_occurrences_and_rarer_words_score_higher() -> None:
    one, two, three, none = _scores(["tensor", "tensor tensor", "tensor tensor tensor", "other"], "tensor")
    assert one is not None
    assert two is not None
    assert three is not None
    assert one < two < three
    assert none is None
    rare, common = _scores(["alpha x", "beta x", "beta y", "beta z"], "alpha beta")[:2]
    assert rare is not None
    assert common is not None
    assert rare > common


def test_the_score_is_that_of_the_formula() -> None:
    values = ["a b c", "a"]
    (score, _) = _scores(values, "b")
    rarity = math.log(1 + (2 - 1 + 0.5) / (1 + 0.5))
    assert score == pytest.approx(rarity * 1 * 2.2 / (1 + 1.2 * (1 - 0.75 + 0.75 * 3 / 2)))


def test_distances_are_euclidean() -> None:
    one, other = struct.pack("<2f", 0, 3), struct.pack("<2f", 4, 0)
    assert text.distance(one, other) == 5
    assert text.distance(one, None) is None
    assert text.distance(one, one[:4]) is None
