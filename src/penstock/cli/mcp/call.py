"""`penstock mcp call TOOL`: an MCP client for the terminal, for any server.

Progress goes to standard error, the result to standard output. When the server makes a task of the call, the task is
polled to its end; questions are asked at the terminal if a person is there.

Below it: `servers` says which server is meant, `tool_call` connects to it.
Exit codes: 0 for a result, 1 for a tool that answered with an error, 3 for a call that still waits or runs.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

from penstock.base.errors import Unavailable
from penstock.base.json import JsonObject, JsonValue
from penstock.base.lazy_import import lazy_import
from penstock.base.text import clean
from penstock.cli.commands.command import WithTrailingArguments, trailing_arguments
from penstock.cli.declaration import Argument, Context, Option
from penstock.cli.mcp.answers import print_content, silence_sdk_logs
from penstock.cli.mcp.servers import (
    ERAS,
    EraOption,
    ServerChoice,
    ServerOptions,
    ToolsetOption,
    resolve_server,
)
from penstock.cli.terminal.console import console_for
from penstock.cli.terminal.conversation import can_ask
from penstock.cli.terminal.event_loop import Interrupted, until_interrupted
from penstock.cli.terminal.exits import INTERRUPTED, STILL_WAITING, JsonOption, command_text, exit_with, print_json
from penstock.cli.terminal.styled_text import Text
from penstock.cli.terminal.values import UsageError, parse_fields, parse_value, read_fields
from penstock.operations.runs.fields import RUN_STATUSES

if TYPE_CHECKING:
    from penstock.cli.mcp import tool_call
else:
    tool_call = lazy_import("penstock.cli.mcp.tool_call")

__all__ = ["CALL", "call_command"]

_ENDED = ("completed", "failed", "cancelled")
# What stands before each line of a call that waits: `  asks   `.
_LABEL_CELLS = 9


def call_command(  # noqa: PLR0913  # every option is one the user can give
    ctx: Context,
    tool: Annotated[str, Argument(metavar="TOOL", help="The tool, by its name.")],
    pairs: Annotated[
        list[str] | None, Argument(metavar="KEY=VALUE", help="Arguments: text, or JSON where it reads so.")
    ] = None,
    *,
    arguments: Annotated[
        str | None, Option("--arguments", metavar="JSON", help="All arguments at once: an object, or @FILE.")
    ] = None,
    era: EraOption = "auto",
    toolset: ToolsetOption = None,
    timeout: Annotated[
        float | None, Option("--timeout", metavar="SECONDS", min=0.1, help="Give up after this long.")
    ] = None,
    no_input: Annotated[bool, Option("--no-input", help="Ask nobody, even at a terminal.")] = False,
    options: ServerOptions,
    as_json: JsonOption = False,
) -> None:
    """Call a tool of an MCP server, show its progress and answer its questions.

    The server is one of ours (--server, --profile, a file), any address (--url), or a program after --. A task is
    followed to its end. With --json: ok, tool, protocol_version, task and result.
    """
    choice = options.choice(toolset, trailing_arguments(ctx))

    def work() -> int:
        silence_sdk_logs()
        given = {} if arguments is None else parse_value(arguments, "--arguments")
        if not isinstance(given, dict):
            raise UsageError("--arguments takes a JSON object")
        named = parse_fields(pairs, "--arguments")
        call = tool_call.ToolCall(
            server=resolve_server(choice),
            tool=tool,
            arguments=lambda schema: {**given, **read_fields(named, schema)},
            era=ERAS[era],
            asks=can_ask() and not no_input and not as_json,
            quiet=as_json,
            answer_options=_answer_options(choice),
        )
        return asyncio.run(_carried_out(call, timeout, as_json=as_json))

    exit_with(work, as_json=as_json)


CALL = WithTrailingArguments(call_command)


async def _carried_out(call: tool_call.ToolCall, seconds_max: float | None, *, as_json: bool) -> int:
    try:
        async with asyncio.timeout(seconds_max):
            outcome = await until_interrupted(call.run())
    except TimeoutError:
        raise Unavailable("TIMEOUT", f"there was no answer within {seconds_max:g} s", _left_advice(call)) from None
    match outcome:
        case Interrupted():
            console_for(sys.stderr).print(Text.assemble(("left", "yellow"), f" · {_left_advice(call)}"))
            return INTERRUPTED
        case tool_call.ToolAnswered(result=result, version=version):
            return _tell_result(call, result, version, as_json=as_json)
        case tool_call.ToolWaiting():
            return _tell_waiting(call, outcome, as_json=as_json)
        case tool_call.ToolCancelled(version=version):
            text = f"the task {call.task_id} was cancelled"
            if as_json:
                print_json(_report(call, version, None, error={"code": "CANCELLED", "message": text}))
            else:
                console_for(sys.stderr).print(Text.assemble(("cancelled", "red"), f" · {text}"))
            return 1


def _left_advice(call: tool_call.ToolCall) -> str:
    if call.task_id is None:
        return "the call was given up; the server may have stopped what it began"
    text = f"the task {call.task_id} continues without this command"
    if call.answer_options is None:
        return text
    return f"{text}: {command_text('runs', 'show', str(call.task_id), *call.answer_options)}"


def _report(
    call: tool_call.ToolCall, version: str, result: JsonValue, *, error: JsonObject | None = None
) -> JsonObject:
    report: JsonObject = {"ok": error is None, "tool": call.tool, "protocol_version": version, "task": call.task_id}
    return {**report, "result": result} if error is None else {**report, "result": result, "error": error}


def _tell_result(call: tool_call.ToolCall, result: JsonObject, version: str, *, as_json: bool) -> int:
    is_error = result.get("isError") is True
    structured = result.get("structuredContent")
    if as_json:
        print_json({**_report(call, version, result), "ok": not is_error})
    else:
        content = result.get("content")
        blocks = [item for item in content if isinstance(item, dict)] if isinstance(content, list) else []
        print_content(blocks, structured, is_error=is_error)
    if is_error:
        return 1
    return STILL_WAITING if _goes_on(structured) else 0


def _goes_on(structured: JsonValue) -> bool:
    """Whether a result of our server is about an execution that has not ended."""
    if not isinstance(structured, dict) or not {"execution_id", "workflow_id", "sequence"} <= structured.keys():
        return False
    return structured.get("status") in RUN_STATUSES and structured.get("status") not in _ENDED


def _tell_waiting(call: tool_call.ToolCall, waiting: tool_call.ToolWaiting, *, as_json: bool) -> int:
    text = f"the task {call.task_id} waits for an answer"
    if as_json:
        error: JsonObject = {"code": "WAITING", "message": f"{text}: {waiting.asked}" if waiting.asked else text}
        print_json(_report(call, waiting.version, None, error={**error, "questions": waiting.questions}))
        return STILL_WAITING
    console = console_for(sys.stdout)
    console.print(Text.assemble(("waits", "yellow"), f" · task {call.task_id}"))
    asked = [] if waiting.questions or waiting.asked is None else [waiting.asked]
    for question in waiting.questions.values():
        params = question.get("params") if isinstance(question, dict) else None
        asked.append(str(params.get("message")) if isinstance(params, dict) else "")
    for message in asked:
        console.print_wrapped(Text(f"  asks   {clean(message)}"), indent=_LABEL_CELLS)
    if call.answer_options is not None:
        command = command_text("runs", "answer", *call.answer_options, str(call.task_id))
        console.print(Text(f"  answer {command}"))
    return STILL_WAITING


def _answer_options(choice: ServerChoice) -> tuple[str, ...] | None:
    """How `penstock runs answer` finds the server; None for one that is not ours."""
    if choice.command or choice.url is not None:
        return None
    named = (("--server", choice.server), ("--profile", choice.profile), ("--db", choice.database))
    return tuple(word for name, value in named if value is not None for word in (name, str(value)))
