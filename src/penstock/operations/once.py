"""Idempotency: a call with a key happens once, and whoever asks again gets the first answer.

The claim is stored before the handler runs. A refusal releases it, so that the caller can mend the call and use the key
again; a process that dies leaves it to time out, and the repeated call then finds what the first one did by the ids
that handlers derive from the key (`derived_id`).

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
from penstock.operations.context import Principal, Request, Services
from penstock.runtime.platform import Claimed, Finished, IdempotencyClaim, InFlight

__all__ = ["arguments_digest", "begin", "complete", "derived_id", "release"]

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
) -> IdempotencyClaim | Reply[Any] | None:
    """The claim to complete, the answer that was given before, or None for a call that needs neither."""
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
            return claim
        case InFlight(digest=digest) | Finished(digest=digest) if digest != claim.digest:
            told = "this idempotency key was used with other arguments"
            raise Rejected("IDEMPOTENCY_KEY_REUSED", told, "use a new key for another call")
        case InFlight():
            told = "a call with this idempotency key is under way"
            raise Conflict("IDEMPOTENCY_IN_FLIGHT", told, "ask again in a second", {"retry_after_seconds": 1})
        case Finished(answer=answer):
            return Reply(**msgspec.convert(answer, dict[str, Any]))
        case _:
            assert_never(outcome)


async def complete(services: Services, claim: IdempotencyClaim, reply: Reply[Any] | EventStream) -> None:
    """Keep the answer of a call; a stream has none that could be kept."""
    if isinstance(reply, EventStream):
        await services.platform.release_call(claim)
        return
    answer: JsonObject = {
        "value": msgspec.to_builtins(reply.value if reply.kept is None else reply.kept),
        "status": reply.status,
        "etag": reply.etag,
        "location": reply.location,
    }
    await services.platform.complete_call(claim, answer)


async def release(services: Services, claim: IdempotencyClaim) -> None:
    """Nothing happened: the key may be used again."""
    await services.platform.release_call(claim)
