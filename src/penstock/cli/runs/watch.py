"""`penstock runs watch`: follow a run to its end; its questions are asked right here.

Above it: `commands`. Below it: `following`, `watching`; on a server the stream of the run's events.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from penstock.app.gateway import open_gate
from penstock.cli.run.command import finish_watching
from penstock.cli.run.display import display_for
from penstock.cli.run.follower import Follower
from penstock.cli.run.source import RunSource, calls_of_client, calls_of_gate
from penstock.cli.run.watch_loop import WatchedTarget, watch
from penstock.cli.runs.client import JsonOption, ProfileOption, RunArgument, ServerOption, TargetFileOption
from penstock.cli.targets.clients import open_client
from penstock.cli.targets.local_client import warn_without_worker
from penstock.cli.targets.selection import FileTarget, ServerTarget, choose_target
from penstock.cli.targets.settings import ConfigOption, command_settings
from penstock.cli.targets.workspace import SecretsOption, StepsOption, Workspace, open_workspace
from penstock.cli.terminal.exits import exit_with
from penstock.cli.terminal.values import UsageError
from penstock.client.table import find_operation
from penstock.runtime.system import SystemClock

__all__ = ["watch_command"]

# How long a server is asked to wait for the next record before the child runs are looked at.
_LOOK_SECONDS: Final = 1.0


def watch_command(  # noqa: PLR0913  # every option is one the user can give
    execution_id: RunArgument,
    *,
    perform: Annotated[
        bool, typer.Option("--perform", help="Also do the work here, as `penstock run` and `penstock worker` do.")
    ] = False,
    ask: Annotated[bool, typer.Option("--ask/--no-ask", help="Ask the run's questions on the terminal.")] = True,
    steps: StepsOption = None,
    secret_folder: SecretsOption = None,
    config: ConfigOption = None,
    database: TargetFileOption = None,
    server: ServerOption = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Watch a run until it ends, whoever performs it; its questions are asked right here.

    With --json the run is printed at the end, as `penstock runs show --json` does. Where a run continues as a new one,
    the last of them is meant.

    Exits with 0 when the run completed, 1 when it failed or was cancelled, 130 when it was left with Ctrl-C.
    """

    wish = _Wish(execution_id, asks=ask and not as_json, as_json=as_json)

    async def elsewhere(target: ServerTarget) -> int:
        if perform:
            raise UsageError("--perform does the work of a file; a server performs its own runs")
        options = ("--profile", profile) if profile else ("--server", target.server)
        place = WatchedTarget(name=target.server, options=options, performing=options)
        with open_client(target, find_operation("execution.answer")) as surface:
            source = RunSource(call=calls_of_client(surface), look_seconds=_LOOK_SECONDS)
            return await wish.carried_out(source, place)

    async def here() -> int:
        flags = {"storage.path": database, "steps.modules": steps or None}
        settings = command_settings(config, flags, as_json=as_json).settings
        workspace = Workspace.configured(settings, config=config, secret_folder=secret_folder)
        run_id = await _run_of_file(workspace, execution_id)
        async with (
            open_workspace(workspace, perform=perform, family=run_id) as penstock,
            open_gate(penstock, pepper_file=workspace.pepper_file, looks_only=not wish.asks) as gate,
        ):
            if not as_json:
                await warn_without_worker(penstock, run_id, workspace)
            source = RunSource(call=calls_of_gate(gate), performs=perform)
            return await wish.carried_out(source, WatchedTarget.of(workspace))

    def work() -> int:
        match choose_target(server, profile, database):
            case ServerTarget() as target:
                return asyncio.run(elsewhere(target))
            case FileTarget():
                return asyncio.run(here())

    exit_with(work, as_json=as_json)


async def _run_of_file(workspace: Workspace, named: str) -> str:
    """The run of a file that is to be watched: only its work is done here."""
    async with (
        open_workspace(workspace) as looking,
        open_gate(looking, pepper_file=workspace.pepper_file, looks_only=True) as gate,
    ):
        return await RunSource(call=calls_of_gate(gate)).newest(named)


@dataclass(frozen=True, slots=True)
class _Wish:
    """What was asked for on the command line."""

    run: str
    asks: bool
    as_json: bool

    async def carried_out(self, source: RunSource, place: WatchedTarget) -> int:
        """Watch the run, or the one that goes on in its place."""
        follower = await Follower.of(source, await source.newest(self.run))
        await follower.catch_up()
        display = display_for(SystemClock(), silent=self.as_json)
        ending = await watch(follower, display, asks=self.asks, stays=True)
        return await finish_watching(follower, place, ending, json_extra={} if self.as_json else None)
