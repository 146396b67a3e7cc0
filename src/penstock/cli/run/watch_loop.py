"""Watch a run to its end, ask its questions on the way, and say how to continue if the user leaves first.

Above it: `penstock run` and `penstock runs watch`. Below it: `follower`, `display`, `terminal.prompts`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject, JsonValue
from penstock.base.text import clean
from penstock.cli.run.display import Display, LogToDisplay
from penstock.cli.run.follower import Follower
from penstock.cli.run.rendering import duration_text, status_text
from penstock.cli.run.view import Question, RunView
from penstock.cli.targets.workspace import Workspace
from penstock.cli.terminal.console import console_for, count_words
from penstock.cli.terminal.conversation import TerminalConversation, can_ask
from penstock.cli.terminal.event_loop import Interrupted, until_interrupted
from penstock.cli.terminal.exits import command_text
from penstock.cli.terminal.prompts import AnswerAbandoned, AnswerGiven, ask_answer
from penstock.cli.terminal.styled_text import Text
from penstock.engine.records import events
from penstock.engine.visits import Visit

__all__ = ["Ending", "WatchedTarget", "print_ending", "print_next_steps", "watch"]

# A result up to this length is shown on the line of its node.
_RESULT_CHARACTERS_SHOWN = 100
_GONE_LOOK_SECONDS = 0.2
# The width that the line of a question needs beside the question itself.
_QUESTION_MARGIN = 60
_EXAMPLES = {"boolean": "true", "integer": "1", "number": "1", "string": "…"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedTarget:
    """Where a watched run is, for the messages at the end."""

    name: str
    options: Sequence[str]
    """The options that name the place again."""
    performing: Sequence[str]
    """Those that also name what its work needs, where it is done here."""

    @classmethod
    def of(cls, workspace: Workspace) -> WatchedTarget:
        """A file."""
        database = str(workspace.database)
        return cls(name=database, options=("--db", database), performing=workspace.arguments())


class Ending(StrEnum):
    """Why watching ended."""

    ENDED = "ended"
    WAITING = "waiting"
    LEFT = "left"


async def watch(follower: Follower, display: Display, *, asks: bool, stays: bool) -> Ending:
    """Follow a run until it ends, the user leaves, or (unless `stays`) it waits for an action from outside."""
    prompter = _QuestionPrompter(follower) if asks and can_ask() else None
    try:
        with _logs_beside(display):
            outcome = await until_interrupted(_watch(follower, display, prompter, stays=stays or prompter is not None))
    finally:
        # An error leaves the screen in order, too.
        display.settle(follower)
    return Ending.LEFT if isinstance(outcome, Interrupted) else outcome


async def _watch(follower: Follower, display: Display, prompter: _QuestionPrompter | None, *, stays: bool) -> Ending:
    while True:
        moved = await follower.catch_up()
        display.show(follower)
        if follower.view.ended:
            if follower.view.continued_as is None:
                return Ending.ENDED
            display.settle(follower)
            await follower.go_on()
            continue
        question = prompter.next_question() if prompter is not None else None
        if prompter is not None and question is not None:
            display.settle(follower)
            if not await prompter.ask_until_answered(question):
                return Ending.WAITING
            continue
        if not stays and not moved and follower.waits_outside:
            return Ending.WAITING
        await follower.wait()
        if moved:
            await follower.rest()


@contextmanager
def _logs_beside(display: Display) -> Iterator[None]:
    handler, logger = LogToDisplay(display), logging.getLogger("penstock")
    logger.addHandler(handler)
    propagated, logger.propagate = logger.propagate, False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagated


@dataclass(slots=True)
class _QuestionPrompter:
    """Asks the person at the terminal what a run wants to know."""

    follower: Follower
    conversation: TerminalConversation = field(default_factory=TerminalConversation)

    def next_question(self) -> Question | None:
        """The oldest question that is open."""
        return next(iter(self.follower.questions()), None)

    async def ask_until_answered(self, question: Question) -> bool:
        """Ask until the answer is taken or no longer wanted; False when the person left."""
        self._introduce(question)
        while True:
            outcome = await self._unless_gone(question)
            match outcome:
                case None:
                    self.conversation.tell("\nThis is no longer asked: somebody answered, or time ran out.")
                    return True
                case AnswerAbandoned():
                    return False
                case AnswerGiven(value=value):
                    refused = await self._send(question, value)
                    if refused is None:
                        return True
                    self.conversation.tell(f"{clean(refused.message)}")
                    await self.follower.catch_up()
                    if not self._is_open(question):
                        return True

    def _introduce(self, question: Question) -> None:
        """Print the question in full where its line in the view could not."""
        lines = question.prompt.splitlines()
        room = shutil.get_terminal_size().columns - _QUESTION_MARGIN
        if len(lines) > 1 or len(question.prompt) > room:
            self.conversation.tell("\n".join(map(clean, lines)))

    async def _send(self, question: Question, value: JsonValue) -> PenstockError | None:
        try:
            await self.follower.source.answer(question.run_id, question.interrupt_id, value)
        except PenstockError as error:
            return error
        return None

    async def _unless_gone(self, question: Question) -> AnswerGiven | AnswerAbandoned | None:
        asking = asyncio.ensure_future(ask_answer(question.schema, self.conversation, question.decline))
        try:
            while not asking.done():
                await asyncio.wait({asking}, timeout=_GONE_LOOK_SECONDS)
                await self.follower.catch_up()
                if not asking.done() and not self._is_open(question):
                    return None
            return asking.result()
        finally:
            asking.cancel()

    def _is_open(self, question: Question) -> bool:
        return any(other.key == question.key for other in self.follower.questions())


# --- the last lines ------------------------------------------------------------------------------


def print_ending(follower: Follower, target: WatchedTarget, *, watched: bool) -> None:
    """Print the last lines about a run that has ended; `watched` says that its lines are printed above."""
    console, view = console_for(sys.stdout), follower.view
    visits = view.visits
    lasted = duration_text(visits.updated_at - visits.begun_at)
    history = command_text("runs", "history", view.run_id, *target.options)
    match visits.end:
        case events.ExecutionCompleted() | events.ExecutionContinued() as end:
            console.print(Text.assemble(("completed", "green"), f" in {lasted} · {count_words(view.seq, 'record')}"))
            result = json.dumps(end.result if isinstance(end, events.ExecutionCompleted) else None, ensure_ascii=False)
            if not watched or len(result) > _RESULT_CHARACTERS_SHOWN:
                console.print(f"  result   {clean(result)}")
        case events.ExecutionFailed(node_id=node_id, code=code, error=message):
            where = f" at {node_id}" if node_id else ""
            text = clean(f"{code}: {message}")
            console.print(Text.assemble(("failed", "red"), f"{where} after {lasted} · {text}"))
            if not visits.compensating:
                retry = command_text("runs", "retry", view.run_id, *target.options)
                console.print(f"  retry    {retry}")
        case events.ExecutionCancelled(reason=given):
            reason = f" · {clean(given)}" if given else ""
            console.print(Text.assemble(("cancelled", "red"), f" after {lasted}{reason}"))
        case None:
            pass
    console.print(f"  history  {history}")


def print_next_steps(follower: Follower, target: WatchedTarget, ending: Ending) -> None:
    """Print what the user can do with a run that has not ended."""
    console, view = console_for(sys.stdout), follower.view
    if ending is Ending.LEFT:
        console.print(
            Text.assemble(("left", "yellow"), f" · the run is safe in {target.name} and continues where it was")
        )
        performed_here = follower.source.performs
        options = [*target.performing, *(["--perform"] if performed_here else [])]
        console.print(f"  go on here         {command_text('runs', 'watch', view.run_id, *options)}")
        if performed_here:
            console.print(f"  in the background  {command_text('server', 'worker', *target.performing)}")
        return
    console.print(Text.assemble((status_text(view, follower.children), "yellow"), f" · run {view.run_id}"))
    if view.visits.paused:
        console.print(f"  resume it   {command_text('runs', 'resume', view.run_id, *target.options)}")
    for one in (view, *follower.children.values()):
        for visit in one.visits.open_leaves():
            text = _advice(one, visit, target.options)
            if text is not None:
                console.print(f"  {text}")


def _advice(view: RunView, visit: Visit, where: Sequence[str]) -> str | None:
    question = view.question(visit)
    if question is not None:
        node = ("--node", visit.node_id) if len(view.questions()) > 1 else ()
        return f"answer it   {command_text('runs', 'answer', view.run_id, *where, *node, *_example(question.schema))}"
    match None if visit.wait is None else visit.wait.cause:
        case events.SignalWaitStarted(signal_name=name):
            return f"signal it   {command_text('runs', 'signal', view.run_id, name or '', *where)}"
        case events.ActivityOutcomeUnknown():
            retry = command_text("runs", "retry", view.run_id, "--node", visit.node_id, *where)
            return f"decide      {retry}"
        case _:
            return None


def _example(schema: JsonObject) -> list[str]:
    """The required fields of an answer as example arguments; none if a field does not take a plain value."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict) or not isinstance(required, list):
        return []
    example = []
    for name in required:
        inner = properties.get(str(name))
        kind = inner.get("type") if isinstance(inner, dict) else None
        if not isinstance(kind, str) or kind not in _EXAMPLES:
            return []
        choices = inner.get("enum") if isinstance(inner, dict) else None
        value = str(choices[0]) if isinstance(choices, list) and choices else _EXAMPLES[kind]
        example.append(f"{name}={value}")
    return example
