"""The workflow files that `penstock worker`, `serve` and `mcp` register when they start.

Above it: those commands. Below it: the gate, the settings.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.app.gateway import local_owner
from penstock.app.loading import load_workflow_into
from penstock.app.settings.model import Settings
from penstock.app.workflow_paths import expand_paths
from penstock.base.errors import Conflict, Denied, Rejected
from penstock.base.json import JsonObject
from penstock.base.lazy_import import lazy_import
from penstock.cli.terminal.files import SourceText, read_sources
from penstock.cli.terminal.values import UsageError
from penstock.definitions.model import Workflow
from penstock.operations.gate.pipeline import Gate

if TYPE_CHECKING:
    from penstock.cli.project import files as project_files
else:
    project_files = lazy_import("penstock.cli.project.files")

__all__ = ["read_workflow_files", "register_workflows", "valid_workflows"]

_LOGGER = logging.getLogger("penstock.worker")


def read_workflow_files(patterns: Iterable[str]) -> list[SourceText]:
    """The files of workflows that patterns and folders stand for; one that is there and cannot be read is left out."""
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
                told: JsonObject = {"file": finding.location or item.file, "code": finding.code}
                told.update({"message": finding.message, "what_to_do": finding.hint})
                _LOGGER.warning("workflow_incomplete", extra={"fields": told})
    return [item.workflow for item in loaded if item.workflow is not None]


def _quarantine(place: str, code: str, message: str) -> None:
    told: JsonObject = {"file": place, "code": code, "message": message}
    told["what_to_do"] = "correct it; `penstock doctor` and `penstock validate` show every mistake"
    _LOGGER.error("workflow_quarantined", extra={"fields": told})


async def register_workflows(gate: Gate, workflows: Sequence[Workflow]) -> None:
    """Make workflows known; one that is refused does not keep the others out."""
    for workflow in workflows:
        try:
            await load_workflow_into(gate, workflow, owner=local_owner())
        except (Conflict, Denied, Rejected) as error:
            _quarantine(workflow.name, error.code, error.message)
            continue
        known: JsonObject = {"workflow": workflow.name, "version": workflow.version, "hash": workflow.hash}
        _LOGGER.info("workflow_known", extra={"fields": known})
