"""`penstock server worker`: performs the runs of a database until it is stopped.

After Ctrl-C or SIGTERM nothing new is started, activities in progress may finish within the grace time, and the next
worker continues with the rest. A second Ctrl-C ends the process at once.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import Annotated

from penstock import __version__
from penstock.app.event_loop import loop_name, server_loop
from penstock.app.files.trusted import list_trusted_files
from penstock.app.gate import open_gate
from penstock.app.serving.server import ServerOptions
from penstock.base.json import JsonObject, JsonValue
from penstock.cli.declaration import Option, echo
from penstock.cli.server.logs import configure_logging, log_commit
from penstock.cli.server.options import WorkflowsOption
from penstock.cli.server.workflow_files import workflow_files
from penstock.cli.targets.settings import ChosenDatabaseOption, ConfigOption, command_settings
from penstock.cli.targets.workspace import SecretsOption, StepsOption, Workspace, open_workspace
from penstock.cli.terminal.event_loop import exit_with_async, until_interrupted
from penstock.operations.gate.context import ServerParts

__all__ = ["worker_command"]

_LOGGER = logging.getLogger("penstock.worker")
_GRACE_SECONDS = 10.0


def worker_command(  # noqa: PLR0913  # every option is one the user can give
    *,
    database: ChosenDatabaseOption = None,
    steps: StepsOption = None,
    workflows: WorkflowsOption = None,
    secret_folder: SecretsOption = None,
    config: ConfigOption = None,
    grace_seconds: Annotated[
        float, Option("--grace", metavar="SECONDS", min=0, help="How long activities may go on after a stop.")
    ] = _GRACE_SECONDS,
    as_json: Annotated[bool, Option("--json", help="Log JSON lines instead of text.")] = False,
    verbose: Annotated[bool, Option(("--verbose", "-v"), help="Log every attempt and every answer too.")] = False,
) -> None:
    """Perform the runs of a database until Ctrl-C or SIGTERM.

    Log lines go to standard error, as text (time, level, event, key=value). With --json, each is an object with the
    keys time, level, event and those of the event (run_id, workflow, node, attempt, status, code, error, ...).
    """

    async def work() -> int:
        flags = {
            "storage.path": database,
            "steps.modules": steps or None,
            "workflows.paths": workflows or None,
            "logging.format": "json" if as_json else None,
            "logging.level": "debug" if verbose else None,
        }
        loaded = command_settings(config, flags, as_json=as_json)
        settings, trusted = loaded.settings, tuple(list_trusted_files(loaded.settings, loaded.file, secret_folder))
        workspace = Workspace.configured(settings, config=config, secret_folder=secret_folder)
        configure_logging(settings.logging)
        await until_interrupted(_perform(workspace, grace_seconds, trusted))
        return 0

    exit_with_async(work, as_json=as_json, loop=server_loop())


def _announce(workspace: Workspace) -> None:
    sys.dont_write_bytecode = True  # as a server does when it is ready: see `process`
    if workspace.settings.logging.format == "json":
        steps: list[JsonValue] = list(workspace.steps)
        fields: JsonObject = {"version": __version__, "database": str(workspace.database), "steps": steps}
        fields["event_loop"] = loop_name()
        _LOGGER.info("worker_started", extra={"fields": fields})
        return
    named = ", ".join(workspace.steps) or "nowhere"
    text = f"penstock server worker {__version__} · {workspace.database} · {loop_name()} · steps from {named}"
    echo(f"{text} · Ctrl-C stops it", err=True)


async def _perform(workspace: Workspace, grace_seconds: float, trusted: tuple[Path, ...]) -> None:
    """Perform runs until this is cancelled, which a signal does; then drain."""
    settings = workspace.settings
    files = workflow_files(settings)
    _announce(workspace)
    options = ServerOptions.of(settings)
    async with open_workspace(workspace, perform=True, create=True, observe=log_commit) as penstock:
        # Changes by files and schedules pass a gate here too; no surface is attached to it.
        opening = open_gate(
            penstock,
            chosen=options.gate,
            retention=options.retention,
            policy_files=options.policy_files,
            graphs=options.graphs,
            holds=options.holds,
            workflow_files=files,
            server=ServerParts(trusted_files=trusted),
        )
        try:
            async with opening:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            _LOGGER.info("worker_stopping", extra={"fields": {"grace_seconds": grace_seconds}})
            if penstock.driver is not None:
                left = await penstock.driver.drain(timeout_seconds=grace_seconds)
                _LOGGER.info("worker_stopped", extra={"fields": {"left_for_the_next_worker": left}})
