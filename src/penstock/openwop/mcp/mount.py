"""The MCP mount of the OpenWOP wire: one POST, one JSON document, without a handshake and without a session.

    POST /v1/mcp  {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}

Protocol errors are answered with status 200, as clients of that wire expect, and invalid arguments are a protocol
error. Clients also send `sampling/createMessage` and `elicitation/create` here, which MCP has in the other direction;
workflows that are exposed for this handle them. A client that speaks MCP as specified (a version, a session, event
streams) is passed to the MCP endpoint: the address serves both. Nothing is remembered between two requests, and nothing
here imports the SDK.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeAlias

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.asgi import READS, client_left, send_body
from penstock.base.choices import refuse_choice
from penstock.base.encoding import encode_bytes
from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject, JsonValue
from penstock.mcp_surface.audit import MESSAGE, reason_of, record_error, record_refusal
from penstock.mcp_surface.callers import Caller, ProtocolFault
from penstock.mcp_surface.calls.calls import ToolCalls
from penstock.mcp_surface.content.blocks import messages_at, result_at
from penstock.mcp_surface.endpoint import CALLER_STATE, WHOLE_KEYS_STATE, McpEndpoint
from penstock.mcp_surface.methods import CALL, known_method, reads_only
from penstock.mcp_surface.metrics import McpMetrics
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.questions.clients import Client
from penstock.mcp_surface.resources.contents import Contents
from penstock.mcp_surface.tools.registry import ToolRegistry
from penstock.mcp_surface.tools.tool_list import ToolList
from penstock.mcp_surface.wire.codes import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR
from penstock.mcp_surface.wire.messages import error_message
from penstock.openwop.mcp.inbound import Inbound, idempotency_key, project_result
from penstock.openwop.mcp.json_answers import as_json_only, spoken_to
from penstock.operations.catalogue.errors import mapping_of
from penstock.operations.catalogue.reasons import hint_of
from penstock.operations.gate.context import Principal
from penstock.operations.gate.pipeline import Gate

__all__ = ["OPENWOP_PROTOCOL_VERSIONS", "OpenwopMount"]

OPENWOP_PROTOCOL_VERSIONS = ("2025-06-18", "2025-11-25", "2025-03-26", "2024-11-05")
"""The revisions that `initialize` negotiates here; the wire's profile was written for the first one."""

_REVISION_STATE = "mcp_revision"
_LEVELS = frozenset({"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"})
# The schemes that the wire's profile allows; resources with other schemes are read at the MCP endpoint.
_SCHEMES = frozenset({"mcp", "openwop-resource", "https", "penstock"})

Method: TypeAlias = Callable[[Caller, JsonObject], Awaitable[JsonObject]]


class OpenwopMount:
    """The ASGI application at the mount: answers plain requests, and passes others to `strict`, the MCP endpoint."""

    surface = "mcp"

    def __init__(self, gate: Gate, options: McpOptions, strict: ASGIApp, *, sampling: bool) -> None:
        self._strict = strict

        async def load() -> _PlainBackend:
            return _PlainBackend(gate, options, sampling=sampling)

        self._plain = McpEndpoint(gate, options, load)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        spoken, again = await spoken_to(scope, receive)
        # On this wire, questions from two runs of one workflow are distinguished by their keys.
        scope.setdefault("state", {})[WHOLE_KEYS_STATE] = True
        if spoken == "plain":
            await self._plain(scope, again, send)
        elif spoken == "strict":
            await self._strict(scope, again, send)
        else:
            await as_json_only(self._strict, scope, again, send)

    async def close(self) -> None:
        """Accept no more requests, and answer those in flight."""
        await self._plain.close()


class _PlainBackend:
    """Answers requests without a handshake, one at a time."""

    def __init__(self, gate: Gate, options: McpOptions, *, sampling: bool) -> None:
        self._gate = gate
        self._options = options
        self._registry = ToolRegistry(gate, options)
        self._calls = ToolCalls(gate, self._registry, options)
        self._contents = Contents(gate, self._registry, self._calls)
        self._inbound = Inbound(gate, options, sampling=sampling)
        self._metrics = McpMetrics(gate.services.telemetry)
        self._methods: dict[str, Method] = {
            "initialize": self._initialize,
            "ping": _empty_result,
            "logging/setLevel": _set_level,
            "tools/list": self._list_tools,
            CALL: self._call_tool,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read_resource,
            "prompts/list": self._list_prompts,
            "prompts/get": self._get_prompt,
            "completion/complete": self._complete,
            "sampling/createMessage": self._inbound.sample,
            "elicitation/create": self._inbound.elicit,
            "roots/list": self._inbound.roots,
        }

    async def stop(self) -> None:
        """Stop; nothing is open."""

    async def handle(self, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request whose caller is authenticated."""
        if scope["method"] != "POST":
            await _send(send, 405, error_message(None, INVALID_REQUEST, "use POST"), (b"allow", b"POST"))
            return
        body = await _body(receive, self._options.max_body_bytes)
        if body is None:
            await _send(send, 413, error_message(None, INVALID_REQUEST, "the body is too large"))
            return
        scope["state"][_REVISION_STATE] = _revision(scope)
        answer = await _unless_disconnected(self._answer(scope["state"], body), receive)
        if isinstance(answer, _ClientLeft):
            return
        await (_send(send, 202, None) if answer is None else _send(send, 200, answer))

    async def _answer(self, state: dict[str, Any], body: bytes) -> JsonObject | None:
        """Return the answer to a message; None for a notification."""
        try:
            return await self._answer_to(state, body)
        except ProtocolFault as fault:
            record_error(self._gate, state[CALLER_STATE], MESSAGE, fault)
            return error_message(None, fault.code, fault.message)

    async def _answer_to(self, state: dict[str, Any], body: bytes) -> JsonObject | None:
        try:
            message = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise ProtocolFault(PARSE_ERROR, "Parse error") from None
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            raise ProtocolFault(INVALID_REQUEST, "Invalid Request")
        request_id, method, params = message.get("id"), message.get("method"), message.get("params", {})
        if not isinstance(method, str):
            # A response to a question that this server never asks is ignored; anything else is invalid.
            if "id" in message and ("result" in message or "error" in message):
                return None
            raise ProtocolFault(INVALID_REQUEST, "Invalid Request")
        if "id" not in message:
            return None
        if not isinstance(request_id, str | int) or isinstance(request_id, bool):
            raise ProtocolFault(INVALID_REQUEST, "the id must be a text or a whole number")
        if not isinstance(params, dict):
            record_refusal(self._gate, state[CALLER_STATE], MESSAGE, reason_of(INVALID_PARAMS))
            return error_message(request_id, INVALID_PARAMS, "params must be an object", {"params": "object"})
        return await self._result(state, request_id, method, params)

    async def _result(
        self, state: dict[str, Any], request_id: str | int, method: str, params: JsonObject
    ) -> JsonObject:
        caller: Caller = state[CALLER_STATE]
        began, status, called = time.perf_counter(), "error", "refused"
        try:
            result = _for_revision(state[_REVISION_STATE], await self._dispatch(caller, method, params))
            status, called = "ok", "error" if result.get("isError") else "ok"
        except asyncio.CancelledError:
            status = called = "left"
            raise
        except ProtocolFault as fault:
            record_error(self._gate, caller, known_method(method), fault)
            return error_message(request_id, fault.code, fault.message, fault.data)
        except PenstockError as error:
            record_error(self._gate, caller, known_method(method), error)
            data: JsonObject = {"code": error.code, "hint": hint_of(error), "details": error.details or None}
            return error_message(request_id, mapping_of(error).json_rpc, error.message, data)
        finally:
            self._metrics.answered(method, status, time.perf_counter() - began)
            tool_list = (
                self._registry.last_of(caller.principal, caller.toolset, caller.remote) if method == CALL else None
            )
            tool = tool_list.find(str(params.get("name"))) if tool_list is not None else None
            if method == CALL:
                self._metrics.called(tool, called)
            if reads_only(method, tool):
                state[READS] = True
        return {"jsonrpc": "2.0", "id": request_id, "result": result}

    async def _dispatch(self, caller: Caller, method: str, params: JsonObject) -> JsonObject:
        known = self._methods.get(method)
        if known is None:
            raise ProtocolFault(METHOD_NOT_FOUND, f"Method not found: {method[:100]}")
        return await known(caller, params)

    async def _tool_list(self, caller: Caller) -> ToolList:
        return await self._registry.of(caller.principal, caller.toolset, caller.remote)

    async def _initialize(self, caller: Caller, params: JsonObject) -> JsonObject:
        asked = params.get("protocolVersion")
        version = asked if asked in OPENWOP_PROTOCOL_VERSIONS else OPENWOP_PROTOCOL_VERSIONS[0]
        return {
            "protocolVersion": version,
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}, "completions": {}, "logging": {}},
            "serverInfo": {"name": "penstock", "title": "Penstock", "version": self._options.version},
        }

    async def _list_tools(self, caller: Caller, params: JsonObject) -> JsonObject:
        return {"tools": [tool.listed for tool in (await self._tool_list(caller)).tools]}

    async def _call_tool(self, caller: Caller, params: JsonObject) -> JsonObject:
        name, arguments = _text(params, "name"), params.get("arguments", {})
        if not isinstance(arguments, dict):
            raise ProtocolFault(INVALID_PARAMS, "arguments must be an object", {"arguments": "object"})
        client = Client(strict=True, idempotency_key=idempotency_key(params))
        result = await self._calls.call(caller, name, arguments, client)
        tool = (await self._tool_list(caller)).find(name)
        return project_result(result) if tool is not None and tool.starts_execution else _plain(result)

    async def _list_resources(self, caller: Caller, params: JsonObject) -> JsonObject:
        found = await self._contents.resources(caller)
        listed: list[JsonValue] = [item for item in found if _is_allowed(str(item["uri"]))]
        return {"resources": listed}

    async def _list_templates(self, caller: Caller, params: JsonObject) -> JsonObject:
        found = await self._contents.templates(caller)
        return {"resourceTemplates": [item for item in found if _is_allowed(str(item["uriTemplate"]))]}

    async def _read_resource(self, caller: Caller, params: JsonObject) -> JsonObject:
        uri = _text(params, "uri")
        if not _is_allowed(uri):
            schemes: list[JsonValue] = [*sorted(_SCHEMES)]
            raise ProtocolFault(INVALID_PARAMS, "resources of this scheme are not read here", {"schemes": schemes})
        return _plain(await self._contents.read(caller, uri, legacy=True))

    async def _list_prompts(self, caller: Caller, params: JsonObject) -> JsonObject:
        prompts: list[JsonValue] = [*await self._contents.prompts(caller)]
        return {"prompts": prompts}

    async def _get_prompt(self, caller: Caller, params: JsonObject) -> JsonObject:
        given = params.get("arguments", {})
        if not isinstance(given, dict) or not all(isinstance(text, str) for text in given.values()):
            raise ProtocolFault(INVALID_PARAMS, "arguments must be an object of texts", {"arguments": "object"})
        arguments = {name: str(text) for name, text in given.items()}
        return _plain(await self._contents.prompt(caller, _text(params, "name"), arguments))

    async def _complete(self, caller: Caller, params: JsonObject) -> JsonObject:
        reference, argument = params.get("ref"), params.get("argument")
        if not isinstance(reference, dict) or not isinstance(argument, dict):
            raise ProtocolFault(INVALID_PARAMS, "ref and argument must be objects", {"ref": "object"})
        about = reference.get("name", reference.get("uri"))
        begun = _text(argument, "value", empty=True)
        return {"completion": await self._contents.completion(caller, str(about), _text(argument, "name"), begun)}


def _revision(scope: Scope) -> str:
    """Return the revision that a request names, or else that of the wire's profile."""
    named = dict(scope["headers"]).get(b"mcp-protocol-version", b"").decode("latin-1").strip()
    return named or OPENWOP_PROTOCOL_VERSIONS[0]


def _for_revision(revision: str, result: JsonObject) -> JsonObject:
    """Return a result with only the blocks that a revision has."""
    return messages_at(revision, result_at(revision, result))


async def _empty_result(caller: Caller, params: JsonObject) -> JsonObject:
    return {}


async def _set_level(caller: Caller, params: JsonObject) -> JsonObject:
    """Check the level and do nothing: responses here cannot carry log messages."""
    level = _text(params, "level")
    if level not in _LEVELS:
        levels: list[JsonValue] = [*sorted(_LEVELS)]
        raise ProtocolFault(INVALID_PARAMS, f"level: {refuse_choice(level, _LEVELS)}", {"levels": levels})
    return {}


def _text(params: JsonObject, name: str, *, empty: bool = False) -> str:
    found = params.get(name)
    if not isinstance(found, str) or not (found or empty):
        raise ProtocolFault(INVALID_PARAMS, f"{name} must be a text", {name: "string"})
    return found


def _is_allowed(uri: str) -> bool:
    return uri.partition(":")[0].lower() in _SCHEMES


def _plain(result: JsonObject) -> JsonObject:
    """Return a result without the members that only later revisions have."""
    return {name: value for name, value in result.items() if name != "resultType"}


async def _body(receive: Receive, maximum: int) -> bytes | None:
    """Return the body; None if it is too large."""
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            break
        part = message.get("body", b"")
        size, more = size + len(part), message.get("more_body", False)
        if size <= maximum:
            parts.append(part)
    return b"".join(parts) if size <= maximum else None


class _ClientLeft:
    """Marks that the client has disconnected."""


async def _unless_disconnected(work: Awaitable[JsonObject | None], receive: Receive) -> JsonObject | _ClientLeft | None:
    """Return the result of some work.

    The work is cancelled if the client disconnects first, or if this is cancelled.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(client_left(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else _ClientLeft()
    finally:
        for task in (working, leaving):
            if not task.done():
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


async def _send(send: Send, status: int, answer: JsonObject | None, *headers: tuple[bytes, bytes]) -> None:
    body = b"" if answer is None else encode_bytes(answer)
    own = [(b"content-length", b"%d" % len(body)), *headers]
    if answer is not None:
        own.append((b"content-type", b"application/json"))
    await send_body(send, status, own, body)
