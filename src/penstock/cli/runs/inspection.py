"""`penstock runs list|show|history|query`: look at runs without changing them, on a file or on a server.

Exit codes: 0 when there was something to show; refusals have the codes of the operations.

Above it: `tree.commands`, by name. Below it: `client`, `reports`, `terminal.traces`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, Final, TypeAlias

from penstock.base.errors import Denied, NotFound
from penstock.base.ids import chain_of, generation_of
from penstock.base.json import JsonObject
from penstock.cli.declaration import Argument, Option, echo
from penstock.cli.run.source import record_of
from penstock.cli.runs.client import (
    RunArgument,
    RunClient,
    RunOptions,
    exit_with_runs,
    find_run,
    present,
)
from penstock.cli.runs.reports import RunContext, print_row_table, print_run
from penstock.cli.terminal.console import Console, console_for
from penstock.cli.terminal.exits import print_json
from penstock.cli.terminal.styled_text import Text
from penstock.cli.terminal.traces import trace_text
from penstock.cli.terminal.values import parse_since
from penstock.definitions.build.workflow import build_workflow
from penstock.definitions.durations import format_instant, parse_instant_ms
from penstock.definitions.model import Workflow
from penstock.engine.records import Record
from penstock.engine.visits import RunVisits
from penstock.runtime.chains import CHAIN_LABEL
from penstock.runtime.simulation.tracing import shorten, trace_lines

__all__ = ["history_command", "list_command", "query_command", "show_command"]

_CHILDREN_SHOWN: Final = 20
_CHAIN_LOOKED_AT: Final = 20
_PAGE: Final = 500
_LOOK_SECONDS: Final = 20.0


class _Order(StrEnum):
    """What a list of runs begins with."""

    CREATED = "created"
    UPDATED = "updated"


_StartedBy: TypeAlias = Annotated[
    str | None,
    Option("--started-by", metavar="PRINCIPAL", help="Only runs that this principal started, and children."),
]
_CreatedAfter: TypeAlias = Annotated[
    str | None,
    Option(("--since", "--created-after"), metavar="TIME", help="Only runs started since: 2h, 7d, or a timestamp."),
]
_CreatedBefore: TypeAlias = Annotated[
    str | None,
    Option(("--before", "--created-before"), metavar="TIME", help="Only runs started before: 2h, 7d, or a timestamp."),
]
_UpdatedAfter: TypeAlias = Annotated[
    str | None,
    Option(
        ("--updated-since", "--updated-after"),
        metavar="TIME",
        help="Only runs that moved since: 2h, 7d, or a timestamp.",
    ),
]
_Ordered: TypeAlias = Annotated[_Order, Option("--order", help="What comes first: the newest, or what moved last.")]
_Counted: TypeAlias = Annotated[bool, Option("--count", help="Say how many there are on all pages, up to 10,000.")]


def list_command(  # noqa: PLR0913  # every option is one the user can give
    *,
    status: Annotated[
        list[str] | None, Option("--status", metavar="STATUS", help="Only runs of this status; repeatable.")
    ] = None,
    workflow_id: Annotated[
        str | None, Option(("--workflow", "--workflow-id"), metavar="NAME", help="Only runs of this workflow.")
    ] = None,
    started_by: _StartedBy = None,
    label: Annotated[str | None, Option("--label", metavar="KEY=VALUE", help="Only runs with this label.")] = None,
    created_after: _CreatedAfter = None,
    created_before: _CreatedBefore = None,
    updated_after: _UpdatedAfter = None,
    parent_id: Annotated[
        str | None, Option(("--parent", "--parent-id"), metavar="RUN", help="Only child runs of this run.")
    ] = None,
    text: Annotated[
        str | None, Option("--text", metavar="TEXT", help="Only runs with these words in id, workflow or labels.")
    ] = None,
    order: _Ordered = _Order.CREATED,
    count: _Counted = False,
    limit: Annotated[int, Option("--limit", metavar="N", help="How many to show.")] = 20,
    cursor: Annotated[
        str | None, Option("--cursor", metavar="CURSOR", help="Where to continue, as the last list said.")
    ] = None,
    every: Annotated[bool, Option("--all", help="Every page, not only one.")] = False,
    options: RunOptions,
) -> None:
    """List runs, newest first.

    With --json: items (each with execution_id, workflow_id, workflow_version, definition_hash, status, sequence,
    created_at, updated_at, parent_id, labels, started_by, started_by_name), next_cursor and, with --count, total, as
    `execution.list` answers.
    """

    def work(client: RunClient) -> int:
        now = time.time_ns() // 1_000_000
        arguments = present(
            {
                "status": list(status) if status else None,
                "workflow_id": workflow_id,
                "started_by": started_by,
                "label": label,
                "created_after": _moment(created_after, now),
                "created_before": _moment(created_before, now),
                "updated_after": _moment(updated_after, now),
                "order": None if order is _Order.CREATED else str(order),
                "count": count or None,
                "parent_id": parent_id,
                "text": text,
                "limit": limit,
                "cursor": cursor,
            }
        )
        pages = list(client.pages("execution.list", arguments)) if every else [client.call("execution.list", arguments)]
        found = {**pages[-1], "items": [item for page in pages for item in page["items"]]}
        if options.as_json:
            print_json(found)
            return 0
        print_row_table(found["items"], now)
        if found.get("total") is not None:
            console_for(sys.stdout).print(Text(f"{found['total']:,} in all", style="dim"))
        if found["next_cursor"] is not None:
            console_for(sys.stdout).print(Text(f"more: --cursor {found['next_cursor']}", style="dim"))
        return 0

    exit_with_runs(options, "execution.list", work)


def _moment(given: str | None, now: int) -> str | None:
    return None if given is None else format_instant(parse_since(given, now))


def show_command(
    execution_id: RunArgument,
    *,
    options: RunOptions,
) -> None:
    """Show a run: its status, what it waits for, its children, error and result.

    With --json: the run with everything that is known about it but its history, as `execution.status` answers.
    """

    def work(client: RunClient) -> int:
        view = find_run(client, execution_id)
        if options.as_json:
            print_json(view)
            return 0
        run_id = view["execution_id"]
        children = client.call("execution.list", {"parent_id": run_id, "limit": _CHILDREN_SHOWN})["items"]
        now = time.time_ns() // 1_000_000
        around = RunContext(
            now=now,
            where=options.target_arguments(),
            children=children,
            latest=_latest(client, view),
            decisions=client.call("execution.timeline", {"execution_id": run_id})["decisions"],
        )
        print_run(view, around)
        return 0

    exit_with_runs(options, "execution.status", work)


def _latest(client: RunClient, view: Any) -> str | None:
    """The newest run of the chain that a run was continued by."""
    if view["continued_as"] is None:
        return None
    chain = chain_of(view["execution_id"])
    page = client.call("execution.list", {"label": f"{CHAIN_LABEL}={chain}", "limit": _CHAIN_LOOKED_AT})
    names = [item["execution_id"] for item in page["items"] if chain_of(item["execution_id"]) == chain]
    return max(names, key=generation_of, default=None)


def history_command(  # noqa: PLR0913  # every option is one the user can give
    execution_id: RunArgument,
    *,
    follow: Annotated[bool, Option(("--follow", "-f"), help="Follow the run until it ends.")] = False,
    every: Annotated[
        bool, Option("--all", help="Every record with its payload, not only what a person wants to know.")
    ] = False,
    after: Annotated[int, Option("--after", metavar="SEQ", min=0, help="Only records after this one.")] = 0,
    limit: Annotated[
        int | None, Option("--limit", metavar="N", help="How many records; all of them, if left out.")
    ] = None,
    cursor: Annotated[
        str | None, Option("--cursor", metavar="CURSOR", help="Where to continue, as the last page said.")
    ] = None,
    options: RunOptions,
) -> None:
    """Show the history of a run.

    With --json: items (each with seq, kind, name, at and payload) and next_cursor, as `execution.history` answers; with
    --follow one record per line.
    """

    def work(client: RunClient) -> int:
        arguments = present({"execution_id": execution_id, "after": after, "limit": limit or _PAGE, "cursor": cursor})
        if follow:
            records = _followed(client, execution_id, after)
        else:
            pages = (
                list(client.pages("execution.history", arguments))
                if limit is None
                else [client.call("execution.history", arguments)]
            )
            found = [item for page in pages for item in page["items"]]
            if options.as_json:
                print_json({**pages[-1], "items": found})
                return 0
            records = iter(found)
        _print_records(client, execution_id, records, every=every, as_json=options.as_json)
        return 0

    exit_with_runs(options, "execution.history", work)


def _followed(client: RunClient, run: str, after: int) -> Iterator[JsonObject]:
    """The records of a run as they are stored, until it has ended."""
    run_id = find_run(client, run)["execution_id"]
    while True:
        arguments: JsonObject = {"execution_id": run_id, "after": after, "limit": _PAGE, "wait_seconds": _LOOK_SECONDS}
        page = client.call("execution.history", arguments)
        for item in page["items"]:
            after = item["seq"]
            yield item
        if page["ended"]:
            return


def _print_records(client: RunClient, run: str, records: Iterator[JsonObject], *, every: bool, as_json: bool) -> None:
    if as_json:
        for item in records:
            echo(json.dumps(item, ensure_ascii=False))
        return
    view = find_run(client, run)
    run_id, began_at = view["execution_id"], parse_instant_ms(view["created_at"]) or 0
    workflow = None if every else workflow_of(client, view)
    console, runs = console_for(sys.stdout), dict[str, RunVisits]()
    width = max((len(node) for node in workflow.nodes), default=0) if workflow is not None else 0
    for item in records:
        record = record_of(item)
        if workflow is None:
            _print_record(console, record, began_at)
            continue
        for line in trace_lines([(run_id, record)], {run_id: workflow}, runs):
            text = trace_text(line, began_at, width, depth_from=line.depth)
            console.print(Text.assemble((f"{record.seq:>5}", "dim"), text))


def workflow_of(client: RunClient, view: Any) -> Workflow | None:
    """The workflow of a run in the version that it is pinned to; None if it is gone, or not for the caller to read."""
    arguments: JsonObject = {"workflow_id": view["workflow_id"], "hash": view["definition_hash"]}
    try:
        return build_workflow(client.call("workflow.get", arguments)["document"])
    except (Denied, NotFound):
        return None


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


def query_command(
    execution_id: RunArgument,
    expression: Annotated[str, Argument(metavar="JQ", help="A jq expression, for example '.order.total'.")],
    *,
    options: RunOptions,
) -> None:
    """Evaluate jq on a run: its input, its state and the results of its nodes.

    With --json: value, as `execution.query` answers.
    """

    def work(client: RunClient) -> int:
        answer = client.call("execution.query", {"execution_id": execution_id, "expression": expression})
        print_json(answer if options.as_json else answer["value"])
        return 0

    exit_with_runs(options, "execution.query", work)
