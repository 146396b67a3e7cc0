"""The gate: the one path that every call takes, whichever surface it came from.

`authenticate` finds out who calls, once for each request. `call` takes that principal and does not authenticate again.
Its stages are: find, authorize, validate, limits, idempotency, execute, audit. The outcome is a value. If the caller
lacks a scope for a built-in operation, the refusal names that scope; anything else that the caller may not use looks
unknown.

Above it: the surfaces. Below it: one module per stage. It knows no operation by name.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, TypeAlias

import msgspec

from penstock.base import limits
from penstock.base.errors import Denied, PenstockError, Unavailable
from penstock.base.json import exceeds_values
from penstock.base.scopes import missing_scope
from penstock.operations.catalogue.capability import Capability, EventStream, Reply
from penstock.operations.catalogue.catalogue import Catalogue
from penstock.operations.catalogue.errors import internal_error
from penstock.operations.catalogue.exposure import Exposures
from penstock.operations.gate.audit_log import ANONYMOUS_TENANT, AuditLog, audit_key
from penstock.operations.gate.authentication import Authenticator
from penstock.operations.gate.caller import Caller
from penstock.operations.gate.context import Context, Credentials, Principal, Request, Services, Surface
from penstock.operations.gate.idempotency import IdempotentCalls
from penstock.operations.gate.key_expiry import KeyMonitor
from penstock.operations.gate.rate_limits import RateLimiter
from penstock.runtime.ports.commits import ShieldedTasks
from penstock.runtime.ports.platform import AuditOutcome, CallRecord

__all__ = ["ANONYMOUS", "AnsweredCall", "Gate", "Outcome", "RefusedCall"]

_LOGGER = logging.getLogger("penstock.gate")
# Callers above these limits can go on calling as fast as the network allows, so these refusals are gathered.
_LIMITED = frozenset({"RATE_LIMITED", "CONCURRENCY_LIMITED"})
ANONYMOUS = Principal(id="anonymous", tenant=ANONYMOUS_TENANT, scopes=frozenset())
"""The principal of callers without a valid key."""


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


class Gate:
    """The entry point for every call."""

    def __init__(
        self, catalogue: Catalogue, services: Services, authenticator: Authenticator, exposed: Exposures
    ) -> None:
        self.catalogue = catalogue
        self.services = services
        self.exposed = exposed
        self.authenticator = authenticator
        self.rate_limiter = RateLimiter(services.limits)
        self.audit_log = AuditLog(services)
        self.idempotency = IdempotentCalls()
        self._shielded = ShieldedTasks()
        self.key_monitor = KeyMonitor(services, authenticator)
        services.definitions_changed.listen(self.exposed.changed)
        services.keys_changed.listen(self._keys_changed)

    def _keys_changed(self) -> None:
        self.services.open_streams.wake()
        self.key_monitor.look_now()

    async def authenticate(
        self,
        credentials: Credentials,
        *,
        surface: Surface,
        request_id: str,
        operation: str = "authenticate",
        remote: str | None = None,
    ) -> Principal:
        """Return the principal of these credentials; raise `Denied`, and record it, if they are not valid.

        A surface calls this once for each request, before it reads anything else of it, and passes the principal to
        every call that the request needs. `operation` names what the caller wants, as far as that is known already.
        """
        try:
            return await self.authenticator.authenticate(credentials)
        except Denied as error:
            request = Request(
                operation=operation,
                arguments={},
                principal=ANONYMOUS,
                surface=surface,
                request_id=request_id,
                remote=remote,
            )
            self._refuse_unauthenticated(error, request)
            raise

    def recognised(self, credentials: Credentials) -> Principal | None:
        """Return the principal if it is known without any I/O; None means: use `authenticate`."""
        return self.authenticator.recognised(credentials)

    async def recheck(
        self, principal: Principal, *, surface: Surface, request_id: str, remote: str | None = None
    ) -> None:
        """Refuse a principal whose key was revoked, or expired, while a surface was waiting."""
        if await self.authenticator.still_valid(principal):
            return
        error = _revoked()
        request = Request(
            operation="authenticate",
            arguments={},
            principal=ANONYMOUS,
            surface=surface,
            request_id=request_id,
            remote=remote,
        )
        self._refuse_unauthenticated(error, request)
        raise error

    def _refuse_unauthenticated(self, error: Denied, request: Request) -> None:
        self.refused(request, error.code)
        error.on_record = True
        capability = self.catalogue.get(request.operation)
        self.services.telemetry.call(capability.name if capability else None, error.code, 0.0)

    def refused(self, request: Request, code: str, *, failed: bool = False) -> None:
        """Record a request that is refused before it becomes a call: an unknown route, no body, an unknown message.

        Anybody can send any number of such requests, so they are gathered: this method only counts. `operation` is the
        surface's name for the request, never unbounded text from the caller.
        """
        call_key = audit_key(request, request.principal, None, code)
        self.audit_log.refused(call_key, request, outcome="failed" if failed else "refused")

    async def identified(self, credentials: Credentials) -> Principal:
        """Return the principal for the audit record of a request that is refused anyway; never raise."""
        try:
            return await self.authenticator.authenticate(credentials) if credentials.bearer else ANONYMOUS
        except PenstockError:
            return ANONYMOUS

    async def call(self, request: Request) -> Outcome:
        """Take a call of a known principal to an audited outcome. Raises nothing but cancellation.

        A call that may change something continues when its caller is cancelled, so that the consequences of its change
        (the answer for its idempotency key, its audit record) are not lost. It only stops waiting. The same holds for a
        caller whose key is revoked in the meantime; that caller is refused at once.
        """
        known, task = self.catalogue.get(request.operation), asyncio.current_task()
        caller = Caller(task)
        try:
            if known is not None and known.only_reads:
                return await self._call(request, known, caller)
            return await self._shielded.run(self._call(request, known, caller))
        except asyncio.CancelledError:
            if not caller.revoked or task is None or task.uncancel() > 0:
                raise
            error = _revoked()
            if known is not None and known.only_reads:
                self.refused(request, error.code)  # a call that may change something goes on, and is recorded then
            return RefusedCall(error=error, capability=known)
        finally:
            caller.disconnect()

    async def _call(self, request: Request, known: Capability | None, caller: Caller) -> Outcome:
        """Run the stages. `known` is the operation in the catalogue with this name, if there is one."""
        principal, capability, call = request.principal, None, CallRecord()
        began, began_at = time.perf_counter(), self.services.clock.now_ms()
        outcome: Outcome
        try:
            # Exposed workflows and internal operations never share a name with an operation in the catalogue.
            capability = known if known is not None else await self._find(request, principal)
            _authorize(capability, principal)
            if exceeds_values(request.arguments, limits.VALUES_AT_ONCE):
                # Checking many values takes long: do it in a thread, so that other calls go on.
                given = await asyncio.to_thread(capability.convert, request.arguments)
            else:
                given = capability.convert(request.arguments)
            self.rate_limiter.charge(principal.id, capability.governance.bucket, began_at)
            self.rate_limiter.enter(principal.id)
            try:
                # A read stores nothing, so there is no change to store a record with.
                begun = CallRecord() if capability.only_reads else await self._begin(request, capability)
                if isinstance(begun, Reply):
                    outcome = AnsweredCall(capability=capability, principal=principal, reply=begun, replayed=True)
                else:
                    call = begun
                    context = Context(
                        services=self.services,
                        principal=principal,
                        request=request,
                        capability=capability,
                        call=call,
                        caller=caller,
                    )
                    if capability.only_reads:
                        reply = await self._execute(context, given)
                        outcome = AnsweredCall(capability=capability, principal=principal, reply=reply)
                    else:
                        outcome = await self._execute_change(context, given)
            finally:
                self.rate_limiter.leave(principal.id)
        except PenstockError as error:
            outcome = RefusedCall(error=error, capability=capability, principal=principal)
        except Exception:
            # Keep the claim: it is unknown what happened, and the time limit of the claim says when to try again.
            _LOGGER.exception("request %s: %s failed", request.request_id, request.operation)
            failed = internal_error(request.request_id)
            outcome = RefusedCall(error=failed, capability=capability, principal=principal, failed=True)
        now_ms = began_at + round((time.perf_counter() - began) * 1000)
        outcome = await self._audit(request, outcome, call, now_ms)
        code = outcome.error.code if isinstance(outcome, RefusedCall) else None
        self.services.telemetry.call(capability.name if capability else None, code, time.perf_counter() - began)
        if caller.is_gone and request.after_leaving is not None:
            request.after_leaving(outcome.reply if isinstance(outcome, AnsweredCall) else outcome.error)
        return outcome

    async def _execute_change(self, context: Context, given: Any) -> Outcome:
        """Execute an accepted call that may change something. Its call record is stored when this returns."""
        capability, principal, call = context.capability, context.principal, context.call
        try:
            reply = await self._execute(context, given)
            if not capability.annotations.read_only:
                await self.idempotency.complete(context.services, call, reply)
        except PenstockError as error:
            await self.idempotency.release(context.services, call)
            known = await self.idempotency.repeated(context, error)
            if known is None:
                raise
            return AnsweredCall(capability=capability, principal=principal, reply=known, replayed=True)
        finally:
            if call.claim is not None:
                self.idempotency.end(call.claim)
        return AnsweredCall(capability=capability, principal=principal, reply=reply)

    async def _begin(self, request: Request, capability: Capability) -> CallRecord | Reply[Any]:
        """Return the record that the store keeps with the call's change, or the stored answer of an earlier call."""
        principal = request.principal
        claim = await self.idempotency.begin(self.services, capability, principal, request)
        if isinstance(claim, Reply) or not self.services.audited:
            return claim if isinstance(claim, Reply) else CallRecord(claim=claim)
        call_key, reads = audit_key(request, principal, capability, None), capability.annotations.read_only
        entry = self.audit_log.entry(call_key, request, "allowed", reads=reads)
        return CallRecord(entry=entry, seal=self.audit_log.seal, claim=claim)

    async def _execute(self, context: Context, given: Any) -> Reply[Any] | EventStream:
        """Run the handler and return its reply. If the key is revoked meanwhile, the caller is refused at once.

        Administrative calls are exempt, because callers may revoke or replace their own key.
        """
        capability, key_id = context.capability, context.principal.key_id
        if key_id is None or capability.governance.bucket == "admin":
            answer = await capability.handler(context, given)
        else:
            revoke = context.caller.revoke
            self.key_monitor.hold(key_id, revoke)
            try:
                answer = await capability.handler(context, given)
            finally:
                self.key_monitor.release(key_id, revoke)
        return answer if isinstance(answer, (Reply, EventStream)) else Reply(value=answer)

    async def visible(self, principal: Principal) -> tuple[Capability, ...]:
        """Return all that a principal may call: built-in operations, then what its tenant exposes; each by name."""
        exposed = (await self.exposed.of(principal.tenant)).tools.values()
        return tuple(found for found in (*self.catalogue.all(), *exposed) if _missing(found, principal) is None)

    def allows(self, principal: Principal, capability: Capability) -> bool:
        """Whether a principal has every scope that a call needs."""
        return _missing(capability, principal) is None

    async def _find(self, request: Request, principal: Principal) -> Capability:
        """Find an internal or exposed capability. One that is exposed but not granted is reported as unknown."""
        name = request.operation
        if request.from_inside and (internal := self.catalogue.internal(name)) is not None:
            return internal
        exposed = await self.exposed.find(principal.tenant, name)
        return exposed if exposed is not None and _missing(exposed, principal) is None else self.catalogue.find(name)

    async def finish(self) -> None:
        """Wait for the calls that continue without their callers, before the process stops."""
        await self._shielded.finish()

    async def flush(self, *, final: bool = False) -> None:
        """Write what was gathered: audit counts and uses of keys. `final` means that the process is stopping."""
        await self.audit_log.flush(final=final)
        await self.authenticator.flush()

    async def _audit(self, request: Request, outcome: Outcome, call: CallRecord, now_ms: int) -> Outcome:
        """Write the audit record of a call, unless it was stored with the call's change.

        If the record cannot be written, the call counts as failed and the caller gets that error.
        """
        principal, capability = request.principal, outcome.capability
        error = outcome.error if isinstance(outcome, RefusedCall) else None
        if call.stored and error is None:
            return outcome
        reads = capability is not None and capability.annotations.read_only
        call_key = audit_key(request, principal, capability, error.code if error else None)
        gather = reads and error is None
        if error is not None:
            error.on_record = True
            if error.code in _LIMITED:
                self.audit_log.refused(call_key, request)
                return outcome
        try:
            if gather and self.audit_log.counted_in_time(call_key, now_ms):
                return outcome
            replayed = isinstance(outcome, AnsweredCall) and outcome.replayed
            recorded: AuditOutcome = "allowed" if error is None else "refused"
            if call.stored or (isinstance(outcome, RefusedCall) and outcome.failed):
                recorded = "failed"
            entry = self.audit_log.entry(call_key, request, recorded, reads=reads, replayed=replayed)
            await self.audit_log.write(entry, gather=gather)
        except PenstockError as failure:
            _LOGGER.exception("request %s has no audit record", request.request_id)
            if call.stored or isinstance(error, Unavailable):
                return outcome
            return RefusedCall(error=failure, capability=capability, principal=principal)
        return outcome


def _missing(capability: Capability, principal: Principal) -> str | None:
    """Return the first scope that a principal lacks for a call."""
    return missing_scope(principal.scopes, capability.governance.scopes)


def _revoked() -> Denied:
    message = "the key was revoked, or expired, while the call was under way"
    return Denied("KEY_REVOKED", message, "ask the owner for a new one")


def _authorize(capability: Capability, principal: Principal) -> None:
    scope = _missing(capability, principal)
    if scope is None:
        return
    message = f"{capability.name} needs the scope {scope}, which this key does not have"
    raise Denied("SCOPE_REQUIRED", message, "ask the owner for a key with that scope", {"scope": scope})
