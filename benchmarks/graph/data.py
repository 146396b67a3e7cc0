"""The graph that is measured: people who know each other, drawn at random, the same in every run and for every peer."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

__all__ = ["CITIES", "edges", "people", "starts"]

_SEED = 20_261_117
CITIES = tuple(f"city-{number:03d}" for number in range(200))


def people(count: int) -> Iterator[tuple[str, str, int, str, float]]:
    """Key, name, age, city and score."""
    draw = Random(_SEED)
    for number in range(count):
        yield f"p{number}", f"Person {number}", draw.randrange(18, 90), draw.choice(CITIES), draw.random()


def edges(nodes: int, count: int) -> Iterator[tuple[str, str, int]]:
    """Who knows whom, and since which year."""
    draw = Random(_SEED + 1)
    for _ in range(count):
        yield f"p{draw.randrange(nodes)}", f"p{draw.randrange(nodes)}", draw.randrange(1990, 2026)


def starts(nodes: int, count: int) -> list[str]:
    """Where hops begin."""
    draw = Random(_SEED + 2)
    return [f"p{draw.randrange(nodes)}" for _ in range(count)]
