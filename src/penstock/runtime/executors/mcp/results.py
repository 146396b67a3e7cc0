"""Results of tools: their validation against the tool's output schema, and their conversion to activity outcomes.

Above it: `executor`. Below it: `tool_listing`, the types of the SDK.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from mcp.client.client import Client
from mcp_types import CallToolResult, InputRequiredResult, TextContent
from pydantic import Discriminator, Tag, TypeAdapter

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject, JsonValue, exceeds_depth
from penstock.definitions.schemas.compiled import CompiledSchema, is_prompt, is_valid, load_schema
from penstock.runtime.activities.performing import ActivityDone, ActivityError, ActivityOutcome
from penstock.runtime.executors.mcp.session import McpSession
from penstock.runtime.executors.mcp.tool_listing import listed_tools
from penstock.runtime.executors.outbound.error_text import truncated

__all__ = ["TOOL_RESPONSE", "check_result", "outcome_of", "taken"]

_COMPLETE, _ASKS = "complete", "input_required"


def _kind(answer: Any) -> str:
    return _ASKS if isinstance(answer, dict) and answer.get("resultType") == _ASKS else _COMPLETE


TOOL_RESPONSE: Final[TypeAdapter[CallToolResult | InputRequiredResult]] = TypeAdapter(
    Annotated[
        Annotated[CallToolResult, Tag(_COMPLETE)] | Annotated[InputRequiredResult, Tag(_ASKS)], Discriminator(_kind)
    ]
)
"""The answer to a call: a result, or questions."""


async def check_result(connection: McpSession, client: Client, tool: str, result: CallToolResult) -> None:
    """Validate a result against the output schema of its tool. Raises `RuntimeError` if it does not match.

    A result that would take long to validate is not validated: that would block everything else, and the result is
    untrusted anyway.
    """
    if result.is_error:
        return
    if connection.schemas is None:
        connection.listed(await listed_tools(connection.name, client))
    schema = (connection.schemas or {}).get(tool)
    if schema is None:
        return
    if "structured_content" not in result.model_fields_set:
        raise RuntimeError("the tool has an output schema and gave no structured content")
    compiled = load_schema(schema)
    if not isinstance(compiled, CompiledSchema):
        raise RuntimeError(  # noqa: TRY004  # as the library says it of a server that breaks its word
            f"the tool's output schema cannot be used: {compiled.message}"
        )
    value: JsonValue = result.structured_content
    if exceeds_depth(value, limits.JSON_DEPTH_MAX) or not is_prompt(compiled, value, len(encode_bytes(value))):
        return
    if not is_valid(compiled, value):
        raise RuntimeError("the structured content does not fit the tool's output schema")


def outcome_of(server: str, tool: str, result: CallToolResult) -> ActivityOutcome:
    """The activity outcome of a tool result."""
    who = f"{server}/{tool}"
    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    if result.is_error:
        message = "\n".join(texts) or f"{who} reported an error without a text"
        return ActivityError(truncated(message), "MCP_TOOL_EXECUTION_ERROR")
    return taken(server, tool, _value(result, texts))


def taken(server: str, tool: str, value: JsonValue) -> ActivityOutcome:
    """The outcome of a call that a server answered with a value, if that is not too large."""
    who = f"{server}/{tool}"
    if exceeds_depth(value, limits.JSON_DEPTH_MAX):
        message = f"{who}: the result nests deeper than {limits.JSON_DEPTH_MAX} levels"
        return ActivityError(message, "MCP_PROTOCOL_ERROR", retryable=False)
    size = len(encode_bytes(value))
    if size > limits.MCP_CONTENT_BYTES_MAX:
        message = f"{who}: the result has {size} bytes, at most {limits.MCP_CONTENT_BYTES_MAX} are taken"
        return ActivityError(message, "MCP_RESULT_TOO_LARGE", retryable=False)
    return ActivityDone(value, {"untrusted": True, "server": server, "tool": tool})


def _value(result: CallToolResult, texts: list[str]) -> JsonValue:
    if result.structured_content is not None:
        structured: JsonValue = result.structured_content
        return structured
    value: JsonObject = {}
    if texts:
        value["text"] = "\n".join(texts)
    if len(texts) < len(result.content) or not texts:
        # Images, links and the like are kept unchanged, beside the text if there is one.
        value["content"] = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content]
    return value
