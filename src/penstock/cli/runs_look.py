"""`penstock runs list|show|history|watch|query`: look at runs without changing them.

Exit codes: 0 when there was something to show, 2 when there is no such run or database; `watch` ends like `run`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from penstock.app.penstock import Penstock
from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.cli.configuration import ChosenDatabaseOption, ConfigOption, command_settings
from penstock.cli.displays import display_for
from penstock.cli.following import Follower
from penstock.cli.report import console_for
from penstock.cli.run import finish_watching
from penstock.cli.run_json import activities_json, row_json, run_json
from penstock.cli.run_lookup import RunArgument, find_run, say_nobody_works
from penstock.cli.run_report import print_row_table, print_run
from penstock.cli.runs_remote import ProfileOption, ServerOption, call_there
from penstock.cli.sessions import (
    DatabaseOption,
    JsonOption,
    SecretsOption,
    StepsOption,
    Workshop,
    conduct,
    live_workers,
    opened,
    print_json,
)
from penstock.cli.traces import trace_text
from penstock.cli.values import UsageError, parse_since
from penstock.cli.watching import watch
from penstock.definitions.durations import format_instant
from penstock.engine.records import Record, row_of
from penstock.runtime.chains import latest_in_chain
from penstock.runtime.ports import RunQuery, RunRow
from penstock.runtime.system import SystemClock
from penstock.runtime.tracing import shorten, trace_lines

__all__ = ["history_command", "list_command", "query_command", "show_command", "watch_command"]

_CHILDREN_SHOWN = 20


def list_command(  # noqa: PLR0913  # every option is one the user can give
    *,
    status: Annotated[
        list[str] | None, typer.Option("--status", metavar="STATUS", help="Only runs of this status; repeatable.")
    ] = None,
    workflow: Annotated[
        str | None, typer.Option("--workflow", metavar="NAME", help="Only runs of this workflow.")
    ] = None,
    label: Annotated[
        str | None, typer.Option("--label", metavar="KEY=VALUE", help="Only runs with this label.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only runs started since: 2h, 7d, or a timestamp.")
    ] = None,
    parent: Annotated[str | None, typer.Option("--parent", metavar="RUN", help="Only child runs of this run.")] = None,
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="Only runs with these words in id, workflow or labels.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000, help="How many to show.")] = 20,
    cursor: Annotated[
        str | None, typer.Option("--cursor", metavar="CURSOR", help="Where to go on, as the last list said.")
    ] = None,
    database: DatabaseOption = Path("penstock.db"),
    server: ServerOption = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """List runs, newest first.

    With --json: runs (each with run_id, workflow, version, hash, status, created_at, updated_at, records, parent,
    labels) and next_cursor.
    """

    def asked() -> JsonObject:
        after = None if since is None else format_instant(parse_since(since, SystemClock().now_ms()))
        told: JsonObject = {"status": list(status) if status else None, "workflow_id": workflow, "label": label}
        return {**told, "created_after": after, "parent_id": parent, "text": text, "limit": limit, "cursor": cursor}

    if call_there(server, profile, "execution.list", asked, as_json=as_json):
        return

    async def work() -> int:
        key, separator, value = (label or "").partition("=")
        if label is not None and not separator:
            raise UsageError(f"--label takes KEY=VALUE, not {label!r}")
        async with opened(Workshop.of(database)) as penstock:
            now = penstock.host.clock.now_ms()
            query = RunQuery(
                statuses=tuple(status or ()),
                workflow_name=workflow,
                parent_run_id=parent,
                label=(key, value) if label is not None else None,
                created_after=None if since is None else parse_since(since, now),
                text=text,
                limit=limit,
                cursor=cursor,
            )
            page = await penstock.runs(query)
            if as_json:
                print_json({"runs": [row_json(row) for row in page.rows], "next_cursor": page.next_cursor})
                return 0
            print_row_table(page.rows, now)
            if page.next_cursor is not None:
                console_for(sys.stdout).print(Text(f"more: --cursor {page.next_cursor}", style="dim"))
            return 0

    conduct(work, as_json=as_json)


def show_command(
    run: RunArgument,
    *,
    database: DatabaseOption = Path("penstock.db"),
    server: ServerOption = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a run: its status, what it waits for, pending activities, children, error and result.

    With --json: ok, run_id, workflow, version, hash, status, result, error, waiting_for, records, elapsed_ms,
    continued_as, should_continue, input, state, last_of_chain, labels, parent, children, activities, started_at,
    updated_at, deadline, mode and performed_by.
    """
    if call_there(server, profile, "execution.status", lambda: {"execution_id": run}, as_json=as_json):
        return

    async def work() -> int:
        async with opened(Workshop.of(database)) as penstock:
            row = await find_run(penstock, run)
            told = await _described(penstock, row)
            if as_json:
                print_json(told)
            else:
                print_run(told, penstock.host.clock.now_ms(), database)
            return 0

    conduct(work, as_json=as_json)


async def _described(penstock: Penstock, row: RunRow) -> JsonObject:
    follower = await Follower.of(penstock, row.run_id)
    await follower.catch_up()
    state = await penstock.run(row.run_id).state()
    children = await penstock.runs(RunQuery(parent_run_id=row.run_id, limit=_CHILDREN_SHOWN))
    known = row_json(row)
    performers: list[JsonValue] = list(await live_workers(penstock))
    return {
        **run_json(follower.view, state),
        "input": state.input,
        "state": state.values,
        "last_of_chain": await latest_in_chain(penstock.store, row.run_id),
        "labels": known["labels"],
        "parent": row.parent_run_id,
        "children": [row_json(child) for child in children.rows],
        "activities": [] if state.terminal else activities_json(follower.view.workflow, state),
        "started_at": known["created_at"],
        "updated_at": known["updated_at"],
        "deadline": None if state.deadline is None else format_instant(state.deadline),
        "mode": state.mode,
        "performed_by": performers,
    }


def history_command(  # noqa: PLR0913  # every option is one the user can give
    run: RunArgument,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run ends.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Every record with its payload, not only what a person wants to know.")
    ] = False,
    after: Annotated[int, typer.Option("--after", metavar="SEQ", min=0, help="Only records after this one.")] = 0,
    database: DatabaseOption = Path("penstock.db"),
    server: ServerOption = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the history of a run.

    With --json: one row per line in the published form, with executionId, seq, kind, name, payload, createdAt and
    recordSchemaVersion.
    """
    operation = "execution.stream" if follow else "execution.history"
    if call_there(server, profile, operation, lambda: {"execution_id": run, "after": after}, as_json=as_json):
        return

    async def work() -> int:
        async with opened(Workshop.of(database)) as penstock:
            row = await find_run(penstock, run)
            workflow = await penstock.host.workflow(row.definition_hash)
            console = console_for(sys.stdout)
            width = max((len(node) for node in workflow.nodes), default=0) if workflow is not None else 0
            async for record in _records(penstock, row.run_id, after, follow=follow):
                if as_json:
                    typer.echo(json.dumps(row_of(row.run_id, record), ensure_ascii=False))
                elif every or workflow is None:
                    _print_record(console, record, row.created_at)
                else:
                    for line in trace_lines([(row.run_id, record)], {row.run_id: workflow}):
                        text = trace_text(line, row.created_at, width, depth_from=line.depth)
                        console.print(Text.assemble((f"{record.seq:>5}", "dim"), text))
        return 0

    conduct(work, as_json=as_json)


async def _records(penstock: Penstock, run_id: str, after: int, *, follow: bool) -> AsyncIterator[Record]:
    handle = penstock.run(run_id)
    if follow:
        async for record in handle.stream(after_seq=after):
            yield record
        return
    seen = after
    while True:
        page = await penstock.host.history(run_id, after_seq=seen, limit=limits.HISTORY_PAGE_MAX)
        for record in page:
            yield record
        if len(page) < limits.HISTORY_PAGE_MAX:
            return
        seen = page[-1].seq


def _print_record(console: Console, record: Record, began_at: int) -> None:
    payload = {name: value for name, value in record.payload.items() if name != "executionId"}
    text = Text.assemble(
        (f"{record.seq:>5}  ", "dim"),
        (f"+{max(record.at - began_at, 0) / 1000:<9.3f} ", "dim"),
        ("! " if record.kind == "command" else "  ", "dim"),
        (f"{record.name:<24} ", "bold"),
        shorten(payload),
    )
    console.print(text)


def watch_command(  # noqa: PLR0913  # every option is one the user can give
    run: RunArgument,
    *,
    perform: Annotated[
        bool, typer.Option("--perform", help="Also do the work here, as `penstock run` and `penstock worker` do.")
    ] = False,
    ask: Annotated[bool, typer.Option("--ask/--no-ask", help="Ask the run's questions on the terminal.")] = True,
    steps: StepsOption = None,
    secret_folder: SecretsOption = None,
    config: ConfigOption = None,
    database: ChosenDatabaseOption = None,
    server: ServerOption = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Watch a run until it ends, whoever performs it; its questions are asked right here.

    With --json one object is printed at the end, with the keys ok, run_id, workflow, version, hash, status, result,
    error, waiting_for, records, elapsed_ms, continued_as and should_continue.

    Exits with 0 when the run completed, 1 when it failed or was cancelled, 130 when it was left with Ctrl-C.
    """
    if call_there(server, profile, "execution.stream", lambda: {"execution_id": run}, as_json=as_json):
        return

    async def work() -> int:
        flags = {"storage.path": database, "steps.modules": steps or None}
        settings = command_settings(config, flags, as_json=as_json).settings
        workshop = Workshop.configured(settings, config=config, secret_folder=secret_folder)
        async with opened(workshop) as looking:
            row = await find_run(looking, run)
            run_id = await latest_in_chain(looking.store, row.run_id) or row.run_id
        async with opened(workshop, perform=perform, family=run_id) as penstock:
            follower = await Follower.of(penstock, run_id)
            await follower.catch_up()
            if not as_json:
                await say_nobody_works(penstock, run_id, workshop)
            display = display_for(penstock.host.clock, silent=as_json)
            ending = await watch(follower, display, asks=ask and not as_json, stays=True)
            return await finish_watching(follower, workshop, ending, json_extra={} if as_json else None)

    conduct(work, as_json=as_json)


def query_command(
    run: RunArgument,
    expression: Annotated[str, typer.Argument(metavar="JQ", help="A jq expression, for example '.order.total'.")],
    *,
    database: DatabaseOption = Path("penstock.db"),
    server: ServerOption = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Evaluate jq where a run stands: input, state and what its nodes gave.

    With --json: run_id and value.
    """
    asked: JsonObject = {"execution_id": run, "expression": expression}
    if call_there(server, profile, "execution.query", lambda: asked, as_json=as_json):
        return

    async def work() -> int:
        async with opened(Workshop.of(database)) as penstock:
            row = await find_run(penstock, run)
            value = await penstock.run(row.run_id).query(expression)
            print_json({"run_id": row.run_id, "value": value} if as_json else value)
            return 0

    conduct(work, as_json=as_json)
