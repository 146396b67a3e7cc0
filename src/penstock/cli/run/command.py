"""`penstock run`: start a run of a workflow (or join one), perform it here, and watch it to its end.

Exit codes: 0 completed; 1 failed or cancelled; 2 a file, an option or an input cannot be used; 3 still waiting
(detached, or nobody at a terminal to ask); 130 left with Ctrl-C.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

from penstock.app.gate import local_owner, open_gate
from penstock.base.json import JsonObject, JsonValue
from penstock.cli.declaration import Argument, Option
from penstock.cli.run.display import display_for
from penstock.cli.run.follower import Follower
from penstock.cli.run.rendering import status_text
from penstock.cli.run.source import RunSource, calls_of_gate
from penstock.cli.run.view import Mark
from penstock.cli.run.watch_loop import Ending, WatchedTarget, print_ending, print_next_steps, watch
from penstock.cli.run.workflow_lookup import runnable_in_project
from penstock.cli.server.workflows import load_workflow_into
from penstock.cli.targets.settings import ChosenDatabaseOption, ConfigOption, command_settings
from penstock.cli.targets.workspace import SecretsOption, StepsOption, Workspace, live_workers, open_workspace
from penstock.cli.terminal.console import console_for
from penstock.cli.terminal.event_loop import exit_with_async, hold_signals
from penstock.cli.terminal.exits import JsonOption, command_text, print_json
from penstock.cli.terminal.styled_text import Text
from penstock.cli.terminal.values import UsageError, parse_fields, parse_labels, parse_value, read_fields
from penstock.definitions.model import Workflow
from penstock.operations.gate.pipeline import Gate
from penstock.runtime.system import new_run_id

__all__ = ["finish_watching", "run_command"]

_WAITING_EXIT = 3
_LEFT_EXIT = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunRequest:
    """The request on the command line."""

    file: str
    others: tuple[str, ...]
    given: str | None
    fields: dict[str, str]
    run_id: str
    labels: dict[str, str]
    watch: bool
    detach: bool
    as_json: bool


def run_command(  # noqa: PLR0913  # every option is one the user can give
    file: Annotated[
        str,
        Argument(
            metavar="FILE|NAME",
            help="The workflow: a file (YAML or JSON), - for standard input, or the name of one of the project.",
        ),
    ],
    fields: Annotated[
        list[str] | None,
        Argument(metavar="KEY=VALUE", help="Members of the input: text, or JSON where it reads so."),
    ] = None,
    *,
    given: Annotated[
        str | None, Option("--input", help="The whole input: JSON, or @FILE (YAML or JSON).", metavar="JSON")
    ] = None,
    database: ChosenDatabaseOption = None,
    run_id: Annotated[
        str | None, Option("--run-id", metavar="ID", help="The run's id; a run that exists already is joined.")
    ] = None,
    label: Annotated[
        list[str] | None, Option("--label", metavar="KEY=VALUE", help="A label to find the run by; repeatable.")
    ] = None,
    other: Annotated[
        list[str] | None,
        Option("--with", metavar="FILE", help="Another workflow that this one starts, found by its name."),
    ] = None,
    steps: StepsOption = None,
    secret_folder: SecretsOption = None,
    config: ConfigOption = None,
    show: Annotated[bool, Option("--watch/--no-watch", help="Show what happens, or only how it ended.")] = True,
    detach: Annotated[
        bool, Option("--detach", help="Only start it; a `penstock server worker` does the work.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a workflow, watch it, and answer its questions.

    Everything is kept in one file: after Ctrl-C or a crash you resume the run with `penstock runs watch
    --perform`, `penstock server worker`, or the same command and --run-id.

    With --json the run is printed at the end, as `penstock runs show --json` does, with `joined`. Where a run continues
    as a new one, the last of them is meant.

    Exits with 0 when the run completed, 1 when it failed or was cancelled, and 2 when a file, an option or the input
    cannot be used. Exits with 3 when the run still waits (detached, or nobody at a terminal to ask), and with 130 after
    Ctrl-C.
    """

    async def work() -> int:
        request = _RunRequest(
            file=file,
            others=tuple(other or ()),
            given=given,
            fields=parse_fields(fields, "--input"),
            run_id=run_id or new_run_id(),
            labels=parse_labels(label),
            watch=show,
            detach=detach,
            as_json=as_json,
        )
        flags = {"storage.path": database, "steps.modules": steps or None}
        settings = command_settings(config, flags, as_json=as_json).settings
        return await _run(request, Workspace.configured(settings, config=config, secret_folder=secret_folder))

    exit_with_async(work, as_json=as_json)


async def _run(request: _RunRequest, workspace: Workspace) -> int:
    workflow, others = runnable_in_project(
        request.file, request.others, workspace.settings, performs=not request.detach
    )
    value = _read_input(request, workflow)
    async with (
        open_workspace(workspace, perform=not request.detach, create=True, family=request.run_id) as penstock,
        open_gate(
            penstock,
            policy_files=workspace.settings.policy.files,
            graphs=workspace.settings.declared_graphs,
        ) as gate,
    ):
        for other in others:
            await load_workflow_into(gate, other, owner=local_owner())
        if not request.detach:
            hold_signals()
        run_id, joined = await _start(gate, workflow, value, request)
        follower = await Follower.of(RunSource(call=calls_of_gate(gate), performs=not request.detach), run_id)
        await follower.catch_up()
        if request.detach:
            idle = not follower.view.ended and not await live_workers(penstock)
            return await _detached(follower, workspace, joined=joined, idle=idle, as_json=request.as_json)
        if joined and not request.as_json:
            text = f"run {run_id} exists already and is {status_text(follower.view, follower.children)}; joining it"
            console_for(sys.stdout).print(Text(text, style="dim"))
        display = display_for(penstock.host.clock, silent=request.as_json or not request.watch)
        ending = await watch(follower, display, asks=not request.as_json, stays=False)
        extra: JsonObject | None = {"joined": joined} if request.as_json else None
        target = WatchedTarget.of(workspace)
        return await finish_watching(follower, target, ending, json_extra=extra, watched=request.watch)


def _read_input(request: _RunRequest, workflow: Workflow) -> JsonValue:
    whole: JsonValue = {} if request.given is None else parse_value(request.given, "--input")
    if not request.fields:
        return whole
    if not isinstance(whole, dict):
        raise UsageError("--input takes a JSON object where KEY=VALUE adds members to it")
    return {**whole, **read_fields(request.fields, workflow.input_schema_json or {})}


async def _start(gate: Gate, workflow: Workflow, value: JsonValue, request: _RunRequest) -> tuple[str, bool]:
    """The id of the run, and whether it was there before."""
    known = await gate.services.store.row(request.run_id)
    if known is not None:
        if known.workflow_name != workflow.name:
            raise UsageError(f"run {known.run_id} is a run of {known.workflow_name}, not of {workflow.name}")
        return known.run_id, True
    await load_workflow_into(gate, workflow, owner=local_owner())
    labels: JsonObject = dict(request.labels)
    arguments: JsonObject = {"workflow_id": workflow.name, "hash": workflow.hash, "input": value, "labels": labels}
    started = await calls_of_gate(gate)("workflow.execute", {**arguments, "execution_id": request.run_id})
    return started["execution_id"], False


async def _detached(follower: Follower, workspace: Workspace, *, joined: bool, idle: bool, as_json: bool) -> int:
    view = follower.view
    if as_json:
        print_json({**await follower.source.view(view.run_id), "joined": joined})
    else:
        console = console_for(sys.stdout)
        console.print(f"run {view.run_id} is {'there already' if joined else 'started'}: {status_text(view)}")
        watch_it = command_text("runs", "watch", view.run_id, "--db", str(workspace.database))
        console.print(f"  watch it    {watch_it}")
        if idle:
            console.print(f"  no worker is running; start  {command_text('server', 'worker', *workspace.arguments())}")
    return _exit_code(follower, Ending.ENDED if view.ended else Ending.WAITING)


async def finish_watching(
    follower: Follower, target: WatchedTarget, ending: Ending, *, json_extra: JsonObject | None, watched: bool = True
) -> int:
    """Print how the run ended or how to continue; return the exit code. With `json_extra`, print the run as JSON."""
    if json_extra is not None:
        print_json({**await follower.source.view(follower.view.run_id), **json_extra})
    elif ending is Ending.ENDED:
        print_ending(follower, target, watched=watched)
    else:
        print_next_steps(follower, target, ending)
    return _exit_code(follower, ending)


def _exit_code(follower: Follower, ending: Ending) -> int:
    match ending:
        case Ending.ENDED:
            return 0 if follower.view.mark is Mark.DONE else 1
        case Ending.WAITING:
            return _WAITING_EXIT
        case Ending.LEFT:
            return _LEFT_EXIT
