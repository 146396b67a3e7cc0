"""What `penstock dev` does when files change: it takes up workflows, steps and settings while the server runs.

A changed workflow becomes a new version at once; runs that have begun keep theirs. A mistake is shown with its place,
and the version before it stays. Steps are imported again, together with what they import from the project; attempts in
progress finish in the code that they began with. Settings that only count at the start are named.

Above it: `command`. Below it: `FileWatcher` finds changes, the gate and `Penstock` apply them, `DevOutput` reports.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.app.files.watcher import FileWatcher
from penstock.app.gate import local_owner
from penstock.app.penstock import Penstock
from penstock.app.settings.model import Settings
from penstock.app.settings.sources import InvalidSettings
from penstock.app.settings.view import settings_rows
from penstock.base.errors import Conflict, Denied, PenstockError, Rejected
from penstock.cli.dev.output import DevOutput
from penstock.cli.project.schema_files import schemas_beside
from penstock.cli.project.step_modules import StepModules
from penstock.cli.server.workflows import load_workflow_into
from penstock.cli.targets.settings import print_settings_findings
from penstock.cli.terminal.files import SourceText, candidate_files, expand_paths, is_workflow, read_path
from penstock.cli.terminal.hints import command_hint
from penstock.definitions.model import ActivityDetail, Workflow
from penstock.definitions.validate import load_workflow
from penstock.operations.gate.pipeline import Gate
from penstock.runtime.ports.runs import RunQuery
from penstock.runtime.steps.registry import StepRegistry

__all__ = ["Reloader"]

# Short enough to feel immediate, long enough to cost nothing.
_LOOK_SECONDS = 0.3
_UNDER_WAY_MAX = 100
# Settings that are applied while the server runs; the others count at the next start.
_LIVE_SETTINGS = frozenset({"workflows.paths", "steps.modules", "logging.level"})


@dataclass(slots=True, kw_only=True)
class Reloader:
    """Takes up changed files; it remembers the last content of each."""

    settings: Settings
    settings_file: Path
    load: Callable[[], Settings]
    """Reads the settings as the command did; raises when they are invalid."""
    lines: DevOutput
    modules: StepModules
    steps: list[Callable[..., Any]] = field(default_factory=list)
    workflows: dict[str, Workflow] = field(default_factory=dict)
    """By file."""
    _complaints: set[str] = field(default_factory=set)

    def load_steps(self) -> list[Callable[..., Any]]:
        """Load the steps before the server starts; a mistake in them ends the command."""
        self.steps = self.modules.load()
        return self.steps

    async def begin(self, gate: Gate) -> None:
        """Register the workflows; those with mistakes are shown and left out."""
        for file in self._files():
            await self._take_up(gate, file, at_start=True)
        self._check_handlers()

    @asynccontextmanager
    async def watching(self, penstock: Penstock, gate: Gate) -> AsyncIterator[None]:
        """Take up changes until the block ends."""
        watcher = FileWatcher(look_seconds=_LOOK_SECONDS)
        await watcher.add(_ProjectFiles(self, penstock, gate))
        async with watcher.watching():
            yield

    def _files(self) -> list[str]:
        try:
            return candidate_files(expand_paths(self.settings.workflows.paths))
        except PenstockError:
            return []  # a pattern that matches nothing yet

    def watched(self) -> Iterable[Path]:
        """Return the files of the project as they are now."""
        yield from map(Path, self._files())
        yield from self.modules.files()
        yield self.settings_file

    async def take_up(self, penstock: Penstock, gate: Gate, changed: Sequence[Path]) -> None:
        """Apply changed files."""
        paths = set(changed)
        if self.settings_file in paths:
            await self._new_settings(penstock)
        if paths.intersection(self.modules.files()):
            self._new_steps(penstock)
        there = set(self._files())
        for file in map(str, changed):
            if file in there:
                await self._take_up(gate, file)
            elif file in self.workflows:
                gone = self.workflows.pop(file)
                self.lines.note(f"{file} is gone; {gone.name} stays known until you delete it", warn=True)
        self._check_handlers()

    async def _take_up(self, gate: Gate, file: str, *, at_start: bool = False) -> None:
        source = read_path(file)
        named = file in self.settings.workflows.paths
        if not isinstance(source, SourceText):
            self.lines.note(f"{file}: {source.message}", warn=True)
            return
        if not (named or file in self.workflows or is_workflow(source.text)):
            return
        loaded = load_workflow(source.text, file=file, find_schema=schemas_beside(file))
        known, workflow = self.workflows.get(file), loaded.workflow
        if workflow is None:
            self.lines.mistaken(file, source.text, loaded.findings, known is not None)
            return
        if known is not None and known.hash == workflow.hash:
            return
        try:
            await load_workflow_into(gate, workflow, owner=local_owner())
        except (Conflict, Denied, Rejected) as error:
            self.lines.note(f"{file}: {error.message}: {command_hint(error)}", warn=True)
            return
        self.workflows[file] = workflow
        if not at_start:
            self.lines.taken_up(workflow, file, await _under_way(gate, workflow))

    def _new_steps(self, penstock: Penstock) -> None:
        try:
            self.steps = self.modules.load()
        except PenstockError as error:
            self.lines.problem(error, "the steps before it stay")
            return
        penstock.use_steps(self.steps)
        self.lines.note(f"steps from {', '.join(self.modules.names)}")

    def _check_handlers(self) -> None:
        """Report functions that workflows call and no step module has, each once."""
        registry = StepRegistry()
        for function in self.steps:
            registry.register(function)
        missing = {
            f"{workflow.name} calls {handler} ({node.id}), which no step module has"
            for workflow in self.workflows.values()
            for node in workflow.nodes.values()
            if isinstance(node.detail, ActivityDetail)
            and isinstance(handler := node.detail.config.get("handler"), str)
            and registry.resolve(handler) is None
        }
        for complaint in sorted(missing.difference(self._complaints)):
            self.lines.note(complaint, warn=True)
        self._complaints = missing

    async def _new_settings(self, penstock: Penstock) -> None:
        try:
            fresh = self.load()
        except InvalidSettings as error:
            print_settings_findings(error)
            self.lines.note("the settings before it stay", warn=True)
            return
        before, after = (
            {setting.path: value for setting, value in settings_rows(settings)} for settings in (self.settings, fresh)
        )
        differing = [path for path in after if before[path] != after[path]]
        later = [path for path in differing if path not in _LIVE_SETTINGS]
        if later:
            self.lines.note(
                f"restart to apply what changed in {self.settings_file.name}: {', '.join(later)}", warn=True
            )
        if not _LIVE_SETTINGS.intersection(differing):
            return
        self.settings = fresh
        logging.getLogger("penstock").setLevel(fresh.logging.level.upper())
        if "steps.modules" in differing:
            await self._other_modules(penstock, fresh)
        self.lines.note(f"applied: {', '.join(path for path in differing if path in _LIVE_SETTINGS)}")

    async def _other_modules(self, penstock: Penstock, fresh: Settings) -> None:
        before = self.modules
        self.modules = StepModules(fresh.steps.modules)
        try:
            self.steps = self.modules.load()
        except PenstockError as error:
            self.modules = before
            self.lines.problem(error, "the steps before it stay")
            return
        penstock.use_steps(self.steps)


class _ProjectFiles:
    """The files of a project, for the watcher."""

    name = "project"

    def __init__(self, reloader: Reloader, penstock: Penstock, gate: Gate) -> None:
        self._reloader = reloader
        self._penstock = penstock
        self._gate = gate

    def list_paths(self) -> Iterable[Path]:
        return self._reloader.watched()

    async def take_up(self, changed: Sequence[Path]) -> None:
        try:
            await self._reloader.take_up(self._penstock, self._gate, changed)
        except PenstockError as error:
            self._reloader.lines.problem(error, "nothing was changed")


async def _under_way(gate: Gate, workflow: Workflow) -> int:
    """Count the runs of other versions of a workflow that have not ended."""
    page = await gate.services.store.list_runs(RunQuery(workflow_name=workflow.name, limit=_UNDER_WAY_MAX))
    return sum(not row.terminal and row.definition_hash != workflow.hash for row in page.rows)
