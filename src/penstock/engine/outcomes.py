"""What `decide` answers: records to store, or a refusal that changed nothing.

Above it: everybody who calls the engine. Refusal codes are the published control-plane codes where there is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from penstock.base.json import JsonObject
from penstock.engine.records import Record
from penstock.engine.state import RunState

__all__ = ["Accepted", "Decision", "Refused"]


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """The records to append, in order, and the state after them. No records: the input was known already."""

    records: tuple[Record, ...]
    state: RunState


@dataclass(frozen=True, slots=True)
class Refused:
    """The input cannot be taken; the run is as it was."""

    code: str
    message: str
    hint: str | None = None
    details: JsonObject | None = None


Decision: TypeAlias = Accepted | Refused
