"""What the gate says to a call: an answer, or a refusal; and what it asks about fields that are hidden.

Above it: `pipeline`, surfaces. Below it: nothing but data types.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import msgspec

from penstock.base.errors import PenstockError
from penstock.operations.catalogue.capability import Capability, EventStream, Reply
from penstock.operations.gate.context import Principal, Request
from penstock.runtime.ports.platform import CallRecord

__all__ = ["AnswerFilter", "AnsweredCall", "Outcome", "RefusedCall", "tell_who_left", "was_made"]


class AnsweredCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that succeeded. `replayed` means that this is the stored answer of an earlier call with the same key."""

    capability: Capability
    principal: Principal
    reply: Reply[Any] | EventStream
    replayed: bool = False


class RefusedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that was refused, or failed. The error says why and what to do."""

    error: PenstockError
    capability: Capability | None = None
    principal: Principal | None = None
    failed: bool = False
    """Whether the call was accepted and then failed because of an error in the server."""


Outcome: TypeAlias = AnsweredCall | RefusedCall


def tell_who_left(request: Request, outcome: Outcome) -> None:
    """Report the outcome of a call to a caller who hung up, if they asked for that."""
    if request.after_leaving is not None:
        request.after_leaving(outcome.reply if isinstance(outcome, AnsweredCall) else outcome.error)


def was_made(outcome: Outcome, call: CallRecord) -> bool:
    """Whether a call counts for policies. One that failed unexpectedly does: it may have had its effect."""
    if isinstance(outcome, RefusedCall):
        return call.stored or outcome.failed
    return not outcome.replayed and call.noted.get("outcome") != "held"


class AnswerFilter(Protocol):
    """What policies hide of answers."""

    def may_hide(self, request: Request) -> bool:
        """Whether anything may be hidden from a caller, without reading anything."""

    async def refuse(self, request: Request, capability: Capability) -> None:
        """Raise `Denied` for a call that would show what is hidden from its caller in a place that nobody can name."""

    async def shown(
        self, request: Request, capability: Capability, reply: Reply[Any] | EventStream
    ) -> Reply[Any] | EventStream:
        """Return an answer without what is hidden from its caller; also one that was stored for a repeated call."""
