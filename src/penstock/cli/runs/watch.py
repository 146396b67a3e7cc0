"""`penstock runs watch`: follow a run to its end; its questions are asked right here.

Above it: `tree.commands`, by name. Below it: `run.follower` and `run.watch_loop`, which work on a file and on a server.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Final

from penstock.app.gate import open_gate
from penstock.cli.declaration import Option
from penstock.cli.run.command import finish_watching
from penstock.cli.run.display import display_for
from penstock.cli.run.follower import Follower
from penstock.cli.run.source import RunSource, calls_of_client, calls_of_gate
from penstock.cli.run.watch_loop import WatchedTarget, watch
from penstock.cli.runs.client import RunArgument, RunOptions
from penstock.cli.targets.clients import open_client
from penstock.cli.targets.local_client import warn_without_worker
from penstock.cli.targets.selection import FileTarget, ServerTarget, choose_target
from penstock.cli.targets.settings import ConfigOption, command_settings
from penstock.cli.targets.workspace import SecretsOption, StepsOption, Workspace, open_workspace
from penstock.cli.terminal.exits import exit_with
from penstock.cli.terminal.values import UsageError
from penstock.client.operations import find_operation
from penstock.runtime.system import SystemClock

__all__ = ["watch_command"]

# How long a server waits for the next record before the child runs are checked.
_LOOK_SECONDS: Final = 1.0


def watch_command(  # noqa: PLR0913  # every option is one the user can give
    execution_id: RunArgument,
    *,
    perform: Annotated[
        bool,
        Option("--perform", help="Also do the work here, as `penstock run` and `penstock server worker` do."),
    ] = False,
    ask: Annotated[bool, Option("--ask/--no-ask", help="Ask the run's questions on the terminal.")] = True,
    steps: StepsOption = None,
    secret_folder: SecretsOption = None,
    config: ConfigOption = None,
    options: RunOptions,
) -> None:
    """Watch a run until it ends, and answer its questions.

    With --json the run is printed at the end, as `penstock runs show --json` does. Where a run continues as a new one,
    the last of them is meant.

    Exits with 0 when the run completed, 1 when it failed or was cancelled, 130 when it was left with Ctrl-C.
    """

    request = _WatchRequest(run=execution_id, asks=ask and not options.as_json, as_json=options.as_json)

    async def on_server(target: ServerTarget) -> int:
        if perform:
            raise UsageError("--perform does the work of a file; a server performs its own runs")
        named = ("--profile", options.profile) if options.profile else ("--server", target.server)
        watched = WatchedTarget(name=target.server, options=named, performing=named)
        with open_client(target, find_operation("execution.answer")) as client:
            source = RunSource(call=calls_of_client(client), look_seconds=_LOOK_SECONDS)
            return await request.watch(source, watched)

    async def on_file() -> int:
        flags = {"storage.path": options.database, "steps.modules": steps or None}
        settings = command_settings(config, flags, as_json=options.as_json).settings
        workspace = Workspace.configured(settings, config=config, secret_folder=secret_folder)
        run_id = await _newest_in_file(workspace, execution_id)
        async with (
            open_workspace(workspace, perform=perform, family=run_id) as penstock,
            open_gate(
                penstock,
                looks_only=not request.asks,
                policy_files=workspace.settings.policy.files,
                stored_graphs=workspace.settings.declared_graphs,
            ) as gate,
        ):
            if not options.as_json:
                await warn_without_worker(penstock, run_id, workspace)
            source = RunSource(call=calls_of_gate(gate), performs=perform)
            return await request.watch(source, WatchedTarget.of(workspace))

    def work() -> int:
        match choose_target(options.server, options.profile, options.database):
            case ServerTarget() as target:
                return asyncio.run(on_server(target))
            case FileTarget():
                return asyncio.run(on_file())

    exit_with(work, as_json=options.as_json)


async def _newest_in_file(workspace: Workspace, named: str) -> str:
    """The run of a file that is to be watched. It must be known before its work, and only its work, is performed."""
    async with (
        open_workspace(workspace) as penstock,
        open_gate(penstock, looks_only=True, policy_files=workspace.settings.policy.files) as gate,
    ):
        return await RunSource(call=calls_of_gate(gate)).newest(named)


@dataclass(frozen=True, slots=True, kw_only=True)
class _WatchRequest:
    """The request on the command line."""

    run: str
    asks: bool
    as_json: bool

    async def watch(self, source: RunSource, watched: WatchedTarget) -> int:
        """Watch the run, or the one that continues it."""
        follower = await Follower.of(source, await source.newest(self.run))
        await follower.catch_up()
        display = display_for(SystemClock(), silent=self.as_json)
        ending = await watch(follower, display, asks=self.asks, stays=True)
        return await finish_watching(follower, watched, ending, json_extra={} if self.as_json else None)
