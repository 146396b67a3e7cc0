"""`penstock worker`: performs the runs of a database until it is told to stop.

Ctrl-C or SIGTERM: nothing new is begun, activities under way may finish within the grace time, and what is left goes on
with the next worker. A second Ctrl-C ends the process on the spot.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from penstock import __version__
from penstock.base.json import JsonObject, JsonValue
from penstock.cli.documents import load_runnable
from penstock.cli.files import Unreadable, read_sources
from penstock.cli.sessions import (
    DatabaseOption,
    SecretsOption,
    StepsOption,
    Workshop,
    conduct,
    opened,
    until_left,
)
from penstock.cli.values import UsageError
from penstock.cli.worker_log import LineFormatter, record_event
from penstock.runtime.embedded_host import Committed

__all__ = ["worker_command"]

_LOGGER = logging.getLogger("penstock.worker")
_GRACE_SECONDS = 10.0


def worker_command(  # noqa: PLR0913  # every option is one the user can give
    *,
    database: DatabaseOption = Path("penstock.db"),
    steps: StepsOption = None,
    workflows: Annotated[
        list[str] | None,
        typer.Option("--workflows", metavar="PATH", help="Workflow files or folders to make known; repeatable."),
    ] = None,
    secret_folder: SecretsOption = None,
    grace_seconds: Annotated[
        float, typer.Option("--grace", metavar="SECONDS", min=0, help="How long activities may go on after a stop.")
    ] = _GRACE_SECONDS,
    as_json: Annotated[bool, typer.Option("--json", help="Log JSON lines instead of text.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log every attempt and every answer too.")] = False,
) -> None:
    """Perform the runs of a database until Ctrl-C or SIGTERM.

    Log lines go to standard error, as text (time, level, event, key=value) or with --json as objects with the keys
    time, level, event and those of the event (run_id, workflow, node, attempt, status, code, error, ...).
    """

    async def work() -> int:
        workshop = Workshop.of(database, steps, secret_folder)
        sources = _files(workflows or [])
        _configure_logging(as_json=as_json, verbose=verbose)
        await until_left(_perform(workshop, sources, grace_seconds, as_json=as_json))
        return 0

    conduct(work, as_json=as_json)


def _files(paths: list[str]) -> list[str]:
    found = []
    for source in read_sources(paths):
        if isinstance(source, Unreadable):
            raise UsageError(f"{source.label}: {source.message}")
        found.append(source.label)
    return found


def _configure_logging(*, as_json: bool, verbose: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter(as_json=as_json))
    logger = logging.getLogger("penstock")
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)


def _announce(workshop: Workshop, *, as_json: bool) -> None:
    if as_json:
        steps: list[JsonValue] = list(workshop.steps)
        fields: JsonObject = {"version": __version__, "database": str(workshop.database), "steps": steps}
        _LOGGER.info("worker_started", extra={"fields": fields})
        return
    told = f"penstock worker {__version__} · {workshop.database} · steps from {', '.join(workshop.steps) or 'nowhere'}"
    typer.echo(f"{told} · Ctrl-C stops it", err=True)


def _log_commit(commit: Committed) -> None:
    """Log what was stored, if it is worth a line."""
    for record in commit.records:
        event = record_event(commit.live.state, record)
        if event is not None and _LOGGER.isEnabledFor(event.level):
            _LOGGER.log(event.level, event.name, extra={"fields": event.fields})


async def _perform(workshop: Workshop, sources: list[str], grace_seconds: float, *, as_json: bool) -> None:
    """Perform until this is cancelled, which is how a signal to stop arrives; then stop with manners."""
    for path in sources:
        load_runnable(path)  # shows every mistake with its place
    _announce(workshop, as_json=as_json)
    async with opened(workshop, perform=True, create=True, observe=_log_commit) as penstock:
        try:
            for path in sources:
                workflow = await penstock.register(Path(path))
                known: JsonObject = {"workflow": workflow.name, "version": workflow.version, "hash": workflow.hash}
                _LOGGER.info("workflow_known", extra={"fields": known})
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            _LOGGER.info("worker_stopping", extra={"fields": {"grace_seconds": grace_seconds}})
            if penstock.driver is not None:
                left = await penstock.driver.drain(timeout_seconds=grace_seconds)
                _LOGGER.info("worker_stopped", extra={"fields": {"left_for_the_next_worker": left}})
