"""`penstock agent chat`: talk to an agent in the terminal.

The text appears as the model writes it, each call of a tool gets a line, and questions are asked right here. Ctrl-C
cancels what is being answered and keeps the session; at the prompt it leaves.

Above it: the group of commands on agents. Below it: `links`, `screens`, `terminal.prompts`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject, JsonValue
from penstock.base.text import clean_lines
from penstock.cli.agents.links import Link, open_link
from penstock.cli.agents.screens import JsonScreen, Screen, TextScreen
from penstock.cli.declaration import Argument, Option
from penstock.cli.runs.client import RunOptions
from penstock.cli.targets.selection import choose_target
from penstock.cli.targets.settings import ConfigOption, command_settings
from penstock.cli.targets.workspace import SecretsOption, StepsOption, Workspace
from penstock.cli.terminal.conversation import TerminalConversation, TerminalLines
from penstock.cli.terminal.event_loop import Interrupted, exit_with_async, until_interrupted
from penstock.cli.terminal.exits import INTERRUPTED, STILL_WAITING, command_text
from penstock.cli.terminal.prompts import AnswerAbandoned, ask_answer
from penstock.cli.terminal.values import parse_json
from penstock.client.errors import CallFailed
from penstock.operations.catalogue.errors import mapping_of

__all__ = ["chat_command"]

_PROMPT = "> "
_HELP = "/new starts a session, /exit leaves, Ctrl-C cancels the answer"
_ASKS = ("waiting_input", "waiting_approval")


def chat_command(  # every option is one the user can give
    agent: Annotated[str, Argument(metavar="NAME", help="The agent; on a file, also a workflow file (YAML or JSON).")],
    *,
    session: Annotated[
        str | None,
        Option("--session", metavar="ID", help="Continue this session; without it, a new one starts."),
    ] = None,
    steps: StepsOption = None,
    secret_folder: SecretsOption = None,
    config: ConfigOption = None,
    options: RunOptions,
) -> None:
    """Talk to an agent.

    Type a message and read the answer as the model writes it; approvals and questions appear right here. /new starts
    another session, /exit leaves. Ctrl-C cancels the current answer and keeps the session.

    On a file, this command also performs the runs, as `penstock server worker` does. With --json, each line of standard
    input is a message or the answer to a question, and each event is a JSON object on a line.

    Exits with 0 at the end of the conversation, 3 when a question stays open, and 130 after Ctrl-C. If the last message
    was refused, exits with the code of that error; if its run failed, with 1.
    """

    def workspace() -> Workspace:
        flags = {"storage.path": options.database, "steps.modules": steps or None}
        settings = command_settings(config, flags, as_json=options.as_json).settings
        return Workspace.configured(settings, config=config, secret_folder=secret_folder)

    async def work() -> int:
        target = choose_target(options.server, options.profile, options.database)
        async with open_link(target, agent, workspace) as (link, name):
            chat = _Chat(
                link=link,
                agent=name,
                session=session,
                screen=JsonScreen() if options.as_json else TextScreen(),
                as_json=options.as_json,
                target=options.target_arguments(),
            )
            return await chat.talk()

    exit_with_async(work, as_json=options.as_json)


class _Left(Exception):
    """The input ended while a question was open."""


@dataclass(slots=True, kw_only=True)
class _Chat:
    """One conversation."""

    link: Link
    agent: str
    session: str | None
    screen: Screen
    as_json: bool
    target: Sequence[str] = ()
    lines: TerminalLines = field(default_factory=TerminalLines)
    answered: set[tuple[str, str]] = field(default_factory=set)
    """Questions that were answered here, or that others have to answer."""
    failed: int = 0
    """The exit code of the last message; not 0 if it was refused, or if its run failed."""

    async def talk(self) -> int:
        """Talk until the input ends."""
        code = await self._begin()
        while code is None:
            line = await until_interrupted(self._next_line())
            if isinstance(line, Interrupted):
                code = INTERRUPTED
                break
            if line is None or line.strip() == "/exit":
                code = self.failed
                break
            try:
                code = await self._said(line.strip())
            except CallFailed as error:
                self._refused(error)
            except PenstockError as error:
                self._refused(error)
        if self.session is not None and not self.as_json and sys.stdin.isatty():
            self.screen.note(f"to continue: {self._again()}")
        return code

    async def _begin(self) -> int | None:
        """Show where the conversation is; continue what is being answered."""
        if self.session is None:
            if not self.as_json and sys.stdin.isatty():
                self.screen.note(f"{self.agent} · {_HELP}")
            return None
        known = await self.link.call("session.get", session_id=self.session, limit=1)
        self.agent = known["agent_id"]
        self.screen.note(f"{self.agent} · session {self.session} · {known['turns']} messages so far")
        last = known["items"][-1] if known.get("items") else None
        if last is not None and last["status"] not in ("completed", "failed", "cancelled", "deleted"):
            return await self._answer(last["execution_id"])
        return None

    def _again(self) -> str:
        return command_text("agent", "chat", self.agent, "--session", str(self.session), *self.target)

    async def _next_line(self) -> str | None:
        if not self.as_json and sys.stdin.isatty():
            sys.stdout.write(_PROMPT)
            sys.stdout.flush()
        return await self.lines.read()

    async def _said(self, text: str) -> int | None:
        """Do what a line says; an exit code if the conversation is over."""
        if not text:
            return None
        if text in ("/new", "/help"):
            if text == "/new":
                self.session = None
            self.screen.note("a new session begins with your next message" if text == "/new" else _HELP)
            return None
        arguments: JsonObject = {"agent_id": self.agent, "message": text}
        if self.session is not None:
            arguments["session_id"] = self.session
        begun = await self.link.call("agent.message", **arguments)
        self.session = begun["session_id"]
        told = {name: begun.get(name) for name in ("session_id", "turn", "execution_id", "status")}
        if self.as_json:
            self.screen.event("begun", told)
        if begun.get("held"):
            self.screen.note(f"the message waits for approval: penstock approval get {begun['held']['draft_id']}")
        return await self._answer(begun["execution_id"])

    def _refused(self, error: PenstockError | CallFailed) -> None:
        self.failed = mapping_of(error).exit_code
        code, message = getattr(error, "code", "ERROR"), getattr(error, "message", str(error))
        hint = getattr(error, "hint", None)
        said = f"{message}; {hint}" if hint and not self.as_json else message
        self.screen.event("error", {"code": code, "message": said})

    async def _answer(self, execution_id: str) -> int | None:
        """Show how a message is answered. Ctrl-C cancels that."""
        outcome = await until_interrupted(self._followed(execution_id))
        if not isinstance(outcome, Interrupted):
            return outcome
        try:
            await self.link.call("execution.cancel", execution_id=execution_id, reason="cancelled in a conversation")
        except (PenstockError, CallFailed) as error:
            self._refused(error)  # it may have ended just now
        self.screen.event("complete", {"execution_id": execution_id, "status": "cancelled"})
        return None

    async def _followed(self, execution_id: str) -> int | None:
        looking = asyncio.ensure_future(self._look_for_held(execution_id))
        try:
            async for event in self.link.events(execution_id):
                self.screen.event(event.event, event.data)
                if event.event == "complete":
                    self.failed = 1 if event.data.get("status") == "failed" else 0
                phase = event.data.get("phase") if event.event == "node" else event.data.get("status")
                if event.event in ("node", "status") and phase in _ASKS:
                    await self._ask(execution_id)
        except _Left:
            return STILL_WAITING
        finally:
            looking.cancel()
        return None

    async def _look_for_held(self, execution_id: str) -> None:
        """Say which calls of the agent wait for approval: such a call moves the run only when it is decided."""
        told: set[str] = set()
        while True:
            await asyncio.sleep(limits.CHAT_LOOK_SECONDS)
            if not self.screen.calling:
                continue
            try:
                result = await self.link.call("execution.wait", execution_id=execution_id, wait_seconds=0)
            except (PenstockError, CallFailed):
                continue  # the stream says what is wrong
            for held in result.get("held_calls") or []:
                if held["draft_id"] not in told:
                    told.add(held["draft_id"])
                    self.screen.event("held", held)

    async def _ask(self, execution_id: str) -> None:
        """Ask every question that is open and was not asked before."""
        result = await self.link.call("execution.wait", execution_id=execution_id, wait_seconds=0)
        for question in result.get("questions") or []:
            key = (question.get("execution_id") or execution_id, question["interrupt_id"])
            if key not in self.answered and question.get("ask") is None:
                self.answered.add(key)
                await self._ask_one(key, question)

    async def _ask_one(self, key: tuple[str, str], question: Any) -> None:
        prompt = question["prompt"] if isinstance(question["prompt"], str) else json.dumps(question["prompt"])
        if self.as_json:
            names = ("interrupt_id", "answer_schema", "approvers", "decline")
            asked = {name: question.get(name) for name in names}
            self.screen.event("question", {"execution_id": key[0], "prompt": prompt, **asked})
        self.screen.settle()
        while True:
            answer = await self._answered(prompt, question["answer_schema"], question.get("decline"))
            try:
                await self.link.call("execution.answer", execution_id=key[0], interrupt_id=key[1], answer=answer)
            except (PenstockError, CallFailed) as error:
                self._refused(error)
                if getattr(error, "code", "") in ("ANSWER_INVALID", "VALUE_NOT_JSON"):
                    continue
                # Somebody else may answer it, or has done so: the conversation goes on when that is known.
            return

    async def _answered(self, prompt: str, schema: JsonObject, decline: JsonValue) -> JsonValue:
        if self.as_json:
            line = await self.lines.read()
            if line is None:
                raise _Left
            try:
                value: JsonValue = parse_json(line)
            except (ValueError, RecursionError):
                value = line
            return value
        conversation = _Asking(self.lines)
        conversation.tell(clean_lines(prompt))
        outcome = await ask_answer(schema, conversation, decline)
        if isinstance(outcome, AnswerAbandoned):
            raise _Left
        return outcome.value


class _Asking(TerminalConversation):
    """Asks on the lines that messages come from."""

    def __init__(self, lines: TerminalLines) -> None:
        super().__init__()
        self._lines = lines
