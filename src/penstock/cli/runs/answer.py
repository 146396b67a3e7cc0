"""`penstock runs answer`: find the question that is meant, ask for the answer if none was given, and send it.

The caller gives the answer: the user of the operating system on a file, the holder of the key on a server. `--by` is
kept beside it as a note.

Above it: `tree.commands`, by name. Below it: `client`, `terminal.prompts`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Annotated

from penstock.base.errors import Conflict, PenstockError, Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.base.text import clean
from penstock.cli.declaration import Argument, Option
from penstock.cli.runs.client import (
    IdempotencyOption,
    NodeOption,
    NoteOption,
    RunArgument,
    RunClient,
    RunOptions,
    VisitOption,
    exit_with_runs,
    find_run,
    present,
    print_change,
)
from penstock.cli.terminal.conversation import TerminalConversation, can_ask
from penstock.cli.terminal.prompts import AnswerAbandoned, ask_answer
from penstock.cli.terminal.values import UsageError, loose_value, parse_value
from penstock.definitions.decline_answers import decided_by

__all__ = ["answer_command"]

_CHILDREN_LOOKED_AT_MAX = 50  # of those that have not ended; questions of further ones are answered by their own ids


def answer_command(  # noqa: PLR0913  # every option is one the user can give
    execution_id: RunArgument,
    answer: Annotated[
        list[str] | None,
        Argument(metavar="ANSWER", help="JSON, @FILE, or fields; asked for if left out."),
    ] = None,
    *,
    node_id: NodeOption = None,
    visit: VisitOption = None,
    interrupt_id: Annotated[
        str | None, Option("--interrupt-id", metavar="ID", help="The question by its own id.")
    ] = None,
    note: NoteOption = None,
    decline: Annotated[bool, Option("--decline", help="Decline, as the document says that is done.")] = False,
    idempotency_key: IdempotencyOption = None,
    options: RunOptions,
) -> None:
    """Answer a question of a run.

    The answer is JSON ('{"approve": true}'), fields (approve=true comment=fine), or asked for on the terminal.
    With --decline it is the one that the document has for that, if there is one.

    With --json: the handle of the run that asked, as `execution.answer` answers.
    """

    def work(client: RunClient) -> int:
        named = present({"node_id": node_id, "visit": visit, "interrupt_id": interrupt_id})
        questions = list(_questions(client, execution_id))
        meant = [item for item in questions if all(item[name] == value for name, value in named.items())]
        if len(meant) == 1:
            place: JsonObject = {"execution_id": meant[0]["execution_id"], "interrupt_id": meant[0]["interrupt_id"]}
        elif answer and not decline:  # the operation refuses it with the reason
            place = {"execution_id": execution_id, **named}
        else:
            raise _not_one(execution_id, questions, meant)
        question = meant[0] if meant else {}
        value = _declined(answer, question) if decline else asyncio.run(_answer_of(answer, question))
        given: JsonObject = {**place, "answer": value, **present({"note": note})}
        run = client.call("execution.answer", given, idempotency_key=idempotency_key)
        decided = decided_by(question.get("answer_schema"), question.get("decline"), value)
        print_change(run, lambda _: f"{decided} {question['node_id']}", as_json=options.as_json)
        return 0

    exit_with_runs(options, "execution.answer", work)


def _questions(client: RunClient, run: str) -> Iterator[JsonObject]:
    """The open questions of a run, and of its child runs, each with the id of the run that asks."""
    waiting, seen = [run], 0
    while waiting and seen <= _CHILDREN_LOOKED_AT_MAX:
        view, seen = find_run(client, waiting.pop(0)), seen + 1
        for question in view["waiting_for"]["questions"]:
            yield {**question, "execution_id": view["execution_id"]}
        waiting += [child["execution_id"] for child in view["waiting_for"]["children"]]


def _not_one(run: str, questions: list[JsonObject], meant: list[JsonObject]) -> PenstockError:
    """The error when no question, or more than one, is meant; with the codes of `execution.answer`."""
    listed = ", ".join(f"{item['node_id']} (visit {item['visit']})" for item in meant or questions)
    if meant:
        hint = "choose with --node and --visit, or --interrupt-id"
        return Rejected("QUESTION_AMBIGUOUS", f"run {run} asks several questions: {listed}", hint)
    hint = f"it asks at {listed}" if listed else "`penstock runs show` says what it waits for"
    where = " there" if listed else ""
    return Conflict("NO_OPEN_QUESTION", f"run {run} is not waiting for an answer{where}", hint)


def _declined(given: list[str] | None, question: JsonObject) -> JsonValue:
    if given:
        raise UsageError("give an answer or --decline, not both")
    if question["decline"] is None:
        raise UsageError("the document has no answer for declining: give the answer that is meant")
    return question["decline"]


async def _answer_of(given: list[str] | None, question: JsonObject) -> JsonValue:
    if not given:
        if not can_ask():
            raise UsageError("give an answer (JSON or KEY=VALUE), or run this in a terminal to be asked")
        conversation = TerminalConversation()
        prompt, schema = question["prompt"], question["answer_schema"]
        conversation.tell(clean(prompt if isinstance(prompt, str) else str(prompt)))
        outcome = await ask_answer(schema if isinstance(schema, dict) else {}, conversation, question["decline"])
        if isinstance(outcome, AnswerAbandoned):
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
