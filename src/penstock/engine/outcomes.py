"""The results of `decide`: records to store, or a refusal that changed nothing.

Above it: every caller of the engine. Refusal codes are the published control-plane codes where there is one.
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
    """The page to append, and the state after it. A page without records means that the input was a duplicate.

    `effects` is what `pending` would list afterwards, if that is already known.
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
    """The input was not accepted; the run is unchanged."""

    code: str
    message: str
    hint: str | None = None
    details: JsonObject | None = None


Decision: TypeAlias = Accepted | Refused
