"""Turns the prompts of a document into the messages of a request, and marks everything that the author did not write.

In a native document, the rendered prompt is aligned with the template it came from. Text that matches the author's own
words is kept as it is. Everything between is a value that jq inserted, and is marked as untrusted. A value that repeats
the author's words can at worst shift a mark; it cannot escape it. Published documents have literal prompts; if the user
prompt is missing, the run's state takes its place, marked. A conversation (`turns`) follows the prompt; what tools
returned, and what other servers say of their tools, is marked with the same mark.

Above it: `executor`. Below it: `untrusted`, `turns`, and the templates of `definitions`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.jq.expressions import Expression
from penstock.definitions.jq.templates import (
    LiteralTemplate,
    SecretTemplate,
    TextTemplate,
    as_text,
    compile_template,
)
from penstock.runtime.activities.performing import ActivityCall
from penstock.runtime.executors.llm.foreign_tools import described_tool, texts_of
from penstock.runtime.executors.llm.port import LlmMessage, LlmTool, LlmToolCall
from penstock.runtime.executors.llm.tool_names import ToolNames
from penstock.runtime.executors.llm.turns import OfferedTool, Turn, said_calls, said_thoughts
from penstock.runtime.executors.llm.untrusted import Fence, fence_for, text_of

__all__ = ["Prompts", "Segment", "build_prompts", "lay_over"]

# Values that cannot contain an instruction, so there is no need to mark them.
_HARMLESS = re.compile(r"(?:-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)?")
# The user message if there are only system instructions (as in the published engine).
# The errors for tools that the model may not call, or that do not exist.
_NO_TOOL = ("TOOL_UNKNOWN", "TOOL_NOT_ALLOWED", "OPERATION_NOT_FOUND")
_NOTHING_TO_ADD = "Proceed as instructed."


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a prompt: the author's words, or a value from outside."""

    text: str
    trusted: bool
    source: str | None = None


@dataclass(frozen=True, slots=True)
class _Draft:
    role: Literal["system", "user", "assistant", "tool"]
    segments: tuple[Segment, ...]
    tool_calls: tuple[LlmToolCall, ...] = ()
    call_id: str | None = None
    tool: str | None = None
    failed: bool = False
    thoughts: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """The messages for a model. `untrusted` is true if any part of them came from outside."""

    system: str | None
    messages: tuple[LlmMessage, ...]
    untrusted: bool
    tools: tuple[LlmTool, ...] = ()


def build_prompts(call: ActivityCall, *, turn: Turn | None = None, mark_untrusted: bool = True) -> Prompts | str:
    """The messages for one call, or a text that says what is wrong with its prompts."""
    activity = call.activity
    drafts = _native(activity.config, activity.arguments) if isinstance(activity.arguments, dict) else None
    if drafts is None:
        drafts = _published(activity.config)
    if isinstance(drafts, str):
        return drafts
    beginning = len(drafts)
    for index, entry in enumerate(turn.entries if turn is not None else ()):
        said = _entry(entry, turn.names if turn is not None else ToolNames({}))
        if said is None:
            return f"`conversation`: the entry {index} must be what a user or the model said, or the result of a tool"
        drafts.append(said)
    if not any(draft.role == "user" for draft in drafts):
        if call.values not in (None, {}):
            drafts.append(_Draft("user", (Segment(text_of(call.values), trusted=False, source="workflow state"),)))
        elif drafts:
            drafts.append(_Draft("user", (Segment(_NOTHING_TO_ADD, trusted=True),)))
        else:
            return "the node has no prompt, and the run has no state to use instead"
    fence = _fence(drafts, turn, beginning)
    return _written(drafts, turn, fence if mark_untrusted else None)


def lay_over(template: JsonValue, rendered: JsonValue) -> tuple[Segment, ...]:
    """Separate the author's words from the values in a rendered template.

    Everything outside the untrusted segments is a literal part of the template, in the template's order.
    """
    text = as_text(rendered)
    compiled = compile_template(template)
    match compiled:
        case LiteralTemplate() | SecretTemplate():
            return (Segment(text, trusted=True),)
        case TextTemplate(parts=parts):
            return tuple(segment for segment in _aligned(parts, text) if segment.text)
        case _:
            return (Segment(text, trusted=False),)


def _aligned(parts: tuple[str | Expression, ...], text: str) -> list[Segment]:
    head = parts[0] if isinstance(parts[0], str) else ""
    tail = parts[-1] if isinstance(parts[-1], str) and len(parts) > 1 else ""
    position, end = len(head), len(text) - len(tail)
    if not text.startswith(head) or not text.endswith(tail) or position > end:
        return [Segment(text, trusted=False)]
    found = [Segment(head, trusted=True)]
    inner = parts[1 if head else 0 : len(parts) - (1 if tail else 0)]
    for literal in (part for part in inner if isinstance(part, str)):
        place = text.find(literal, position, end)
        if place < 0:
            break
        found += [Segment(text[position:place], trusted=False), Segment(literal, trusted=True)]
        position = place + len(literal)
    return [*found, Segment(text[position:end], trusted=False), Segment(tail, trusted=True)]


def _native(config: JsonObject, arguments: JsonObject) -> list[_Draft] | str:
    drafts: list[_Draft] = []
    if arguments.get("system_prompt") is not None:
        drafts.append(_Draft("system", lay_over(config.get("system_prompt"), arguments["system_prompt"])))
    if arguments.get("messages") is not None:
        messages = _messages(config.get("messages"), arguments["messages"])
        if isinstance(messages, str):
            return messages
        drafts += messages
    for name in ("prompt", "user_prompt"):
        if arguments.get(name) is not None:
            drafts.append(_Draft("user", lay_over(config.get(name), arguments[name])))
    return drafts


def _published(config: JsonObject) -> list[_Draft] | str:
    drafts: list[_Draft] = []
    for name, role in (("system_prompt", "system"), ("user_prompt", "user"), ("prompt", "user")):
        text = config.get(name)
        if text is None or any(draft.role == role for draft in drafts):
            continue
        if not isinstance(text, str):
            return f"`{name}` must be a text"
        drafts.append(_Draft("system" if role == "system" else "user", (Segment(text, trusted=True),)))
    return drafts


def _messages(templates: JsonValue, rendered: JsonValue) -> list[_Draft] | str:
    if not isinstance(rendered, list):
        return "`messages` must be a list of {role, content}"
    # A list that jq built as a whole is data: its contents are marked, and it cannot contain instructions.
    written = templates if isinstance(templates, list) and len(templates) == len(rendered) else [None] * len(rendered)
    drafts: list[_Draft] = []
    for index, (template, message) in enumerate(zip(written, rendered, strict=True)):
        if not isinstance(message, dict) or "content" not in message:
            return f"`messages[{index}]` must have `role` and `content`"
        authored = template if isinstance(template, dict) else {}
        draft = _message(authored, message)
        if draft is None:
            return f"`messages[{index}].role` must be system, user, assistant or tool, written in the document itself"
        drafts.append(draft)
    return drafts


def _message(authored: JsonObject, message: JsonObject) -> _Draft | None:
    content, named = message["content"], message.get("name")
    segments = (
        lay_over(authored["content"], content) if "content" in authored else (Segment(text_of(content), trusted=False),)
    )
    match message.get("role"):
        case "system" if authored.get("role") == "system":
            return _Draft("system", segments)
        case "user":
            return _Draft("user", segments)
        case "assistant":
            return _Draft("assistant", segments)
        case "tool" | "untrusted":
            source = f"tool {named}" if isinstance(named, str) else "tool"
            return _Draft("user", (Segment(text_of(content), trusted=False, source=source),))
        case _:
            return None


def _entry(entry: JsonObject, names: ToolNames) -> _Draft | None:
    """One entry of a conversation; None if the value is not an entry."""
    match entry.get("role"):
        case "user" if isinstance(entry.get("text"), str):
            return _Draft("user", (Segment(str(entry["text"]), trusted=True),))
        case "user" if "data" in entry:
            source = entry.get("source")
            named = source if isinstance(source, str) else None
            return _Draft("user", (Segment(text_of(entry["data"]), trusted=False, source=named),))
        case "assistant":
            text = entry.get("text")
            said = Segment(text if isinstance(text, str) else "", trusted=True)
            return _Draft("assistant", (said,), tool_calls=said_calls(entry, names), thoughts=said_thoughts(entry))
        case "tool" if isinstance(entry.get("name"), str) and isinstance(entry.get("id"), str):
            name, failed = str(entry["name"]), entry.get("error") is not None
            content = _error_text(entry["error"], name, names) if failed else text_of(entry.get("content"))
            return _Draft(
                "tool",
                (Segment(content, trusted=entry.get("person") is True, source=f"tool {name}"),),
                call_id=str(entry["id"]),
                tool=names.wire.get(name) or ToolNames.of([name]).wire[name],
                failed=failed,
            )
        case _:
            return None


def _error_text(error: JsonValue, name: str, names: ToolNames) -> str:
    """Return why a call failed; for a tool that does not exist, with the name that may be meant."""
    text = text_of(error)
    meant = names.nearest(name) if name not in names.wire and text.startswith(_NO_TOOL) else None
    return f"{text}; did you mean {meant}?" if meant else text


def _fence(drafts: list[_Draft], turn: Turn | None, beginning: int) -> Fence:
    """Return the fence for all texts of a request, whose first `beginning` drafts are those of every turn."""
    # Sources are included, because an attribute must not contain the mark either.
    texts = [_texts(draft.segments) for draft in drafts] + [_texts(_told(tool)) for tool in _foreign(turn)]
    return fence_for((text for some in texts for text in some), beginning=sum(map(len, texts[:beginning])))


def _texts(segments: tuple[Segment, ...]) -> list[str]:
    return [text for segment in segments for text in (segment.text, segment.source or "")]


def _foreign(turn: Turn | None) -> list[OfferedTool]:
    return [tool for tool in turn.tools if not tool.trusted] if turn is not None else []


def _told(tool: OfferedTool) -> tuple[Segment, ...]:
    """The texts of another server about a tool."""
    texts = texts_of(tool.description, tool.input_schema)
    return tuple(Segment(text, trusted=False, source=f"tool {tool.name}") for text in texts)


def _described(tool: OfferedTool, fence: Fence | None) -> tuple[str, JsonObject]:
    """The description of a tool for a model. Texts of another server are marked, also in its schema."""
    if tool.trusted or fence is None:
        return tool.description, tool.input_schema
    source = f"tool {tool.name}"

    def wrapped(text: str) -> str:
        return fence.wrap(text, source) if _to_mark(Segment(text, trusted=False)) else text

    return described_tool(tool.description, tool.input_schema, wrapped)


def _written(drafts: list[_Draft], turn: Turn | None, fence: Fence | None) -> Prompts:
    said = [segment for draft in drafts for segment in draft.segments]
    told = [segment for tool in _foreign(turn) for segment in _told(tool)]
    outside = any(map(_to_mark, said + told))
    marking = fence if outside else None
    system = [_text(draft, marking) for draft in drafts if draft.role == "system"]
    if marking is not None:
        system.append(marking.notice)
    messages = tuple(_message_of(draft, marking) for draft in drafts if draft.role != "system")
    tools = turn.tools if turn is not None else ()
    described = {tool.name: _described(tool, fence) for tool in tools}
    return Prompts(
        system="\n\n".join(system) or None,
        messages=messages,
        untrusted=outside,
        tools=() if turn is None else turn.wire_tools(described),
    )


def _message_of(draft: _Draft, marking: Fence | None) -> LlmMessage:
    if draft.role == "system":
        raise TypeError("instructions are not a message")
    return LlmMessage(
        draft.role,
        _text(draft, marking),
        tool_calls=draft.tool_calls,
        call_id=draft.call_id,
        tool=draft.tool,
        failed=draft.failed,
        thoughts=draft.thoughts,
    )


def _text(draft: _Draft, marking: Fence | None) -> str:
    return "".join(
        marking.wrap(segment.text, segment.source) if marking is not None and _to_mark(segment) else segment.text
        for segment in draft.segments
    )


def _to_mark(segment: Segment) -> bool:
    return not segment.trusted and not _HARMLESS.fullmatch(segment.text.strip())
