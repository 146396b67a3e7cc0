"""The file of an evaluation, opened: its runs are performed here, and nothing else is.

It is beside the database, in a folder of its own: `penstock.db` has `penstock.evals/ID.db`. So an evaluation neither
reads nor changes what a server keeps: runs, memory, graphs, quotas, the audit trail. It has the models, tools, steps
and policies of the settings, and the workflows of the project. Schedules and triggers of these start nothing.

Above it: `command`. Below it: `app`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.app.drivers import make_storage
from penstock.app.executors.configured import open_executors
from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.app.signatures import signature_trust
from penstock.cli.evaluation.scripted import ScriptedCases
from penstock.cli.project.step_modules import load_steps
from penstock.cli.server.workflows import load_workflow_into
from penstock.cli.targets.workspace import Workspace
from penstock.cli.terminal.values import UsageError
from penstock.definitions.model import Workflow
from penstock.operations.gate.pipeline import Gate

__all__ = ["EvaluationFiles", "open_evaluation"]

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class EvaluationFiles:
    """Where the evaluations of a project are."""

    folder: Path

    @classmethod
    def beside(cls, database: Path) -> EvaluationFiles:
        """The folder beside a database."""
        return cls(database.with_suffix(".evals"))

    def database(self, evaluation: str) -> Path:
        """The file with the runs of an evaluation."""
        return self.folder / f"{evaluation}.db"

    def report(self, evaluation: str) -> Path:
        """The file with its report."""
        return self.folder / f"{evaluation}.json"

    @staticmethod
    def is_id(text: str) -> bool:
        """Whether a text can be the id of an evaluation."""
        return _ID.fullmatch(text) is not None

    @staticmethod
    def checked(evaluation: str) -> str:
        """Return an id, if it can be one. Raises `UsageError`."""
        if not EvaluationFiles.is_id(evaluation):
            raise UsageError(f"--id {evaluation!r}: an id has up to 64 letters, digits, _ and -")
        return evaluation


@asynccontextmanager
async def open_evaluation(
    workspace: Workspace, database: Path, workflows: Iterable[Workflow], scripts: ScriptedCases
) -> AsyncIterator[Gate]:
    """Open the file of an evaluation, and perform its runs until the block ends."""
    settings, folder = workspace.settings, workspace.secret_folder
    if folder is not None and not folder.is_dir():
        raise UsageError(f"--secret-file: {folder} is not a folder")
    try:
        database.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{database.parent}: {error.strerror or type(error).__name__}") from None
    async with (
        open_executors(settings, secret_folder=folder) as equipment,
        Penstock.open(
            storage=make_storage(database, synchronous=settings.storage.synchronous),
            steps=load_steps(workspace.steps),
            executors=equipment.executors,
            secrets=equipment.secrets,
            upstream=equipment.upstream,
            models=equipment.models,
            governed=True,
            signatures=signature_trust(settings.workflows.signatures),
            stand_in=scripts.around,
        ) as penstock,
    ):
        penstock.keeps_schedules = False
        async with open_gate(penstock, policy_files=settings.policy.files, graphs=settings.declared_graphs) as gate:
            for workflow in workflows:
                await load_workflow_into(gate, workflow, owner=local_owner())
            yield gate
