"""Where the cases of an evaluation run: in a file of its own, or on a server.

A place finds the version that is meant, and opens the runs of an evaluation there. `EvaluationRuns` names them and
starts them; what is done with them is the same at both places, and so is the report.

Above it: `command`, `running`. Below it: `opening` for a file; `server` has the other place.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from penstock.base import limits
from penstock.base.errors import NotFound
from penstock.base.json import JsonObject
from penstock.cli.evaluation.dataset import Case
from penstock.cli.evaluation.judging import judge_node, verdict_run_id
from penstock.cli.evaluation.opening import EvaluationFiles, open_evaluation
from penstock.cli.evaluation.report import Earlier
from penstock.cli.evaluation.scripted import ScriptedCases, unscripted
from penstock.cli.evaluation.versions import other_version
from penstock.cli.run.source import AsyncCall, calls_of_gate
from penstock.cli.run.workflow_lookup import runnable_in_project
from penstock.cli.targets.workspace import Workspace
from penstock.definitions.model import Workflow

__all__ = ["EvaluationRuns", "FilePlace", "Place", "Version"]

_ID_CHARACTERS_MAX: Final = 128
_HASH_CHARACTERS: Final = 32
_ETAG_LABEL: Final = "agent-etag"


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A version of a workflow or an agent. In a file, `workflow` is the version itself.

    An agent that is an entry of a server's registry has no versions: its `hash` is the etag, which is made of its
    contents.
    """

    name: str
    version: str
    hash: str
    workflow: Workflow | None = None
    is_entry: bool = False

    @classmethod
    def of(cls, workflow: Workflow) -> Version:
        """The version that a document is."""
        return cls(name=workflow.name, version=workflow.version, hash=workflow.hash, workflow=workflow)

    def to_json(self) -> JsonObject:
        """For programs."""
        told: JsonObject = {"name": self.name, "version": self.version, "hash": self.hash}
        return {**told, "source": "registry"} if self.is_entry else told


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRuns:
    """The runs of one evaluation: their names, and how they are started."""

    call: AsyncCall
    target: Version
    judges: Mapping[str, Workflow]
    """By rubric."""
    prefix: str = ""
    """What the ids of runs begin with, where others have runs, too."""
    labels: Mapping[str, str] = field(default_factory=dict)
    judges_are_tasks: bool = False
    """Whether a verdict is a run of a single node; otherwise the judge is a workflow that is stored there."""

    def run_id(self, case: Case) -> str:
        """Return the id of the run of a case, the same each time."""
        return self._named(case.run_id)

    def _named(self, name: str) -> str:
        whole = f"{self.prefix}{name}"
        if len(whole) <= _ID_CHARACTERS_MAX:
            return whole
        return f"{self.prefix}h-{hashlib.sha256(name.encode()).hexdigest()[:_HASH_CHARACTERS]}"

    def case(self, case: Case) -> tuple[str, JsonObject]:
        """Return the call that starts the run of a case."""
        if self.target.is_entry:
            given = case.input if isinstance(case.input, dict) else {}
            named: JsonObject = {"agent_id": self.target.name, "etag": self.target.hash}
            labels: JsonObject = {**self.labels, "case": case.case_id, _ETAG_LABEL: self.target.hash}
            return "agent.execute", {**given, **named, "execution_id": self.run_id(case), "labels": labels}
        started: JsonObject = {
            "workflow_id": self.target.name,
            "hash": self.target.hash,
            "input": case.input,
            "execution_id": self.run_id(case),
        }
        if self.labels:
            started["labels"] = {**self.labels, "case": case.case_id}
        return "workflow.execute", started

    def is_of_target(self, view: Any) -> bool:
        """Whether a run is one of the version that is evaluated."""
        if self.target.is_entry:
            return bool(view["labels"].get(_ETAG_LABEL) == self.target.hash)
        return bool(view["definition_hash"] == self.target.hash)

    def verdict(self, rubric: str, case: Case, given: JsonObject) -> tuple[str, JsonObject]:
        """Return the call that starts the run of a judge."""
        judge = self.judges[rubric]
        run_id = self._named(verdict_run_id(judge, self.run_id(case), given))
        if self.judges_are_tasks:
            asked: JsonObject = {"task": judge_node(judge), "input": given, "execution_id": run_id}
            # Not the label of cases: those are found by it.
            asked["labels"] = {
                **{f"{name}-verdict": value for name, value in self.labels.items()},
                "case": case.case_id,
            }
            return "task.execute", asked
        started: JsonObject = {"workflow_id": judge.name, "hash": judge.hash, "input": given, "execution_id": run_id}
        return "workflow.execute", started

    async def known(self, cases: Sequence[Case]) -> dict[str, Any]:
        """Return the existing runs of cases, by their ids."""
        wanted = [self.run_id(case) for case in cases]
        if self.labels:
            label = next(f"{name}={value}" for name, value in self.labels.items())
            listed = {item["execution_id"]: item for item in await self.listed({"label": label})}
            return {run_id: listed[run_id] for run_id in wanted if run_id in listed}
        found: dict[str, Any] = {}
        for run_id in wanted:
            try:
                found[run_id] = await self.call("execution.status", {"execution_id": run_id})
            except NotFound:
                continue
        return found

    async def listed(self, chosen: JsonObject) -> list[Any]:
        """Return every run that a filter finds."""
        found: list[Any] = []
        arguments: JsonObject = {**chosen, "limit": limits.PAGE_LIMIT_MAX}
        while True:
            page = await self.call("execution.list", arguments)
            found += page["items"]
            if page["next_cursor"] is None:
                return found
            arguments["cursor"] = page["next_cursor"]


class Place(Protocol):
    """Where cases run."""

    @property
    def title(self) -> str:
        """What the first line says of it."""

    async def target(self, named: str) -> Version:
        """Find what is to be evaluated. Raises `UsageError`."""

    async def baseline(self, named: str, target: Version, files: EvaluationFiles) -> Version | Earlier:
        """Find what to compare with: another version, or a report. Raises `UsageError`."""

    def mistake(self, target: Version, case: Case) -> str | None:
        """Say why a case cannot be run here."""

    def opened(
        self, evaluation: str, target: Version, cases: Sequence[Case], judges: Mapping[str, Workflow]
    ) -> AbstractAsyncContextManager[EvaluationRuns]:
        """Open the runs of an evaluation."""


@dataclass(slots=True, kw_only=True)
class FilePlace:
    """A file of the evaluation's own, whose runs are performed by this process."""

    workspace: Workspace
    files: EvaluationFiles
    with_files: tuple[str, ...]
    scripted: bool
    title: str = ""
    _others: list[Workflow] = field(default_factory=list)

    async def target(self, named: str) -> Version:
        """Find what is to be evaluated."""
        found, self._others = runnable_in_project(named, self.with_files, self.workspace.settings, performs=True)
        return Version.of(found)

    async def baseline(self, named: str, target: Version, files: EvaluationFiles) -> Version | Earlier:
        """Find what to compare with."""
        found = await other_version(named, target.name, files, self.workspace, self.with_files)
        return Version.of(found) if isinstance(found, Workflow) else found

    def mistake(self, target: Version, case: Case) -> str | None:
        """Say why the script of a case cannot be followed."""
        return unscripted(_document(target), case, strict=self.scripted)

    @asynccontextmanager
    async def opened(
        self, evaluation: str, target: Version, cases: Sequence[Case], judges: Mapping[str, Workflow]
    ) -> AsyncIterator[EvaluationRuns]:
        """Open the file of an evaluation, and perform its runs until the block ends."""
        workflow = _document(target)
        scripts = ScriptedCases.of(workflow, cases, strict=self.scripted)
        stored = [*self._others, *judges.values(), workflow]
        async with open_evaluation(self.workspace, self.files.database(evaluation), stored, scripts) as gate:
            yield EvaluationRuns(call=calls_of_gate(gate), target=target, judges=judges)


def _document(target: Version) -> Workflow:
    if target.workflow is None:
        raise TypeError(f"{target.name} has no document here")
    return target.workflow
