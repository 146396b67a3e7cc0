"""Workflows of files, registered in a store: by servers, and by commands that run or evaluate them.

Above it: `workflow_files`, those commands. Below it: the gate.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from penstock.app.gate import local_owner
from penstock.base.errors import Conflict, Denied, NotFound, Rejected
from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonObject
from penstock.base.scopes import EVERYTHING
from penstock.definitions.model import Workflow
from penstock.operations.gate.context import Principal, Surface
from penstock.operations.gate.internal_callers import internal_call, system_principal
from penstock.operations.gate.pipeline import Gate
from penstock.runtime.definition_rows import is_stored

__all__ = ["load_workflow_into", "log_quarantined", "register_workflows"]

_LOGGER = logging.getLogger("penstock.worker")
# Another process may load the same file at the same moment; one of them is first.
_ATTEMPTS = 5
_CHANGED_IN_BETWEEN = frozenset({"WORKFLOW_EXISTS", "WORKFLOW_NOT_FOUND"})


def log_quarantined(place: str, code: str, message: str) -> None:
    """Say in the log that a workflow file is left out, and why."""
    fields: JsonObject = {"file": place, "code": code, "message": message}
    fields["what_to_do"] = "correct it; `penstock server doctor` and `penstock validate` show every mistake"
    _LOGGER.error("workflow_quarantined", extra={"fields": fields})


async def register_workflows(gate: Gate, workflows: Mapping[str, Workflow]) -> dict[str, str]:
    """Register workflows, by file; a refused one does not stop the others. Return the refused files, and why."""
    refused = {}
    for file, workflow in workflows.items():
        try:
            await load_workflow_into(gate, workflow, owner=local_owner())
        except (Conflict, Denied, Rejected) as error:
            log_quarantined(file, error.code, error.message)
            refused[file] = f"{error.code} {error.message}"
            continue
        known: JsonObject = {"workflow": workflow.name, "version": workflow.version, "hash": workflow.hash}
        _LOGGER.info("workflow_known", extra={"fields": known})
    return refused


async def load_workflow_into(
    gate: Gate, workflow: Workflow, *, tenant: str = DEFAULT_TENANT, owner: Principal | None = None
) -> bool:
    """Make a workflow the newest version of its name; return whether it had to be stored.

    `owner` is the user whose command this is; without one it is `system:loader`. Both may do everything: the author of
    the files decides which scopes their workflows need, and what their triggers start. A file that equals the stored
    version changes nothing, and leaves no audit record.
    """
    loader = owner or system_principal("loader", EVERYTHING, tenant=tenant)
    surface: Surface = "system" if owner is None else "cli"
    for attempt in range(_ATTEMPTS):
        known = await gate.services.store.definitions.find_named(workflow.name, tenant=tenant)
        if known is not None and is_stored(known, workflow, None):
            return False
        try:
            if known is None:
                await internal_call(gate, loader, "workflow.create", {"document": workflow.document}, surface=surface)
            else:
                arguments: JsonObject = {"workflow_id": workflow.name, "document": workflow.document}
                await internal_call(gate, loader, "workflow.update", arguments, surface=surface)
        except (Conflict, NotFound) as error:
            if error.code not in _CHANGED_IN_BETWEEN or attempt == _ATTEMPTS - 1:
                raise
            continue
        return True
    return False
