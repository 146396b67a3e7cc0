"""Turns of a conversation with tools: what `conversation`, `tools` and `answer_schema` of an `llm_call` mean.

    conversation: talk        the member of the state that has what was said after the prompt
    tools: tools              the member of the state that has the tools, or the list itself
    answer_schema: {…}        the JSON Schema of the answer that ends the conversation
    conversation_characters: 100000    how much of the conversation the model reads; the whole of it without this

Both are read from the state, so that a history does not repeat them in every request. The result of such a node is one
turn of the model: `{text, tool_calls, answer, problem, usage}`. It calls tools, or it has an answer, or a problem: the
words that tell the model what is wrong with its answer. One node asks the model once. Whoever wrote the workflow calls
the tools, adds the results to the conversation, and decides whether another turn is paid for; `definitions.agents`
writes such a workflow.

An entry of a conversation is one of

    {role: user, text}                      said by whoever the model works for: not marked
    {role: user, data, source}              a value from outside: marked as untrusted
    {role: assistant, text, tool_calls}     what the model said before
    {role: tool, id, name, content}         the result of a call: marked, unless a `person` gave it
    {role: tool, id, name, error}           why a call failed

Above it: `executor`, `prompts`, `answers`. Below it: `port`, `tool_names`. It sends nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.agents.conversations import bounded_conversation
from penstock.runtime.executors.llm.port import LlmTool, LlmToolCall
from penstock.runtime.executors.llm.tool_names import ToolNames

__all__ = ["OfferedTool", "Turn", "read_turn", "said_calls"]

_FIELDS = ("tools", "conversation", "answer_schema")
_ANY_ARGUMENTS: JsonObject = {"type": "object"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """A tool as the document or the state describes it. `trusted` descriptions are the author's, or our own."""

    name: str
    description: str
    input_schema: JsonObject
    trusted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a turn begins with: the conversation so far, and the tools that the model may call."""

    entries: tuple[JsonObject, ...]
    tools: tuple[OfferedTool, ...]
    names: ToolNames

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
    if isinstance(most, int) and not isinstance(most, bool):
        found = bounded_conversation(found, most)
    return Turn(entries=tuple(found), tools=tuple(tools.values()), names=ToolNames.of(tools))


def _member(name: JsonValue, values: JsonValue, field: str) -> list[JsonValue] | str:
    """Return the list that a member of the state has; nothing yet is an empty one."""
    if name is None:
        return []
    if not isinstance(name, str):
        return f"`{field}` must name a member of the state"
    found = values.get(name) if isinstance(values, dict) else None
    if found is None:
        return []
    return found if isinstance(found, list) else f"`{field}`: the member {name} of the state is no list"


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
