"""`penstock worker`: performs the runs of a database until it is told to stop.

Ctrl-C or SIGTERM: nothing new is begun, activities under way may finish within the grace time, and what is left goes on
with the next worker. A second Ctrl-C ends the process on the spot.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Annotated

import typer

from penstock import __version__
from penstock.app.gateway import open_gate
from penstock.app.loops import server_loop
from penstock.app.serving.server import ServerOptions
from penstock.base.json import JsonObject, JsonValue
from penstock.cli.server.working import configure_logging, log_commit, make_known, sound_workflows, workflow_files
from penstock.cli.sessions.configuration import ChosenDatabaseOption, ConfigOption, command_settings
from penstock.cli.sessions.sessions import (
    SecretsOption,
    StepsOption,
    Workshop,
    conduct,
    opened,
    until_left,
)

__all__ = ["worker_command"]

_LOGGER = logging.getLogger("penstock.worker")
_GRACE_SECONDS = 10.0


def worker_command(  # noqa: PLR0913  # every option is one the user can give
    *,
    database: ChosenDatabaseOption = None,
    steps: StepsOption = None,
    workflows: Annotated[
        list[str] | None,
        typer.Option("--workflows", metavar="PATH", help="Workflow files or folders to make known; repeatable."),
    ] = None,
    secret_folder: SecretsOption = None,
    config: ConfigOption = None,
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
        flags = {
            "storage.path": database,
            "steps.modules": steps or None,
            "workflows.paths": workflows or None,
            "logging.format": "json" if as_json else None,
            "logging.level": "debug" if verbose else None,
        }
        settings = command_settings(config, flags, as_json=as_json).settings
        workshop = Workshop.configured(settings, config=config, secret_folder=secret_folder)
        configure_logging(settings.logging)
        await until_left(_perform(workshop, grace_seconds))
        return 0

    conduct(work, as_json=as_json, loop=server_loop())


def _announce(workshop: Workshop) -> None:
    if workshop.settings.logging.format == "json":
        steps: list[JsonValue] = list(workshop.steps)
        fields: JsonObject = {"version": __version__, "database": str(workshop.database), "steps": steps}
        _LOGGER.info("worker_started", extra={"fields": fields})
        return
    told = f"penstock worker {__version__} · {workshop.database} · steps from {', '.join(workshop.steps) or 'nowhere'}"
    typer.echo(f"{told} · Ctrl-C stops it", err=True)


async def _perform(workshop: Workshop, grace_seconds: float) -> None:
    """Perform until this is cancelled, which is how a signal to stop arrives; then stop with manners."""
    settings = workshop.settings
    workflows = sound_workflows(workflow_files(settings.workflows.paths), settings)
    _announce(workshop)
    options = ServerOptions.of(settings)
    async with opened(workshop, perform=True, create=True, observe=log_commit) as penstock:
        # What files and schedules change here passes a gate too; nobody else can reach this one.
        opening = open_gate(penstock, chosen=options.gate, pepper_file=options.pepper_file, retention=options.retention)
        try:
            async with opening as gate:
                await make_known(gate, workflows)
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            _LOGGER.info("worker_stopping", extra={"fields": {"grace_seconds": grace_seconds}})
            if penstock.driver is not None:
                left = await penstock.driver.drain(timeout_seconds=grace_seconds)
                _LOGGER.info("worker_stopped", extra={"fields": {"left_for_the_next_worker": left}})
