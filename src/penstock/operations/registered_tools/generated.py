"""Workflows that the server writes itself, for one call: stored under an owner that no tenant can be, when first run.

Above it: the operations that run agents, tools and tasks. Below it: the gate, the store of definitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.base.errors import Conflict, Unavailable
from penstock.base.ids import id_in_tenant
from penstock.base.json import JsonObject
from penstock.base.lazy_import import lazy_import
from penstock.definitions.model import Workflow
from penstock.operations.gate.context import Context, Request
from penstock.operations.gate.internal_callers import system_principal
from penstock.operations.gate.outcomes import RefusedCall

if TYPE_CHECKING:
    from penstock.definitions.build import workflow as build
else:
    build = lazy_import("penstock.definitions.build.workflow")

__all__ = ["built", "register_generated", "store_generated"]


def built(document: JsonObject) -> Workflow:
    """Build a workflow from a document that was checked before."""
    found: Workflow = build.build_workflow(document)
    return found


async def register_generated(context: Context, workflow: Workflow, owner: str) -> None:
    """Store a workflow, in the internal call that was made for that."""
    context.call.about(None, hash=workflow.hash)
    await context.services.host.register(
        workflow, tenant=owner, created_by=context.principal.id, call=lambda row: context.call
    )


async def store_generated(
    context: Context, definition_hash: str, define: tuple[str, JsonObject], *, chosen: str | None = None
) -> None:
    """Store a workflow with a call of its own, unless that version is stored: the operation and its arguments.

    `chosen` is the id that the caller chose for the run, if any.
    """
    services = context.services
    if await services.store.definition(definition_hash) is not None:
        return
    if chosen is not None and await services.store.row(id_in_tenant(context.tenant, chosen)) is not None:
        # No run has this version yet, so the id is another run's: refused before anything is stored.
        message = f"there is an execution {chosen} with another workflow or input"
        raise Conflict("EXECUTION_ID_TAKEN", message, "choose another id, or leave it out")
    call = None if context.holds is None else context.holds.call
    if call is None:
        raise Unavailable("NOT_CONFIGURED", "no gate is open that stores what the call runs", "ask the server")
    operation, arguments = define
    request = Request(
        operation=operation,
        arguments=arguments,
        principal=system_principal(f"{operation.partition('.')[0]}s", "workflow:write", tenant=context.tenant),
        surface="system",
        request_id=context.request.request_id,
    )
    outcome = await call(request)
    if isinstance(outcome, RefusedCall):
        raise outcome.error
