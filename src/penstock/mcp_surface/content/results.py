"""Turn the gate's answer into a client's result: text for the model, the same as data, and what to call next.

A result is limited in size: a larger one is shown in part, with a link to the whole. A refusal is a result with
`isError`, because a model can act on it; only protocol faults become protocol errors.

Structured content always fits the schema that the tool is listed with, because clients validate it and show nothing
when it does not fit. So a refusal has none: its text says everything, and `_meta` has the same for programs.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject, JsonValue
from penstock.mcp_surface.content.blocks import ERROR_META, content_blocks, marked, plain_text
from penstock.mcp_surface.content.upstream_results import upstream_result
from penstock.mcp_surface.content.waiting_text import held_text, waiting_text, where_answered, who_answers
from penstock.mcp_surface.tools.tool_list import Tool, ToolList
from penstock.operations.catalogue.reasons import hint_of
from penstock.operations.exposed.workflows import WORKFLOW_PREFIX
from penstock.operations.registered_tools.capabilities import TOOL_PREFIX
from penstock.operations.runs.imported_tools import UPSTREAM_PREFIX
from penstock.operations.runs.results import ExecutionResult
from penstock.operations.runs.views import ExecutionView
from penstock.operations.runs.waits import QuestionView

__all__ = [
    "ERROR_META",
    "answer_result",
    "content_blocks",
    "error_result",
    "execution_result",
    "execution_uri",
    "is_untrusted",
    "plain_text",
    "result_uri",
    "workflow_uri",
]

_FAILED = ("failed", "cancelled")
# Characters for what accompanies a text: where the whole is, what to call next.
_WORDS_ABOUT_IT = 1_000
_ISSUES_SHOWN = 20
# How many list items, characters and object members are kept, in ever smaller portions until the whole fits.
_PORTIONS = ((50, 4_000, 200), (20, 1_000, 100), (10, 300, 50), (5, 100, 40), (2, 40, 40), (0, 20, 40))
# Operations whose answers show the contents of a run without saying whether they are untrusted.
_OF_RUNS = frozenset(
    {
        "execution.history",
        "execution.query",
        "execution.update",
        "execution.lease_activity",
        *(f"control.workflow_{name}" for name in ("start", "status", "resume", "submit_activity", "signal", "cancel")),
    }
)
# The operation to call after a refusal, by its code.
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
    "UPSTREAM_TOOL_QUARANTINED": "upstream.tools",
}


def workflow_uri(workflow_id: str) -> str:
    """Return the resource URI of a workflow."""
    return f"penstock://workflows/{quote(workflow_id, safe='')}"


def execution_uri(execution_id: str) -> str:
    """Return the resource URI of a run."""
    return f"penstock://executions/{quote(execution_id, safe='')}"


def result_uri(execution_id: str) -> str:
    """Return the resource URI of a run's output."""
    return f"{execution_uri(execution_id)}/result"


def _content(text: str, *links: JsonObject) -> list[JsonValue]:
    return [{"type": "text", "text": text}, *links]


def _complete(text: str, structured: JsonValue, *links: JsonObject, is_error: bool = False) -> JsonObject:
    result: JsonObject = {"content": _content(text, *links), "isError": is_error, "resultType": "complete"}
    return result if structured is None else {**result, "structuredContent": structured}


def is_untrusted(operation: str, value: object) -> bool:
    """Return whether the answer of an operation contains, or may contain, text from outside."""
    flag = getattr(value, "untrusted", None)
    return operation in _OF_RUNS if flag is None else flag is True


def answer_result(value: Any, characters_max: int, page: str | None = None, *, untrusted: bool = False) -> JsonObject:
    """Build the result of an operation.

    For a run that waits for somebody it adds a text that says so, with the address of the `page` that asks.
    """
    shown = marked(_answer(value, characters_max, untrusted=untrusted), untrusted=untrusted)
    waits = waiting_text(value, value.waiting_for.questions, page) if isinstance(value, ExecutionView) else ""
    content = shown["content"]
    assert isinstance(content, list)
    return {**shown, "content": [*content, {"type": "text", "text": f"It waits: {waits}"}]} if waits else shown


def _answer(value: Any, characters_max: int, *, untrusted: bool) -> JsonObject:
    plain: JsonValue = msgspec.to_builtins(value)
    structured: JsonObject = plain if isinstance(plain, dict) else {"value": plain}
    text = plain_text(plain)
    if len(text) <= characters_max:
        return _complete(text, structured)
    part = _in_part(structured, characters_max)
    links = [marked(link, untrusted=untrusted) for link in (_link(structured),) if link is not None]
    where = f"; all of it is at {links[0]['uri']}" if links else "; ask for less at a time to see all of it"
    message = f"(shown in part: the answer has {len(text)} characters{where})"
    return _complete(f"{plain_text(part)[:characters_max]}\n{message}", part, *links)


def _link(structured: JsonObject) -> JsonObject | None:
    """Return a link to the whole value, if it has an address."""
    execution, workflow = structured.get("execution_id"), structured.get("id")
    if isinstance(execution, str):
        return _resource_link(execution_uri(execution), execution)
    if isinstance(workflow, str) and "document" in structured:
        return _resource_link(workflow_uri(workflow), workflow)
    return None


def _result_link(result: ExecutionResult, *, untrusted: bool) -> JsonObject:
    """Return a link to the whole output, or to the status of a run that has none."""
    if result.status != "completed":
        link = _resource_link(execution_uri(result.execution_id), result.execution_id)
        return marked(link, untrusted=untrusted)
    kind = "text/plain" if isinstance(result.output, str) else "application/json"
    link = {**_resource_link(result_uri(result.execution_id), result.execution_id), "mimeType": kind}
    return marked(link, untrusted=untrusted)


def _resource_link(uri: str, name: str) -> JsonObject:
    return {"type": "resource_link", "uri": uri, "name": name, "mimeType": "application/json"}


def _in_part(value: JsonObject, characters_max: int) -> JsonObject:
    """Return as much of a value as fits; only lists, texts and large objects are shortened."""
    cut: JsonValue = value
    for items, characters, members in _PORTIONS:
        cut = _cut(value, items, characters, members)
        if len(encode_bytes(cut)) <= characters_max:
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


def _shown_content(result: ExecutionResult) -> JsonObject | None:
    """Return the result of a tool whose output is content; None if it does not exist yet, or too much of it."""
    if result.status != "completed":
        return None
    blocks = content_blocks(msgspec.to_builtins(result.output))
    if len(encode_bytes(blocks)) > limits.MCP_CONTENT_BYTES_MAX:
        return None
    return {"content": [*blocks], "isError": False, "resultType": "complete"}


def execution_result(
    result: ExecutionResult,
    tool_list: ToolList,
    characters_max: int,
    *,
    page: str | None = None,
    note: str | None = None,
    asked_for: bool = False,
) -> JsonObject:
    """Build the result of a call that started or asked for a run: its outcome or its current status.

    `page` is the address at which somebody with a key can answer its questions in a browser.
    """
    outside = result.workflow_id.startswith(UPSTREAM_PREFIX) or _is_of_outside_tool(result, tool_list)
    shown = _shown_result(result, tool_list, characters_max, page=page, note=note, asked_for=asked_for)
    return marked(shown, untrusted=result.untrusted or outside)


def _is_of_outside_tool(result: ExecutionResult, tool_list: ToolList) -> bool:
    """Whether a registered tool answered that asks somebody else: another server, or an address."""
    if not result.workflow_id.startswith(TOOL_PREFIX):
        return False
    tool = tool_list.find(result.workflow_id)
    return tool is None or tool.capability.metadata.get("kind") in ("http", "mcp")


def _shown_result(
    result: ExecutionResult,
    tool_list: ToolList,
    characters_max: int,
    *,
    page: str | None,
    note: str | None,
    asked_for: bool,
) -> JsonObject:
    imported = result.workflow_id.startswith(UPSTREAM_PREFIX)
    tool = tool_list.find(result.workflow_id if imported else f"{WORKFLOW_PREFIX}{result.workflow_id}")
    if tool is not None and (imported or tool.capability.metadata.get("result") == "content"):
        shown = upstream_result(result, tool, characters_max) if imported else _shown_content(result)
        if shown is not None:
            # A caller who asked for an execution gets its data as well as the tool's content.
            return {**shown, "structuredContent": msgspec.to_builtins(result)} if imported and asked_for else shown
    structured: JsonObject = msgspec.to_builtins(result)
    text, links = _execution_text(result, tool_list, characters_max, page), []
    if len(encode_bytes(structured)) > characters_max:
        kept = {name: value for name, value in structured.items() if name != "output"}
        structured = kept if len(encode_bytes(kept)) <= characters_max else _in_part(kept, characters_max)
        links = [_result_link(result, untrusted=result.untrusted or imported)]
    message = f"{note}\n{_bounded(text, characters_max)}" if note else _bounded(text, characters_max)
    shown = _complete(message, structured, *links, is_error=result.status in _FAILED)
    return {**shown, "_meta": {ERROR_META: structured["error"]}} if "error" in structured else shown


def _bounded(text: str, characters_max: int) -> str:
    """Limit a text. Its end is kept, because it says how to continue."""
    room = characters_max + _WORDS_ABOUT_IT
    if len(text) <= room:
        return text
    end = text[-_WORDS_ABOUT_IT:]
    return f"{text[: room - len(end)]}\n(…)\n{end}"


def _execution_text(result: ExecutionResult, tool_list: ToolList, characters_max: int, page: str | None) -> str:
    if result.status == "completed":
        text = plain_text(msgspec.to_builtins(result.output))
        if len(text) <= characters_max:
            return text
        uri = result_uri(result.execution_id)
        message = f"(shown in part: the output has {len(text)} characters; all of it is at {uri})"
        return f"{text[:characters_max]}\n{message}"
    if result.status in _FAILED:
        error = result.error
        message = f"{error.code}: {error.message}" if error else result.status
        where = f" at node {error.node_id}" if error and error.node_id else ""
        return f"The run {result.execution_id} {result.status}{where}. {message}\n" + _advice(
            tool_list,
            result.execution_id,
            ("execution.status", "look at it"),
            ("execution.history", "read what happened"),
        )
    if result.questions:
        return _question_text(result, tool_list, page)
    held = [f"It waits for approval: {held_text(call)}" for call in result.held_calls]
    standing = f"Run {result.execution_id} continues (status: {result.status})."
    return "\n".join((standing, *held, "")) + _advice(
        tool_list,
        result.execution_id,
        ("execution.wait", "wait for its end"),
        ("execution.status", "look at it"),
        ("execution.cancel", "stop it"),
    )


def _question_text(result: ExecutionResult, tool_list: ToolList, page: str | None) -> str:
    lines = [f"The run {result.execution_id} waits for an answer (status: {result.status})."]
    if result.held is not None:
        lines = [f"Nothing was done yet (status: {result.status}). {held_text(result.held)}"]
    for question in result.questions:
        lines.append(f"Question {question.interrupt_id}: {plain_text(question.prompt)}")
        if question.answer_schema and result.held is None:
            lines.append(f"The answer must fit {plain_text(question.answer_schema)}")
        lines.append(_how_to_answer(result, question, tool_list, page))
    ways = (("execution.wait", "wait until it continues"), ("execution.cancel", "stop it"))
    more = _advice(tool_list, result.execution_id, *ways)
    return "\n".join((*lines, more) if more else lines)


def _how_to_answer(result: ExecutionResult, question: QuestionView, tool_list: ToolList, page: str | None) -> str:
    """Return how a question is answered, with a tool where that is possible."""
    where = where_answered(result.execution_id, question, page)
    answer = tool_list.name_of("execution.answer")
    if question.approvers is None and answer is None:
        return f"Somebody who may answer has to: this key may not. {where}"
    if question.approvers is None and question.answered_by == "anyone":
        example: JsonObject = {
            "execution_id": question.execution_id or result.execution_id,
            "interrupt_id": question.interrupt_id,
            "answer": "...",
        }
        return f"Ask the person, then answer with {answer} {plain_text(example)}\n{where}"
    return f"{who_answers(question)} {where}"


def _advice(tool_list: ToolList, execution_id: str, *ways: tuple[str, str]) -> str:
    known = [(name, purpose) for operation, purpose in ways if (name := tool_list.name_of(operation)) is not None]
    argument = plain_text({"execution_id": execution_id})
    return "\n".join(f"To {purpose}: {name} {argument}" for name, purpose in known)


def error_result(error: PenstockError, tool_list: ToolList, tool: Tool | None = None) -> JsonObject:
    """Build the result of a refusal that a model can act on."""
    message, hint = tool_list.naming.of(error.message), tool_list.naming.of(hint_of(error) or "")
    lines, issues = [f"{error.code}: {message}"], _issues(error)
    for item in issues[:_ISSUES_SHOWN]:
        lines.append(f"- {_place_of(item)}: {item.get('message')}" + (f"; {fix}" if (fix := item.get("hint")) else ""))
    if len(issues) > _ISSUES_SHOWN:
        lines.append(f"- and {len(issues) - _ISSUES_SHOWN} more")
    if issues and error.code == "INVALID_ARGUMENTS":
        lines.append("What to do: correct this and call again")
    elif hint:
        lines.append(f"What to do: {hint}")
    follow = tool_list.name_of(_NEXT[error.code]) if error.code in _NEXT else None
    if follow is None and error.code == "INVALID_ARGUMENTS" and tool is not None:
        follow = tool.name
    if follow is not None:
        lines.append(f"Call next: {follow}")
    text: JsonObject = {"code": error.code, "message": message}
    published = error.details.get("error")
    # A function of the workflow profile is refused in the published shape.
    details = published.get("details") if isinstance(published, dict) else error.details or None
    more: JsonObject = {"hint": hint or None, "details": details, "call_next": follow}
    text.update({name: value for name, value in more.items() if value is not None})
    most = limits.MCP_RESULT_CHARACTERS_MAX
    if len(encode_bytes(text)) > most:
        text = _in_part(text, most)
    return {**_complete(_bounded("\n".join(lines), most), None, is_error=True), "_meta": {ERROR_META: text}}


def _place_of(issue: JsonObject) -> str:
    """Return where a mistake is: in the arguments, in a document, or in the text of one."""
    place = issue.get("pointer") or issue.get("path")
    if not place and (line := issue.get("line")) is not None:
        return f"{line}:{issue.get('column')}"
    return str(place or "/")


def _issues(error: PenstockError) -> list[JsonObject]:
    listed = error.details.get("errors") or error.details.get("findings")
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []
