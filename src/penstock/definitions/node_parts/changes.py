"""What a change of a document means for callers and for runs in flight.

Above it: `nodes` declares this for the fields of each node type, `diff` for everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from penstock.base.json import JsonObject, JsonValue

__all__ = ["COMPUTED_AGAIN", "SEEN_LATER", "STARTED", "Comparison", "Effect", "FieldEffect", "InFlight", "unsafe"]


class InFlight(StrEnum):
    """Whether a run in flight could be moved across the change by replaying its history."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a change means for callers and for runs in flight."""

    breaking: bool = False
    in_flight: InFlight = InFlight.SAFE
    reason: str = ""


def unsafe(reason: str) -> Effect:
    """The effect of a change that a replay would notice."""
    return Effect(in_flight=InFlight.UNSAFE, reason=reason)


SEEN_LATER = Effect(reason="it only affects what begins later")
COMPUTED_AGAIN = unsafe("a replay would compute a different value")
STARTED = unsafe("the history has which of them start, and when")

FieldEffect: TypeAlias = Effect | Callable[[JsonValue, JsonValue], Effect]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How the fields of a node type are compared, where that does not follow from their names.

    `aliases` maps a second name of a field to the first. `defaults` has the meaning of a missing field. `expressions`
    are fields that are jq as a whole. `elsewhere` are fields that are compared as part of the contract or of the
    routes. `effects` says what a change does to runs in flight (by default, only later visits see it). `signal` reads
    the name of the signal that a node waits for.
    """

    aliases: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, JsonValue] = field(default_factory=dict)
    expressions: frozenset[str] = frozenset()
    elsewhere: frozenset[str] = frozenset()
    effects: Mapping[str, FieldEffect] = field(default_factory=dict)
    signal: Callable[[JsonObject], str] | None = None
