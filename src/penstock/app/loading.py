"""Workflows from files, made known by calls of the gate: at the start of a process, and when a file changes.

The principal is whoever runs the command that loads them, `system:loader` where nobody does. Both may do everything:
whoever writes the files decides which scopes their workflows need, and what their triggers start. A file that says what
is stored already changes nothing, and leaves no record.

Above it: the commands that serve. Below it: the gate.
"""

from __future__ import annotations

from penstock.base.errors import Conflict, NotFound
from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonObject
from penstock.base.scopes import EVERYTHING
from penstock.definitions.model import Workflow
from penstock.operations.gate.context import Principal, Surface
from penstock.operations.gate.internal_callers import internal_call, system_principal
from penstock.operations.gate.pipeline import Gate

__all__ = ["load_workflow_into"]

# Another process may load the same file at the same moment; one of them is first.
_ATTEMPTS = 5
_CHANGED_IN_BETWEEN = frozenset({"WORKFLOW_EXISTS", "WORKFLOW_NOT_FOUND"})


async def load_workflow_into(
    gate: Gate, workflow: Workflow, *, tenant: str = DEFAULT_TENANT, owner: Principal | None = None
) -> bool:
    """Make a workflow the newest of its name, unless it is; whether it had to be stored.

    `owner` is the user of the machine whose command this is.
    """
    loader = owner or system_principal("loader", EVERYTHING, tenant=tenant)
    surface: Surface = "system" if owner is None else "cli"
    for attempt in range(_ATTEMPTS):
        known = await gate.services.store.definition_named(workflow.name, tenant=tenant)
        if known is not None and known.hash == workflow.hash:
            return False
        try:
            if known is None:
                await internal_call(gate, loader, "workflow.create", {"document": workflow.document}, surface=surface)
            else:
                given: JsonObject = {"workflow_id": workflow.name, "document": workflow.document}
                await internal_call(gate, loader, "workflow.update", given, surface=surface)
        except (Conflict, NotFound) as error:
            if error.code not in _CHANGED_IN_BETWEEN or attempt == _ATTEMPTS - 1:
                raise
            continue
        return True
    return False
