"""One call of a tool with a person at the terminal: what `penstock mcp call` does once it knows the server.

Above it: `call`, which imports this when it connects, because the SDK takes most of a second. Below it: `client`,
`tasks`, `terminal.prompts`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import mcp_types as types
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject
from penstock.base.text import clean
from penstock.cli.mcp.answers import invalid_answer, protocol_error
from penstock.cli.mcp.client import ANSWER_ERRORS, ConnectOptions, connect_mcp
from penstock.cli.mcp.servers import McpServer
from penstock.cli.mcp.tasks import TaskCancelled, TaskFollower, TaskState, TaskWaits
from penstock.cli.terminal.console import console_for
from penstock.cli.terminal.conversation import TerminalConversation
from penstock.cli.terminal.exits import command_text
from penstock.cli.terminal.prompts import AnswerAbandoned, ask_answer
from penstock.cli.terminal.styled_text import Text
from penstock.definitions.source.findings import nearest

__all__ = ["Outcome", "ToolAnswered", "ToolCall", "ToolCancelled", "ToolWaiting"]

# Long enough for a server to restart.
_PATIENCE_SECONDS = 30.0
_DECLINED = ("d", "decline", "n", "no")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswered:
    """The tool answered; `result` is in the words of the wire."""

    result: JsonObject
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolWaiting:
    """A task waits for somebody who is not here."""

    questions: JsonObject
    asked: str | None
    """What it waits for, if the server says so without being able to ask."""
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCancelled:
    """Somebody cancelled the task."""

    version: str


Outcome: TypeAlias = ToolAnswered | ToolWaiting | ToolCancelled


@dataclass(slots=True)
class _ElicitationPrompter:
    """Asks the person at the terminal, one question at a time."""

    conversation: TerminalConversation = field(default_factory=TerminalConversation)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def answer(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Ask what a server wants to know."""
        async with self.turn:
            self.conversation.tell("\n".join(map(clean, params.message.splitlines())))
            try:
                if isinstance(params, types.ElicitRequestURLParams):
                    return await self._open_url(params)
                return await self._answer_form(dict(params.requested_schema))
            except asyncio.CancelledError:
                self.conversation.tell("\nThis is no longer asked: somebody answered, or the call has ended.")
                raise

    async def _answer_form(self, schema: JsonObject) -> types.ElicitResult:
        outcome = await ask_answer(schema, self.conversation)
        if isinstance(outcome, AnswerAbandoned):
            return types.ElicitResult(action="cancel")
        content: Any = outcome.value
        return types.ElicitResult(action="accept", content=content if isinstance(content, dict) else {})

    async def _open_url(self, params: types.ElicitRequestURLParams) -> types.ElicitResult:
        """Send the person to a page, and ask whether they went there."""
        self.conversation.tell(f"Open {clean(params.url)}")
        line = await self.conversation.ask("Press Enter when you have, or type d to decline: ")
        if line is None:
            return types.ElicitResult(action="cancel")
        return types.ElicitResult(action="decline" if line.strip().lower() in _DECLINED else "accept")


@dataclass(slots=True, kw_only=True)
class ToolCall:
    """One call of a tool."""

    server: McpServer
    tool: str
    arguments: Callable[[JsonObject], JsonObject]
    """Makes the arguments, given the input schema of the tool."""
    era: str
    asks: bool
    quiet: bool
    answer_options: tuple[str, ...] | None = None
    """What `penstock runs answer` needs to find the server; None for one that is not ours."""
    task_id: str | None = None
    """The id of the task, once the call became one."""
    _last_status: str = ""

    async def run(self) -> Outcome:
        """Make the call and follow it; a refusal is raised as one of our errors."""
        answerable = self.asks and self.answer_options is not None
        follower = TaskFollower(self._watch, asks=self.asks, ask_directly=self._ask_directly if answerable else None)
        options = ConnectOptions(
            era=self.era,
            ask=_ElicitationPrompter().answer if self.asks else None,
            extensions=(follower,),
            patience_seconds=_PATIENCE_SECONDS,
        )
        try:
            async with connect_mcp(self.server, options) as client:
                return await self._called(client)
        except MCPError as error:
            raise protocol_error(error.error.code, error.error.message, error.error.data) from error
        except ANSWER_ERRORS as error:
            raise invalid_answer(error) from error

    async def _called(self, client: Client) -> Outcome:
        version = client.protocol_version
        tools = (await client.list_tools()).tools
        schema = next((item.input_schema for item in tools if item.name == self.tool), {})
        arguments = self.arguments(schema)
        self._warn_about_unknown_arguments(arguments, schema)
        try:
            result = await client.call_tool(self.tool, arguments, progress_callback=self._progress)
        except TaskWaits as waits:
            return ToolWaiting(questions=waits.questions, asked=waits.state.asked, version=version)
        except TaskCancelled:
            return ToolCancelled(version=version)
        except MCPError as error:
            raise self._explained(error, [item.name for item in tools]) from error
        return ToolAnswered(result=result.model_dump(by_alias=True, mode="json", exclude_none=True), version=version)

    def _explained(self, error: MCPError, names: list[str]) -> PenstockError:
        """The error of a call; for an unknown tool, with the name that may be meant."""
        ours = protocol_error(error.error.code, error.error.message, error.error.data)
        if self.tool not in names and error.error.code == types.INVALID_PARAMS and ours.hint is None:
            near = nearest(self.tool, names)
            ours.hint = f"did you mean {near}?" if near else "`penstock mcp tools` lists the tools"
        return ours

    def _warn_about_unknown_arguments(self, arguments: JsonObject, schema: JsonObject) -> None:
        """Name arguments that the tool does not know and that look like ones it does; the tool itself may take them."""
        properties = schema.get("properties")
        known = properties if isinstance(properties, dict) else {}
        for name in sorted(arguments.keys() - known.keys()):
            near = nearest(name, known)
            if near is not None:
                self._say("!", f"{self.tool} has no argument {name}; did you mean {near}?")

    async def _progress(self, progress: float, total: float | None, message: str | None) -> None:
        share = f"{progress:g}/{total:g} " if total else ""
        self._say("·", f"{share}{message or ''}".strip() or f"{progress:g}")

    def _watch(self, state: TaskState) -> None:
        if self.task_id is None:
            self._say("▸", f"task {state.task_id}")
        self.task_id = state.task_id
        # A question that is asked here, or reported at the end, is not announced before.
        is_plain = state.message in (None, state.status) or state.status == "input_required"
        status = state.status if is_plain else f"{state.status}: {state.message}"
        if status != self._last_status:
            self._last_status = status
            self._say("·", status)

    async def _ask_directly(self, state: TaskState) -> None:
        """Let the person at this terminal answer as themselves: no client of MCP may give an approval."""
        words = ("runs", "answer", *(self.answer_options or ()), state.task_id)
        answering = await asyncio.create_subprocess_exec(sys.executable, "-m", "penstock", *words)
        try:
            refused = await answering.wait()
        finally:
            if answering.returncode is None:
                answering.terminate()
                await answering.wait()
        if refused:
            self._say("▸", f"still waiting; somebody who may decide can run {command_text(*words)}")

    def _say(self, mark: str, text: str) -> None:
        if not self.quiet:
            console_for(sys.stderr).print(Text.assemble((f"{mark} ", "dim"), (clean(text), "dim")))
