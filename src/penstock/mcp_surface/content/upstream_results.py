"""The result of an imported tool, as its server gave it: content for the model, the same structure, the same error.

The text comes from another server, and the result is marked accordingly. A call that has not ended, or whose result is
too large to show, is shown like any other run.
"""

from __future__ import annotations

import msgspec

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject, JsonValue
from penstock.mcp_surface.content.blocks import ERROR_META, UNTRUSTED_META, content_blocks
from penstock.mcp_surface.tools.tool_list import Tool
from penstock.operations.runs.results import ExecutionResult

__all__ = ["upstream_result"]

_TOOL_ERROR = "MCP_TOOL_EXECUTION_ERROR"
_PLAIN = {"text", "content"}


def upstream_result(result: ExecutionResult, tool: Tool, characters_max: int) -> JsonObject | None:
    """Return the result of a call that has ended; None if it is to be shown like any other run."""
    meta: JsonObject = {
        UNTRUSTED_META: True,
        "penstock/server": tool.capability.metadata.get("server"),
        "penstock/execution_id": result.execution_id,
    }
    error = result.error
    if error is not None and result.status == "failed" and error.code == _TOOL_ERROR:
        meta[ERROR_META] = {"code": error.code, "message": error.message}
        return {"content": [_text(error.message)], "isError": True, "resultType": "complete", "_meta": meta}
    if result.status != "completed":
        return None
    output: JsonValue = msgspec.to_builtins(result.output)
    structured = _structured(output, tool)
    blocks = [_text(encode_bytes(structured).decode())] if structured is not None else _blocks(output)
    texts = sum(len(str(block.get("text", ""))) for block in blocks)
    if texts > characters_max or len(encode_bytes(blocks)) > limits.MCP_CONTENT_BYTES_MAX:
        return None
    shown: JsonObject = {"content": [*blocks], "isError": False, "resultType": "complete", "_meta": meta}
    return shown if structured is None else {**shown, "structuredContent": structured}


def _structured(output: JsonValue, tool: Tool) -> JsonObject | None:
    """Return the structured data of a result, if it has any; plain content stays text and blocks."""
    if not isinstance(output, dict):
        return None
    return output if tool.capability.metadata.get("structured") is True or not output.keys() <= _PLAIN else None


def _blocks(output: JsonValue) -> list[JsonObject]:
    kept = output if isinstance(output, dict) else {}
    listed = kept.get("content")
    if isinstance(listed, list):
        return content_blocks(listed)
    return [_text(str(kept["text"]) if "text" in kept else encode_bytes(output).decode())]


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}
