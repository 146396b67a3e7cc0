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
from penstock.app.penstock import Penstock
from penstock.base.json import JsonValue
from penstock.cli.documents import load_runnable
from penstock.cli.files import Unreadable, read_sources
from penstock.cli.report import count_words
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
        sources = list(_files(workflows or []))
        _configure_logging(as_json=as_json, verbose=verbose)
        async with opened(workshop, perform=True, create=True) as penstock:
            for path in sources:
                load_runnable(path)  # shows every mistake with its place
                await penstock.register(Path(path))
            _log_commits(penstock)
            known = len(await penstock.store.definitions())
            _announce(penstock, workshop, known, as_json=as_json)
            await until_left(_forever())
            await _stop(penstock, grace_seconds)
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


def _announce(penstock: Penstock, workshop: Workshop, known: int, *, as_json: bool) -> None:
    fields: dict[str, JsonValue] = {
        "version": __version__,
        "database": str(workshop.database),
        "workflows": known,
        "worker": penstock.host.worker_id,
    }
    if as_json:
        _LOGGER.info("worker_started", extra={"fields": fields})
        return
    told = f"penstock worker {__version__} · {workshop.database} · {count_words(known, 'workflow')}"
    typer.echo(f"{told} · steps from {', '.join(workshop.steps) or 'nowhere'} · Ctrl-C stops it", err=True)


def _log_commits(penstock: Penstock) -> None:
    """Log what is stored, beside what the driver does with it."""
    react = penstock.host.on_commit

    def committed(commit: Committed) -> None:
        react(commit)
        for record in commit.records:
            event = record_event(commit.live.state, record)
            if event is not None and _LOGGER.isEnabledFor(event.level):
                _LOGGER.log(event.level, event.name, extra={"fields": event.fields})

    penstock.host.on_commit = committed


async def _forever() -> None:
    await asyncio.Event().wait()


async def _stop(penstock: Penstock, grace_seconds: float) -> None:
    _LOGGER.info("worker_stopping", extra={"fields": {"grace_seconds": grace_seconds}})
    if penstock.driver is not None:
        left = await penstock.driver.drain(timeout_seconds=grace_seconds)
        _LOGGER.info("worker_stopped", extra={"fields": {"left_for_the_next_worker": left}})
