"""Idempotency: a call with a key happens once, and a repeated call gets the first answer.

The key is claimed with the first change that the call makes, in its transaction (`CallRecord`). So a call that is
refused leaves nothing to undo, and of two processes that make the same change at once, one stores it. Within a
process, a second call with a key that is in flight is refused at once. The answer is stored with the change, too: a
handler gives it beforehand (`answered`), or says how it is made from what a run decides (`answered_by`). A call that
first follows the run that it starts has its answer after the change. If the process dies in between, the claim times
out; what is started or signalled has an id that is derived from the key (`derived_id`), so that a repeated call finds
it.

Above it: `pipeline`, handlers. Below it: the platform port.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

import msgspec

from penstock.base import limits
from penstock.base.errors import Conflict, PenstockError, Rejected
from penstock.base.json import JsonObject
from penstock.base.keyed_digests import keyed_digest
from penstock.engine.outcomes import Accepted
from penstock.operations.catalogue.capability import Capability, EventStream, Reply
from penstock.operations.gate.context import Context, Principal, Request, Services
from penstock.runtime.ports.platform import CallRecord, Claimed, Finished, IdempotencyClaim, InFlight

__all__ = ["DecidedAnswer", "IdempotentCalls", "answered", "answered_by", "derived_id", "digest_arguments"]

_encode = msgspec.json.Encoder(order="sorted").encode
_IN_FLIGHT = "IDEMPOTENCY_IN_FLIGHT"
_Name: TypeAlias = tuple[str, str, str, str]


def digest_arguments(pepper: bytes, arguments: JsonObject) -> str:
    """A digest that is equal for equal arguments, and says nothing of them without the server's secret.

    A plain hash of a short answer, such as a PIN, could be guessed by whoever has the file.
    """
    return keyed_digest(pepper, b"arguments\0" + _encode(arguments))


def _is_of(digest: str, claim: IdempotencyClaim, arguments: JsonObject) -> bool:
    """Whether a stored digest is of these arguments; for a day there are plain ones, which older releases stored."""
    return digest == claim.digest or digest == hashlib.sha256(_encode(arguments)).hexdigest()


def derived_id(principal: Principal, request: Request) -> str | None:
    """An id that is the same for every repetition of a call with an idempotency key; None without a key."""
    if request.idempotency_key is None:
        return None
    text = "\0".join((principal.tenant, principal.id, request.operation, request.idempotency_key))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def answered(context: Context, reply: Reply[Any]) -> CallRecord:
    """What a call leaves, with its answer, for the store to keep with the change that makes the answer true.

    A handler that asks for it hands it to the store with a change, and answers with that reply if the change is made.
    """
    if context.call.claim is not None:
        context.call.answer = _answer_of(reply)
    return context.call


@dataclass(slots=True, eq=False)
class DecidedAnswer:
    """The answer of a call that changes a run, made of what the run decides."""

    call: CallRecord
    make: Callable[[Accepted], Reply[Any] | None]
    made: Reply[Any] | None = None

    def __call__(self, decision: Accepted) -> JsonObject | None:
        """The answer as it is kept; the host asks for it before it stores the decision."""
        self.made = self.make(decision)
        return None if self.made is None or self.call.claim is None else _answer_of(self.made)

    @property
    def reply(self) -> Reply[Any] | None:
        """The reply that is stored with the change; None if nothing was changed, or too little is known."""
        return self.made if self.call.stored else None


def answered_by(
    context: Context, make: Callable[[Accepted], Reply[Any] | None], *, provisional: bool = False
) -> DecidedAnswer:
    """Let the call be answered with what is made of the run's decision, stored with the decision in one transaction.

    A handler asks for it before it changes the run, and answers with its `reply` then. A `provisional` answer is what
    a repeated call hears if this one ends before it has followed the run for long enough to say more.
    """
    context.call.answer_of = answer = DecidedAnswer(context.call, make)
    context.call.provisional = provisional
    return answer


class IdempotentCalls:
    """The calls with idempotency keys of one process."""

    def __init__(self) -> None:
        self._under_way: dict[_Name, IdempotencyClaim] = {}
        """The calls that are under way here, and do not count as lost yet."""

    async def begin(
        self, services: Services, capability: Capability, principal: Principal, request: Request
    ) -> IdempotencyClaim | Reply[Any] | None:
        """What the call has to claim, the answer that was given before, or None for a call that needs neither.

        Whoever gets a claim must `end` it.
        """
        key = request.idempotency_key
        if key is None or capability.annotations.read_only:
            return None
        if not 0 < len(key) <= limits.IDEMPOTENCY_KEY_CHARACTERS_MAX or not _is_plain(key):
            message = f"an idempotency key has 1 to {limits.IDEMPOTENCY_KEY_CHARACTERS_MAX} printable ASCII characters"
            raise Rejected("IDEMPOTENCY_KEY_INVALID", message, "use a UUID")
        now = services.clock.now_ms()
        claim = IdempotencyClaim(
            tenant=principal.tenant,
            principal=principal.id,
            operation=capability.name,
            key=key,
            digest=digest_arguments(services.pepper, request.arguments),
            now=now,
            in_flight_until=now + limits.IDEMPOTENCY_IN_FLIGHT_MS,
            keep_until=now + services.limits.idempotency_ttl_ms,
        )
        under_way = self._under_way.get(_name_of(claim))
        if under_way is not None and under_way.in_flight_until >= now:
            raise _reused() if under_way.digest != claim.digest else _in_flight()
        self._under_way[_name_of(claim)] = claim
        try:
            return await self._found(services, capability, claim, request.arguments)
        except BaseException:
            self.end(claim)
            raise

    async def _found(
        self, services: Services, capability: Capability, claim: IdempotencyClaim, arguments: JsonObject
    ) -> IdempotencyClaim | Reply[Any]:
        known = await services.platform.stored_call(claim)
        match known:
            case None:
                return claim
            case InFlight(digest=digest) | Finished(digest=digest) if not _is_of(digest, claim, arguments):
                raise _reused()
            case InFlight():
                raise _in_flight()
            case Finished(answer=answer):
                self.end(claim)
                return _repeated(services, capability, answer)
            case _:
                assert_never(known)

    def end(self, claim: IdempotencyClaim) -> None:
        """The call is not under way any more."""
        if self._under_way.get(_name_of(claim)) is claim:  # and not one that took over
            del self._under_way[_name_of(claim)]

    async def complete(self, services: Services, call: CallRecord, reply: Reply[Any] | EventStream) -> None:
        """Store what a call leaves and was not stored with a change: its audit entry, its answer, or both.

        A stream has no answer that could be kept: the key may be used again.
        """
        if isinstance(reply, EventStream):
            await self.release(services, call)
            call.claim = None
        elif call.claim is not None and not call.answered:
            final = _answer_of(reply)
            call.answered = call.stored and final == call.answer  # what was provisional is the last word
            call.answer, call.provisional = final, False
        if call.stored and (call.claim is None or call.answered):
            return
        was_stored = call.stored
        outcome = await services.platform.record_call(call)
        if not isinstance(outcome, Claimed) and not was_stored:
            raise _in_flight()  # another process was faster, and this one changed nothing

    async def repeated(self, context: Context, error: PenstockError) -> Reply[Any] | None:
        """The answer of another process, for a call that is refused because that one has just made the same change."""
        services, call = context.services, context.call
        if call.claim is None or call.stored or not isinstance(error, Conflict) or error.code == _IN_FLIGHT:
            return None
        known = await services.platform.stored_call(call.claim)
        if not isinstance(known, Finished) or not _is_of(known.digest, call.claim, context.request.arguments):
            return None
        return _repeated(services, context.capability, known.answer)

    async def release(self, services: Services, call: CallRecord) -> None:
        """Let a key be used again that a call claimed before it was refused."""
        if call.claim is not None and call.stored and not call.answered:
            await services.platform.release_call(call.claim)


def _is_plain(key: str) -> bool:
    return key.isascii() and key.isprintable() and " " not in key


def _name_of(claim: IdempotencyClaim) -> _Name:
    return claim.tenant, claim.principal, claim.operation, claim.key


def _reused() -> Rejected:
    message = "this idempotency key was used with other arguments"
    return Rejected("IDEMPOTENCY_KEY_REUSED", message, "use a new key for another call")


def _in_flight() -> Conflict:
    message = "a call with this idempotency key is under way"
    return Conflict(_IN_FLIGHT, message, "ask again in a second", {"retry_after_seconds": 1})


def _repeated(services: Services, capability: Capability, answer: JsonObject) -> Reply[Any]:
    reply: Reply[Any] = Reply(**msgspec.convert(answer, dict[str, Any]))
    if capability.repeat is None:
        return reply
    return msgspec.structs.replace(reply, value=capability.repeat(services, reply.value))


def _answer_of(reply: Reply[Any]) -> JsonObject:
    return {
        "value": msgspec.to_builtins(reply.value if reply.kept is None else reply.kept),
        "status": reply.status,
        "etag": reply.etag,
        "location": reply.location,
    }
