"""What `penstock worker`, `serve` and `dev` share: which workflows are made known, and how commits are logged.

Above it: those commands. Below it: the gate, the settings.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.app.gateway import local_owner
from penstock.app.loading import load_workflow_into
from penstock.app.settings.model import LoggingSettings, Settings
from penstock.app.workflow_paths import expand_paths
from penstock.base.errors import Conflict, Denied, Rejected
from penstock.base.json import JsonObject
from penstock.base.lazy_import import lazy_import
from penstock.cli.server.log_lines import GatheringHandler
from penstock.cli.server.worker_log import LineFormatter, level_of, record_event
from penstock.cli.terminal.files import SourceText, read_sources
from penstock.cli.terminal.values import UsageError
from penstock.definitions.model import Workflow
from penstock.operations.gate.pipeline import Gate
from penstock.operations.telemetry.log_events import log_event
from penstock.runtime.ports.host import Committed

if TYPE_CHECKING:
    from penstock.app.project import files as project_files
else:
    project_files = lazy_import("penstock.app.project.files")

__all__ = ["configure_logging", "log_commit", "make_known", "sound_workflows", "workflow_files"]

_LOGGER = logging.getLogger("penstock.worker")
# Nearly all commits are of a few kinds, and have few records.
_KINDS_OF_COMMITS_KEPT, _RECORDS_OF_KIND_MAX = 256, 32


def workflow_files(patterns: Iterable[str]) -> list[SourceText]:
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


def configure_logging(chosen: LoggingSettings) -> None:
    """Log to standard error as the settings say."""
    handler = GatheringHandler(sys.stderr)
    handler.setFormatter(LineFormatter(as_json=chosen.format == "json"))
    logger = logging.getLogger("penstock")
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(chosen.level.upper())


def log_commit(commit: Committed) -> None:
    """Log what was stored, if it is worth a line."""
    names = commit.names
    lines = _lines_of_kind(names) if len(names) <= _RECORDS_OF_KIND_MAX else _lines_of(names)
    for number, level in lines:
        if _LOGGER.isEnabledFor(level):
            told = partial(_payload, commit, number)
            event = record_event(commit.live.state, names[number], commit.seq(number), told)
            if event is not None:
                log_event(_LOGGER, event.level, event.name, event.fields)


def _payload(commit: Committed, number: int) -> JsonObject:
    return commit.record(number).payload


def _lines_of(names: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """Which of some records have a line, and at which level."""
    levels = [(number, level_of(name)) for number, name in enumerate(names)]
    return tuple([(number, level) for number, level in levels if level != logging.NOTSET])


_lines_of_kind = lru_cache(maxsize=_KINDS_OF_COMMITS_KEPT)(_lines_of)


def sound_workflows(sources: Sequence[SourceText], settings: Settings) -> list[Workflow]:
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


async def make_known(gate: Gate, workflows: Sequence[Workflow]) -> None:
    """Make workflows known; one that is refused does not keep the others out."""
    for workflow in workflows:
        try:
            await load_workflow_into(gate, workflow, owner=local_owner())
        except (Conflict, Denied, Rejected) as error:
            _quarantine(workflow.name, error.code, error.message)
            continue
        known: JsonObject = {"workflow": workflow.name, "version": workflow.version, "hash": workflow.hash}
        _LOGGER.info("workflow_known", extra={"fields": known})
