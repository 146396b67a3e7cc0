"""The workflow files that `penstock worker`, `serve` and `mcp` register when they start.

Above it: those commands. Below it: the gate, the settings.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.app.gate import local_owner
from penstock.app.settings.model import Settings
from penstock.base.errors import Conflict, Denied, NotFound, Rejected
from penstock.base.ids import DEFAULT_TENANT
from penstock.base.json import JsonObject
from penstock.base.lazy_import import lazy_import
from penstock.base.scopes import EVERYTHING
from penstock.cli.terminal.files import SourceText, expand_paths, read_sources
from penstock.cli.terminal.values import UsageError
from penstock.definitions.model import Workflow
from penstock.operations.gate.context import Principal, Surface
from penstock.operations.gate.internal_callers import internal_call, system_principal
from penstock.operations.gate.pipeline import Gate
from penstock.runtime.host.definitions import is_stored

if TYPE_CHECKING:
    from penstock.cli.project import files as project_files
else:
    project_files = lazy_import("penstock.cli.project.files")

__all__ = ["load_workflow_into", "read_workflow_files", "register_workflows", "valid_workflows"]

_LOGGER = logging.getLogger("penstock.worker")
# Another process may load the same file at the same moment; one of them is first.
_ATTEMPTS = 5
_CHANGED_IN_BETWEEN = frozenset({"WORKFLOW_EXISTS", "WORKFLOW_NOT_FOUND"})


def read_workflow_files(patterns: Iterable[str]) -> list[SourceText]:
    """The workflow files that patterns and folders match; a file that cannot be read is left out."""
    found = []
    for source in read_sources(expand_paths(patterns)):
        if isinstance(source, SourceText):
            found.append(source)
        elif Path(source.label).is_file():
            _quarantine(source.label, source.code, source.message)
        else:
            raise UsageError(f"{source.label}: {source.message}")
    return found


def valid_workflows(sources: Sequence[SourceText], settings: Settings) -> list[Workflow]:
    """The workflows that can be served. A file with a mistake is quarantined: named with its place, and left out."""
    loaded, _ = project_files.load_project(((source.label, source.text) for source in sources), settings)
    for item in loaded:
        if item.workflow is None and item.worst is not None:
            _quarantine(item.worst.location or item.file, item.worst.code, item.worst.message)
            continue
        for finding in item.findings:
            if finding.code in project_files.PROJECT_CODES:
                fields: JsonObject = {"file": finding.location or item.file, "code": finding.code}
                fields.update({"message": finding.message, "what_to_do": finding.hint})
                _LOGGER.warning("workflow_incomplete", extra={"fields": fields})
    return [item.workflow for item in loaded if item.workflow is not None]


def _quarantine(place: str, code: str, message: str) -> None:
    fields: JsonObject = {"file": place, "code": code, "message": message}
    fields["what_to_do"] = "correct it; `penstock doctor` and `penstock validate` show every mistake"
    _LOGGER.error("workflow_quarantined", extra={"fields": fields})


async def register_workflows(gate: Gate, workflows: Sequence[Workflow]) -> None:
    """Register workflows; a refused one does not stop the others."""
    for workflow in workflows:
        try:
            await load_workflow_into(gate, workflow, owner=local_owner())
        except (Conflict, Denied, Rejected) as error:
            _quarantine(workflow.name, error.code, error.message)
            continue
        known: JsonObject = {"workflow": workflow.name, "version": workflow.version, "hash": workflow.hash}
        _LOGGER.info("workflow_known", extra={"fields": known})


async def load_workflow_into(
    gate: Gate, workflow: Workflow, *, tenant: str = DEFAULT_TENANT, owner: Principal | None = None
) -> bool:
    """Make a workflow the newest version of its name; return whether it had to be stored.

    `owner` is the user whose command this is; without one it is `system:loader`. Both may do everything: whoever writes
    the files decides which scopes their workflows need, and what their triggers start. A file that equals the stored
    version changes nothing, and leaves no audit record.
    """
    loader = owner or system_principal("loader", EVERYTHING, tenant=tenant)
    surface: Surface = "system" if owner is None else "cli"
    for attempt in range(_ATTEMPTS):
        known = await gate.services.store.definition_named(workflow.name, tenant=tenant)
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
