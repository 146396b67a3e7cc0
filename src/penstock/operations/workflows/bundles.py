"""Operations that move workflows between servers: all documents in one piece.

An import is one transaction: either every changed document is stored, each with a separate audit record, together with
the answer for the idempotency key; or none is.

Above it: the catalogue. Below it: `operations`, `definitions`, the store's definitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.model import Workflow
from penstock.operations.catalogue.capability import Capability, Example, Reply, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.fields import document_name
from penstock.operations.catalogue.reasons import SIGNATURE_ERRORS
from penstock.operations.gate import idempotency
from penstock.operations.gate.context import Context
from penstock.operations.permissions.agent_names import refuse_agent_name
from penstock.operations.permissions.authorship import author_of
from penstock.operations.permissions.standing_authority import keep_workflow_authority
from penstock.operations.permissions.starting import protecting_version
from penstock.operations.workflows.documents import compiled
from penstock.operations.workflows.storing import (
    has_triggers,
    hold_loosening,
    not_put,
    refuse_loosening,
    refuse_triggers,
    version_impact,
)
from penstock.operations.workflows.views import Bundle, ExportWorkflows, Imported, ImportWorkflows
from penstock.runtime.definition_rows import definition_row, is_stored
from penstock.runtime.ports.runs import DefinitionRefused, DefinitionRow

__all__ = ["OPERATIONS"]


# Whoever accepts an import looks at its versions one by one; the documents themselves are in the call.
_VERSIONS_SHOWN_MAX = 50


@dataclass(slots=True)
class _Plan:
    """What an import changes: each version with the one that it replaces, and the names to report."""

    changes: list[tuple[DefinitionRow, DefinitionRow | None]] = field(default_factory=list)
    imported: list[str] = field(default_factory=list)
    overwritten: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    chosen: list[Workflow] = field(default_factory=list)
    """The versions that are stored, as they are compiled."""

    @property
    def answer(self) -> Imported:
        """The answer to the caller."""
        return Imported(imported=self.imported, overwritten=self.overwritten, skipped=self.skipped)

    @property
    def audit_details(self) -> list[tuple[str, JsonObject]]:
        """What the audit log records about each version."""
        return [
            (row.name, {"hash": row.hash} if before is None else {"hash": row.hash, "replaces": before.hash})
            for row, before in self.changes
        ]


@operation(
    "workflow.export",
    route=Route(method="GET", path="/workflows/export", query=("prefix",)),
    scopes=("workflow:read",),
    reads=True,
)
async def workflow_export(context: Context, given: ExportWorkflows) -> Bundle:
    """Export workflows.

    Returns the newest documents in one bundle, which workflow.import takes.
    """
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = await context.services.store.definitions.list_page(
            tenant=context.tenant, prefix=given.prefix, limit=limits.PAGE_LIMIT_MAX, cursor=cursor
        )
        found.extend(row.document for row in page.rows)
        cursor = page.next_cursor
        if cursor is None:
            return Bundle(workflows=found)


def _all_named(arguments: JsonObject) -> str | None:
    """Return the names of the workflows in the call."""
    documents = arguments.get("workflows")
    names = [document_name(document) for document in documents] if isinstance(documents, list) else []
    return ",".join(name for name in names if name is not None) or None


async def _find_import(context: Context, given: ImportWorkflows) -> _Plan:
    """Return what an import changes, after all checks. Nothing is changed."""
    workflows = [await compiled(context, document) for document in given.workflows]
    return await _planned(context, workflows, overwrite=given.overwrite)


async def _impact(context: Context, given: ImportWorkflows) -> JsonObject:
    """Return what each version would change, and what it can reach."""
    plan = await _find_import(context, given)
    changes: list[JsonValue] = [
        await version_impact(context, workflow) for workflow in plan.chosen[:_VERSIONS_SHOWN_MAX]
    ]
    return {"workflows": changes, "changed": len(plan.chosen), "skipped": list(plan.skipped)}


@operation(
    "workflow.import",
    route=Route(method="POST", path="/workflows/import"),
    scopes=("workflow:write",),
    idempotent=True,
    risk="medium",
    stores="workflow",
    find=_find_import,
    impact=_impact,
    subject=_all_named,
    errors=(
        "INVALID_DOCUMENT",
        "DOCUMENT_TOO_COSTLY",
        "NAME_TAKEN",
        "AGENT_NAME_TAKEN",
        "PRECONDITION_FAILED",
        *SIGNATURE_ERRORS,
    ),
    examples=(
        Example(
            arguments={
                "workflows": [
                    {"penstock": "v1", "name": "greet", "nodes": [{"id": "done", "type": "end", "output": "hello"}]}
                ]
            }
        ),
    ),
)
async def workflow_import(context: Context, given: ImportWorkflows) -> Imported:
    """Import workflows.

    Checks all documents first, and stores all of them or none. Workflows that exist are skipped unless `overwrite` is
    set.
    """
    services, tenant = context.services, context.tenant
    plan = await _find_import(context, given)
    if not plan.changes:
        return plan.answer
    for workflow in filter(has_triggers, plan.chosen):
        await keep_workflow_authority(context, workflow.name, workflow.hash)
    call = idempotency.answered(context, Reply(value=plan.answer))
    call.each(plan.audit_details)
    expected = [(row, None if before is None else before.hash) for row, before in plan.changes]
    outcome = await services.store.definitions.put_all(expected, call=call)
    if isinstance(outcome, DefinitionRefused):
        raise not_put(outcome.name, outcome.outcome)
    services.definitions_changed(tenant)
    scheduled = [row.name for row, before in plan.changes if _has_any(row) or (before and _has_any(before))]
    for name in dict.fromkeys(scheduled):
        await services.scheduler.follow(name, tenant=tenant)
    return plan.answer


async def _planned(context: Context, workflows: Sequence[Workflow], *, overwrite: bool) -> _Plan:
    """Return what an import changes, if the caller may; a second document of one name comes after the first."""
    services, tenant, plan = context.services, context.tenant, _Plan()
    newest: dict[str, DefinitionRow | None] = {}
    chosen: list[Workflow] = []
    author = author_of(context)
    for workflow in workflows:
        name = workflow.name
        if name not in newest:
            newest[name] = await services.store.definitions.find_named(name, tenant=tenant)
        current = newest[name]
        if current is not None and (not overwrite or is_stored(current, workflow, author)):
            plan.skipped.append(name)
            continue
        before = current or await protecting_version(services, tenant, name)
        refuse_loosening(context, workflow, before)
        if before is not None:
            await hold_loosening(context, before.document, workflow.document)
        await refuse_agent_name(context, name, workflow.document)
        services.signatures.refuse(name, workflow.document, workflow.hash)
        row = definition_row(
            workflow, tenant=tenant, created_by=context.principal.id, at=context.now_ms(), author=author
        )
        plan.changes.append((row, current))
        (plan.overwritten if current else plan.imported).append(name)
        newest[name] = row
        chosen.append(workflow)
    if any(map(has_triggers, chosen)):
        stored = {row.name: row for row in await services.store.definitions.list_newest(tenant=tenant)}
        stored.update({row.name: row for row, _ in plan.changes})
        for workflow in chosen:
            await refuse_triggers(context, workflow, stored)
    plan.chosen.extend(chosen)
    return plan


def _has_any(row: DefinitionRow) -> bool:
    return bool(row.document.get("triggers"))


OPERATIONS: tuple[Capability, ...] = (workflow_export, workflow_import)
