"""Turns of a conversation with tools: what `conversation`, `tools` and `answer_schema` of an `llm_call` mean.

    conversation: talk        the member of the state that has what was said after the prompt
    tools: tools              the member of the state that has the tools, or the list itself
    answer_schema: {…}        the JSON Schema of the answer that ends the conversation
    conversation_characters: 100000    how much of the conversation the model reads; the whole of it without this
    summary: summary          the member of the state that has a summary of the beginning, {text, entries}
    summarize: true           write that summary, in place of a turn: the result is {text, entries, usage}

Both are read from the state, so that a history does not repeat them in every request. The result of such a node is one
turn of the model: `{text, tool_calls, answer, problem, usage}`. It calls tools, or it has an answer, or a problem: the
words that tell the model what is wrong with its answer. One node asks the model once. The workflow calls the tools,
adds the results to the conversation, and decides whether to pay for another turn; `definitions.agents` writes such a
workflow. The first call carries, as `thoughts`, whatever the provider wants back of the model's thinking.

An entry of a conversation is one of

    {role: user, text}                      said by the user of the model: not marked
    {role: user, data, source}              a value from outside: marked as untrusted
    {role: assistant, text, tool_calls}     what the model said before
    {role: tool, id, name, content}         the result of a call: marked, unless a `person` gave it
    {role: tool, id, name, error}           why a call failed

Above it: `executor`, `prompts`, `answers`. Below it: `port`, `tool_names`. It sends nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue, list_or_empty
from penstock.definitions.agents.conversations import (
    bounded_conversation,
    entries_to_summarize,
    summarized_conversation,
    summary_of,
    without_thoughts,
)
from penstock.runtime.executors.llm.port import LlmTool, LlmToolCall
from penstock.runtime.executors.llm.tool_names import ToolNames

__all__ = ["OfferedTool", "Summarizing", "Turn", "read_turn", "said_calls", "said_thoughts"]

_FIELDS = ("tools", "conversation", "answer_schema")
_SUMMARIZE: JsonObject = {"role": "user", "text": "Write the summary."}
_ANY_ARGUMENTS: JsonObject = {"type": "object"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """A tool as the document or the state describes it. `trusted` descriptions are the author's, or our own."""

    name: str
    description: str
    input_schema: JsonObject
    trusted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarizing:
    """A summary to be written: for how many entries it stands, how long it may be, and the one before it."""

    entries: int
    characters_max: int
    before: str
    is_needed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a turn begins with: the conversation so far, and the tools that the model may call."""

    entries: tuple[JsonObject, ...]
    tools: tuple[OfferedTool, ...]
    names: ToolNames
    summarizing: Summarizing | None = None
    """Set if the node wants a summary instead of a turn."""

    def wire_tools(self, described: dict[str, tuple[str, JsonObject]]) -> tuple[LlmTool, ...]:
        """Return the tools for the provider, with the descriptions and schemas that a model may read."""
        return tuple(
            LlmTool(name=self.names.wire[tool.name], description=text, input_schema=schema)
            for tool in self.tools
            for text, schema in (described[tool.name],)
        )


def read_turn(config: JsonObject, values: JsonValue) -> Turn | str | None:
    """Return the turn that a node describes; a text that says what is wrong with it; None for an ordinary call."""
    if not any(config.get(name) is not None for name in _FIELDS):
        return None
    entries = _member(config.get("conversation"), values, "conversation")
    if isinstance(entries, str):
        return entries
    listed = config.get("tools")
    given = listed if isinstance(listed, list) else _member(listed, values, "tools")
    if isinstance(given, str):
        return given
    tools: dict[str, OfferedTool] = {}
    for index, item in enumerate(given):
        tool = _tool(item, trusted=isinstance(listed, list))
        if isinstance(tool, str):
            return f"`tools[{index}]` {tool}"
        tools[tool.name] = tool
    if len(tools) > limits.LLM_TOOLS_MAX:
        return f"a model is offered at most {limits.LLM_TOOLS_MAX} tools, and these are {len(tools)}"
    found = [entry for entry in entries if isinstance(entry, dict)]
    if len(found) != len(entries):
        return "`conversation` must be a list of entries, each with a `role`"
    most = config.get("conversation_characters")
    room = most if isinstance(most, int) and not isinstance(most, bool) else None
    summary = _summary(config.get("summary"), values)
    if config.get("summarize") is True:
        return _summarizing(found, summary, limits.AGENT_CONVERSATION_CHARACTERS_DEFAULT if room is None else room)
    found = summarized_conversation(found, summary)
    if room is not None:
        found = bounded_conversation(found, room)
    return Turn(entries=tuple(found), tools=tuple(tools.values()), names=ToolNames.of(tools))


def _summary(name: JsonValue, values: JsonValue) -> JsonValue:
    return values.get(name) if isinstance(name, str) and isinstance(values, dict) else None


def _summarizing(entries: list[JsonObject], summary: JsonValue, room: int) -> Turn:
    """Return the request for a summary: what it is to stand for, as data."""
    before, already = summary_of(summary)
    count = entries_to_summarize(entries, already, room)
    given: JsonObject = {"conversation": list(without_thoughts(entries[already:count]))}
    if before:
        given["summary_before"] = before
    asked: JsonObject = {"role": "user", "data": given, "source": "conversation"}
    return Turn(
        entries=(asked, _SUMMARIZE),
        tools=(),
        names=ToolNames.of(()),
        summarizing=Summarizing(
            entries=count,
            characters_max=room // limits.AGENT_SUMMARY_SHARE,
            before=before,
            is_needed=count > already,
        ),
    )


def _member(name: JsonValue, values: JsonValue, field: str) -> list[JsonValue] | str:
    """Return the list that a member of the state has; nothing yet is an empty one."""
    if name is None:
        return []
    if not isinstance(name, str):
        return f"`{field}` must name a member of the state"
    found = values.get(name) if isinstance(values, dict) else None
    if found is None:
        return []
    return found if isinstance(found, list) else f"`{field}`: the member {name} of the state is not a list"


def _tool(item: JsonValue, *, trusted: bool) -> OfferedTool | str:
    if not isinstance(item, dict) or not isinstance(item.get("name"), str) or not item["name"]:
        return "must be {name, description, input_schema}"
    schema, description = item.get("input_schema", _ANY_ARGUMENTS), item.get("description", "")
    if not isinstance(schema, dict) or not isinstance(description, str):
        return "must have a text as `description` and a JSON Schema as `input_schema`"
    if len(description) > limits.LLM_TOOL_DESCRIPTION_CHARACTERS_MAX:
        description = f"{description[: limits.LLM_TOOL_DESCRIPTION_CHARACTERS_MAX]} …"
    return OfferedTool(
        name=str(item["name"]),
        description=description,
        input_schema=schema if schema.get("type") == "object" else {**schema, "type": "object"},
        trusted=trusted or item.get("trusted") is True,
    )


def said_calls(entry: JsonObject, names: ToolNames) -> tuple[LlmToolCall, ...]:
    """Return the calls of an earlier turn, with the names of the wire."""
    listed = entry.get("tool_calls")
    calls = []
    for call in listed if isinstance(listed, list) else []:
        if isinstance(call, dict):
            name, arguments = str(call.get("name")), call.get("arguments")
            wire = names.wire.get(name) or ToolNames.of([name]).wire[name]
            calls.append(
                LlmToolCall(
                    id=str(call.get("id")), name=wire, arguments=arguments if isinstance(arguments, dict) else {}
                )
            )
    return tuple(calls)


def said_thoughts(entry: JsonObject) -> JsonObject | None:
    """Return what the model thought in an earlier turn, if its provider wants that back."""
    first = next(iter(list_or_empty(entry.get("tool_calls"))), None)
    thoughts = first.get("thoughts") if isinstance(first, dict) else None
    return thoughts if isinstance(thoughts, dict) else None
