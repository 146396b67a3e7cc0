"""What a family of functions is: the calls that use the tables they share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from penstock.runtime.ports.database import Database

__all__ = ["Call", "Family", "function_of"]

Call: TypeAlias = Callable[[Database], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Calls of functions, by the name of the function; several of one function as `name: what differs`."""

    given: Sequence[Call]
    """What fills the tables before each of the others."""
    changes: Mapping[str, Call]
    """What changes something, each after `given` alone. Outcomes are compared, so they have no numbers of rows."""
    reads: Mapping[str, Call]


def function_of(name: str) -> str:
    """Return the function that a name stands for."""
    return name.split(":", maxsplit=1)[0]
