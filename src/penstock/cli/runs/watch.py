"""`penstock runs watch`: follow a run to its end; its questions are asked right here.

Above it: `commands`. Below it: `following`, `watching`; on a server the stream of the run's events.
"""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.cli.configuration import ConfigOption, command_settings
from penstock.cli.displays import display_for
from penstock.cli.endings import finish
from penstock.cli.following import Follower
from penstock.cli.operations import call_and_show
from penstock.cli.run import finish_watching
from penstock.cli.run_lookup import find_run, say_nobody_works
from penstock.cli.runs.calls import JsonOption, ProfileOption, RunArgument, ServerOption, TargetFileOption
from penstock.cli.sessions import SecretsOption, StepsOption, Workshop, conduct, opened
from penstock.cli.surfaces import open_surface
from penstock.cli.targets import FileTarget, ServerTarget, choose_target
from penstock.cli.values import UsageError
from penstock.cli.watching import watch
from penstock.client.table import find_operation
from penstock.runtime.chains import latest_in_chain

__all__ = ["watch_command"]


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

    With --json one object is printed at the end, with the keys ok, run_id, workflow, version, hash, status, result,
    error, waiting_for, records, elapsed_ms, continued_as and should_continue.

    Exits with 0 when the run completed, 1 when it failed or was cancelled, 130 when it was left with Ctrl-C.
    """

    def elsewhere(target: ServerTarget) -> int:
        if perform:
            raise UsageError("--perform does the work of a file; a server performs its own runs")
        streamed = find_operation("execution.stream")
        with open_surface(target, streamed) as surface:
            return call_and_show(surface, streamed, {"execution_id": execution_id}, as_json=as_json)

    async def here() -> int:
        flags = {"storage.path": database, "steps.modules": steps or None}
        settings = command_settings(config, flags, as_json=as_json).settings
        workshop = Workshop.configured(settings, config=config, secret_folder=secret_folder)
        async with opened(workshop) as looking:
            row = await find_run(looking, execution_id)
            run_id = await latest_in_chain(looking.store, row.run_id) or row.run_id
        async with opened(workshop, perform=perform, family=run_id) as penstock:
            follower = await Follower.of(penstock, run_id)
            await follower.catch_up()
            if not as_json:
                await say_nobody_works(penstock, run_id, workshop)
            display = display_for(penstock.host.clock, silent=as_json)
            ending = await watch(follower, display, asks=ask and not as_json, stays=True)
            return await finish_watching(follower, workshop, ending, json_extra={} if as_json else None)

    match choose_target(server, profile, database):
        case ServerTarget() as target:
            finish(lambda: elsewhere(target), as_json=as_json)
        case FileTarget():
            conduct(here, as_json=as_json)
