"""What an evaluation is compared with: the report of another one, or another version of the workflow, run first.

Above it: `places`, `server`. Below it: `report`, the database of the project.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock.app.drivers import has_database
from penstock.cli.evaluation.opening import EvaluationFiles
from penstock.cli.evaluation.report import Earlier, earlier_report
from penstock.cli.run.workflow_lookup import runnable_in_project
from penstock.cli.targets.workspace import Workspace, open_workspace
from penstock.cli.terminal.values import UsageError
from penstock.definitions.build.workflow import build_workflow
from penstock.definitions.model import Workflow

__all__ = ["is_file", "is_version", "other_version", "report_named"]

_VERSIONS_LOOKED_AT = 100
_HASH_PREFIX_MIN = 6


async def other_version(
    named: str, target: str, files: EvaluationFiles, workspace: Workspace, others: Sequence[str]
) -> Workflow | Earlier:
    """Return what a name means: a report in a file, an earlier evaluation, a workflow file, or a stored version.

    Raises `UsageError`.
    """
    found: Workflow | Earlier | None = report_named(named, files)
    if found is None and is_file(named):
        found, _ = runnable_in_project(named, others, workspace.settings, performs=True)
        if found.name != target:
            raise UsageError(f"--baseline has {found.name}, which is no other version of {target}")
    if found is None:
        found = await _stored_version(workspace, target, named)
    if found is None:
        message = f"--baseline {named}: there is no such file, evaluation (in {files.folder}) or stored version"
        raise UsageError(f"{message} of {target}")
    return found


def is_file(named: str) -> bool:
    """Whether a name is that of a file."""
    return Path(named).is_file()


def report_named(named: str, files: EvaluationFiles) -> Earlier | None:
    """Return the report in a file, or of an earlier evaluation; None if the name means something else."""
    if is_file(named):
        return earlier_report(Path(named))
    kept = files.report(named) if EvaluationFiles.is_id(named) else None
    return earlier_report(kept) if kept is not None and kept.is_file() else None


def is_version(version: str, version_hash: str, wanted: str) -> bool:
    """Whether a version is the one that is wanted, by its number or the beginning of its hash."""
    plain = version_hash.removeprefix("sha256:")
    return version == wanted or (len(wanted) >= _HASH_PREFIX_MIN and plain.startswith(wanted))


async def _stored_version(workspace: Workspace, name: str, version: str) -> Workflow | None:
    """A version that the database has, by its version or the beginning of its hash."""
    if not has_database(workspace.database):
        return None
    async with open_workspace(workspace) as penstock:
        page = await penstock.store.definitions.list_versions(name, limit=_VERSIONS_LOOKED_AT)
        for row in page.rows:
            if is_version(row.version, row.hash, version):
                return build_workflow(row.document)
    return None
