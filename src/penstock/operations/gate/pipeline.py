"""The gate: the one path that every call takes, whichever surface it came from.

`authenticate` finds out who calls, once for each request. `call` takes that principal and does not authenticate again.
Its stages are: find, authorize, policies, validate, limits, idempotency, hold, execute, audit. The outcome is a value.
What a call is about is found by its handler, or before it is held: nobody is asked about what does not exist.
If the caller lacks a scope for a built-in operation, the refusal names that scope; anything else that the caller may
not use looks unknown.

Above it: the surfaces. Below it: one module per stage. It knows no operation by name.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import msgspec

from penstock.base import limits
from penstock.base.errors import Denied, LimitExceeded, PenstockError, Unavailable
from penstock.base.json import JsonObject, exceeds_values
from penstock.operations.catalogue.capability import Capability, EventStream, Reply
from penstock.operations.catalogue.catalogue import UNKNOWN_OPERATION, Catalogue
from penstock.operations.catalogue.errors import report_failure
from penstock.operations.catalogue.exposure import Exposures
from penstock.operations.gate.audit_log import ANONYMOUS_TENANT, AuditLog, audit_key
from penstock.operations.gate.authentication import Authenticator
from penstock.operations.gate.authorization import authorize, credential_ended, has_scopes
from penstock.operations.gate.caller import Caller
from penstock.operations.gate.context import Context, Credentials, Origin, Principal, Request, Services, Surface
from penstock.operations.gate.holds import HoldRequired, HoldStage, policy_approvals, refuse_intent
from penstock.operations.gate.idempotency import IdempotentCalls
from penstock.operations.gate.key_expiry import KeyMonitor
from penstock.operations.gate.listing import ANYWHERE, Listing
from penstock.operations.gate.outcomes import AnsweredCall, AnswerFilter, Outcome, RefusedCall, tell_who_left, was_made
from penstock.operations.gate.policies.history import give_back
from penstock.operations.gate.policy_check import decide_call, policy_refusal
from penstock.operations.gate.policy_stage import Decided, Standpoint
from penstock.operations.gate.rates.limiter import RATE_CODES
from penstock.operations.gate.rates.peers import PeerLimits
from penstock.operations.gate.rates.sharing import share
from penstock.operations.gate.tokens.protected_resource import unauthenticated_challenge
from penstock.runtime.ports.commits import ShieldedTasks
from penstock.runtime.ports.platform import AuditOutcome, CallRecord

__all__ = ["ANONYMOUS", "AnsweredCall", "Gate", "Outcome", "RefusedCall"]

_LOGGER = logging.getLogger("penstock.gate")
ANONYMOUS = Principal(id="anonymous", tenant=ANONYMOUS_TENANT, kind="anonymous", scopes=frozenset())
"""The principal of callers without a valid key."""


class Gate:
    """The entry point for every call."""

    def __init__(
        self, catalogue: Catalogue, services: Services, authenticator: Authenticator, exposed: Exposures
    ) -> None:
        self.catalogue = catalogue
        self.services = services
        self.exposed = exposed
        self.lists = Listing(catalogue, services, exposed)
        self.authenticator = authenticator
        self.rate_limiter = services.rate_limiter
        self.peers = PeerLimits(services.limits, services.clock)
        self.audit_log = AuditLog(services)
        self.idempotency = IdempotentCalls()
        self.answers: AnswerFilter | None = None
        """Leaves out of answers what policies hide; without it, they hide nothing."""
        self.holds = HoldStage(services)
        self.holds.call = self.call
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
        origin: Origin | None = None,
    ) -> Principal:
        """Return the principal of these credentials; raise `Denied`, and record it, if they are not valid.

        A sender of too many requests like that gets `LimitExceeded` instead; valid credentials are always let in.

        A surface calls this once for each request, before it reads anything else of it, and passes the principal to
        every call that the request needs. `operation` names what the caller wants, as far as that is known already.
        """
        try:
            if credentials.bearer is None:
                self.peers.check(remote)
            return await self.authenticator.authenticate(credentials)
        except (Denied, LimitExceeded) as error:
            limited, was_sent = None, credentials.bearer is not None
            if isinstance(error, Denied):
                # Every token expires, and clients learn it like this: that is no failed attempt to get in.
                limited = self.peers.count(remote, failed=was_sent and error.code != "TOKEN_EXPIRED")
                error.challenge = unauthenticated_challenge(self.services.protected, was_sent=was_sent)
            refusal = limited or error
            request = Request(
                operation=operation,
                arguments={},
                principal=ANONYMOUS,
                surface=surface,
                request_id=request_id,
                remote=remote,
                origin=origin,
            )
            self._refuse_unauthenticated(refusal, request)
            raise refusal from None

    def recognised(self, credentials: Credentials) -> Principal | None:
        """Return the principal if it is known without any I/O; None means: use `authenticate`."""
        return self.authenticator.recognised(credentials)

    async def recheck(
        self, principal: Principal, *, surface: Surface, request_id: str, remote: str | None = None
    ) -> None:
        """Refuse a principal whose key was revoked, or expired, while a surface was waiting."""
        if await self.authenticator.still_valid(principal):
            return
        error = credential_ended(principal)
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

    def _refuse_unauthenticated(self, error: Denied | LimitExceeded, request: Request) -> None:
        self._record_refusal(request, error.code)
        error.on_record = True
        self.services.telemetry.refused_by(error)
        capability = self.catalogue.get(request.operation)
        self.services.telemetry.call(capability.name if capability else None, error.code, 0.0)

    def refused(self, request: Request, code: str, *, failed: bool = False) -> None:
        """Record a request that is refused before it becomes a call: an unknown route, no body, an unknown message.

        Anybody can send any number of such requests, so they are gathered: this method only counts. `operation` is the
        surface's name for the request, never unbounded text from the caller.
        """
        if code not in RATE_CODES:  # it is refused anyway, and leaves less for what comes after it
            if request.principal is ANONYMOUS:
                self.peers.count(request.remote)
            else:
                with suppress(LimitExceeded):
                    self.rate_limiter.charge(request.principal, request.operation, "read", self.services.clock.now_ms())
        self._record_refusal(request, code, failed=failed)

    def _record_refusal(self, request: Request, code: str, *, failed: bool = False) -> None:
        call_key = audit_key(request, request.principal, None, code)
        self.audit_log.refused(call_key, request, outcome="failed" if failed else "refused")

    async def identified(self, credentials: Credentials, remote: str | None = None) -> Principal:
        """Return the principal for the audit record of a request that is refused anyway; never raise."""
        try:
            return await self.authenticator.authenticate(credentials) if credentials.bearer else ANONYMOUS
        except Denied:
            self.peers.count(remote, failed=True)
            return ANONYMOUS
        except PenstockError:
            return ANONYMOUS

    def call(self, request: Request) -> Coroutine[Any, Any, Outcome]:
        """Take a call of a known principal to an audited outcome. Raises nothing but cancellation.

        If the caller is cancelled, it stops waiting, but a call that may change something continues: the answer for its
        idempotency key and its audit record must not be lost. The same holds for a caller whose key is revoked in the
        meantime; that caller is refused at once.
        """
        known = self.catalogue.get(request.operation)
        if known is None or known.stands_for is None:
            return self._call_known(request, known)
        meant = known.stands_for(request.arguments)
        if meant is None or not has_scopes(request.principal, known):
            return self._call_known(request, known)
        return self._call_meant(request, meant)

    async def _call_meant(self, request: Request, meant: tuple[str, JsonObject, PenstockError]) -> Outcome:
        """Make the call that another one stands for; if there is no such operation, answer with the given error."""
        name, arguments, unknown = meant
        outcome = await self._call_known(msgspec.structs.replace(request, operation=name, arguments=arguments), None)
        if isinstance(outcome, RefusedCall) and outcome.error.code == UNKNOWN_OPERATION:
            unknown.on_record = outcome.error.on_record
            return RefusedCall(error=unknown, principal=request.principal)
        return outcome

    async def _call_known(self, request: Request, known: Capability | None) -> Outcome:
        """Take a call to its outcome. `known` is the operation in the catalogue with this name, if there is one."""
        known = known if known is not None else self._exposed_read(request)
        caller = Caller(task := asyncio.current_task())
        try:
            if known is not None and known.only_reads:
                return await self._call(request, known, caller)
            return await self._shielded.run(self._call(request, known, caller))
        except asyncio.CancelledError:
            if not caller.revoked or task is None or task.uncancel() > 0:
                raise
            error = credential_ended(request.principal)
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
        charged = False
        try:
            # Exposed workflows and internal operations never share a name with an operation in the catalogue.
            capability = known if known is not None else await self._find(request, principal)
            authorize(self.services, capability, principal)
            decided = await self._decide(request, capability, call) if self._is_decided_about(request) else None
            given = await _convert(capability, request.arguments)
            _refuse(capability, principal, decided)
            if request.approval is None and not request.is_free:  # a held call was counted when it was made
                self.rate_limiter.charge(principal, capability.name, capability.governance.bucket, began_at)
                charged = True
            self.rate_limiter.enter(principal)
            try:
                # A read stores nothing, so there is no change to store a record with.
                known_reply = None if capability.only_reads else await self._begin(request, capability, call, decided)
                if known_reply is not None:
                    outcome = AnsweredCall(capability=capability, principal=principal, reply=known_reply, replayed=True)
                else:
                    context = Context(
                        services=self.services,
                        principal=principal,
                        request=request,
                        capability=capability,
                        call=call,
                        policy=None if decided is None else decided.outcome,
                        caller=caller,
                        given=given,
                        policy_version=None if decided is None else decided.version,
                        holds=self.holds,
                    )
                    if capability.only_reads:
                        reply = await self._execute(context, given)
                        outcome = AnsweredCall(capability=capability, principal=principal, reply=reply)
                    else:
                        outcome = await self._execute_change(context, given, decided)
            finally:
                self.rate_limiter.leave(principal)
            if self._may_hide(request):
                outcome = await self._shown(request, outcome)
        except PenstockError as error:
            refused = error if charged else self._charged_refusal(error, principal, capability, began_at)
            outcome = self._refused(refused, principal, capability)
        except Exception as error:
            # Keep the claim: it is unknown what happened, and the time limit of the claim says when to try again.
            what = f"request {request.request_id}: {request.operation} failed"
            failed = report_failure(_LOGGER, what, request.request_id, error)
            outcome = RefusedCall(error=failed, capability=capability, principal=principal, failed=True)
        now_ms = began_at + round((time.perf_counter() - began) * 1000)
        if not call.stored or isinstance(outcome, RefusedCall):
            outcome = await self._audit(request, outcome, call, now_ms)
        if call.uses.ids and not was_made(outcome, call):
            await give_back(self.services.platform, call.uses)
        self._measure(outcome, capability, time.perf_counter() - began)
        if caller.is_gone:
            tell_who_left(request, outcome)
        return outcome

    def _may_hide(self, request: Request) -> bool:
        """Whether policies may hide parts of an answer; nearly no server has such policies."""
        return self.answers is not None and self.answers.may_hide(request)

    async def _shown(self, request: Request, outcome: Outcome) -> Outcome:
        """Return an answer as its caller may see it."""
        if self.answers is None or isinstance(outcome, RefusedCall):
            return outcome
        reply = await self.answers.shown(request, outcome.capability, outcome.reply)
        return outcome if reply is outcome.reply else msgspec.structs.replace(outcome, reply=reply)

    async def shown(self, request: Request, reply: Reply[Any]) -> Reply[Any]:
        """Return an answer as its caller may see it: for results that are read after the call was answered."""
        known = self.catalogue.get(request.operation)
        capability = known if known is not None else await self._find(request, request.principal)
        outcome = AnsweredCall(capability=capability, principal=request.principal, reply=reply)
        shown = await self._shown(request, outcome)
        if not isinstance(shown, AnsweredCall) or not isinstance(shown.reply, Reply):
            raise TypeError("an answer stays an answer")
        return shown.reply

    def _measure(self, outcome: Outcome, capability: Capability | None, seconds: float) -> None:
        error = outcome.error if isinstance(outcome, RefusedCall) else None
        if isinstance(error, LimitExceeded):
            self.services.telemetry.refused_by(error)
        self.services.telemetry.call(capability.name if capability else None, error.code if error else None, seconds)

    def _refused(self, error: PenstockError, principal: Principal, capability: Capability | None) -> RefusedCall:
        if self.services.protected is not None:
            error.challenge = self.services.protected.insufficient_scope(error, principal)
        found = None if error.code == UNKNOWN_OPERATION else capability
        return RefusedCall(error=error, capability=found, principal=principal)

    def _charged_refusal(
        self, error: PenstockError, principal: Principal, capability: Capability | None, now_ms: int
    ) -> PenstockError:
        """Count a call that is refused before it was counted; return why it is refused.

        Without this, calls that are never allowed could be made at any rate.
        """
        if error.code in RATE_CODES:
            return error
        try:
            self.rate_limiter.charge_refused(principal, capability, now_ms)
        except LimitExceeded as limited:
            return limited
        return error

    def _is_decided_about(self, request: Request) -> bool:
        """Whether policies may decide about a call, or it was approved; False if it is known that no policies exist."""
        stage = self.services.policies
        return request.approval is not None or (stage is not None and not stage.has_none(request.principal.tenant))

    async def _decide(self, request: Request, capability: Capability, call: CallRecord) -> Decided | None:
        """Return what policies decide about a call; raise the refusal, unless its arguments may be what is wrong."""
        approval = request.approval
        if approval is not None:
            call.note(draft_id=approval.draft_id, approval_id=approval.approval_id)
        if (decided := await decide_call(request, capability, self.services, call, self.idempotency)) is None:
            return None
        if decided.hidden:
            self.catalogue.find(request.operation)  # raises: what a tenant defines and nobody may call is not there
        if decided.is_final:
            _refuse(capability, request.principal, decided)
        return decided

    async def _execute_change(self, context: Context, given: Any, decided: Decided | None) -> Outcome:
        """Execute an accepted call that may change something. Its call record is stored when this returns."""
        capability, principal, call = context.capability, context.principal, context.call
        try:
            try:
                held = None if self.holds.is_free(context, decided) else await self.holds.settle(context, decided)
                reply = held or await self._execute(context, given)
            except HoldRequired as wanted:
                reply = await self.holds.hold(context, wanted)
            if not capability.annotations.read_only and not (call.stored and call.claim is None):
                await self.idempotency.complete(context.services, call, reply)
        except PenstockError as error:
            await self.idempotency.release(context.services, call)
            known = await self.idempotency.repeated(context, error)
            if known is None:
                raise
            return AnsweredCall(capability=capability, principal=principal, reply=known, replayed=True)
        finally:
            self.idempotency.finish(call)
        return AnsweredCall(capability=capability, principal=principal, reply=reply)

    async def _begin(
        self, request: Request, capability: Capability, call: CallRecord, decided: Decided | None
    ) -> Reply[Any] | None:
        """Fill in the record that the store keeps with the call's change; or return the answer of an earlier call."""
        if request.idempotency_key is not None:
            claim = await self.idempotency.begin(self.services, capability, request)
            if isinstance(claim, Reply):
                return claim
            if decided is not None and decided.repeats and not (claim is not None and claim.takes_over):
                raise self.idempotency.refuse(claim)  # it was decided as a repetition, and not counted
            call.claim = claim
        if self.services.audited:
            call_key, reads = audit_key(request, request.principal, capability, None), capability.annotations.read_only
            call.entry = self.audit_log.entry(call_key, request, "allowed", reads=reads)
            call.seal = self.audit_log.seal
            if call.noted:
                call.note()
        return None

    async def _execute(self, context: Context, given: Any) -> Reply[Any] | EventStream:
        """Run the handler and return its reply. If the key is revoked meanwhile, the caller is refused at once.

        Administrative calls are exempt, because callers may revoke or replace their own key.
        """
        capability, proof, intent = context.capability, context.principal.proof, context.request.intent
        if intent is not None and capability.only_reads:
            refuse_intent(capability, intent)
        if capability.reveals is not None and self.answers is not None:
            await self.answers.refuse(context.request, capability)
        if proof is None or capability.governance.bucket == "admin":
            answer = await capability.handler(context, given)
        else:
            revoke = context.caller.revoke
            self.key_monitor.hold(proof, revoke)
            try:
                answer = await capability.handler(context, given)
            finally:
                self.key_monitor.release(proof, revoke)
        return answer if isinstance(answer, (Reply, EventStream)) else Reply(value=answer)

    async def visible(self, principal: Principal, standpoint: Standpoint = ANYWHERE) -> tuple[Capability, ...]:
        """Return all that a principal may call: built-in operations, then what its tenant exposes; each by name."""
        return await self.lists.visible(principal, standpoint)

    async def _find(self, request: Request, principal: Principal) -> Capability:
        """Find an internal or exposed capability. One that is exposed but not granted is reported as unknown."""
        name = request.operation
        if request.from_inside and (internal := self.catalogue.internal(name)) is not None:
            return internal
        exposed = await self.exposed.find(principal.tenant, name)
        return exposed if exposed is not None and has_scopes(principal, exposed) else self.catalogue.find(name)

    def _exposed_read(self, request: Request) -> Capability | None:
        """Return the exposed capability that is called, if it only reads and is known without reading anything."""
        principal = request.principal
        exposure = self.exposed.at_hand(principal.tenant)
        found = None if exposure is None else exposure.found(request.operation)
        return found if found is not None and found.only_reads and has_scopes(principal, found) else None

    async def share_rates(self) -> None:
        """Keep the rates together with the other processes of the store, until it is cancelled."""
        tables = (self.rate_limiter.buckets, self.peers.buckets)
        await share(self.services.platform, self.services.clock, tables)

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
        if request.intent is not None and request.intent.only_look:
            return outcome  # `preflight.run` has a record of its own
        error = outcome.error if isinstance(outcome, RefusedCall) else None
        if call.stored and error is None:
            return outcome
        reads = capability is not None and capability.annotations.read_only
        call_key = audit_key(request, principal, capability, error.code if error else None)
        gather = reads and error is None
        if error is not None:
            error.on_record = True
            if error.code in RATE_CODES:  # anybody above a limit can go on calling, so these refusals are gathered
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
            if call.noted:
                noted = call.noted if error is None else {**call.noted, "outcome": recorded}
                entry = msgspec.structs.replace(entry, **noted)
            await self.audit_log.write(entry, gather=gather)
        except PenstockError as failure:
            _LOGGER.exception("request %s has no audit record", request.request_id)
            if call.stored or isinstance(error, Unavailable):
                return outcome
            return RefusedCall(error=failure, capability=capability, principal=principal)
        return outcome


def _refuse(capability: Capability, principal: Principal, decided: Decided | None) -> None:
    """Refuse a call that policies do not permit. A change that they want approved is held instead."""
    if policy_approvals(decided) and capability.governance.holdable and not capability.only_reads:
        return
    refusal = None if decided is None else policy_refusal(capability.name, principal, decided)
    if refusal is not None:
        raise refusal


async def _convert(capability: Capability, arguments: JsonObject) -> Any:
    """Convert arguments to the handler's input; raise `Rejected` with every violation."""
    if exceeds_values(arguments, limits.VALUES_AT_ONCE):
        # Checking many values takes long: do it in a thread, so that other calls go on.
        return await asyncio.to_thread(capability.convert, arguments)
    return capability.convert(arguments)
