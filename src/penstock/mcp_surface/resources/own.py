"""Resources of the server itself: workflows, their versions, runs, their histories and results.

    penstock://workflows/{workflow_id}                    the newest document and the schemas
    penstock://workflows/{workflow_id}/versions/{hash}    a version of it
    penstock://executions/{execution_id}                  the status of a run
    penstock://executions/{execution_id}/history          what happened
    penstock://executions/{execution_id}/result           its output, and nothing else

Everything is read through the gate with the caller's own key: what a caller may not see does not exist for them.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

import msgspec

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.errors import NotFound, PenstockError, Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.mcp_surface.callers import Caller, call_operation
from penstock.mcp_surface.content.blocks import marked
from penstock.mcp_surface.content.results import execution_uri, plain_text, result_uri, workflow_uri
from penstock.mcp_surface.tools.registry import ToolRegistry
from penstock.operations.gate.pipeline import Gate

__all__ = ["TEMPLATES", "VERSION_TEMPLATE", "OwnResources"]

_JSON = "application/json"
_TEXT = "text/plain"
_URI = re.compile(
    r"penstock://(?:workflows/(?P<workflow>[^/?#\s]{1,600})(?:/versions/(?P<hash>[0-9a-zA-Z:_-]{1,80}))?"
    r"|executions/(?P<execution>[^/?#\s]{1,600})(?P<part>/history|/result)?)"
)
_HIDDEN = ("SCOPE_REQUIRED", "INVALID_ARGUMENTS")

VERSION_TEMPLATE = "penstock://workflows/{workflow_id}/versions/{hash}"
TEMPLATES: tuple[JsonObject, ...] = (
    {
        "uriTemplate": "penstock://executions/{execution_id}",
        "name": "execution",
        "title": "An execution",
        "description": "Status, input, output, nodes, and what it waits for.",
        "mimeType": _JSON,
    },
    {
        "uriTemplate": "penstock://executions/{execution_id}/history",
        "name": "execution_history",
        "title": "The history of a run",
        "description": "Every decision and every event, oldest first.",
        "mimeType": _JSON,
    },
    {
        "uriTemplate": "penstock://executions/{execution_id}/result",
        "name": "execution_result",
        "title": "The result of a run",
        "description": "The whole output of a run that has completed, and nothing else.",
    },
    {
        "uriTemplate": "penstock://workflows/{workflow_id}",
        "name": "workflow",
        "title": "A workflow",
        "description": "Its document, and the schemas of its input and output.",
        "mimeType": _JSON,
    },
    {
        "uriTemplate": VERSION_TEMPLATE,
        "name": "workflow_version",
        "title": "A version of a workflow",
        "description": "The document as it was under this hash, which runs and tools name.",
        "mimeType": _JSON,
    },
)


class OwnResources:
    """Lists and reads the server's own resources for all callers."""

    def __init__(self, gate: Gate, registry: ToolRegistry) -> None:
        self._gate = gate
        self._registry = registry

    async def _answer(self, caller: Caller, operation: str, **arguments: JsonValue) -> Any:
        """Return the answer of an operation as JSON; refusals are raised."""
        return msgspec.to_builtins(await call_operation(self._gate, caller, operation, dict(arguments)))

    async def page(self, caller: Caller, operation: str, **arguments: JsonValue) -> list[JsonObject]:
        """Return the first page of a list; empty for a caller who may not read it."""
        tool_list = await self._registry.of(caller.principal, caller.toolset, caller.remote)
        if operation not in tool_list.operations:
            return []
        items: list[JsonObject] = (await self._answer(caller, operation, **arguments))["items"]
        return items

    async def versions(self, caller: Caller, workflow_id: str) -> list[str]:
        """Return the hashes of a workflow's versions, newest first; empty if the caller may not read the workflow."""
        try:
            items = await self.page(caller, "workflow.versions", workflow_id=workflow_id, limit=limits.PAGE_LIMIT_MAX)
        except (NotFound, Rejected):
            return []
        return list(dict.fromkeys(str(item["hash"]) for item in items))

    async def listed(self, caller: Caller) -> list[JsonObject]:
        """List the workflows and the most recently started runs."""
        workflows = await self.page(caller, "workflow.list", limit=limits.PAGE_LIMIT_MAX)
        executions = await self.page(caller, "execution.list", limit=limits.MCP_EXECUTIONS_LISTED)
        return [_workflow_resource(item) for item in workflows] + [_execution_resource(item) for item in executions]

    async def read(self, caller: Caller, uri: str) -> JsonObject | None:
        """Return the contents at an address; None if there is nothing that the caller may see."""
        match = _URI.fullmatch(uri)
        if match is None:
            return None
        try:
            if match["workflow"] is not None:
                return await self._workflow(caller, unquote(match["workflow"]), match["hash"])
            execution_id = unquote(match["execution"])
            if match["part"] == "/history":
                # A history may contain text from outside; it is always marked, without looking at each record.
                return marked(_contents(await self._history(caller, execution_id)), untrusted=True)
            view = await self._answer(caller, "execution.status", execution_id=execution_id)
            found = _result(view) if match["part"] == "/result" else _contents(view)
            return marked(found, untrusted=view["untrusted"])
        except PenstockError as error:
            if isinstance(error, NotFound) or error.code in _HIDDEN:
                return None
            raise

    async def _workflow(self, caller: Caller, workflow_id: str, definition_hash: str | None) -> JsonObject:
        version: JsonObject = {} if definition_hash is None else {"hash": definition_hash}
        return _contents(await self._answer(caller, "workflow.get", workflow_id=workflow_id, **version))

    async def _history(self, caller: Caller, execution_id: str) -> JsonObject:
        """Return the history, up to the size limit of a resource; `next_cursor` says where the rest begins."""
        records: list[JsonValue] = []
        cursor: JsonValue = None
        while True:
            after: JsonObject = {} if cursor is None else {"cursor": cursor}
            page = await self._answer(
                caller, "execution.history", execution_id=execution_id, limit=limits.PAGE_LIMIT_MAX, **after
            )
            records += page["items"]
            cursor = page["next_cursor"]
            if cursor is None or len(encode_bytes(records)) > limits.MCP_CONTENT_BYTES_MAX:
                return {"items": records, "next_cursor": cursor}


def _contents(value: JsonValue) -> JsonObject:
    return {"mimeType": _JSON, "text": plain_text(value)}


def _result(view: JsonObject) -> JsonObject:
    """Return the output of a run; its status, if there is no output yet."""
    if view["status"] != "completed":
        message = {name: view[name] for name in ("execution_id", "workflow_id", "status", "error") if view.get(name)}
        return _contents(message)
    output = view.get("output")
    return {"mimeType": _TEXT, "text": output} if isinstance(output, str) else _contents(output)


def _workflow_resource(item: JsonObject) -> JsonObject:
    entry: JsonObject = {"uri": workflow_uri(str(item["id"])), "name": item["id"], "mimeType": _JSON}
    return _with_words(entry, title=item.get("title"), description=item.get("description"))


def _execution_resource(item: JsonObject) -> JsonObject:
    execution_id = str(item["execution_id"])
    uri = result_uri(execution_id) if item["status"] == "completed" else execution_uri(execution_id)
    entry: JsonObject = {"uri": uri, "name": execution_id, "mimeType": _JSON}
    return _with_words(entry, title=None, description=f"{item['workflow_id']}: {item['status']}")


def _with_words(entry: JsonObject, *, title: JsonValue, description: JsonValue) -> JsonObject:
    words = {"title": title, "description": description}
    return {**entry, **{name: text for name, text in words.items() if text}}
