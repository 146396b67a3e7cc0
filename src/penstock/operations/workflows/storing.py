"""Storing versions of workflows: what is checked before, what a version would change, and the change itself.

Everything that can be refused is refused by `check_version`, before a person is asked to accept the version, and again
when it is stored. `version_impact` shows what the person who accepts it has to know.

Above it: the operations on workflows and tasks, bundles. Below it: `documents` compiles, the host stores.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from penstock.base.errors import Conflict, Denied, NotFound, Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.base.lazy_import import lazy_import
from penstock.definitions.model import Workflow
from penstock.definitions.reached import Reached, reached_by, touched_by
from penstock.definitions.start_needs import start_needs
from penstock.governance.authorship import weaker_author
from penstock.operations.catalogue.capability import Reply
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context
from penstock.operations.gate.holds import HoldRequired, facts_of
from penstock.operations.permissions.agent_names import refuse_agent_name
from penstock.operations.permissions.authorship import author_of, written_by
from penstock.operations.permissions.standing_authority import keep_workflow_authority
from penstock.operations.permissions.starting import first_missing, needs_of, protecting_version, scopes_to_start
from penstock.operations.runs.tool_schemas import governance_of, object_at
from penstock.runtime.definition_rows import name_taken
from penstock.runtime.ports.platform import CallRecord
from penstock.runtime.ports.runs import (
    AnyHash,
    DefinitionChanged,
    DefinitionNameTaken,
    DefinitionPut,
    DefinitionRow,
)

if TYPE_CHECKING:
    from penstock.definitions.diff import compare
else:
    compare = lazy_import("penstock.definitions.diff.compare")

__all__ = [
    "check_version",
    "has_triggers",
    "hold_loosening",
    "not_put",
    "put_workflow",
    "refuse_existing",
    "refuse_loosening",
    "refuse_triggers",
    "version_impact",
]


_SHOWN_MAX = 200
"""Nobody reads a longer list; the document itself is shown beside it."""


async def put_workflow(
    context: Context,
    workflow: Workflow,
    *,
    expected_hash: str | AnyHash | None,
    answer: Callable[[DefinitionRow], Reply[Any]] | None = None,
    changes: DefinitionRow | None = None,
) -> DefinitionRow:
    """Store a version and update its schedules; raise Conflict if another change was faster.

    `answer` makes the call's answer from the version; it is stored with the version. `changes` is the version of which
    the call changes a part: the author of the rest answers for that.
    """
    services = context.services
    await check_version(context, workflow)
    if has_triggers(workflow):
        await keep_workflow_authority(context, workflow.name, workflow.hash)

    def call(row: DefinitionRow) -> CallRecord:
        return context.call if answer is None else idempotency.answered(context, answer(row))

    outcome = await services.host.register(
        workflow,
        tenant=context.tenant,
        created_by=context.principal.id,
        author=author_of(context) if changes is None else weaker_author(changes.author, author_of(context)),
        expected_hash=expected_hash,
        call=call,
    )
    if isinstance(outcome, DefinitionChanged) and expected_hash is None:
        raise _exists(workflow.name, outcome.current_hash)
    if not isinstance(outcome, DefinitionPut):
        raise not_put(workflow.name, outcome)
    services.definitions_changed(context.tenant)
    await services.scheduler.follow(workflow.name, tenant=context.tenant)
    row = await services.store.definitions.find(workflow.hash, tenant=context.tenant)
    if row is None:
        raise NotFound("WORKFLOW_NOT_FOUND", f"the workflow {workflow.name} was deleted by another call")
    return row


async def check_version(context: Context, workflow: Workflow) -> None:
    """Refuse a version that the caller may not store. Nothing is changed.

    A name keeps its protection: what its last version asked for counts even if the workflow was deleted since.
    """
    await refuse_triggers(context, workflow)
    await refuse_agent_name(context, workflow.name, workflow.document)
    before = await protecting_version(context.services, context.tenant, workflow.name)
    refuse_loosening(context, workflow, before)
    if before is not None:
        await hold_loosening(context, before.document, workflow.document)
    context.services.signatures.refuse(workflow.name, workflow.document, workflow.hash)


async def refuse_existing(context: Context, name: str) -> None:
    """Refuse to create a workflow whose name is taken."""
    current = await context.services.store.definitions.find_named(name, tenant=context.tenant)
    if current is not None:
        raise _exists(name, current.hash)


def _exists(name: str, current_hash: str | None) -> Conflict:
    message = f"the workflow {name} already exists"
    return Conflict("WORKFLOW_EXISTS", message, "change it with workflow.update", {"hash": current_hash})


async def version_impact(context: Context, workflow: Workflow) -> JsonObject:
    """Return what storing a version would change, who wrote it, and what its runs can reach."""
    before = await protecting_version(context.services, context.tenant, workflow.name)
    impact: JsonObject = {
        "workflow": workflow.name,
        "hash": workflow.hash,
        "written_by": written_by(context),
        "reaches": await _reaches(context, workflow),
    }
    if before is not None:
        found = await asyncio.to_thread(compare.diff_documents, before.document, workflow.document)
        impact["diff"] = found.to_json()
    return impact


async def _reaches(context: Context, workflow: Workflow) -> list[JsonValue]:
    """Return what runs of a version can reach, directly and through what it names: kinds, names and risks."""
    direct = reached_by(workflow.document)
    found: dict[tuple[str, str], JsonObject] = {}
    documents = [workflow.document]
    for name in await _followed(context, direct):
        kind, _, rest = name.partition(":")
        found[kind, rest] = {"kind": kind, "name": rest}
        row = None if kind != "workflow" else await _reached_version(context, rest)
        if row is not None:
            documents.append(row.document)
            if isinstance(risk := needs_of(context.services, row).governance.get("risk"), str):
                found[kind, rest]["risk"] = risk
    called = [("operation", item.name) for item in direct if item.arguments is not None]
    for kind, name in (*called, *(item for document in documents for item in touched_by(document))):
        found[kind, name] = {"kind": kind, "name": name}
    return list[JsonValue](found[key] for key in sorted(found))[:_SHOWN_MAX]


async def _followed(context: Context, direct: tuple[Reached, ...]) -> list[str]:
    """Return the names that a version leads to; only those in its own document if they are too many to follow."""
    reach = None if context.holds is None else context.holds.reach
    own = [item.name for item in direct if item.arguments is None]
    if reach is None:
        return own
    try:
        return list(await reach(context.tenant, direct))
    except Rejected:  # whoever starts it is told so
        return own


async def _reached_version(context: Context, rest: str) -> DefinitionRow | None:
    name, _, pin = rest.partition("@")
    store = context.services.store
    if pin:
        return await store.definitions.find(pin, tenant=context.tenant)
    return await store.definitions.find_named(name, tenant=context.tenant)


def not_put(name: str, outcome: DefinitionChanged | DefinitionNameTaken) -> Conflict:
    """Return the error that says why a version was not stored."""
    if isinstance(outcome, DefinitionNameTaken):
        return name_taken(name, outcome)
    message = f"{name} was changed by another call: its newest version is {outcome.current_hash}"
    return Conflict("PRECONDITION_FAILED", message, "read it again, and apply the change to that version")


def has_triggers(workflow: Workflow) -> bool:
    """Whether a workflow has an enabled trigger, which starts runs without a call."""
    return any(trigger.get("enabled") is not False for trigger in workflow.triggers)


async def refuse_triggers(
    context: Context, workflow: Workflow, newest: Mapping[str, DefinitionRow] | None = None
) -> None:
    """Refuse to store triggers if the caller may not start the workflow: they start runs on the caller's behalf.

    `newest` holds the tenant's workflows as they will be, for calls that store several at once.
    """
    if not has_triggers(workflow):
        return
    needed = await scopes_to_start(context.services, context.tenant, [start_needs(workflow.document)], newest)
    missing = first_missing(context.principal, needed)
    if missing is not None:
        message = f"the triggers of {workflow.name} start runs, which needs the scope {missing}"
        hint = "ask the owner for a key with that scope, or store the workflow without `triggers`"
        raise Denied("SCOPE_REQUIRED", message, hint, {"scope": missing})


def refuse_loosening(context: Context, workflow: Workflow, current: DefinitionRow | None) -> None:
    """Refuse to remove a scope from a document if the caller lacks it: otherwise the caller could start it then."""
    kept = start_needs(workflow.document).scopes
    before = needs_of(context.services, current).scopes if current is not None else ()
    missing = first_missing(context.principal, [scope for scope in before if scope not in kept])
    if missing is not None:
        message = f"{workflow.name} needs the scope {missing}; only a key that has it may remove it from the document"
        hint = "leave `governance.scopes` as they are, or ask the owner for a key with that scope"
        raise Denied("SCOPE_REQUIRED", message, hint, {"scope": missing})


async def hold_loosening(context: Context, before: JsonObject, after: JsonObject) -> None:
    """Hold a change by which an agent could start something at once that would have to wait as it is."""
    request = context.request
    if context.holds is None or request.approval is not None or not request.by_agent:
        return
    scopes = context.capability.governance.scopes
    was, becomes = (governance_of(object_at(item, "governance"), scopes) for item in (before, after))
    hold = await context.holds.hold_of(context, facts_of(request, was))
    if hold is not None and await context.holds.hold_of(context, facts_of(request, becomes)) is None:
        raise HoldRequired(hold, was)
