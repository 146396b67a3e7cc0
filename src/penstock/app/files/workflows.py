"""The workflow files of a server, as the gate and its watcher see them, and what health says of them.

A named source without a document stops the start. Later, the server is not ready until the source has a document again.
A single file with a mistake is quarantined: its previous version stays in use, and everything else is served.

Above it: `gate`. Below it: `watcher`. The command line reads the files: only it knows the project that they belong to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from penstock.app.files.watcher import FileReader, FileWatcher
from penstock.operations.gate.pipeline import Gate
from penstock.operations.system.health import WORKFLOW_FILES_CHECK, WORKFLOWS_CHECK
from penstock.operations.telemetry.metrics import Gauge

__all__ = ["ReadWorkflows", "quarantined_gauge", "workflow_checks"]

_SHOWN_MAX = 5


class ReadWorkflows(FileReader, Protocol):
    """Workflow files that were read before the store was opened."""

    @property
    def stamps(self) -> Mapping[str, str]:
        """The files as they were before they were read."""
        ...

    @property
    def quarantined(self) -> Mapping[str, str]:
        """The files whose newest content is not in use, each with its mistake."""
        ...

    async def register(self, gate: Gate) -> None:
        """Make the workflows known, and make later changes known through the same gate."""
        ...


def workflow_checks(watcher: FileWatcher, files: ReadWorkflows) -> dict[str, str]:
    """Return the checks of `system.health` about workflow files."""
    left_out = [f"{place}: {reason}" for place, reason in sorted(files.quarantined.items())]
    more = [f"and {len(left_out) - _SHOWN_MAX} more"] if len(left_out) > _SHOWN_MAX else []
    problem = watcher.problem(files.name)
    return {
        WORKFLOWS_CHECK: "; ".join([*left_out[:_SHOWN_MAX], *more]) or "ok",
        WORKFLOW_FILES_CHECK: "ok" if problem is None else f"older workflows are in use: {problem}",
    }


def quarantined_gauge(files: ReadWorkflows | None) -> Gauge:
    """Return the number of files with mistakes, to be measured."""
    return Gauge(
        name="penstock_workflow_files_quarantined",
        help="Workflow files with mistakes, whose newest content is not in use.",
        labels=(),
        read=lambda: {(): float(0 if files is None else len(files.quarantined))},
    )
