"""What somebody hears whose workflow asks for a name that another one has.

Above it: operations and programs that store workflows. Below it: the outcome of the store.
"""

from __future__ import annotations

from penstock.base.errors import Conflict
from penstock.runtime.ports.runs import DefinitionNameTaken

__all__ = ["name_taken"]

_WHERE = {
    "tool": "`expose.tool.name`",
    "prompt": "`expose.prompt.name`",
    "resource": "`expose.resource.uri`",
    "webhook": "the `path` of the trigger",
}


def name_taken(workflow_name: str, taken: DefinitionNameTaken) -> Conflict:
    """The refusal, with the owner named."""
    told = f"{workflow_name} asks for the {taken.kind} {taken.name}, which belongs to the workflow {taken.owner}"
    other = f"choose another in {_WHERE[taken.kind]}" if taken.kind in _WHERE else "leave it out"
    hint = f"{other}, or change or delete {taken.owner} first"
    return Conflict("NAME_TAKEN", told, hint, {"kind": taken.kind, "name": taken.name, "workflow_id": taken.owner})
