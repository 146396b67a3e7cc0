"""Idempotency: a call with a key happens once, and a repeated call gets the first answer.

The key is claimed in the transaction of the first change that the call makes (`CallRecord`). So a refused call leaves
nothing to undo, and of two processes that make the same change at once, only one stores it. Within a process, a second
call with a key that is in flight is refused at once. If another process has the call, which may have died, a repeated
call waits: for the answer, or until the claim times out and it can take over.

The answer is stored with the change, too. A handler gives it beforehand (`answered`), or says how to make it from the
decision of a run (`answered_by`). A call that first follows the run that it starts has its answer only after the
change. If the process dies in between, the claim times out, and a repeated call takes it over. The id of whatever the
call started or signalled is derived from the key (`derived_id`), so the repeated call finds it.

Above it: `pipeline`, handlers. Below it: the platform port.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

import msgspec

from penstock.base import limits
from penstock.base.encoding import SafeEncoder
from penstock.base.errors import Conflict, PenstockError, Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.base.keyed_digests import keyed_digest
from penstock.engine.outcomes import Accepted
from penstock.operations.catalogue.capability import Capability, EventStream, Reply
from penstock.operations.gate.context import Context, Principal, Request, Services
from penstock.runtime.ports.platform import CallRecord, Claimed, Finished, IdempotencyClaim, InFlight
from penstock.runtime.tables.call_records import find_call, record_call, release_call

__all__ = [
    "DecidedAnswer",
    "IdempotentCalls",
    "answered",
    "answered_by",
    "answered_from",
    "derived_id",
    "digest_arguments",
    "found_by_id",
]

_encode = SafeEncoder(order="sorted").encode
_EXACT_MAX = 2**53
_IN_FLIGHT = "IDEMPOTENCY_IN_FLIGHT"
_LOOK_AGAIN_SECONDS = 0.1
_Name: TypeAlias = tuple[str, str, str, str]


def digest_arguments(pepper: bytes, arguments: JsonObject) -> str:
    """Return a digest that is equal for equal arguments, and reveals nothing about them without the server's secret.

    With a plain hash, anybody who has the file could guess a short argument, such as a PIN.
    """
    encoded = _encode(arguments)
    if b".0" in encoded:  # perhaps a whole number, which is the same number without these digits
        encoded = _encode(_with_whole_numbers(arguments))
    return keyed_digest(pepper, b"arguments\0" + encoded)


def _with_whole_numbers(value: JsonValue) -> JsonValue:
    """The same value, with whole numbers as integers. JSON has one kind of numbers: 1.0 is 1.

    Above `_EXACT_MAX`, a float does not say which integer was meant.
    """
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) <= _EXACT_MAX else value
    if isinstance(value, dict):
        return {name: _with_whole_numbers(member) for name, member in value.items()}
    return [_with_whole_numbers(item) for item in value] if isinstance(value, list | tuple) else value


def _is_of(digest: str, claim: IdempotencyClaim, arguments: JsonObject) -> bool:
    """Whether a stored digest belongs to these arguments. Older releases stored plain hashes; those live for a day."""
    return digest == claim.digest or digest == hashlib.sha256(_encode(arguments)).hexdigest()


def derived_id(principal: Principal, request: Request) -> str | None:
    """Return an id that is the same for every repetition of a call with an idempotency key; None without a key."""
    if request.idempotency_key is None:
        return None
    text = "\0".join((principal.tenant, principal.id, request.operation, request.idempotency_key))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def answered(context: Context, reply: Reply[Any]) -> CallRecord:
    """Return the call record with its answer, for the store to keep with the change that makes the answer true.

    The handler passes the record to the store with the change. If the change is made, it must return the same reply.
    """
    if context.call.claim is not None:
        context.call.answer = _answer_of(reply)
    return context.call


def answered_from(context: Context, make: Callable[[Any], Reply[Any]]) -> CallRecord:
    """Return the call record, whose answer the store makes from the outcome of the change and keeps with it.

    For answers that say what the store found, such as how much was deleted. The handler returns what `make` makes.
    """
    context.call.answer_from = lambda outcome: _answer_of(make(outcome))
    return context.call


def found_by_id(context: Context) -> None:
    """Store no answer for a call of a node that has started a run, if its id is derived from the key.

    A node looks for that run before it calls again. The claim times out, as that of a process that died does.
    """
    if context.request.surface == "run" and context.request.visit is not None and context.call.stored:
        context.call.answered = True


@dataclass(slots=True, eq=False)
class DecidedAnswer:
    """The answer to a call that changes a run, made from the decision of the run."""

    call: CallRecord
    make: Callable[[Accepted], Reply[Any] | None]
    made: Reply[Any] | None = None

    def __call__(self, decision: Accepted) -> JsonObject | None:
        """Return the answer in its stored form. The host calls this before it stores the decision."""
        self.made = self.make(decision)
        return None if self.made is None or self.call.claim is None else _answer_of(self.made)

    @property
    def reply(self) -> Reply[Any] | None:
        """The reply that was stored with the change; None if nothing changed, or if the decision says too little."""
        return self.made if self.call.stored else None


def answered_by(
    context: Context, make: Callable[[Accepted], Reply[Any] | None], *, provisional: bool = False
) -> DecidedAnswer:
    """Make the answer from the run's decision, and store it with the decision in one transaction.

    A handler calls this before it changes the run, and then returns the `reply` of the result. A repeated call gets a
    `provisional` answer only if the first call ends before it has followed the run for long enough to give a better
    one.
    """
    context.call.answer_of = answer = DecidedAnswer(context.call, make)
    context.call.provisional = provisional
    return answer


class IdempotentCalls:
    """The calls with idempotency keys that are in flight in this process."""

    def __init__(self) -> None:
        self._under_way: dict[_Name, IdempotencyClaim] = {}
        """The calls in flight here whose claims have not timed out."""

    async def begin(
        self, services: Services, capability: Capability, request: Request
    ) -> IdempotencyClaim | Reply[Any] | None:
        """Return the claim for this call, the answer that was stored earlier, or None if the call needs neither.

        The caller must `end` a claim that it gets.
        """
        key = request.idempotency_key
        if key is None or capability.annotations.read_only:
            return None
        if not _is_valid(key, request):
            message = f"an idempotency key has 1 to {limits.IDEMPOTENCY_KEY_CHARACTERS_MAX} printable ASCII characters"
            raise Rejected("IDEMPOTENCY_KEY_INVALID", message, "use a UUID")
        claim, deadline, waited = _claim(services, capability, request), _deadline(), False
        while (found := await self._look_up(services, capability, request, claim, waited=waited)) is None:
            if asyncio.get_running_loop().time() > deadline:
                raise _in_flight()
            waited = True
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
            claim = _renew(services, claim)
        return found

    async def knows(self, services: Services, capability: Capability, request: Request) -> bool:
        """Whether a call repeats one with the same key and arguments that has an answer, lost it, or still runs.

        If another process has that call, this waits for its answer, or until the repetition can take over.
        """
        key = request.idempotency_key
        if key is None or capability.annotations.read_only or not _is_valid(key, request):
            return False
        claim, deadline = _claim(services, capability, request), _deadline()
        while True:
            under_way = self._find_under_way(claim)
            if under_way is not None:
                return under_way.digest == claim.digest
            known = await find_call(services.platform, claim)
            if known is None or not _is_of(known.digest, claim, request.arguments):
                return False
            if not _is_alive(known, claim) or asyncio.get_running_loop().time() > deadline:
                return True
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
            claim = _renew(services, claim)

    def _find_under_way(self, claim: IdempotencyClaim) -> IdempotencyClaim | None:
        """Return the call with this key that is in flight in this process, unless its claim timed out."""
        found = self._under_way.get(_name_of(claim))
        return found if found is not None and found.in_flight_until >= claim.now else None

    def refuse(self, claim: IdempotencyClaim | None) -> Conflict:
        """Return the refusal of a repetition whose first call has no answer any more, and give up its claim."""
        if claim is not None:
            self.end(claim)
        return _in_flight()

    async def _look_up(
        self,
        services: Services,
        capability: Capability,
        request: Request,
        claim: IdempotencyClaim,
        *,
        waited: bool,
    ) -> IdempotencyClaim | Reply[Any] | None:
        """Return the claim or the stored answer; None if another process is making the call.

        A call that has `waited` also waits for one of this process, which took over before it.
        """
        under_way = self._find_under_way(claim)
        if under_way is not None and under_way.digest != claim.digest:
            raise _reused()
        if under_way is not None and waited:
            return None
        if under_way is not None:
            raise _in_flight()
        self._under_way[_name_of(claim)] = claim
        try:
            found = await self._read_stored(services, capability, claim, request)
        except BaseException:
            self.end(claim)
            raise
        if isinstance(found, IdempotencyClaim):
            self._under_way[_name_of(claim)] = found
        else:
            self.end(claim)
        return found

    async def _read_stored(
        self, services: Services, capability: Capability, claim: IdempotencyClaim, request: Request
    ) -> IdempotencyClaim | Reply[Any] | None:
        known = await find_call(services.platform, claim)
        match known:
            case None:
                return claim
            case InFlight(digest=digest) | Finished(digest=digest) if not _is_of(digest, claim, request.arguments):
                raise _reused()
            case InFlight():
                return None if _is_alive(known, claim) else msgspec.structs.replace(claim, takes_over=True)
            case Finished(answer=answer):
                self.end(claim)
                reply = _repeated(services, capability, answer)
                if capability.follow is None:
                    return reply
                return msgspec.structs.replace(reply, value=await capability.follow(services, request, reply.value))
            case _:
                assert_never(known)

    def end(self, claim: IdempotencyClaim) -> None:
        """Mark the call as no longer in flight."""
        if self._under_way.get(_name_of(claim)) is claim:  # a later call may have taken over the key
            del self._under_way[_name_of(claim)]

    def finish(self, call: CallRecord) -> None:
        """Mark a call as over, and drop what would make its answer.

        Those functions know the call, with its arguments, and the call knows them. Without this, large arguments stay
        in memory until the next full garbage collection, which then holds up everybody.
        """
        call.answer_of = call.answer_from = None
        if call.claim is not None:
            self.end(call.claim)

    async def complete(self, services: Services, call: CallRecord, reply: Reply[Any] | EventStream) -> None:
        """Store the parts of a call that were not stored with a change: its audit entry, its answer, or both.

        A stream has no answer that could be stored, so its key may be used again; unless the handler gave an answer
        with its change (`answered_by`), which a repeated call gets instead of events.
        """
        if isinstance(reply, EventStream):
            await self.release(services, call)
            if call.claim is not None:
                self.end(call.claim)
            call.claim = None
        elif call.claim is not None and not call.answered:
            final = _answer_of(reply)
            call.answered = call.stored and final == call.answer  # the provisional answer is the final one
            call.answer, call.provisional = final, False
        if call.stored and (call.claim is None or call.answered):
            return
        was_stored = call.stored
        outcome = await record_call(services.platform, call)
        if not isinstance(outcome, Claimed) and not was_stored:
            raise _in_flight()  # another process was faster, and this one changed nothing

    async def repeated(self, context: Context, error: PenstockError) -> Reply[Any] | None:
        """Return the answer of another process that made the same change first, for the call refused because of it."""
        services, call = context.services, context.call
        if call.claim is None or call.stored or not isinstance(error, Conflict) or error.code == _IN_FLIGHT:
            return None
        known = await find_call(services.platform, call.claim)
        if not isinstance(known, Finished) or not _is_of(known.digest, call.claim, context.request.arguments):
            return None
        return _repeated(services, context.capability, known.answer)

    async def release(self, services: Services, call: CallRecord) -> None:
        """Release a key that a call claimed before it was refused, so that it can be used again."""
        if call.claim is not None and call.stored and not call.answered:
            await release_call(services.platform, call.claim)


def _identity_of(request: Request, capability: Capability) -> JsonObject:
    """Return what is equal in calls with equal keys: the arguments, and the operation if a key is for several."""
    if request.idempotency_scope is None:
        return request.arguments
    return {"operation": capability.name, "arguments": request.arguments}


def _claim(services: Services, capability: Capability, request: Request) -> IdempotencyClaim:
    principal = request.principal
    claim = IdempotencyClaim(
        tenant=principal.tenant,
        principal=principal.id,
        operation=request.idempotency_scope or capability.name,
        key=request.idempotency_key or "",
        digest=digest_arguments(services.pepper, _identity_of(request, capability)),
        now=0,
        in_flight_until=0,
        keep_until=0,
    )
    return _renew(services, claim)


def _renew(services: Services, claim: IdempotencyClaim) -> IdempotencyClaim:
    """Return a claim as it is made now."""
    now = services.clock.now_ms()
    return msgspec.structs.replace(
        claim,
        now=now,
        in_flight_until=now + limits.IDEMPOTENCY_IN_FLIGHT_MS,
        keep_until=now + services.limits.idempotency_ttl_ms,
    )


def _is_valid(key: str, request: Request) -> bool:
    # The key of an approved call, or of a node, is the process's own, and has a form that no caller can send.
    is_own = request.approval is not None or request.surface == "run"
    return is_own or (0 < len(key) <= limits.IDEMPOTENCY_KEY_CHARACTERS_MAX and _is_plain(key))


def _is_plain(key: str) -> bool:
    return key.isascii() and key.isprintable() and " " not in key


def _is_alive(known: InFlight | Finished, claim: IdempotencyClaim) -> bool:
    """Whether another process may still be making a call that has no answer yet."""
    return isinstance(known, InFlight) and known.until >= claim.now


def _deadline() -> float:
    """Return when to stop waiting for another process, by the clock of the event loop.

    The claim times out before. This is for a clock of the machine that stands still or jumps back.
    """
    return asyncio.get_running_loop().time() + 2 * limits.IDEMPOTENCY_IN_FLIGHT_MS / 1000


def _name_of(claim: IdempotencyClaim) -> _Name:
    return claim.tenant, claim.principal, claim.operation, claim.key


def _reused() -> Rejected:
    message = "this idempotency key was used with other arguments"
    return Rejected("IDEMPOTENCY_KEY_REUSED", message, "use a new key for another call")


def _in_flight() -> Conflict:
    message = "a call with this idempotency key is still running"
    return Conflict(_IN_FLIGHT, message, "send the same call again in a second", {"retry_after_seconds": 1})


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
