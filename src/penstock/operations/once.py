"""Idempotency: a call with a key happens once, and whoever asks again gets the first answer.

The claim is stored before the handler runs. A refusal releases it, so that the caller can mend the call and use the key
again; a process that dies leaves it to time out. What the process did before it died is not lost to the repeated call:
a change of what is kept beside runs is stored together with its answer, in one transaction (`receipt`), and inputs of
runs have ids that handlers derive from the key (`derived_id`).

Above it: `pipeline`. Below it: the platform port.
"""

from __future__ import annotations

import hashlib
from typing import Any, assert_never

import msgspec

from penstock.base import limits
from penstock.base.errors import Conflict, Rejected
from penstock.base.json import JsonObject
from penstock.operations.capability import Capability, EventStream, Reply
from penstock.operations.context import Attempt, Context, Principal, Request, Services
from penstock.runtime.platform import Claimed, Finished, IdempotencyClaim, InFlight, Receipt

__all__ = ["arguments_digest", "begin", "complete", "derived_id", "receipt", "release"]

_encode = msgspec.json.Encoder(order="sorted").encode


def arguments_digest(arguments: JsonObject) -> str:
    """A digest that is equal for equal arguments."""
    return hashlib.sha256(_encode(arguments)).hexdigest()


def derived_id(principal: Principal, request: Request) -> str | None:
    """An id that is the same for every repetition of a call with an idempotency key; None without a key."""
    if request.idempotency_key is None:
        return None
    text = "\0".join((principal.tenant, principal.id, request.operation, request.idempotency_key))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _is_plain(key: str) -> bool:
    return key.isascii() and key.isprintable() and " " not in key


async def begin(
    services: Services, capability: Capability, principal: Principal, request: Request
) -> Attempt | Reply[Any] | None:
    """The call to complete, the answer that was given before, or None for a call that needs neither."""
    key = request.idempotency_key
    if key is None or capability.annotations.read_only:
        return None
    if not 0 < len(key) <= limits.IDEMPOTENCY_KEY_CHARACTERS_MAX or not _is_plain(key):
        told = f"an idempotency key has 1 to {limits.IDEMPOTENCY_KEY_CHARACTERS_MAX} printable ASCII characters"
        raise Rejected("IDEMPOTENCY_KEY_INVALID", told, "use a UUID")
    now = services.clock.now_ms()
    claim = IdempotencyClaim(
        tenant=principal.tenant,
        principal=principal.id,
        operation=capability.name,
        key=key,
        digest=arguments_digest(request.arguments),
        now=now,
        in_flight_until=now + limits.IDEMPOTENCY_IN_FLIGHT_MS,
        keep_until=now + services.limits.idempotency_ttl_ms,
    )
    outcome = await services.platform.claim_call(claim)
    match outcome:
        case Claimed():
            return Attempt(claim)
        case InFlight(digest=digest) | Finished(digest=digest) if digest != claim.digest:
            told = "this idempotency key was used with other arguments"
            raise Rejected("IDEMPOTENCY_KEY_REUSED", told, "use a new key for another call")
        case InFlight():
            told = "a call with this idempotency key is under way"
            raise Conflict("IDEMPOTENCY_IN_FLIGHT", told, "ask again in a second", {"retry_after_seconds": 1})
        case Finished(answer=answer):
            return _repeated(services, capability, answer)
        case _:
            assert_never(outcome)


def _repeated(services: Services, capability: Capability, answer: JsonObject) -> Reply[Any]:
    reply: Reply[Any] = Reply(**msgspec.convert(answer, dict[str, Any]))
    if capability.repeat is None:
        return reply
    return msgspec.structs.replace(reply, value=capability.repeat(services, reply.value))


def receipt(context: Context, reply: Reply[Any]) -> Receipt | None:
    """The answer of a call, for the store to keep with the change that makes it true; None without an idempotency key.

    A handler that asks for one hands it to the store with its last change, and answers with that reply.
    """
    if context.attempt is None:
        return None
    context.attempt.receipt = Receipt(claim=context.attempt.claim, answer=_answer_of(reply))
    return context.attempt.receipt


def _answer_of(reply: Reply[Any]) -> JsonObject:
    return {
        "value": msgspec.to_builtins(reply.value if reply.kept is None else reply.kept),
        "status": reply.status,
        "etag": reply.etag,
        "location": reply.location,
    }


async def complete(services: Services, attempt: Attempt, reply: Reply[Any] | EventStream) -> None:
    """Keep the answer of a call, unless its change was stored with it; a stream has none that could be kept."""
    if isinstance(reply, EventStream):
        await services.platform.release_call(attempt.claim)
    elif attempt.receipt is None:
        await services.platform.complete_call(attempt.claim, _answer_of(reply))


async def release(services: Services, attempt: Attempt) -> None:
    """Nothing happened: the key may be used again."""
    await services.platform.release_call(attempt.claim)
