"""Where `app` and the command line enter: a backend for HTTP, and a server for a client on stdio.

Importing this module loads the SDK, which takes most of a second, so `app` imports it when the first client comes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import structs

from penstock.asgi import CODE, Headers, State
from penstock.base.json import JsonObject
from penstock.mcp_surface.audit import MESSAGE, reason_in, record_refusal
from penstock.mcp_surface.caller_tools import CallerTools
from penstock.mcp_surface.callers import Caller
from penstock.mcp_surface.endpoint import CALLER, CALLER_STATE, McpBackend
from penstock.mcp_surface.eras.http import ERROR_STATUSES, SdkHttpBackend
from penstock.mcp_surface.eras.stdio import serve_pipe
from penstock.mcp_surface.fast_path.backend import FastPath
from penstock.mcp_surface.handlers import Context
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.origins import SdkOrigin
from penstock.mcp_surface.rates import RequestRates, called_tool, error_data, retry_headers
from penstock.mcp_surface.server import build_mcp_server
from penstock.mcp_surface.tools.registry import ToolRegistry
from penstock.mcp_surface.wire.messages import error_message
from penstock.mcp_surface.wire.pipe import Pipe, PipeHandover
from penstock.operations.catalogue.errors import mapping_of
from penstock.operations.gate.pipeline import Gate

__all__ = ["open_http_backend", "serve_stdio"]


async def open_http_backend(gate: Gate, options: McpOptions) -> McpBackend:
    """Build a backend for requests that the endpoint has authenticated."""

    def caller_of(context: Context) -> Caller:
        request: Any = context.request
        state: State = request.scope["state"]
        caller: Caller = state[CALLER_STATE]
        if not isinstance(caller.origin, SdkOrigin):
            origin = SdkOrigin(context, caller.origin)
            caller = state[CALLER_STATE] = structs.replace(caller, origin=origin)
        return caller

    registry = ToolRegistry(gate, options)
    server = build_mcp_server(gate, options, caller_of, CALLER.get, registry=registry)

    def refused(caller: Caller, answer: JsonObject) -> None:
        record_refusal(gate, caller, MESSAGE, reason_in(answer))

    rates = RequestRates(gate)

    def limited(caller: Caller, state: State, message: Any) -> tuple[JsonObject, Headers] | None:
        name = called_tool(message)
        tool = caller.tool_list.find(name) if caller.tool_list is not None and name is not None else None
        error = rates.refusal(caller, message, tool)
        if error is None:
            return None
        state[CODE] = error.code
        answer = error_message(message.get("id"), mapping_of(error).json_rpc, error.message, error_data(error))
        return answer, retry_headers(error)

    backend = SdkHttpBackend(server, options, gate.services, refused, limited)
    await backend.start()
    gate.services.telemetry.mcp_sessions = backend.sessions
    with_tools = CallerTools(backend, registry)
    return FastPath(with_tools, gate, registry, options, ERROR_STATUSES) if options.fast_path else with_tools


async def serve_stdio(
    gate: Gate,
    options: McpOptions,
    registry: ToolRegistry,
    new_caller: Callable[[], Caller],
    pipe: Pipe,
    handover: PipeHandover,
) -> None:
    """Serve the client at the other end of the pipe, whose first messages may have been answered already."""

    def caller_of(context: Context) -> Caller:
        return structs.replace(new_caller(), origin=SdkOrigin(context))

    # A client that disconnects has not cancelled anything: its executions continue on the next host.
    ended = gate.services.open_streams.end
    server = build_mcp_server(gate, options, caller_of, registry=registry)
    await serve_pipe(server, pipe, ended, options.protocol_version, handover)
