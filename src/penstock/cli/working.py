"""What `penstock worker`, `serve` and `dev` share: which workflows are made known, and how commits are logged.

Above it: those commands. Below it: `Penstock`, the settings.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.app.penstock import Penstock
from penstock.app.settings import LoggingSettings
from penstock.app.workflow_paths import expand_paths
from penstock.base.json import JsonObject
from penstock.base.later import later
from penstock.cli.files import Unreadable, read_sources
from penstock.cli.values import UsageError
from penstock.cli.worker_log import LineFormatter, record_event
from penstock.runtime.embedded_host import Committed

if TYPE_CHECKING:
    from penstock.cli import documents
else:
    documents = later("penstock.cli.documents")

__all__ = ["check_workflows", "configure_logging", "log_commit", "make_known", "workflow_files"]

_LOGGER = logging.getLogger("penstock.worker")


def workflow_files(patterns: Iterable[str]) -> list[str]:
    """The files of workflows that patterns and folders stand for."""
    found = []
    for source in read_sources(expand_paths(patterns)):
        if isinstance(source, Unreadable):
            raise UsageError(f"{source.label}: {source.message}")
        found.append(source.label)
    return found


def configure_logging(chosen: LoggingSettings) -> None:
    """Log to standard error as the settings say."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter(as_json=chosen.format == "json"))
    logger = logging.getLogger("penstock")
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(chosen.level.upper())


def log_commit(commit: Committed) -> None:
    """Log what was stored, if it is worth a line."""
    for record in commit.records:
        event = record_event(commit.live.state, record)
        if event is not None and _LOGGER.isEnabledFor(event.level):
            _LOGGER.log(event.level, event.name, extra={"fields": event.fields})


def check_workflows(files: Sequence[str]) -> None:
    """Show every mistake of every file with its place; one is enough to end the command."""
    for path in files:
        documents.load_runnable(path)


async def make_known(penstock: Penstock, files: Sequence[str]) -> None:
    """Make the workflows of files known."""
    for path in files:
        workflow = await penstock.register(Path(path))
        known: JsonObject = {"workflow": workflow.name, "version": workflow.version, "hash": workflow.hash}
        _LOGGER.info("workflow_known", extra={"fields": known})
