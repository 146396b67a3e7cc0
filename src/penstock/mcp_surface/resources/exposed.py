"""The result of a run that was started by reading: the contents of a resource, the messages of a prompt.

A run that failed, has not ended, or waits for somebody whom the client cannot ask is a protocol error, because
the result of a read cannot express it. The error names the run, which continues.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from penstock.base.json import JsonObject, JsonValue
from penstock.mcp_surface.callers import ProtocolFault
from penstock.mcp_surface.content.blocks import marked
from penstock.mcp_surface.content.results import content_blocks, plain_text, result_uri
from penstock.mcp_surface.wire.codes import INTERNAL_ERROR
from penstock.operations.catalogue.exposure import ExposedPrompt, ExposedResource
from penstock.operations.runs.results import ExecutionResult

__all__ = ["NOT_THERE", "completed_output", "prompt_messages", "resource_contents"]

NOT_THERE = "RESOURCE_NOT_FOUND"
"""The error code with which a workflow says that nothing exists at the address."""

_TEXT = "text/plain"
_JSON = "application/json"
_BINARY = "application/octet-stream"
_ROLES = ("user", "assistant")


def completed_output(result: ExecutionResult) -> JsonValue:
    """Return the output of a run; raises `ProtocolFault`, with what to do, if it has none."""
    if result.status == "completed":
        output: JsonValue = msgspec.to_builtins(result.output)
        return output
    data: JsonObject = {"execution_id": result.execution_id, "status": result.status}
    data = marked(data, untrusted=result.untrusted)
    if result.error is not None:
        data["code"] = result.error.code
        raise ProtocolFault(INTERNAL_ERROR, f"{result.error.code}: {result.error.message}", data, on_record=True)
    where = result_uri(result.execution_id)
    data["uri"] = where
    if result.questions:
        message = f"waits for an answer: {plain_text(result.questions[0].prompt)}"
    else:
        message = f"has not ended yet (status: {result.status})"
    message = f"The run {result.execution_id} {message}. Read {where} later"
    raise ProtocolFault(INTERNAL_ERROR, message, data, on_record=True)


def resource_contents(resource: ExposedResource, uri: str, output: JsonValue) -> list[JsonObject]:
    """Return an output as the contents of a resource."""
    if resource.result == "content":
        items = output if isinstance(output, list) else [output]
        return [_content(resource, uri, item) for item in items]
    kind = resource.mime_type or (_TEXT if isinstance(output, str) else _JSON)
    return [{"uri": uri, "mimeType": kind, "text": plain_text(output)}]


def _content(resource: ExposedResource, uri: str, item: JsonValue) -> JsonObject:
    """Convert a piece of content: `{text}` or `{blob}`, a block of MCP content, or anything else as text."""
    found: JsonObject = item if isinstance(item, dict) else {}
    if found.get("type") == "resource" and isinstance(found.get("resource"), dict):
        inner: Any = found["resource"]
        found = inner
    blob = found.get("blob", found.get("data"))
    mime_type = found.get("mimeType")
    kind = mime_type if isinstance(mime_type, str) and mime_type else resource.mime_type
    if isinstance(blob, str) and _is_base64(blob):
        return {"uri": _own_uri(found, uri), "mimeType": kind or _BINARY, "blob": blob}
    if isinstance(found.get("text"), str):
        return {"uri": _own_uri(found, uri), "mimeType": kind or _TEXT, "text": found["text"]}
    return {"uri": uri, "mimeType": kind or (_TEXT if isinstance(item, str) else _JSON), "text": plain_text(item)}


def _own_uri(found: JsonObject, uri: str) -> str:
    """Return the address of a piece; pieces may have their own below the one that is read."""
    own = found.get("uri")
    return own if isinstance(own, str) and own.startswith(uri) else uri


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def prompt_messages(prompt: ExposedPrompt, output: JsonValue) -> JsonObject:
    """Return an output as the messages of a prompt."""
    description: JsonValue = prompt.description or prompt.name
    if isinstance(output, dict) and isinstance(output.get("messages"), list):
        description = output["description"] if isinstance(output.get("description"), str) else description
        output = output["messages"]
    items = output if isinstance(output, list) else [output]
    messages: list[JsonValue] = [message for item in items for message in _messages(item)]
    return {"description": description, "messages": messages}


def _messages(item: JsonValue) -> list[JsonValue]:
    """Return a message for each block of content; the role is `user` unless the item says otherwise."""
    role: JsonValue = "user"
    if isinstance(item, dict) and item.get("role") in _ROLES and "content" in item:
        role, item = item["role"], item["content"]
    return [{"role": role, "content": block} for block in content_blocks(item)]
