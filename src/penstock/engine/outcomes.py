"""What `decide` answers: records to store, or a refusal that changed nothing.

Above it: everybody who calls the engine. Refusal codes are the published control-plane codes where there is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from penstock.base.json import JsonObject
from penstock.engine.effects import Effect
from penstock.engine.pages import Page, records_of
from penstock.engine.records import Record
from penstock.engine.state import RunState

__all__ = ["Accepted", "Decision", "Refused"]


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """The page to append, and the state after it. A page without records: the input was known already.

    `effects` are what `pending` would list afterwards, if that is known already.
    """

    page: Page
    state: RunState
    effects: tuple[Effect, ...] | None = None

    @property
    def records(self) -> tuple[Record, ...]:
        """The records of the page, in order."""
        return records_of(self.page)


@dataclass(frozen=True, slots=True)
class Refused:
    """The input cannot be taken; the run is as it was."""

    code: str
    message: str
    hint: str | None = None
    details: JsonObject | None = None


Decision: TypeAlias = Accepted | Refused
