"""The fast path: frequent requests of the newest era, answered without the SDK.

Clients without a session ask again and again what a server is, which tools it has and how a task is doing. And calls of
operations that only read should cost what they cost over REST. These are answered here. Access is decided where it
always is: by the endpoint, by the tool list of the caller and by the gate, which counts and records every call.

This module repeats none of the SDK's checks; it learns their outcome. The first request with an envelope goes to the
SDK, and the same envelope is accepted here only after the SDK has answered it with a result. Lists are the bytes that
the SDK sent, kept for all callers with the same tool list. Anything unusual or wrong goes to the SDK unchanged.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import lru_cache

import msgspec
from msgspec import structs
from starlette.types import Receive, Scope, Send

from penstock.asgi import AUDITED, CODE, READS, State, read_messages, replayed
from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.errors import LimitExceeded, PenstockError
from penstock.base.lru_cache import LruCache
from penstock.mcp_surface.apps.views import declares_apps, view_of
from penstock.mcp_surface.audit import record_error
from penstock.mcp_surface.callers import Caller, ProtocolFault, plain_value
from penstock.mcp_surface.content.blocks import ERROR_META, UNTRUSTED_META
from penstock.mcp_surface.content.results import answer_result, error_result, execution_result, is_untrusted
from penstock.mcp_surface.content.waiting_text import waiting_text
from penstock.mcp_surface.endpoint import CALLER_STATE, HEADERS_STATE, McpBackend
from penstock.mcp_surface.fast_path.requests import FastRequest, fast_headers, parse_request
from penstock.mcp_surface.fast_path.responses import (
    ResponseRecorder,
    answer_bytes,
    call_bytes,
    error_bytes,
    result_bytes,
    send_json,
    shown_bytes,
)
from penstock.mcp_surface.methods import CALL, reads_only
from penstock.mcp_surface.metrics import McpMetrics, name_request
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.origins import EnvelopeOrigin
from penstock.mcp_surface.questions.client_questions import Kind, declared_kinds
from penstock.mcp_surface.rates import TOO_MANY, RequestRates, error_data, is_rate_limited, retry_headers
from penstock.mcp_surface.tasks.tasks import Tasks
from penstock.mcp_surface.tools.registry import ToolRegistry
from penstock.mcp_surface.tools.tool_list import Tool, ToolList
from penstock.operations.catalogue.errors import mapping_of
from penstock.operations.gate.context import Principal, Request
from penstock.operations.gate.pipeline import Gate, RefusedCall
from penstock.operations.runs.results import ExecutionResult
from penstock.operations.runs.views import ExecutionView

__all__ = ["FastPath"]

_PAGES = frozenset({"server/discover", "tools/list"})
# Operations that wait: their callers may need heartbeats, which the fast path does not send.
_WAITING = frozenset({"execution.wait"})
_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
_ADDED = frozenset({"io.modelcontextprotocol/serverInfo"})
_ENVELOPES_READ = 256
# Metadata that a result sets itself.
_OWN = frozenset({ERROR_META, UNTRUSTED_META})
_UNTRUSTED = encode_bytes({UNTRUSTED_META: True})


@lru_cache(_ENVELOPES_READ)
def _kinds(envelope: bytes) -> frozenset[Kind]:
    """Return what the client with this envelope can be asked; the SDK has already accepted the envelope."""
    return declared_kinds(msgspec.json.decode(envelope)[_CAPABILITIES])


@lru_cache(_ENVELOPES_READ)
def _shows_pages(envelope: bytes) -> bool:
    """Return whether the client with this envelope shows pages beside results."""
    return declares_apps(msgspec.json.decode(envelope)[_CAPABILITIES].get("extensions"))


class FastPath:
    """A backend in front of the SDK's backend."""

    def __init__(
        self, backend: McpBackend, gate: Gate, registry: ToolRegistry, options: McpOptions, statuses: Mapping[int, int]
    ) -> None:
        self._backend = backend
        self._gate = gate
        self._registry = registry
        self._options = options
        self._statuses = statuses
        self._metrics = McpMetrics(gate.services.telemetry)
        self._rates = RequestRates(gate)
        self._tasks = Tasks(gate, registry, options)
        self._envelopes: LruCache[tuple[str, bytes], bytes] = LruCache(limits.MCP_FAST_ENVELOPES_KEPT)
        """By method and envelope: the metadata that the SDK adds to a result."""
        self._pages: LruCache[tuple[str, bytes, int], tuple[ToolList, bytes]] = LruCache(limits.MCP_FAST_PAGES_KEPT)
        """By method, envelope and id of the tool list: the list (held, so that its id stays unique), and the bytes."""
        self._newest: dict[str, bytes] = {}
        self._views: LruCache[int, tuple[ExecutionView, bytes]] = LruCache(limits.MCP_FAST_VIEWS_KEPT)
        """By the id of a view: the view (held, so that its id stays unique), and its bytes."""

    async def stop(self) -> None:
        """End every session and every stream."""
        await self._backend.stop()

    async def handle(self, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request whose caller is authenticated."""
        state = scope["state"]
        fast = fast_headers(scope, state[HEADERS_STATE])
        if fast is None:
            await self._backend.handle(principal, scope, receive, send)
            return
        received, body = await read_messages(receive)
        request = None if body is None else parse_request(fast, body)
        if request is None:
            await self._backend.handle(principal, scope, replayed(received, receive), send)
            return
        caller: Caller = state[CALLER_STATE]
        tool_list = self._registry.at_hand(principal, caller.toolset, caller.remote) or await self._registry.of(
            principal, caller.toolset, caller.remote
        )
        if await self._try_answer(request, caller, tool_list, send, state):
            state[READS] = True
            name_request(state, request.method, request.name if request.method == CALL else None)
            return
        # Look the tools up once per request, whoever answers it.
        state[CALLER_STATE] = structs.replace(caller, tool_list=tool_list)
        if request.method not in _PAGES and self._envelopes.get((request.method, request.meta)) is not None:
            # The SDK's metadata is already known, so there is nothing to learn from this response.
            await self._backend.handle(principal, scope, replayed(received, receive), send)
            return
        recorder = ResponseRecorder(send)
        await self._backend.handle(principal, scope, replayed(received, receive), recorder.send)
        if await self._registry.of(principal, caller.toolset, caller.remote) is tool_list:
            self._learn(request, tool_list, recorder.rest(request.prefix))

    def _learn(self, request: FastRequest, tool_list: ToolList, rest: bytes | None) -> None:
        """Keep what the SDK answered to an envelope, if it was a result and the envelope has nothing unusual."""
        if rest is None or not request.has_plain_envelope():
            return
        if request.method in _PAGES:
            # Most clients get the same bytes, so they are kept once.
            newest = self._newest.get(request.method)
            self._newest[request.method] = kept = newest if newest == rest else rest
            self._pages.put((request.method, request.meta, id(tool_list)), (tool_list, kept))
            return
        result = msgspec.json.decode(rest[:-1])
        added = result.get("_meta") if isinstance(result, dict) else None
        # Metadata from a tool, or the error of a refusal, is not what the SDK adds to every result.
        if isinstance(added, dict) and added.keys() - _OWN == _ADDED:
            common = {name: value for name, value in added.items() if name in _ADDED}
            self._envelopes.put((request.method, request.meta), encode_bytes(common))

    async def _try_answer(
        self, request: FastRequest, caller: Caller, tool_list: ToolList, send: Send, state: State
    ) -> bool:
        """Answer the request, if possible; return whether it was answered."""
        began, status = time.perf_counter(), "ok"
        if request.method == CALL:
            tool, added = self._plain_tool(request, tool_list), self._envelopes.get((CALL, request.meta))
            if tool is None or added is None:
                return False
            answer = await self._call_tool(request, caller, tool_list, tool, added)
            if isinstance(answer, PenstockError):
                status = await self._too_many(request, answer, send, state)
            else:
                await send_json(send, 200, request.prefix, answer)
        elif request.method in _PAGES:
            page = self._pages.get((request.method, request.meta, id(tool_list)))
            if page is None:
                return False
            try:
                self._rates.charge(caller, request.method)
            except LimitExceeded as error:
                record_error(self._gate, caller, request.method, error)
                status = await self._too_many(request, error, send, state)
            else:
                await send_json(send, 200, request.prefix, page[1])
        else:
            added = self._envelopes.get((request.method, request.meta))
            if added is None:
                return False
            status = await self._task(request, structs.replace(caller, tool_list=tool_list), added, send)
            if status != "ok":
                state[AUDITED] = True
        self._metrics.answered(request.method, status, time.perf_counter() - began)
        return True

    async def _too_many(self, request: FastRequest, error: PenstockError, send: Send, state: State) -> str:
        """Refuse a request that came too soon; return the status for the metrics. The audit log has it already."""
        state[AUDITED], state[CODE] = True, error.code
        body = error_bytes(request.id, mapping_of(error).json_rpc, error.message, error_data(error))
        await send_json(send, TOO_MANY, body, headers=retry_headers(error))
        return "error"

    def _plain_tool(self, request: FastRequest, tool_list: ToolList) -> Tool | None:
        """Return the tool of a call that only reads and does not wait."""
        tool = tool_list.find(request.name)
        if tool is None or not reads_only(CALL, tool) or tool.capability.name in _WAITING:
            return None
        if view_of(tool) is not None and _shows_pages(request.meta):
            return None  # the result says more than its value: what the page shows beside it
        return tool

    async def _call_tool(
        self, request: FastRequest, caller: Caller, tool_list: ToolList, tool: Tool, added: bytes
    ) -> bytes | PenstockError:
        """Call a tool; return the rest of the response, or the error if it was called too often."""
        operation, options = tool.capability.name, self._options
        outcome = await self._gate.call(
            Request(
                operation=operation,
                arguments=tool.arguments(request.arguments or {}),
                principal=caller.principal,
                surface="mcp",
                request_id=caller.request_id,
                remote=caller.remote,
                origin=EnvelopeOrigin(request.meta, caller.origin),
                patience_seconds=options.patience_seconds,
            )
        )
        if isinstance(outcome, RefusedCall):
            self._metrics.called(tool, "error")
            if is_rate_limited(outcome.error):
                return outcome.error
            return call_bytes(error_result(outcome.error, tool_list, tool), added)
        self._metrics.called(tool, "ok")
        value = plain_value(outcome)
        if isinstance(value, ExecutionResult):  # a policy has it wait for approval
            held = execution_result(
                value, tool_list, options.result_characters, page=options.answer_page(caller.address), asked_for=True
            )
            return call_bytes(held, added)
        shown, untrusted = self._encoded_value(value), is_untrusted(operation, value)
        if shown is not None:
            return answer_bytes(shown, added, _UNTRUSTED if untrusted else None)
        page = options.answer_page(caller.address)
        return call_bytes(answer_result(value, options.result_characters, page, untrusted=untrusted), added)

    def _encoded_value(self, value: object) -> bytes | None:
        """Return an answer as bytes.

        Polling a run that has not moved returns the same object, so they are cached.
        """
        known = self._views.get(id(value))
        if known is not None and known[0] is value:
            return known[1]
        if not isinstance(value, ExecutionView):
            return shown_bytes(value, self._options.result_characters)
        if waiting_text(value, value.waiting_for.questions, None):
            return None  # the text needs the address at which the caller reached the server
        shown = shown_bytes(value, self._options.result_characters)
        if shown is not None:
            self._views.put(id(value), (value, shown))
        return shown

    async def _task(self, request: FastRequest, caller: Caller, added: bytes, send: Send) -> str:
        """Answer with the status of a task; return the status for the metrics."""
        try:
            task = await self._tasks.get(caller, request.name, _kinds(request.meta))
        except ProtocolFault as fault:
            record_error(self._gate, caller, request.method, fault)
            code, message, data = fault.code, fault.message, fault.data
        except PenstockError as error:
            record_error(self._gate, caller, request.method, error)
            if is_rate_limited(error):
                return await self._too_many(request, error, send, {})
            code, message, data = mapping_of(error).json_rpc, error.message, error_data(error)
        else:
            await send_json(send, 200, request.prefix, result_bytes(task, added))
            return "ok"
        await send_json(send, self._statuses.get(code, 200), error_bytes(request.id, code, message, data))
        return "error"
