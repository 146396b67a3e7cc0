"""Workflow documents as callers send them: an object, a text, or just a list of tasks.

Checking a long document takes seconds, and a malicious one may never finish. So documents are checked where that can be
stopped (`runtime.sandbox.documents`), and no other call waits for it.

Above it: the operations on workflows and tasks. Below it: `definitions`.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any

from penstock.base import limits
from penstock.base.errors import Conflict, Rejected
from penstock.base.ids import id_for_callers
from penstock.base.json import JsonObject, JsonValue
from penstock.base.lazy_import import lazy_import
from penstock.definitions.canonical import definition_hash
from penstock.definitions.checks.governance import misspelt_scopes
from penstock.definitions.model import Workflow
from penstock.definitions.source.findings import Finding, Severity
from penstock.definitions.start_needs import StartNeeds, start_needs
from penstock.operations.gate.context import Context
from penstock.operations.permissions.starting import needed_scopes
from penstock.operations.workflows.references import filled_in, reference_warnings
from penstock.runtime.schedules.scheduler import check_schedules

if TYPE_CHECKING:
    from penstock.definitions.build import workflow as build
else:
    build = lazy_import("penstock.definitions.build.workflow")

__all__ = ["checked_document", "compiled", "document_of"]


# Names that routes use in place of a workflow's name, and those that have a meaning in any path.
_RESERVED_NAMES = frozenset({"export", "import", "validate", ".", ".."})
# Categories of control characters, line and paragraph separators, and lone surrogates.
_UNSPEAKABLE = frozenset({"Cc", "Zl", "Zp", "Cs"})


async def document_of(
    context: Context,
    document: dict[str, Any] | None,
    source: str | None,
    name: str | None = None,
    title: str | None = None,
    tasks: list[dict[str, Any]] | None = None,
) -> JsonObject:
    """Return the one document that was sent, whatever its form."""
    if sum(given is not None for given in (document, source, tasks)) != 1:
        message = "send exactly one of `document`, `source` and `tasks`"
        raise Rejected(
            "INVALID_ARGUMENTS", message, "send a document as an object or as text, or the tasks of a new workflow"
        )
    if document is not None:
        return document
    if tasks is not None:
        if name is None:
            raise Rejected("INVALID_ARGUMENTS", "`tasks` needs `id` too", "send the name of the workflow as `id`")
        made: JsonObject = {"penstock": "v1", "name": name, "nodes": list(tasks)}
        return {**made, "title": title} if title is not None else made
    checked, findings = await context.services.documents.check_source(source or "", tenant=context.tenant)
    filled = await filled_in(context, checked, findings)
    _refuse_errors(filled.findings)
    if not isinstance(filled.document, dict):
        raise Rejected("INVALID_DOCUMENT", "the text is not a workflow document", "send an object in YAML or JSON")
    return filled.document


async def checked_document(
    context: Context, document: dict[str, Any] | None, source: str | None
) -> tuple[tuple[Finding, ...], str | None]:
    """Return the findings about a document, and its hash if it can be read."""
    if (document is None) == (source is None):
        raise Rejected(
            "INVALID_ARGUMENTS",
            "send exactly one of `document` and `source`",
            "send the document as an object in `document`, or as text in `source`",
        )
    checks = context.services.documents
    checked: JsonValue
    if document is not None:
        checked, findings = document, await checks.findings(document, tenant=context.tenant)
    else:
        checked, findings = await checks.check_source(source or "", tenant=context.tenant)
    filled = await filled_in(context, checked, findings)
    checked, findings = filled.document, filled.findings
    if not isinstance(checked, dict):
        return findings, None
    known = await needed_scopes(context.services, context.tenant) if "governance" in checked else ()
    models = await reference_warnings(context, checked)
    hashed = await checks.threads.run(context.tenant, definition_hash, checked)
    return (*findings, *misspelt_scopes(checked, known), *models), hashed


async def compiled(context: Context, document: JsonObject) -> Workflow:
    """Compile a document with the registered schemas that it refers to.

    Raises Rejected with every mistake, or if the workflow could not be stored or called.
    """
    checks = context.services.documents
    filled = await filled_in(context, document, await checks.findings(document, tenant=context.tenant))
    _refuse_errors(filled.findings)
    workflow, needs = await checks.threads.run(context.tenant, _compiled, filled.document)
    context.services.start_needs.put(workflow.hash, needs)
    await _refuse_taken_schedule(context, workflow)
    return workflow


async def _refuse_taken_schedule(context: Context, workflow: Workflow) -> None:
    """Refuse a document with the id of a schedule that another workflow or a person made: it would get none."""
    taken = await context.services.scheduler.taken(workflow, tenant=context.tenant)
    if taken is None:
        return
    name = id_for_callers(context.tenant, taken.schedule_id)
    message = f"{workflow.name} asks for the schedule {name}, which belongs to the workflow {taken.workflow_name}"
    hint = f"choose another `id` of the trigger, or change {taken.workflow_name} or delete the schedule first"
    details: JsonObject = {"kind": "schedule", "name": name, "workflow_id": taken.workflow_name}
    raise Conflict("NAME_TAKEN", message, hint, details)


def _compiled(document: JsonObject) -> tuple[Workflow, StartNeeds]:
    workflow = build.build_workflow(document)
    _refuse_name(workflow.name)
    check_schedules(workflow)
    return workflow, start_needs(workflow.document)


def _refuse_name(name: str) -> None:
    """Refuse a name that cannot be part of a path: a workflow of another format could be stored, but never called."""
    unspeakable = any(unicodedata.category(character) in _UNSPEAKABLE for character in name)
    if name in _RESERVED_NAMES or unspeakable or "/" in name or len(name) > limits.WORKFLOW_NAME_CHARACTERS_MAX:
        message = f"a workflow cannot be named {name[:60]!r}"
        hint = (
            f"use up to {limits.WORKFLOW_NAME_CHARACTERS_MAX} characters without `/` or line ends;"
            f" the names {', '.join(sorted(_RESERVED_NAMES))} are reserved"
        )
        raise Rejected("INVALID_DOCUMENT", message, hint)


def _refuse_errors(findings: tuple[Finding, ...]) -> None:
    errors = [item for item in findings if item.severity is Severity.ERROR]
    if not errors:
        return
    first = errors[0]
    message = (
        f"the document has {len(errors)} mistakes; first, at {first.location or first.path or '/'}: {first.message}"
    )
    listed: list[JsonValue] = [item.to_json() for item in errors]
    raise Rejected(
        "INVALID_DOCUMENT",
        message,
        "correct the mistakes that `findings` lists; workflow.validate checks without storing",
        {"findings": listed},
    )
