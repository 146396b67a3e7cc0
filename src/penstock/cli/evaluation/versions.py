"""What an evaluation is compared with: the report of another one, or another version of the workflow, run first.

Above it: `command`. Below it: `report`, the database of the project.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock.cli.evaluation.opening import EvaluationFiles
from penstock.cli.evaluation.report import Earlier, earlier_report
from penstock.cli.run.workflow_lookup import runnable_in_project
from penstock.cli.targets.settings import is_store
from penstock.cli.targets.workspace import Workspace, open_workspace
from penstock.cli.terminal.values import UsageError
from penstock.definitions.build.workflow import build_workflow
from penstock.definitions.model import Workflow

__all__ = ["other_version"]

_VERSIONS_LOOKED_AT = 100
_HASH_PREFIX_MIN = 6


async def other_version(
    named: str, target: Workflow, files: EvaluationFiles, workspace: Workspace, others: Sequence[str]
) -> Workflow | Earlier:
    """Return what a name means: a report in a file, an earlier evaluation, a workflow file, or a stored version.

    Raises `UsageError`.
    """
    found = _in_file(Path(named), target, workspace, others) or _kept(named, files)
    if found is None:
        found = await _stored_version(workspace, target.name, named)
    if found is None:
        message = f"--baseline {named}: there is no such file, evaluation (in {files.folder}) or stored version"
        raise UsageError(f"{message} of {target.name}")
    return found


def _in_file(path: Path, target: Workflow, workspace: Workspace, others: Sequence[str]) -> Workflow | Earlier | None:
    if not path.is_file():
        return None
    found = earlier_report(path)
    if found is not None:
        return found
    other, _ = runnable_in_project(str(path), others, workspace.settings, performs=True)
    if other.name != target.name:
        raise UsageError(f"--baseline has {other.name}, which is no other version of {target.name}")
    return other


def _kept(named: str, files: EvaluationFiles) -> Earlier | None:
    """The report of an earlier evaluation."""
    kept = files.report(named) if EvaluationFiles.is_id(named) else None
    return earlier_report(kept) if kept is not None and kept.is_file() else None


async def _stored_version(workspace: Workspace, name: str, version: str) -> Workflow | None:
    """A version that the database has, by its version or the beginning of its hash."""
    if not is_store(workspace.database):
        return None
    async with open_workspace(workspace) as penstock:
        page = await penstock.store.definition_versions(name, limit=_VERSIONS_LOOKED_AT)
        for row in page.rows:
            plain = row.hash.removeprefix("sha256:")
            if row.version == version or (len(version) >= _HASH_PREFIX_MIN and plain.startswith(version)):
                return build_workflow(row.document)
    return None
