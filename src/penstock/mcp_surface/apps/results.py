"""What a page gets beside the structured content of a result: the status of the run, and where its button leads.

The address grants nothing: it leads to a page that asks for a key or for signing in. A run is read through the gate
with the caller's own key; a caller who may not read it gets a page without its nodes. Only clients that show pages get
any of this, in the metadata of results, which is not meant for models. Above it: `calls`. Below it: `views`.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

import msgspec

from penstock.base import limits
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject, JsonValue, object_or_empty
from penstock.mcp_surface.apps.views import RUN_PAGE, VIEW_META, view_of
from penstock.mcp_surface.callers import Caller, call_operation
from penstock.mcp_surface.content.waiting_text import answer_address
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.tools.tool_list import Tool, ToolList
from penstock.operations.drafts.views import DraftView
from penstock.operations.gate.pipeline import Gate
from penstock.operations.runs.results import ExecutionResult
from penstock.operations.runs.views import ExecutionView
from penstock.operations.runs.waits import QuestionView

__all__ = ["ViewedResults"]

_STATUS = "execution.status"
_OF_RUN = ("execution_id", "workflow_id", "status", "created_at", "updated_at", "ended_at", "error")
_ERROR_CHARACTERS_MAX = 500


class ViewedResults:
    """Adds to results what their pages show."""

    def __init__(self, gate: Gate, options: McpOptions) -> None:
        self._gate = gate
        self._options = options

    async def beside(
        self, result: JsonObject, caller: Caller, tool_list: ToolList, tool: Tool, value: object
    ) -> JsonObject:
        """Return a result with what its page shows, if the tool has a page; `value` is what the result was made of."""
        page = view_of(tool)
        if page is None or not isinstance(value, ExecutionResult | ExecutionView | DraftView):
            return result
        told: JsonObject = {}
        opened = self._opened(caller, value)
        if opened is not None:
            told["open"] = opened
        view = await self._run(caller, tool_list, value) if page == RUN_PAGE else None
        if view is not None:
            told["run"] = _shown(view)
        if not told:
            return result
        return {**result, "_meta": {**object_or_empty(result.get("_meta")), VIEW_META: told}}

    def _opened(self, caller: Caller, value: ExecutionResult | ExecutionView | DraftView) -> JsonObject | None:
        """Return where the button leads; None if no browser can reach the server."""
        if caller.address is None:
            return None
        address, console = caller.address.rstrip("/"), self._options.console_path
        draft = _draft(value)
        if draft is not None and console is not None:
            decided = isinstance(value, DraftView) and value.status != "waiting"
            return {
                "what": "draft" if decided else "approval",
                "url": f"{address}{console}/approvals/{quote(draft, safe='')}",
            }
        page = self._options.answer_page(caller.address)
        # Questions for a program are answered by it.
        question = next((item for item in _questions(value) if item.ask is None), None)
        if question is not None and page is not None:
            return {"what": "answer", "url": answer_address(value.execution_id, question, page)}
        if console is None:
            return None
        return {"what": "run", "url": f"{address}{console}/runs/{quote(value.execution_id, safe='')}"}

    async def _run(
        self, caller: Caller, tool_list: ToolList, value: ExecutionResult | ExecutionView | DraftView
    ) -> ExecutionView | None:
        """Return the run that a result is about; None for a held call, which has not become one yet."""
        if isinstance(value, ExecutionView):
            return value
        if isinstance(value, DraftView) or value.held is not None or _STATUS not in tool_list.operations:
            return None
        try:
            view = await call_operation(self._gate, caller, _STATUS, {"execution_id": value.execution_id})
        except PenstockError:
            return None  # the call has its result, and the page shows that; the refusal is on record
        return view if isinstance(view, ExecutionView) else None


def _draft(value: ExecutionResult | ExecutionView | DraftView) -> str | None:
    if isinstance(value, DraftView):
        return value.id
    if isinstance(value, ExecutionView):
        return None
    held = [*([value.held] if value.held is not None else []), *value.held_calls]
    return held[0].draft_id if held else None


def _questions(value: ExecutionResult | ExecutionView | DraftView) -> Sequence[QuestionView]:
    if isinstance(value, ExecutionView):
        return value.waiting_for.questions
    if isinstance(value, DraftView):
        return [] if value.question is None else [value.question]
    return value.questions


def _shown(view: ExecutionView) -> JsonObject:
    """Return a run without its data: its nodes, the newest visit of each."""
    run: JsonObject = {name: msgspec.to_builtins(getattr(view, name)) for name in _OF_RUN}
    nodes: list[JsonValue] = []
    # Those that have begun first: they are what there is to see if there are too many.
    for node in sorted(view.nodes, key=lambda item: item.started_at or "~")[: limits.MCP_VIEW_NODES_MAX]:
        short = node.error[:_ERROR_CHARACTERS_MAX] if node.error is not None else None
        nodes.append(msgspec.to_builtins(msgspec.structs.replace(node, error=short)))
    return {**run, "nodes": nodes, "nodes_left_out": len(view.nodes) - len(nodes)}
