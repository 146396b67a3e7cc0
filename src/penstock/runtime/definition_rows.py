"""Definitions as a store keeps them: how one becomes a row, when it is stored already, and when its name is taken.

Above it: hosts, the operations that store workflows. Below it: the port of stores.
"""

from __future__ import annotations

from penstock.base.errors import Conflict
from penstock.definitions.canonical import is_newly_signed
from penstock.definitions.model import Workflow
from penstock.governance.authorship import Author, takes_over
from penstock.runtime.ports.runs import DefinitionNameTaken, DefinitionRow

__all__ = ["definition_row", "is_stored", "name_taken"]

_WHERE = {
    "tool": "`expose.tool.name`",
    "prompt": "`expose.prompt.name`",
    "resource": "`expose.resource.uri`",
    "webhook": "the `path` of the trigger",
    "schedule": "the `id` of the trigger",
}


def definition_row(
    workflow: Workflow, *, tenant: str, created_by: str | None, at: int, author: Author | None = None
) -> DefinitionRow:
    """Return the row in which a store keeps a compiled workflow."""
    return DefinitionRow(
        hash=workflow.hash,
        name=workflow.name,
        version=workflow.version,
        document=workflow.document,
        created_at=at,
        tenant=tenant,
        created_by=created_by,
        author=author,
    )


def is_stored(known: DefinitionRow, workflow: Workflow, author: Author | None) -> bool:
    """Whether a definition is the stored one, with its signature if it has one, and its author still answers for it."""
    is_same = known.hash == workflow.hash and not is_newly_signed(known.document, workflow.document)
    return is_same and not takes_over(known.author, author)


def name_taken(workflow_name: str, taken: DefinitionNameTaken) -> Conflict:
    """Return the error for a workflow that claims a name of another one."""
    message = f"{workflow_name} asks for the {taken.kind} {taken.name}, which belongs to the workflow {taken.owner}"
    other = f"choose another name in {_WHERE[taken.kind]}" if taken.kind in _WHERE else "leave it out"
    hint = f"{other}, or change or delete {taken.owner} first"
    return Conflict("NAME_TAKEN", message, hint, {"kind": taken.kind, "name": taken.name, "workflow_id": taken.owner})
