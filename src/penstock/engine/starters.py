"""Who starts a run, as its first record says it: a principal, their kind, which credential they showed, for whom.

The principal stands in `startedBy`, the rest in `starter`. Child runs and the next runs of a chain take both over; a
fork is its maker's.

Above it: hosts and operations, which know who calls. Below it: nothing but data.
"""

from __future__ import annotations

import msgspec

from penstock.base.json import JsonObject

__all__ = ["PROGRAM", "Starter"]


class Starter(msgspec.Struct, frozen=True, kw_only=True):
    """A principal who starts a run."""

    principal: str
    credential: str | None = None
    """Which credential they showed: the id of a key, the name of a webhook's secret; never a secret itself."""
    on_behalf_of: str | None = None
    """The principal whose rights counted, if they act for somebody."""

    @property
    def kind(self) -> str:
        """What sort of principal: key, local, schedule, webhook, system, program."""
        return self.principal.partition(":")[0]

    def told(self) -> JsonObject:
        """What the first record says beside the principal."""
        found: JsonObject = {"kind": self.kind}
        if self.credential is not None:
            found["credential"] = self.credential
        if self.on_behalf_of is not None:
            found["onBehalfOf"] = self.on_behalf_of
        return found


# The program that has Penstock in it: it holds the host in its hands.
PROGRAM = Starter(principal="program")
