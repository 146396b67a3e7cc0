"""`penstock runs cancel|pause|resume|signal|submit|lease|fork|retry`: change runs, whichever process performs them.

Each command calls one operation. The principal is the user of the operating system (on a file) or the holder of the key
(on a server). A worker or server does the work that follows; without one, the command says so.

Above it: `tree.commands`, by name. Below it: `client`. Questions are answered in `answer`.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

from penstock.base.json import JsonObject
from penstock.cli.declaration import Argument, Option
from penstock.cli.runs.client import (
    IdempotencyOption,
    NodeOption,
    NoteOption,
    RunArgument,
    RunClient,
    RunOptions,
    VisitOption,
    exit_with_call,
    exit_with_runs,
    find_run,
    present,
    print_change,
)
from penstock.cli.terminal.console import console_for
from penstock.cli.terminal.exits import command_text
from penstock.cli.terminal.values import UsageError, parse_value

__all__ = [
    "cancel_command",
    "fork_command",
    "lease_command",
    "pause_command",
    "resume_command",
    "retry_command",
    "signal_command",
    "submit_command",
]

ReasonOption = Annotated[str | None, Option("--reason", metavar="TEXT", help="Why; it is kept in the history.")]
NewRunOption = Annotated[
    str | None, Option(("--run-id", "--new-execution-id"), metavar="ID", help="The id of the new run.")
]

_LEASE_SECONDS_DEFAULT = 300.0  # enough for most work of a person or a script, and not long if it is lost


def cancel_command(
    execution_id: RunArgument,
    *,
    reason: ReasonOption = None,
    idempotency_key: IdempotencyOption = None,
    options: RunOptions,
) -> None:
    """Cancel a run, after undoing what must be undone.

    With --json: the handle of the run, as `execution.cancel` answers.
    """
    exit_with_call(
        options,
        "execution.cancel",
        lambda: {"execution_id": execution_id, "reason": reason},
        lambda answer: f"cancelled {answer['execution_id']}",
        idempotency_key=idempotency_key,
    )


def pause_command(
    execution_id: RunArgument,
    *,
    reason: ReasonOption = None,
    idempotency_key: IdempotencyOption = None,
    options: RunOptions,
) -> None:
    """Pause a run, so that it does nothing until you resume it.

    With --json: the handle of the run, as `execution.pause` answers.
    """
    exit_with_call(
        options,
        "execution.pause",
        lambda: {"execution_id": execution_id, "reason": reason},
        lambda answer: f"paused {answer['execution_id']}",
        idempotency_key=idempotency_key,
    )


def resume_command(
    execution_id: RunArgument,
    *,
    idempotency_key: IdempotencyOption = None,
    options: RunOptions,
) -> None:
    """Resume a paused run.

    With --json: the handle of the run, as `execution.resume` answers.
    """
    exit_with_call(
        options,
        "execution.resume",
        lambda: {"execution_id": execution_id},
        lambda answer: f"resumed {answer['execution_id']}",
        idempotency_key=idempotency_key,
    )


def signal_command(  # noqa: PLR0913  # every option is one the user can give
    execution_id: RunArgument,
    name: Annotated[str, Argument(metavar="NAME", help="The signal's name.")],
    payload: Annotated[str | None, Argument(metavar="JSON", help="What the signal carries: JSON, or @FILE.")] = None,
    *,
    signal_id: Annotated[
        str | None,
        Option(("--id", "--signal-id"), metavar="ID", help="The same id counts once, however often it is sent."),
    ] = None,
    note: NoteOption = None,
    idempotency_key: IdempotencyOption = None,
    options: RunOptions,
) -> None:
    """Send a signal to a run, which keeps it until it waits for it.

    With --json: the handle of the run, as `execution.signal` answers.
    """

    def sent() -> JsonObject:
        value = None if payload is None else parse_value(payload, "the payload")
        return {"execution_id": execution_id, "name": name, "payload": value, "signal_id": signal_id, "note": note}

    exit_with_call(
        options,
        "execution.signal",
        sent,
        lambda answer: f"sent {name} to {answer['execution_id']}",
        idempotency_key=idempotency_key,
    )


# --- activities ----------------------------------------------------------------------------------


def submit_command(  # noqa: PLR0913  # every option is one the user can give
    execution_id: RunArgument,
    node_id: Annotated[str, Argument(metavar="NODE", help="The activity's node.")],
    result: Annotated[str | None, Argument(metavar="JSON", help="Its result: JSON, or @FILE.")] = None,
    *,
    error: Annotated[str | None, Option("--error", metavar="TEXT", help="It failed, and this is why.")] = None,
    code: Annotated[str | None, Option("--code", metavar="CODE", help="The code of the failure.")] = None,
    visit: VisitOption = None,
    attempt: Annotated[
        int | None, Option("--attempt", metavar="N", min=1, help="Which attempt; refused if it is over.")
    ] = None,
    holder: Annotated[
        str | None, Option("--holder", metavar="NAME", help="Who leased it; refused if somebody else has it now.")
    ] = None,
    idempotency_key: IdempotencyOption = None,
    options: RunOptions,
) -> None:
    """Report the outcome of an activity that was performed elsewhere, or whose outcome was unknown.

    With --json: the handle of the run, as `execution.submit_activity` answers.
    """

    def outcome() -> JsonObject:
        if error is not None and result is not None:
            raise UsageError("an activity has a result or an --error, not both")
        value = None if result is None else parse_value(result, "the result")
        arguments: JsonObject = {"ok": error is None, "result": value, "error": error, "code": code, "visit": visit}
        return {**arguments, "execution_id": execution_id, "node_id": node_id, "attempt": attempt, "holder": holder}

    exit_with_call(
        options,
        "execution.submit_activity",
        outcome,
        lambda _: f"took the {'failure' if error is not None else 'result'} of {node_id}",
        idempotency_key=idempotency_key,
    )


def lease_command(  # noqa: PLR0913  # every option is one the user can give
    execution_id: RunArgument,
    node_id: Annotated[str, Argument(metavar="NODE", help="The activity's node.")],
    *,
    holder: Annotated[
        str | None,
        Option("--holder", metavar="NAME", help="Which of your workers takes it, if you have several."),
    ] = None,
    seconds: Annotated[
        float, Option("--seconds", metavar="N", min=0, help="For how long; 0 gives it back.")
    ] = _LEASE_SECONDS_DEFAULT,
    extend: Annotated[bool, Option("--extend", help="Only if it is the holder's already.")] = False,
    visit: VisitOption = None,
    idempotency_key: IdempotencyOption = None,
    options: RunOptions,
) -> None:
    """Take an activity of a host-mediated run for a while, so that nobody else does it.

    With --json: the activity with leased_to and leased_until, as `execution.lease_activity` answers.
    """

    def asked() -> JsonObject:
        arguments: JsonObject = {"seconds": seconds, "visit": visit, "extend": extend, "holder": holder}
        return {**arguments, "execution_id": execution_id, "node_id": node_id}

    def held(activity: Any) -> str:
        if activity["leased_to"] is None:
            return f"{node_id} is free again"
        return f"{activity['leased_to']} has {node_id} until {activity['leased_until']}"

    exit_with_call(
        options,
        "execution.lease_activity",
        asked,
        held,
        idempotency_key=idempotency_key,
    )


# --- new runs from old ones ----------------------------------------------------------------------


def fork_command(
    execution_id: RunArgument,
    *,
    at_sequence: Annotated[
        int,
        Option(("--at", "--at-sequence"), metavar="SEQ", min=1, help="The last record that the new run takes over."),
    ],
    new_execution_id: NewRunOption = None,
    idempotency_key: IdempotencyOption = None,
    options: RunOptions,
) -> None:
    """Start a new run from a record in the history of another run.

    With --json: the handle of the new run, as `execution.fork` answers.
    """

    def work(client: RunClient) -> int:
        given: JsonObject = {"execution_id": execution_id, "at_sequence": at_sequence}
        given.update(present({"new_execution_id": new_execution_id}))
        forked = client.call("execution.fork", given, idempotency_key=idempotency_key)
        _print_new(forked, f"forked {execution_id} after record {at_sequence}: {forked['execution_id']}", options)
        return 0

    exit_with_runs(options, "execution.fork", work)


def retry_command(  # noqa: PLR0913  # every option is one the user can give
    execution_id: RunArgument,
    *,
    node_id: NodeOption = None,
    visit: VisitOption = None,
    new_execution_id: NewRunOption = None,
    note: NoteOption = None,
    idempotency_key: IdempotencyOption = None,
    options: RunOptions,
) -> None:
    """Retry the activities of a run that failed.

    A failed run stays as it is; a new run, forked from just before the failure, continues. An activity whose outcome is
    unknown is tried again in its own run.

    With --json: the handle of the run that continues, as `execution.retry` answers.
    """

    def work(client: RunClient) -> int:
        run_id = find_run(client, execution_id)["execution_id"]
        given = present({"node_id": node_id, "visit": visit, "new_execution_id": new_execution_id, "note": note})
        run = client.call("execution.retry", {**given, "execution_id": run_id}, idempotency_key=idempotency_key)
        if run["execution_id"] == run_id:
            print_change(run, lambda _: f"trying again in {run_id}", as_json=options.as_json)
        else:
            _print_new(run, f"a new run tries again what failed: {run['execution_id']}", options)
        return 0

    exit_with_runs(options, "execution.retry", work)


def _print_new(run: Any, message: str, options: RunOptions) -> None:
    print_change(run, lambda _: message, as_json=options.as_json)
    if not options.as_json:
        watch = command_text("runs", "watch", run["execution_id"], *options.target_arguments())
        console_for(sys.stdout).print(f"  watch it  {watch}")
