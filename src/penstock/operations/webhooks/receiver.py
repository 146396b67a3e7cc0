"""Webhooks that are received: from the request of a stranger to a call of the gate, or to a refusal.

The steps are: find, verify, interpret, filter, deduplicate, dispatch. The signature is the credential: its sender acts
as the trigger, which may start its workflow or signal its runs, on behalf of the principal that stored it, and nothing
else. The call goes through the gate like any other, with its limits, its checks and its audit record. Requests that are
refused before that are counted in the audit log here.

Above it: the HTTP route for /hooks. Below it: `table`, `requests`, `governance.webhook_signatures`, the gate.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from dataclasses import dataclass
from typing import Literal, assert_never

import msgspec

from penstock.base import limits
from penstock.base.errors import Conflict, Denied, NotFound, PenstockError, Rejected, Unavailable
from penstock.base.ids import id_in_tenant
from penstock.base.json import JsonObject
from penstock.governance.webhook_signatures import Unverified, Verified, verify_request
from penstock.operations.catalogue.errors import report_failure
from penstock.operations.gate.context import Principal, Request
from penstock.operations.gate.pipeline import AnsweredCall, Gate
from penstock.operations.permissions.makers import as_trigger, maker_of_trigger, trigger_scopes
from penstock.operations.webhooks.requests import HookRequest, InterpretedRequest, interpret
from penstock.operations.webhooks.table import Hook, HookTable
from penstock.runtime.ports.platform import AuditEntry, CallRecord, Claimed, Finished, IdempotencyClaim, InFlight
from penstock.runtime.secrets import secret_name
from penstock.runtime.tables.call_records import record_call, release_call

__all__ = ["HookAnswer", "WebhookReceiver"]

_LOGGER = logging.getLogger("penstock.webhooks")
_OPERATION = "webhook.receive"
# The maximum length of a label.
_LABEL_CHARACTERS_MAX = 256


class HookAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a request that was not refused."""

    status: Literal["accepted", "filtered", "duplicate"]
    execution_id: str | None = None


@dataclass(frozen=True, slots=True)
class WebhookReceiver:
    """Handles requests to /hooks."""

    gate: Gate
    table: HookTable

    @classmethod
    def of(cls, gate: Gate) -> WebhookReceiver:
        """Return a receiver in front of a gate."""
        return cls(gate, HookTable(gate.services.store, gate.services.clock))

    async def receive(self, request: HookRequest) -> HookAnswer | PenstockError:
        """Handle one request. Raises nothing but cancellation."""
        hook: Hook | None = None
        answer: HookAnswer | PenstockError
        try:
            hook = await self._find(request)
            answer = await self._handle(hook, request)
        except _RefusedByGate as refused:
            return refused.error  # the gate has recorded it
        except PenstockError as error:
            answer = error
        except Exception as error:
            what = f"request {request.request_id}: a webhook failed"
            answer = report_failure(_LOGGER, what, request.request_id, error)
        if not isinstance(answer, HookAnswer) or answer.status != "accepted":
            await self._record(request, hook, answer)
        return answer

    async def _find(self, request: HookRequest) -> Hook:
        found = await self.table.find(request.path)
        fitting = [hook for hook in found if hook.trigger.method == request.method]
        if not found:
            raise _not_found(request.path)
        if not fitting:
            allowed = ", ".join(sorted({hook.trigger.method for hook in found}))
            message = f"{request.method[:20]} is not allowed here"
            raise Rejected("METHOD_NOT_ALLOWED", message, f"use {allowed}", {"allow": allowed})
        if len(fitting) > 1:
            message = "several workflows have this address, so it starts none of them"
            raise Conflict("WEBHOOK_PATH_TAKEN", message, "give each a path of its own; trigger.list shows them")
        return fitting[0]

    async def _handle(self, hook: Hook, request: HookRequest) -> HookAnswer:
        identity = await self._verify(hook, request)
        principal, services = await self._principal(hook), self.gate.services
        evaluator = services.hook_evaluator or services.host.evaluator
        # Evaluating an expression on a stranger's data may take long; in a thread, nothing else waits for it.
        interpreted = await services.hook_threads.run(hook.tenant, interpret, hook.trigger, request, evaluator)
        if not interpreted.passes:
            return HookAnswer(status="filtered")
        unique = interpreted.dedupe or identity
        if unique is None:
            return await self._dispatch(hook, request, interpreted, principal, None)
        named = "\0".join((hook.tenant, hook.workflow_name, hook.trigger.path, unique))
        return await self._dispatch_once(
            hook, request, interpreted, principal, hashlib.sha256(named.encode()).hexdigest()[:40]
        )

    async def _verify(self, hook: Hook, request: HookRequest) -> str | None:
        """Return what makes a genuine request unique, or None if it need not be signed; else raise `Denied`."""
        trigger, services = hook.trigger, self.gate.services
        if trigger.secret is None or trigger.strategy == "none":
            if services.webhooks.allow_unsigned:
                return None
            message = "this webhook has no secret, and this server does not accept unsigned requests"
            raise Denied("WEBHOOK_SIGNATURE_MISSING", message, "name a secret in the workflow's trigger")
        resolve = services.resolve_secret
        may_block = getattr(resolve, "may_block", False)
        name = secret_name(hook.tenant, trigger.secret)
        secret = await asyncio.to_thread(resolve, name) if may_block else resolve(name)
        if not secret:
            message = "the secret of this webhook is not configured on this server"
            raise Unavailable("WEBHOOK_SECRET_MISSING", message, f"set the secret {name}")
        found = verify_request(
            trigger.strategy,
            secret,
            request.headers,
            request.body,
            now_ms=services.clock.now_ms(),
            skew_ms=trigger.skew_ms,
            header=trigger.header,
        )
        match found:
            case Verified(identity=identity):
                return identity
            case Unverified(code=code, message=message):
                raise Denied(code, message, "sign the request with the webhook's secret")
            case _:
                assert_never(found)

    async def _dispatch_once(
        self, hook: Hook, request: HookRequest, interpreted: InterpretedRequest, principal: Principal, unique: str
    ) -> HookAnswer:
        """Dispatch a request unless it was dispatched before; after a refusal it may be sent again."""
        services, now = self.gate.services, self.gate.services.clock.now_ms()
        claim = IdempotencyClaim(
            tenant=hook.tenant,
            principal=principal.id,
            operation="webhook",
            key=unique,
            digest="",
            now=now,
            in_flight_until=now + limits.IDEMPOTENCY_IN_FLIGHT_MS,
            keep_until=now + services.limits.idempotency_ttl_ms,
        )
        call = CallRecord(claim=claim)  # the gate writes the audit record of the resulting call
        outcome = await record_call(services.platform, call)
        match outcome:
            case Claimed():
                pass
            case InFlight():
                message = "the same request is still running"
                raise Conflict(
                    "IDEMPOTENCY_IN_FLIGHT", message, "send it again in a second", {"retry_after_seconds": 1}
                )
            case Finished(answer=kept):
                execution_id = kept.get("execution_id")
                known = execution_id if isinstance(execution_id, str) else None
                return HookAnswer(status="duplicate", execution_id=known)
            case _:
                assert_never(outcome)
        try:
            answer = await self._dispatch(hook, request, interpreted, principal, unique)
        except PenstockError:
            await release_call(services.platform, claim)
            raise
        call.answer = {"execution_id": answer.execution_id}
        await record_call(services.platform, call)
        return answer

    async def _dispatch(
        self,
        hook: Hook,
        request: HookRequest,
        interpreted: InterpretedRequest,
        principal: Principal,
        unique: str | None,
    ) -> HookAnswer:
        """Call the gate as the trigger.

        Ids are derived from what makes the request unique, so a crash repeats nothing.
        """
        trigger = hook.trigger
        derived_id = f"hook-{unique}" if unique else None
        arguments: JsonObject
        if trigger.action == "signal":
            await self._check_target(hook, interpreted.run_id or "")
            arguments = {"execution_id": interpreted.run_id, "name": trigger.signal, "payload": interpreted.payload}
            arguments["signal_id"] = derived_id
        else:
            arguments = {"workflow_id": hook.workflow_name, "input": interpreted.payload}
            arguments["execution_id"] = interpreted.run_id or derived_id
            arguments["labels"] = {"webhook": trigger.trigger_id[:_LABEL_CHARACTERS_MAX]}
        operation = "execution.signal" if trigger.action == "signal" else "workflow.execute"
        outcome = await self.gate.call(
            Request(
                operation=operation,
                arguments=arguments,
                principal=principal,
                surface="webhook",
                request_id=request.request_id,
                remote=request.remote,
                origin=request,
            )
        )
        if isinstance(outcome, AnsweredCall):
            value = getattr(outcome.reply, "value", None)
            return HookAnswer(status="accepted", execution_id=getattr(value, "execution_id", None))
        if outcome.error.code == "EXECUTION_ID_TAKEN" and interpreted.run_id is None:
            # It was started before a crash; the repeated request differs only in parts that do not make it another one.
            return HookAnswer(status="duplicate", execution_id=derived_id)
        raise _RefusedByGate(outcome.error)

    async def _principal(self, hook: Hook) -> Principal:
        """Return the principal for a request: the trigger, acting for the principal that stored the document.

        It has the scopes that starting the workflow needs, and is refused once its maker lacks one of them. The sender
        does not learn who the maker is.
        """
        services = self.gate.services
        row = await services.store.definitions.find(hook.definition_hash, tenant=hook.tenant)
        if row is None:
            raise _not_found(hook.trigger.path)
        maker = maker_of_trigger(row)
        try:
            scopes = await trigger_scopes(services, row, starts=hook.trigger.action != "signal")
        except Denied as error:
            message = "the person who stored the workflow of this webhook may no longer start it"
            raise _MakerDenied(
                maker, Denied(error.code, message, "ask the owner of this server to store the workflow again")
            ) from error
        trigger = Principal(
            id=_principal_id(hook),
            tenant=hook.tenant,
            kind="webhook",
            scopes=scopes,
            name=f"webhook {hook.trigger.path}",
            attributes={"webhook": hook.trigger.path},
            credential=hook.trigger.secret if hook.trigger.is_signed else None,
        )
        return await as_trigger(services, trigger, maker)

    async def _check_target(self, hook: Hook, run_id: str) -> None:
        """Refuse to signal a run of another workflow than the trigger's own."""
        row = await self.gate.services.store.row(id_in_tenant(hook.tenant, run_id))
        if row is None or row.tenant != hook.tenant or row.workflow_name != hook.workflow_name:
            raise NotFound(
                "EXECUTION_NOT_FOUND",
                f"there is no run {run_id}",
                "check the id, or send the request again when the run has started",
            )

    async def _record(self, request: HookRequest, hook: Hook | None, answer: HookAnswer | PenstockError) -> None:
        """Record a request that never reached the gate. Refusals are gathered, so that no sender can fill the disk."""
        refused = answer if isinstance(answer, PenstockError) else None
        entry = AuditEntry(
            at=self.gate.services.clock.now_ms(),
            tenant=hook.tenant if hook is not None else "-",
            principal=_principal_id(hook) if hook is not None else "anonymous",
            surface="webhook",
            operation=_OPERATION,
            outcome="refused" if refused is not None else "allowed",
            code=refused.code if refused is not None else None,
            subject=hook.trigger.path[: limits.AUDIT_SUBJECT_CHARACTERS_MAX] if hook is not None else None,
            request_id=request.request_id,
            details={"result": answer.status} if isinstance(answer, HookAnswer) else {},
            principal_kind="webhook" if hook is not None else "anonymous",
            acting_for=(answer.maker,) if isinstance(answer, _MakerDenied) else None,
            client=(request.client or "")[: limits.AUDIT_CLIENT_CHARACTERS_MAX] or None,
            trace_id=request.trace_id,
            remote=None if request.remote is None else request.remote[: limits.AUDIT_REMOTE_CHARACTERS_MAX],
        )
        if refused is not None:
            self.gate.audit_log.refused_entry(entry)
            return
        try:
            await self.gate.audit_log.write(entry, gather=True)
        except PenstockError:
            _LOGGER.exception("request %s has no audit record", request.request_id)


class _RefusedByGate(PenstockError):
    """The gate refused the call, and has recorded that."""

    def __init__(self, error: PenstockError) -> None:
        super().__init__(error.code, error.message, error.hint, error.details)
        self.error = error


class _MakerDenied(Denied):
    """The principal that stored the workflow of a trigger may not start it any more."""

    def __init__(self, maker: str, refusal: Denied) -> None:
        super().__init__(refusal.code, refusal.message, refusal.hint)
        self.maker = maker


def _not_found(path: str) -> NotFound:
    message = f"there is no webhook at /hooks/{path[:200]}"
    return NotFound("WEBHOOK_NOT_FOUND", message, "list the addresses of webhooks with trigger.list")


def _principal_id(hook: Hook) -> str:
    return f"webhook:{hook.tenant}:{hook.workflow_name}:{hook.trigger.trigger_id}"
