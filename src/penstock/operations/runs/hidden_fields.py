"""Leaves fields out of answers that policies hide from a caller, wherever a run or a call is shown.

The output of a workflow is hidden in the answer of its tool, in results, views and streams of its runs, and in drafts.
The state and the history of a run have the same values in places that no policy can name: there, a caller who must not
see a field of the run's workflow, or of one that it starts as a child, sees what happened and no values: who answered a
question, and when, but neither the question nor the answer. They may not call operations that give out other contents
(`Capability.reveals`).

Above it: `app` hands it to the gate, which calls it for every answer. Below it: `governance.policy.redaction`, the
stage for policies, the views of runs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import msgspec

from penstock.base.errors import Denied
from penstock.base.ids import DEFAULT_TENANT, id_in_tenant
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.agents.schemas import output_schema_of
from penstock.governance.policy.redaction import FieldPath, without_fields
from penstock.governance.policy.sets import PolicySet
from penstock.governance.policy.slices import actions_named
from penstock.operations.catalogue.capability import Capability, EventStream, Reply, StreamEvent
from penstock.operations.gate.context import Principal, Request, Services
from penstock.operations.gate.policy_stage import PolicyStage, Target, target_of
from penstock.operations.permissions.starting import needs_of, needs_to_start
from penstock.operations.runs.actions.workflows import start_target
from penstock.operations.runs.events import TOLD_BY_AGENTS
from penstock.operations.runs.held_calls import HELD_LABEL, HeldCall, held_call_of
from penstock.operations.runs.results import ExecutionResult
from penstock.operations.runs.views import ExecutionView, HistoryPage
from penstock.runtime.ports.runs import RunRow

__all__ = ["HiddenFields"]

_WORKFLOW = "workflow:"
# What a record tells without any value of the run.
_TOLD = frozenset(
    {
        "nodeId",
        "visit",
        "attempt",
        "nodeType",
        "interruptId",
        "answeredBy",
        "signalName",
        "workflowRef",
        "childExecutionId",
        "code",
        "willRetry",
    }
)


class _Hidden(NamedTuple):
    """The hidden fields of an answer, and its schema."""

    paths: tuple[FieldPath, ...] = ()
    schema: JsonObject | None = None

    def of(self, value: JsonValue) -> JsonValue:
        """Return an answer without them."""
        return without_fields(value, self.paths, self.schema) if self.paths else value


class HiddenFields:
    """What policies hide from callers; implements the gate's `AnswerFilter`."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def may_hide(self, request: Request) -> bool:
        """Whether policies may hide anything from a caller, as far as that is known."""
        return not request.from_inside and self.may_hide_in(request.principal.tenant)

    def may_hide_in(self, tenant: str) -> bool:
        """Whether policies may hide anything of a tenant, as far as that is known."""
        stage = self._services.policies
        known = None if stage is None else stage.at_hand(tenant)
        return stage is not None and (known is None or (known[0] is not None and bool(known[0].redacting)))

    async def refuse(self, request: Request, capability: Capability) -> None:
        """Refuse a call that would show what is hidden from its caller."""
        looked = None if capability.reveals is None else await self._look(request)
        if looked is not None and await looked.reveals_hidden(capability, request.arguments):
            message = f"{capability.name} would show fields that a policy hides from you"
            hint = "look at the result with execution.wait or execution.status"
            raise Denied("FIELDS_HIDDEN", message, hint)

    async def shown(
        self, request: Request, capability: Capability, reply: Reply[Any] | EventStream
    ) -> Reply[Any] | EventStream:
        """Return an answer without what is hidden from its caller."""
        looked = await self._look(request)
        if looked is None:
            return reply
        if isinstance(reply, EventStream):
            row = await looked.row(reply.execution_id or capability.authorization(request.arguments).resource_id)
            return reply if row is None else EventStream(events=looked.cut(reply.events, row), retry_ms=reply.retry_ms)
        value = await looked.shown(capability, reply.value)
        return reply if value is reply.value else msgspec.structs.replace(reply, value=value)

    async def output_for(
        self, tenant: str, principal: Principal | None, row: RunRow | None, output: JsonValue
    ) -> JsonValue:
        """Return the output of a run as a principal sees it who has it sent.

        If something is hidden in the tenant, an unknown principal sees nothing, and nobody sees a run that is gone.
        """
        viewer = principal or Principal(id="unknown", tenant=tenant, kind="service", scopes=frozenset())
        looked = await self._look(
            Request(operation="", arguments={}, principal=viewer, surface="webhook", request_id="")
        )
        if looked is None:
            return output
        return None if row is None or principal is None else await looked.output_of(row, output)

    async def _look(self, request: Request) -> _Looking | None:
        """Return how a caller looks at answers; None if no policy hides anything."""
        stage = self._services.policies
        if stage is None or not self.may_hide(request):
            return None
        policies = await stage.of(request.principal.tenant)
        if policies is None or not policies.redacting:
            return None
        return _Looking(self._services, stage, policies, request)


class _Looking(NamedTuple):
    """A caller who looks at answers."""

    services: Services
    stage: PolicyStage
    policies: PolicySet
    request: Request

    @property
    def tenant(self) -> str:
        return self.request.principal.tenant

    async def shown(self, capability: Capability, value: Any) -> Any:
        """Return the value of an answer as the caller sees it."""
        if self.request.intent is not None and self.request.intent.only_look:
            hidden = await self.of_operation(capability.name, self.request.arguments)
            return _plain_preview(value) if hidden.paths else value
        if isinstance(value, HistoryPage):
            return await self._history(capability, value)
        if _has(value, "lanes", "decisions"):
            return await self._timeline(capability, value)
        listed = _member(value, "items")
        if isinstance(listed, list) and listed and (show := self._way_to_show(listed[0])) is not None:
            return _with(value, items=[await show(item) for item in listed])
        if _is_draft(value):
            return await self._draft(value)
        if isinstance(value, ExecutionResult | ExecutionView) or _has(value, "execution_id", "output"):
            return await self._execution(value)
        if _has(value, "draft_id", "impact", "state_witness"):
            return await self._review(value)
        if capability.is_of_tenant:
            return value
        own = self._hidden(target_of(capability, self.request.arguments), capability.output_schema)
        return own.of(msgspec.to_builtins(value)) if own.paths else value

    def _way_to_show(self, item: Any) -> Callable[[Any], Awaitable[Any]] | None:
        """Return how the items of a list are shown that have contents of runs; None if they have none."""
        if _is_draft(item):
            return self._draft
        if _has(item, "question", "decidable", "draft"):
            return self._waiting
        return self._decided if _has(item, "decision", "status", "kind") else None

    async def _execution(self, value: Any) -> Any:
        row = await self.row(_member(value, "execution_id"))
        if row is None:
            return value
        changed: dict[str, Any] = {}
        if (output := _member(value, "output")) is not None:
            plain = msgspec.to_builtins(output)
            shown = await self.output_of(row, plain)
            changed = {} if shown is plain else {"output": shown}
        if _member(value, "state") is not None and await self.hides_contents(row):
            changed["state"] = None
        return _with(value, **changed) if changed else value

    async def _draft(self, value: Any) -> Any:
        result, arguments = _member(value, "result"), _member(value, "arguments")
        if result is None:
            return value
        given = arguments if isinstance(arguments, dict) else {}
        return _with(value, result=await self.answer_of(str(_member(value, "operation")), given, result))

    async def _waiting(self, value: Any) -> Any:
        """Return something that waits for a decision, without the text of a run that has hidden fields."""
        row = await self.row(_member(value, "id"))
        if _member(value, "draft") is not None or (row is not None and not await self.hides_contents(row)):
            return value
        return _with(value, question=_with(_member(value, "question"), prompt=None, prompt_ref=None))

    async def _review(self, value: Any) -> Any:
        row = await self.row(_member(value, "draft_id"))
        held, _ = (None, None) if row is None else await self._held(row)
        hides = held is None or (await self.of_operation(held.operation, held.arguments)).paths
        return _plain_preview(value) if hides else value

    async def output_of(self, row: RunRow, output: JsonValue) -> JsonValue:
        """Return the output of a run as the caller sees it. That of a held call is the answer of the call."""
        if HELD_LABEL not in row.labels:
            return (await self.of_run(row)).of(output)
        held, _ = await self._held(row)
        return None if held is None else await self.answer_of(held.operation, held.arguments, output)

    async def answer_of(self, operation: str, arguments: JsonObject, value: Any) -> JsonValue:
        """Return the answer of an earlier call, as the caller sees it."""
        capability = self._operation(operation)
        if capability is not None and await self.reveals_hidden(capability, arguments):
            return None
        if _has(value, "execution_id", "output"):
            found: JsonValue = await self._execution(value)
            return found
        return (await self.of_operation(operation, arguments)).of(value)

    async def reveals_hidden(self, capability: Capability, arguments: JsonObject) -> bool:
        """Whether the answer of a call shows hidden fields where they cannot be left out."""
        what = None if capability.reveals is None else capability.reveals(arguments)
        if what == "run":
            row = await self.row(capability.authorization(arguments).resource_id)
            return row is not None and await self.hides_contents(row)
        return what == "runs" and await self.hides_anything()

    async def cut(self, events: AsyncIterator[StreamEvent], row: RunRow) -> AsyncIterator[StreamEvent]:
        """Yield the events of a run without what is hidden of its output.

        What a model says, and what it calls, has the same values in places that no policy can name.
        """
        try:
            silent = await self.hides_contents(row)
            async for event in events:
                data = event.data
                if silent and event.event in TOLD_BY_AGENTS:
                    continue
                if isinstance(data, dict) and data.get("output") is not None:
                    shown = {**data, "output": await self.output_of(row, data["output"])}
                    yield msgspec.structs.replace(event, data=shown)
                else:
                    yield event
        finally:
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()

    async def _history(self, capability: Capability, page: HistoryPage) -> HistoryPage:
        row = await self.row(capability.authorization(self.request.arguments).resource_id)
        if row is None or not await self.hides_contents(row):
            return page
        items = [
            msgspec.structs.replace(
                item, payload={name: member for name, member in item.payload.items() if name in _TOLD}
            )
            for item in page.items
        ]
        return msgspec.structs.replace(page, items=items)

    async def _timeline(self, capability: Capability, timeline: Any) -> Any:
        row = await self.row(capability.authorization(self.request.arguments).resource_id)
        told = _member(timeline, "decisions")
        if not told or (row is not None and not await self.hides_contents(row)):
            return timeline
        return _with(timeline, decisions=[_without_contents(item) for item in told])

    async def _decided(self, value: Any) -> Any:
        """Return a decision in a list, without what was asked and decided in a run that has hidden fields."""
        row = await self.row(_member(value, "id"))
        hides = await self.hides_anything() if row is None else await self.hides_contents(row)
        return _with(value, decision=_without_contents(_member(value, "decision"))) if hides else value

    async def row(self, execution_id: JsonValue) -> RunRow | None:
        """Return the run with an id, as callers write it."""
        if not isinstance(execution_id, str):
            return None
        store = self.services.store
        row = await store.row(id_in_tenant(self.tenant, execution_id))
        if row is None and self.tenant != DEFAULT_TENANT:
            row = await store.row(execution_id)
        return row if row is not None and row.tenant == self.tenant else None

    async def _held(self, row: RunRow) -> tuple[HeldCall | None, JsonValue]:
        """Return the call that a run holds, and its outcome."""
        state = await self.services.host.read(row.run_id)
        return (None, None) if state is None else (held_call_of(state), state.result)

    async def of_run(self, row: RunRow) -> _Hidden:
        """Return what is hidden of the output of a run that holds no call."""
        definition = await self.services.store.definitions.find(row.definition_hash)
        return self._of_workflow(row.workflow_name, {} if definition is None else definition.document)

    def _operation(self, name: str) -> Capability | None:
        catalogue = self.services.catalogue.all() if self.services.catalogue is not None else ()
        return next((item for item in catalogue if item.name == name), None)

    async def of_operation(self, name: str, arguments: JsonObject) -> _Hidden:
        """Return what is hidden of the answer of an operation or a workflow, by its name."""
        if name.startswith(_WORKFLOW):
            workflow = name.removeprefix(_WORKFLOW)
            newest = await self.services.store.definitions.find_named(workflow, tenant=self.tenant)
            return self._of_workflow(workflow, {} if newest is None else newest.document)
        found = self._operation(name)
        return _Hidden() if found is None else self._hidden(target_of(found, arguments), found.output_schema)

    async def hides_contents(self, row: RunRow) -> bool:
        """Whether anything is hidden of what a run, or a child of it, may contain."""
        if HELD_LABEL in row.labels:
            return await self._held_hides(row)
        if (await self.of_run(row)).paths:
            return True
        definition = await self.services.store.definitions.find(row.definition_hash)
        if definition is None:
            return await self.hides_anything()
        needs = await needs_to_start(self.services, self.tenant, [needs_of(self.services, definition)])
        for name in {child.name for item in needs for child in item.children}:
            if (await self.of_operation(f"{_WORKFLOW}{name}", {})).paths:
                return True
        return False

    async def _held_hides(self, row: RunRow) -> bool:
        held, result = await self._held(row)
        if held is None:
            return await self.hides_anything()
        capability = self._operation(held.operation)
        if (await self.of_operation(held.operation, held.arguments)).paths or (
            capability is not None and await self.reveals_hidden(capability, held.arguments)
        ):
            return True
        started = await self.row(_member(result, "execution_id"))
        return started is not None and started.run_id != row.run_id and await self.hides_contents(started)

    async def hides_anything(self) -> bool:
        """Whether anything is hidden of the output of any workflow."""
        named = {name for policy in self.policies.redacting for name in actions_named(policy.body["action"])}
        for name in named:
            if name.startswith(_WORKFLOW) and (await self.of_operation(name, {})).paths:
                return True
        return False

    def _of_workflow(self, name: str, document: JsonObject) -> _Hidden:
        return self._hidden(start_target(name, document), output_schema_of(document) or None)

    def _hidden(self, target: Target, schema: JsonObject | None) -> _Hidden:
        request = self.request
        paths = self.stage.hidden_fields(self.policies, request.principal, target, request.standpoint)
        return _Hidden(paths, schema)


def _without_contents(decision: Any) -> Any:
    """Return who decided and when, without what was asked and decided."""
    return _with(decision, decision=None, prompt=None, note=None)


def _plain_preview(value: Any) -> Any:
    """Return a preview without what it shows of the present state: no policy can name the fields in it."""
    impact = _member(value, "impact")
    if not isinstance(impact, dict):
        return value
    kept = {name: member for name, member in impact.items() if name in ("summary", "subject")}
    return _with(value, impact=kept, state_witness=None)


def _is_draft(value: Any) -> bool:
    return _has(value, "operation", "execution_id", "digest", "result")


def _has(value: Any, *names: str) -> bool:
    members = value if isinstance(value, dict) else getattr(value, "__struct_fields__", ())
    return all(name in members for name in names)


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


def _with(value: Any, **changed: Any) -> Any:
    return {**value, **changed} if isinstance(value, dict) else msgspec.structs.replace(value, **changed)
