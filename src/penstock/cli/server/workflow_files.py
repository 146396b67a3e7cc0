"""The workflow files that `penstock serve`, `worker` and `mcp` keep in use: at the start, and when they change.

Every name in `workflows.paths` (a file, a folder or a pattern) has to give at least one document: a file that is
missing, unreadable, empty or has only comments stops the start. While the process runs, everything stays as it was and
the server is not ready. Beside other documents, a file that cannot be read or has a mistake is quarantined.

Above it: those commands, `penstock server doctor`. Below it: `workflows`, `project.files`, the file system.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.app.files.watcher import stamp_files
from penstock.app.settings.model import Settings
from penstock.base.errors import Rejected, Unavailable
from penstock.base.json import JsonObject
from penstock.base.lazy_import import lazy_import
from penstock.cli.server.workflows import log_quarantined, register_workflows
from penstock.cli.terminal.files import (
    STANDARD_INPUT,
    SourceText,
    Unreadable,
    candidate_files,
    expand_pattern,
    read_path,
    says_nothing,
    search_folder,
)
from penstock.definitions.model import Workflow
from penstock.definitions.source.findings import Finding
from penstock.operations.gate.pipeline import Gate
from penstock.operations.system.health import WORKFLOWS_CHECK

if TYPE_CHECKING:
    from penstock.cli.project import files as project_files
    from penstock.cli.project import schema_files
else:
    project_files = lazy_import("penstock.cli.project.files")
    schema_files = lazy_import("penstock.cli.project.schema_files")

__all__ = ["NamedWorkflows", "WorkflowFiles", "project_workflows", "read_named_workflows", "workflow_files"]

_LOGGER = logging.getLogger("penstock.worker")
_INVALID = "WORKFLOW_FILES_INVALID"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedWorkflows:
    """What the names of the settings stand for."""

    sources: tuple[SourceText, ...]
    unreadable: tuple[Unreadable, ...]
    """Files beside those that can be read."""
    missing: tuple[Unreadable, ...]
    """Names that give no document at all."""


def read_named_workflows(named: Iterable[str]) -> NamedWorkflows:
    """Read the files that names stand for. Only standard input is read as it comes; everything else must be a file."""
    sources: dict[str, SourceText] = {}
    unreadable: dict[str, Unreadable] = {}
    missing: list[Unreadable] = []
    for name in named:
        found = [_without_silence(source) for source in _read_name(name)]
        texts = [source for source in found if isinstance(source, SourceText)]
        others = [source for source in found if isinstance(source, Unreadable)]
        if not texts:
            missing.append(others[0] if others else Unreadable(name, "matches no file", "WORKFLOWS_NOT_FOUND"))
            continue
        sources.update({source.label: source for source in texts})
        unreadable.update({source.label: source for source in others})
    return NamedWorkflows(
        sources=tuple(sources.values()), unreadable=tuple(unreadable.values()), missing=tuple(missing)
    )


def _read_name(name: str) -> Iterator[SourceText | Unreadable]:
    if name == STANDARD_INPUT:
        yield read_path(name)
        return
    for path in expand_pattern(name):
        if Path(path).is_dir():
            yield from search_folder(path, also_empty=True)
        else:
            yield read_path(path, only_files=True)


def _without_silence(source: SourceText | Unreadable) -> SourceText | Unreadable:
    """Return a file that says nothing as one that cannot be read."""
    if isinstance(source, Unreadable):
        return source
    return Unreadable(source.label, "is empty, or has only comments") if says_nothing(source.text) else source


def _require_documents(named: NamedWorkflows) -> None:
    """Raise `Rejected` for names that give no document."""
    if named.missing:
        first, more = named.missing[0], len(named.missing) - 1
        message = f"{first.label}: {first.message}" + (f" (and {more} more)" if more else "")
        code = first.code if first.code == "WORKFLOWS_NOT_FOUND" else _INVALID
        raise Rejected(code, message, "bring the file back, or correct `workflows.paths` or --workflows")


class WorkflowFiles:
    """The workflow files of one process: read before the store is opened, then watched."""

    name = WORKFLOWS_CHECK

    def __init__(self, settings: Settings) -> None:
        self.stamps: Mapping[str, str] = {}
        self._settings = settings
        self._gate: Gate | None = None
        self._found: dict[str, Workflow] = {}
        """By file: the newest version that was registered, or that registering refused."""
        self._mistakes: dict[str, str] = {}
        self._refused: dict[str, str] = {}
        """By file: why its newest version could not be registered."""

    @property
    def workflows(self) -> list[Workflow]:
        """The workflows that can be used."""
        return list(self._found.values())

    @property
    def quarantined(self) -> Mapping[str, str]:
        """The files that are not in use as they are, each with its mistake."""
        return {**self._mistakes, **self._refused}

    def read(self) -> WorkflowFiles:
        """Read the files at the start; raise `Rejected` if a name gives no document."""
        self.stamps = stamp_files(self)
        named = read_named_workflows(self._settings.workflows.paths)
        _require_documents(named)
        self._found = self._examine(named, at_start=True)
        return self

    def list_paths(self) -> Iterator[Path]:
        """Return the files as they are now, and the schemas that they may refer to."""
        for name in self._watched_names():
            files = [Path(file) for file in candidate_files(expand_pattern(name) or [name])]
            yield from files
            for folder in dict.fromkeys(file.parent for file in files):
                yield from schema_files.list_schemas(folder)

    async def register(self, gate: Gate) -> None:
        """Make the workflows known, and later changes through the same gate."""
        self._gate = gate
        self._refused = await register_workflows(gate, self._found)

    async def take_up(self, changed: Sequence[Path]) -> None:
        """Make changed workflows known; raise `Rejected` if a name gives no document any more."""
        if self._gate is None:
            raise Unavailable("STORE_UNAVAILABLE", "the store is not open yet", "wait for the start to end")
        named = await asyncio.to_thread(read_named_workflows, self._watched_names())
        _require_documents(named)
        before = self._found
        found = await asyncio.to_thread(self._examine, named, at_start=False)
        gone = await asyncio.to_thread(_list_missing, [file for file in before if Path(file) in changed])
        fresh = {file: flow for file, flow in found.items() if file not in before or before[file].hash != flow.hash}
        for file in gone:
            _LOGGER.warning("%s is gone; the workflow %s stays known until you delete it", file, before[file].name)
        kept = {file: reason for file, reason in self._refused.items() if file not in fresh and file not in gone}
        self._refused = {**kept, **await register_workflows(self._gate, fresh)}
        self._found = {file: flow for file, flow in {**before, **found}.items() if file not in gone}

    def _watched_names(self) -> list[str]:
        return [name for name in self._settings.workflows.paths if name != STANDARD_INPUT]

    def _examine(self, named: NamedWorkflows, *, at_start: bool) -> dict[str, Workflow]:
        """Return the documents that can be used, by file. Those with mistakes are quarantined, and named in the log."""
        mistakes = {item.label: f"{item.code} {item.message}" for item in named.unreadable}
        texts = [(source.label, source.text) for source in named.sources]
        loaded, _ = project_files.load_project(texts, self._settings)
        found: dict[str, Workflow] = {}
        for item in loaded:
            worst = item.worst
            lacking = [finding for finding in item.findings if finding.code in project_files.PROJECT_CODES]
            known = self._found.get(item.file)
            if item.workflow is not None and (known is None or known.hash != item.workflow.hash):
                if lacking and not at_start:
                    # The steps and settings of this process are those of its start: another version may need others.
                    mistakes[item.file] = f"{lacking[0].code} {lacking[0].message}; restart to use this version"
                    continue
                _log_incomplete(item.file, lacking)
            if item.workflow is not None:
                found[item.file] = item.workflow
            elif worst is not None:
                mistakes[worst.location or item.file] = f"{worst.code} {worst.message}"
        read = {*(source.label for source in named.sources), *(item.label for item in named.unreadable)}
        for file in self._found.keys() - read:
            if Path(file).exists():
                mistakes[file] = "SYNTAX_ERROR it no longer looks like a workflow"
        for place, reason in mistakes.items():
            if self._mistakes.get(place) != reason:
                log_quarantined(place, *reason.split(" ", 1))
        self._mistakes = mistakes
        return found


def _list_missing(files: Iterable[str]) -> list[str]:
    return [file for file in files if not Path(file).exists()]


def _log_incomplete(file: str, lacking: Sequence[Finding]) -> None:
    for finding in lacking:
        fields: JsonObject = {"file": finding.location or file, "code": finding.code}
        fields.update({"message": finding.message, "what_to_do": finding.hint})
        _LOGGER.warning("workflow_incomplete", extra={"fields": fields})


def workflow_files(settings: Settings) -> WorkflowFiles | None:
    """Read the workflow files that the settings name; None if they name none."""
    return WorkflowFiles(settings).read() if settings.workflows.paths else None


def project_workflows(settings: Settings) -> list[Workflow]:
    """Return the workflows of a project that can be used; those with mistakes are named in the log."""
    return WorkflowFiles(settings).read().workflows
