"""`penstock runs cancel|pause|resume|signal|answer|submit|fork|retry`: change runs, whoever performs them.

These commands decide and store; the work that follows is done by the process that performs (`penstock run`, `penstock
worker`). When there is none, they say so.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from penstock.app.penstock import Penstock
from penstock.app.settings import Settings
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject, JsonValue
from penstock.cli.asking import Abandoned, ask_answer
from penstock.cli.configuration import command_settings
from penstock.cli.following import Follower
from penstock.cli.report import console_for
from penstock.cli.retrying import retry_point
from penstock.cli.run_lookup import RunArgument, find_run, nobody_works, say_nobody_works
from penstock.cli.run_view import Question, WaitKind
from penstock.cli.runs_remote import AskedQuestion, ProfileOption, ServerOption, answer_there, call_there, retry_there
from penstock.cli.sessions import (
    DatabaseOption,
    JsonOption,
    Workshop,
    command_text,
    conduct,
    opened,
    print_json,
    user_name,
)
from penstock.cli.terminal import TerminalConversation, can_ask
from penstock.cli.values import UsageError, loose_value, parse_value
from penstock.definitions.drawing_text import clean
from penstock.definitions.durations import format_instant
from penstock.operations.declining import declined_answer
from penstock.runtime.ports import RunRow
from penstock.runtime.runs import Run

__all__ = [
    "answer_command",
    "cancel_command",
    "fork_command",
    "lease_command",
    "pause_command",
    "resume_command",
    "retry_command",
    "signal_command",
    "submit_command",
]

ReasonOption = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why; it is kept in the history.")]
NodeOption = Annotated[
    str | None, typer.Option("--node", metavar="NODE", help="Which node is meant, if several are waiting.")
]
VisitOption = Annotated[
    int | None, typer.Option("--visit", metavar="N", min=1, help="Which visit of the node, if several are open.")
]
ByOption = Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who decides; you, if left out.")]

_LEASE_SECONDS_DEFAULT = 300.0  # long enough for most work of a person or a script, short enough to be lost

_Change = Callable[[Penstock, Run, RunRow], Awaitable[str]]


def _change(run_id: str, database: Path, change: _Change, *, as_json: bool, settings: Settings | None = None) -> None:
    """Find a run, change it, and say what became of it."""

    async def work() -> int:
        workshop = Workshop(database=database, settings=settings or Settings())
        async with opened(workshop) as penstock:
            row = await find_run(penstock, run_id)
            told = await change(penstock, penstock.run(row.run_id), row)
            await _report(penstock, row.run_id, told, workshop, as_json=as_json)
        return 0

    conduct(work, as_json=as_json)


async def _report(
    penstock: Penstock, run_id: str, told: str, workshop: Workshop, *, as_json: bool, extra: JsonObject | None = None
) -> None:
    status = await penstock.run(run_id).status()
    if as_json:
        idle = await nobody_works(penstock, run_id)
        print_json({"ok": True, "run_id": run_id, "status": status, "performed": not idle, **(extra or {})})
        return
    console_for(sys.stdout).print(Text(clean(f"{told}; the run is now {status}")))
    await say_nobody_works(penstock, run_id, workshop)


def cancel_command(
    run: RunArgument,
    *,
    reason: ReasonOption = None,
    database: DatabaseOption = Path("penstock.db"),
    server: ServerOption = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Cancel a run; what must be undone is undone first.

    With --json: ok, run_id, status and performed (false when there is work and nobody to do it).
    """
    if call_there(
        server, profile, "execution.cancel", lambda: {"execution_id": run, "reason": reason}, as_json=as_json
    ):
        return

    async def change(penstock: Penstock, handle: Run, row: RunRow) -> str:
        await handle.cancel(reason)
        return f"cancelled {row.run_id}"

    _change(run, database, change, as_json=as_json)


def pause_command(
    run: RunArgument,
    *,
    reason: ReasonOption = None,
    database: DatabaseOption = Path("penstock.db"),
    server: ServerOption = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Pause a run: it makes no new moves until it is resumed.

    With --json: ok, run_id, status and performed.
    """
    if call_there(server, profile, "execution.pause", lambda: {"execution_id": run, "reason": reason}, as_json=as_json):
        return

    async def change(penstock: Penstock, handle: Run, row: RunRow) -> str:
        await handle.pause(reason)
        return f"paused {row.run_id}"

    _change(run, database, change, as_json=as_json)


def resume_command(
    run: RunArgument,
    *,
    database: DatabaseOption = Path("penstock.db"),
    server: ServerOption = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let a paused run go on.

    With --json: ok, run_id, status and performed.
    """
    if call_there(server, profile, "execution.resume", lambda: {"execution_id": run}, as_json=as_json):
        return

    async def change(penstock: Penstock, handle: Run, row: RunRow) -> str:
        await handle.resume()
        return f"resumed {row.run_id}"

    _change(run, database, change, as_json=as_json)


def signal_command(  # noqa: PLR0913  # every option is one the user can give
    run: RunArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The signal's name.")],
    payload: Annotated[
        str | None, typer.Argument(metavar="JSON", help="What the signal carries: JSON, or @FILE.")
    ] = None,
    *,
    signal_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The same id counts once, however often it is sent.")
    ] = None,
    by: ByOption = None,
    database: DatabaseOption = Path("penstock.db"),
    server: ServerOption = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send a signal to a run; it is kept until the run waits for it.

    With --json: ok, run_id, status and performed.
    """

    def value() -> JsonValue:
        return None if payload is None else parse_value(payload, "the payload")

    def sent() -> JsonObject:
        return {"execution_id": run, "name": name, "payload": value(), "signal_id": signal_id}

    if call_there(server, profile, "execution.signal", sent, as_json=as_json):
        return

    async def change(penstock: Penstock, handle: Run, row: RunRow) -> str:
        await handle.signal(name, value(), signal_id=signal_id, by=by or user_name())
        return f"sent {name} to {row.run_id}"

    _change(run, database, change, as_json=as_json)


# --- answers -------------------------------------------------------------------------------------


def answer_command(  # noqa: PLR0913  # every option is one the user can give
    run: RunArgument,
    answer: Annotated[
        list[str] | None,
        typer.Argument(metavar="ANSWER", help="JSON, @FILE, or fields; asked for if left out."),
    ] = None,
    *,
    node: NodeOption = None,
    visit: VisitOption = None,
    by: ByOption = None,
    decline: Annotated[bool, typer.Option("--decline", help="Decline, as the document says that is done.")] = False,
    database: DatabaseOption = Path("penstock.db"),
    server: ServerOption = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer a question that a run asks.

    The answer is JSON ('{"approve": true}'), fields (approve=true comment=fine), or asked for on the terminal.
    With --decline it is the one that the document has for that, if there is one.

    With --json: ok, run_id, status and performed.
    """

    def asked(question: AskedQuestion) -> JsonValue:
        prompt, schema, declined = question
        return _declined(answer, declined) if decline else asyncio.run(_answer_of(answer, prompt, schema))

    if answer_there(server, profile, run, (node, visit), asked, as_json=as_json):
        return

    async def change(penstock: Penstock, handle: Run, row: RunRow) -> str:
        question = await _question(penstock, row.run_id, node, visit)
        if decline:
            value = _declined(answer, declined_answer(question.schema, question.decline))
        else:
            value = await _answer_of(answer, question.prompt, question.schema)
        who = by or user_name()
        await penstock.run(question.run_id).answer(value, interrupt_id=question.interrupt_id, by=who)
        return f"answered {question.node_id}"

    # What is secret in an answer is sealed with the server's secret, and the settings may say where that is.
    settings = command_settings(flags={"storage.path": database}).settings
    _change(run, database, change, as_json=as_json, settings=settings)


async def _question(penstock: Penstock, run_id: str, node: str | None, visit: int | None) -> Question:
    """The question that is meant; those of child runs count as the run's own."""
    follower = await Follower.of(penstock, run_id)
    while await follower.catch_up():
        pass
    views = (follower.view, *follower.children.values())
    questions = [question for view in views if not view.ended for question in view.questions()]
    meant = [item for item in questions if node in (None, item.node_id) and visit in (None, item.visit)]
    if len(meant) == 1:
        return meant[0]
    if meant:
        listed = ", ".join(f"{item.node_id} (visit {item.visit})" for item in meant)
        raise UsageError(f"run {run_id} asks several questions: {listed}; choose with --node and --visit")
    others = ", ".join(sorted({item.node_id for item in questions}))
    raise UsageError(
        f"run {run_id} asks nothing{f' at {node}' if node else ''}" + (f"; it asks at {others}" if others else "")
    )


def _declined(given: list[str] | None, answer: JsonValue) -> JsonValue:
    if given:
        raise UsageError("give an answer or --decline, not both")
    if answer is None:
        raise UsageError("the document has no answer for declining: give the answer that is meant")
    return answer


async def _answer_of(given: list[str] | None, prompt: str, schema: JsonObject) -> JsonValue:
    if not given:
        if not can_ask():
            raise UsageError("give an answer (JSON or KEY=VALUE), or run this in a terminal to be asked")
        conversation = TerminalConversation()
        conversation.tell(clean(prompt))
        outcome = await ask_answer(schema, conversation)
        if isinstance(outcome, Abandoned):
            raise UsageError("no answer was given")
        return outcome.value
    if len(given) == 1 and not _is_field(given[0]):
        return parse_value(given[0], "the answer")
    fields: JsonObject = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator:
            raise UsageError(f"an answer is JSON, @FILE or KEY=VALUE fields; {text!r} is none of these")
        fields[name] = loose_value(value)
    return fields


def _is_field(text: str) -> bool:
    name, separator, _ = text.partition("=")
    return bool(separator) and name.replace("_", "").replace("-", "").isalnum()


# --- activities ----------------------------------------------------------------------------------


def submit_command(  # noqa: PLR0913  # every option is one the user can give
    run: RunArgument,
    node: Annotated[str, typer.Argument(metavar="NODE", help="The activity's node.")],
    result: Annotated[str | None, typer.Argument(metavar="JSON", help="Its result: JSON, or @FILE.")] = None,
    *,
    error: Annotated[str | None, typer.Option("--error", metavar="TEXT", help="It failed, and this is why.")] = None,
    code: Annotated[str | None, typer.Option("--code", metavar="CODE", help="The code of the failure.")] = None,
    visit: VisitOption = None,
    attempt: Annotated[
        int | None, typer.Option("--attempt", metavar="N", min=1, help="Which attempt; refused if it is over.")
    ] = None,
    holder: Annotated[
        str | None, typer.Option("--holder", metavar="NAME", help="Who leased it; refused if somebody else has it now.")
    ] = None,
    database: DatabaseOption = Path("penstock.db"),
    server: ServerOption = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Report what came of an activity that was done elsewhere, or whose outcome was unknown.

    With --json: ok, run_id, status and performed.
    """

    def value() -> JsonValue:
        if error is not None and result is not None:
            raise UsageError("an activity has a result or an --error, not both")
        return None if result is None else parse_value(result, "the result")

    def outcome() -> JsonObject:
        told: JsonObject = {"ok": error is None, "result": value(), "error": error, "code": code}
        return {**told, "execution_id": run, "node_id": node, "visit": visit, "attempt": attempt, "holder": holder}

    if call_there(server, profile, "execution.submit_activity", outcome, as_json=as_json):
        return

    async def change(penstock: Penstock, handle: Run, row: RunRow) -> str:
        await handle.submit(node, value(), error=error, code=code, visit=visit, attempt=attempt, holder=holder)
        return f"took the {'failure' if error is not None else 'result'} of {node}"

    _change(run, database, change, as_json=as_json)


def lease_command(  # noqa: PLR0913  # every option is one the user can give
    run: RunArgument,
    node: Annotated[str, typer.Argument(metavar="NODE", help="The activity's node.")],
    *,
    holder: Annotated[
        str | None, typer.Option("--holder", metavar="NAME", help="Who takes it; you, if left out.")
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="N", min=0, help="For how long; 0 gives it back.")
    ] = _LEASE_SECONDS_DEFAULT,
    extend: Annotated[bool, typer.Option("--extend", help="Only if it is the holder's already.")] = False,
    visit: VisitOption = None,
    database: DatabaseOption = Path("penstock.db"),
    server: ServerOption = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take an activity of a host-mediated run for a while, so that nobody else does it.

    With --json: ok, run_id, status, performed and lease (holder and until; null when it was given back).
    """
    asked: JsonObject = {"seconds": seconds, "visit": visit, "extend": extend, "holder": holder}
    asked.update({"execution_id": run, "node_id": node})
    if call_there(server, profile, "execution.lease_activity", lambda: asked, as_json=as_json):
        return

    async def work() -> int:
        workshop = Workshop.of(database)
        async with opened(workshop) as penstock:
            row = await find_run(penstock, run)
            who = holder or user_name()
            if who is None:
                raise UsageError("nobody knows who you are here; say who takes it with --holder")
            handle = penstock.run(row.run_id)
            lease = (await handle.lease_activity(node, who, seconds, visit=visit, extend=extend)).lease
            told = f"{node} is free again"
            held: JsonValue = None
            if lease is not None:
                held = {"holder": lease.holder, "until": format_instant(lease.until)}
                told = f"{lease.holder} has {node} until {held['until']}"
            await _report(penstock, row.run_id, told, workshop, as_json=as_json, extra={"lease": held})
        return 0

    conduct(work, as_json=as_json)


# --- new runs from old ones ----------------------------------------------------------------------


def fork_command(  # noqa: PLR0913  # every option is one the user can give
    run: RunArgument,
    *,
    at: Annotated[int, typer.Option("--at", metavar="SEQ", min=1, help="The last record that the new run takes over.")],
    run_id: Annotated[str | None, typer.Option("--run-id", metavar="ID", help="The id of the new run.")] = None,
    database: DatabaseOption = Path("penstock.db"),
    server: ServerOption = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Start a new run that begins where another one was after a record; `runs history` shows the records.

    With --json: ok, run_id (of the new run), status, performed, forked_from and at.
    """
    asked: JsonObject = {"execution_id": run, "at_sequence": at, "new_execution_id": run_id}
    if call_there(server, profile, "execution.fork", lambda: asked, as_json=as_json):
        return

    async def work() -> int:
        workshop = Workshop.of(database)
        async with opened(workshop) as penstock:
            row = await find_run(penstock, run)
            await _fork(penstock, row, at, run_id, workshop, as_json=as_json)
        return 0

    conduct(work, as_json=as_json)


async def _fork(
    penstock: Penstock, row: RunRow, at: int, run_id: str | None, workshop: Workshop, *, as_json: bool
) -> None:
    forked = await penstock.run(row.run_id).fork(at_seq=at, run_id=run_id)
    told = f"forked {row.run_id} after record {at}: {forked.id}"
    extra: JsonObject = {"forked_from": row.run_id, "at": at}
    await _report(penstock, forked.id, told, workshop, as_json=as_json, extra=extra)
    if not as_json:
        watch = command_text("runs", "watch", forked.id, *workshop.arguments())
        console_for(sys.stdout).print(f"  watch it  {watch}")


def retry_command(  # noqa: PLR0913  # every option is one the user can give
    run: RunArgument,
    *,
    node: NodeOption = None,
    visit: VisitOption = None,
    run_id: Annotated[str | None, typer.Option("--run-id", metavar="ID", help="The id of the new run.")] = None,
    by: ByOption = None,
    database: DatabaseOption = Path("penstock.db"),
    server: ServerOption = None,
    profile: ProfileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Try again what failed.

    A failed run stays as it is; a new one is forked from just before the failure and goes on. An activity whose outcome
    is unknown is tried again in its own run.

    With --json: ok, run_id, status and performed; for a new run also forked_from and at.
    """
    if retry_there(server, profile, run, (node, visit), as_json=as_json):
        return

    async def work() -> int:
        workshop = Workshop.of(database)
        async with opened(workshop) as penstock:
            row = await find_run(penstock, run)
            if row.status == "failed":
                point = retry_point(await penstock.run(row.run_id).history())
                await _fork(penstock, row, point.seq, run_id, workshop, as_json=as_json)
                return 0
            doubtful = await _in_doubt(penstock, row, node, visit)
            await penstock.run(row.run_id).retry_activity(doubtful[0], visit=doubtful[1], by=by or user_name())
            await _report(penstock, row.run_id, f"retrying {doubtful[0]}", workshop, as_json=as_json)
        return 0

    conduct(work, as_json=as_json)


async def _in_doubt(penstock: Penstock, row: RunRow, node: str | None, visit: int | None) -> tuple[str, int]:
    """The activity whose outcome is unknown."""
    follower = await Follower.of(penstock, row.run_id)
    await follower.catch_up()
    found = [
        (item.node_id, item.visit)
        for item in follower.view.open_visits()
        if item.wait is not None and item.wait.kind is WaitKind.DECISION
    ]
    meant = [item for item in found if node in (None, item[0]) and visit in (None, item[1])]
    if len(meant) == 1:
        return meant[0]
    if meant:
        listed = ", ".join(f"{name} (visit {number})" for name, number in meant)
        raise UsageError(f"several outcomes are unknown: {listed}; choose with --node and --visit")
    told = f"run {row.run_id} is {row.status}: nothing failed, and no outcome is unknown"
    raise PenstockError("RETRY_NOT_ALLOWED", told, "a run is retried after it failed, an activity when it is in doubt")
