"""`tool.execute`: calls a registered tool, whatever performs it.

It stands for the call of the capability `tool:ID`, about which the gate decides.

Above it: the catalogue. Below it: `tools`, `registered_tools.capabilities`.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from penstock.base.errors import NotFound, PenstockError
from penstock.base.json import JsonObject
from penstock.operations.catalogue.capability import Capability, Example, Route
from penstock.operations.catalogue.declaring import operation
from penstock.operations.catalogue.reasons import SIGNATURE_ERRORS
from penstock.operations.gate.context import Context
from penstock.operations.registered_tools.capabilities import (
    DEFINE_TOOL,
    RUN_TOOL_SCOPE,
    define_tool_workflow,
    tool_name,
)
from penstock.operations.registries.registry import resource_id_type
from penstock.operations.registries.tools import TOOLS
from penstock.operations.runs.results import ExecutionResult

__all__ = ["OPERATIONS"]


class ExecuteTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which tool, and with what."""

    tool_id: resource_id_type("tool", "search")  # type: ignore[valid-type]  # made by a function
    arguments: Annotated[
        dict[str, Any], Meta(description="What the tool takes, as its input schema says.", examples=[{"query": "tea"}])
    ] = {}


class DefineTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which tool."""

    tool_id: str


class DefinedTool(msgspec.Struct, frozen=True, kw_only=True):
    """The version that is stored."""

    hash: str


@operation(DEFINE_TOOL, route=None, scopes=("workflow:write",), subject="tool_id")
async def tool_define(context: Context, given: DefineTool) -> DefinedTool:
    """Store the workflow that calls of a registered tool run."""
    return DefinedTool(hash=await define_tool_workflow(context, await TOOLS.table.find(context, given.tool_id)))


def _in_its_place(arguments: JsonObject) -> tuple[str, JsonObject, PenstockError] | None:
    """Return the call of the tool that arguments name, and the error if there is no such tool."""
    tool_id, given = arguments.get("tool_id"), arguments.get("arguments", {})
    if not isinstance(tool_id, str) or not isinstance(given, dict) or not arguments.keys() <= {"tool_id", "arguments"}:
        return None
    return tool_name(tool_id), given, _unknown(tool_id)


def _unknown(tool_id: str) -> NotFound:
    message = f"there is no tool {tool_id[:100]} that this key may call"
    return NotFound(TOOLS.table.not_found_code, message, "list them with tool.list")


@operation(
    "tool.execute",
    route=Route(method="POST", path="/tools/{tool_id}/executions"),
    scopes=(RUN_TOOL_SCOPE,),
    destructive=True,
    open_world=True,
    risk="medium",
    subject="tool_id",
    stands_for=_in_its_place,
    find=TOOLS.table.finder("tool_id"),
    errors=(*SIGNATURE_ERRORS, "TOOL_NOT_FOUND", "VALUE_NOT_JSON", "QUOTA_EXCEEDED", "NOT_CONFIGURED"),
    examples=(Example(arguments={"tool_id": "search", "arguments": {"query": "tea"}}),),
)
async def tool_execute(context: Context, given: ExecuteTool) -> ExecutionResult:
    """Call a registered tool.

    Starts a durable run of one call and waits for it for a limited time. If it takes longer or asks something, the
    answer has the status of the run; continue with execution.wait, execution.answer or execution.cancel.
    """
    raise _unknown(given.tool_id)


OPERATIONS: tuple[Capability, ...] = (tool_execute, tool_define)
