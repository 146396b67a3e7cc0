"""From what the gate answers to what a client gets: text for the model, the same as data, and what to call next.

A result is bounded: what is larger is shown in part, with a link to the whole. A refusal is a result with `isError`,
because a model can do something about it; only faults of the protocol are errors of the protocol.

Above it: `calls`. Below it: the views of operations. Nothing here knows the SDK: results are in the words of the wire.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec

from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject, JsonValue
from penstock.mcp_surface.book import Tool, ToolBook
from penstock.operations.attending import ExecutionResult
from penstock.operations.exposed import WORKFLOW_PREFIX

__all__ = [
    "answer_result",
    "content_blocks",
    "error_result",
    "execution_result",
    "execution_uri",
    "plain_text",
    "workflow_uri",
]

_FAILED = ("failed", "cancelled")
# The kinds of content, and what each must have.
_BLOCKS = {
    "text": {"text"},
    "image": {"data", "mimeType"},
    "audio": {"data", "mimeType"},
    "resource": {"resource"},
    "resource_link": {"uri", "name"},
}
# How much of lists, texts and large objects is left, in ever smaller portions until the whole fits.
_PORTIONS = ((50, 4_000, 200), (20, 1_000, 100), (10, 300, 50), (5, 100, 40), (2, 40, 40), (0, 20, 40))
# What to call after a refusal, by its code.
_NEXT = {
    "WORKFLOW_NOT_FOUND": "workflow.list",
    "EXECUTION_NOT_FOUND": "execution.list",
    "SCHEDULE_NOT_FOUND": "schedule.list",
    "ANSWER_INVALID": "execution.status",
    "ALREADY_ANSWERED": "execution.status",
    "NO_OPEN_QUESTION": "execution.status",
    "QUESTION_AMBIGUOUS": "execution.status",
    "WORKFLOW_EXISTS": "workflow.update",
    "INVALID_DOCUMENT": "workflow.validate",
}


def workflow_uri(workflow_id: str) -> str:
    """The address of a workflow as a resource."""
    return f"penstock://workflows/{quote(workflow_id, safe='')}"


def execution_uri(execution_id: str) -> str:
    """The address of an execution as a resource."""
    return f"penstock://executions/{quote(execution_id, safe='')}"


def plain_text(value: JsonValue) -> str:
    """A value for a model: text as it is, everything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _content(text: str, *links: JsonObject) -> list[JsonValue]:
    return [{"type": "text", "text": text}, *links]


def _complete(text: str, structured: JsonValue, *links: JsonObject, is_error: bool = False) -> JsonObject:
    result: JsonObject = {"content": _content(text, *links), "isError": is_error, "resultType": "complete"}
    return result if structured is None else {**result, "structuredContent": structured}


def answer_result(value: Any, characters_max: int) -> JsonObject:
    """What an operation answered."""
    plain: JsonValue = msgspec.to_builtins(value)
    structured: JsonObject = plain if isinstance(plain, dict) else {"value": plain}
    text = plain_text(plain)
    if len(text) <= characters_max:
        return _complete(text, structured)
    part = _in_part(structured, characters_max)
    links = [link for link in (_link(structured),) if link is not None]
    where = f"; all of it is at {links[0]['uri']}" if links else "; ask for less at a time to see all of it"
    told = f"(shown in part: the answer has {len(text)} characters{where})"
    return _complete(f"{plain_text(part)[:characters_max]}\n{told}", part, *links)


def _link(structured: JsonObject) -> JsonObject | None:
    """Where the whole can be read, if it is something that has an address."""
    execution, workflow = structured.get("execution_id"), structured.get("id")
    if isinstance(execution, str):
        return _resource_link(execution_uri(execution), execution)
    if isinstance(workflow, str) and "document" in structured:
        return _resource_link(workflow_uri(workflow), workflow)
    return None


def _resource_link(uri: str, name: str) -> JsonObject:
    return {"type": "resource_link", "uri": uri, "name": name, "mimeType": "application/json"}


def _in_part(value: JsonObject, characters_max: int) -> JsonObject:
    """As much of a value as fits; what is left out is left out of lists, texts and large objects only."""
    cut: JsonValue = value
    for items, characters, members in _PORTIONS:
        cut = _cut(value, items, characters, members)
        if len(msgspec.json.encode(cut)) <= characters_max:
            break
    return cut if isinstance(cut, dict) else {}


def _cut(value: JsonValue, items: int, characters: int, members: int) -> JsonValue:
    if isinstance(value, str):
        return value if len(value) <= characters else f"{value[:characters]}…"
    if isinstance(value, list):
        return [_cut(item, items, characters, members) for item in value[:items]]
    if isinstance(value, dict):
        kept = list(value.items())[:members]
        return {name: _cut(member, items, characters, members) for name, member in kept}
    return value


def content_blocks(output: JsonValue) -> list[JsonValue]:
    """An output as content of MCP: blocks as they are, everything else as text."""
    items = output if isinstance(output, list) else [output]
    return [item if _is_block(item) else {"type": "text", "text": plain_text(item)} for item in items]


def _is_block(item: JsonValue) -> bool:
    if not isinstance(item, dict):
        return False
    needed = _BLOCKS.get(str(item.get("type")))
    return needed is not None and needed <= item.keys()


def _shown_content(result: ExecutionResult) -> JsonObject | None:
    """The result of a tool whose output is content; None if there is none yet, or too much of it."""
    if result.status != "completed":
        return None
    blocks = content_blocks(msgspec.to_builtins(result.output))
    if len(msgspec.json.encode(blocks)) > limits.MCP_CONTENT_BYTES_MAX:
        return None
    return {"content": blocks, "isError": False, "resultType": "complete"}


def execution_result(
    result: ExecutionResult, book: ToolBook, characters_max: int, *, note: str | None = None
) -> JsonObject:
    """How an execution ended or stands, for whoever called a workflow as a tool."""
    tool = book.find(f"{WORKFLOW_PREFIX}{result.workflow_id}")
    if tool is not None and tool.capability.metadata.get("result") == "content":
        shown = _shown_content(result)
        if shown is not None:
            return shown
    structured: JsonObject = msgspec.to_builtins(result)
    text, links = _execution_text(result, book, characters_max), []
    if len(msgspec.json.encode(structured)) > characters_max:
        structured = {name: value for name, value in structured.items() if name != "output"}
        links = [_resource_link(execution_uri(result.execution_id), result.execution_id)]
    told = f"{note}\n{text}" if note else text
    return _complete(told, structured, *links, is_error=result.status in _FAILED)


def _execution_text(result: ExecutionResult, book: ToolBook, characters_max: int) -> str:
    if result.status == "completed":
        text = plain_text(msgspec.to_builtins(result.output))
        if len(text) <= characters_max:
            return text
        uri = execution_uri(result.execution_id)
        told = f"(shown in part: the output has {len(text)} characters; all of it is at {uri})"
        return f"{text[:characters_max]}\n{told}"
    if result.status in _FAILED:
        error = result.error
        told = f"{error.code}: {error.message}" if error else result.status
        where = f" at node {error.node_id}" if error and error.node_id else ""
        return f"The execution {result.execution_id} {result.status}{where}. {told}\n" + _advice(
            book, result.execution_id, ("execution.status", "look at it"), ("execution.history", "read what happened")
        )
    if result.questions:
        return _question_text(result, book)
    return f"The execution {result.execution_id} goes on (status: {result.status}).\n" + _advice(
        book,
        result.execution_id,
        ("execution.wait", "wait for its end"),
        ("execution.status", "look at it"),
        ("execution.cancel", "stop it"),
    )


def _question_text(result: ExecutionResult, book: ToolBook) -> str:
    lines = [f"The execution {result.execution_id} waits for an answer (status: {result.status})."]
    for question in result.questions:
        lines.append(f"Question {question.interrupt_id}: {plain_text(question.prompt)}")
        if question.answer_schema:
            lines.append(f"The answer must fit {plain_text(question.answer_schema)}")
        if question.expires_at:
            lines.append(f"It can be answered until {question.expires_at}.")
    answer = book.name_of("execution.answer")
    if answer is None:
        lines.append("Somebody who may answer has to: this key may not.")
    else:
        example: JsonObject = {
            "execution_id": result.execution_id,
            "interrupt_id": result.questions[0].interrupt_id,
            "answer": "...",
        }
        lines.append(f"Ask the person, then answer with {answer} {plain_text(example)}")
    more = _advice(book, result.execution_id, ("execution.cancel", "stop it"))
    return "\n".join((*lines, more) if more else lines)


def _advice(book: ToolBook, execution_id: str, *ways: tuple[str, str]) -> str:
    known = [(name, purpose) for operation, purpose in ways if (name := book.name_of(operation)) is not None]
    argument = plain_text({"execution_id": execution_id})
    return "\n".join(f"To {purpose}: {name} {argument}" for name, purpose in known)


def error_result(error: PenstockError, book: ToolBook, tool: Tool | None = None) -> JsonObject:
    """A refusal that a model can do something about."""
    lines = [f"{error.code}: {error.message}"]
    for item in _issues(error):
        pointer = item.get("pointer") or item.get("path") or "/"
        lines.append(f"- {pointer}: {item.get('message')}")
    if error.hint:
        lines.append(f"What to do: {error.hint}")
    follow = book.name_of(_NEXT[error.code]) if error.code in _NEXT else None
    if follow is None and error.code == "INVALID_ARGUMENTS" and tool is not None:
        follow = tool.name
    if follow is not None:
        lines.append(f"Call next: {follow}")
    told: JsonObject = {"code": error.code, "message": error.message}
    more: JsonObject = {"hint": error.hint, "details": error.details or None, "call_next": follow}
    told.update({name: value for name, value in more.items() if value is not None})
    return _complete("\n".join(lines), {"error": told}, is_error=True)


def _issues(error: PenstockError) -> list[JsonObject]:
    listed = error.details.get("errors") or error.details.get("findings")
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
