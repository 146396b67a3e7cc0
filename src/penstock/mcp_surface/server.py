"""The MCP server: the SDK's low-level server with handlers that translate and decide nothing.

Above it: `app` serves it over HTTP, the command line over a pipe. Below it: `calls`, `contents`, `tools.registry`; the
SDK.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from typing import Any

import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from penstock.base import limits
from penstock.base.errors import LimitExceeded, PenstockError
from penstock.base.json import JsonObject
from penstock.mcp_surface.audit import AUDITED, reason_of, record_refusal
from penstock.mcp_surface.callers import Caller, ProtocolFault, tasks_missing
from penstock.mcp_surface.calls.calls import ToolCalls
from penstock.mcp_surface.content.blocks import messages_at, result_at
from penstock.mcp_surface.endpoint import not_in_flight
from penstock.mcp_surface.eras.clients import (
    IDEMPOTENCY_META,
    answers_of,
    client_of,
    kinds_of,
    known_answers,
    takes_tasks,
)
from penstock.mcp_surface.eras.http import McpServer
from penstock.mcp_surface.eras.log_messages import set_level
from penstock.mcp_surface.metrics import McpMetrics
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.questions.client_questions import ClientQuestion
from penstock.mcp_surface.questions.clients import Client, ClientAnswer
from penstock.mcp_surface.resources.contents import Contents
from penstock.mcp_surface.subscriptions.changes import ChangeWatcher
from penstock.mcp_surface.subscriptions.methods import Subscriptions
from penstock.mcp_surface.tasks.tasks import TASKS_EXTENSION, Tasks
from penstock.mcp_surface.tools.registry import ToolRegistry
from penstock.mcp_surface.tools.tool_list import Tool
from penstock.operations.catalogue.errors import INTERNAL_ERROR, mapping_of
from penstock.operations.gate.pipeline import Gate

__all__ = ["IDEMPOTENCY_META", "CallerOf", "build_mcp_server"]

INSTRUCTIONS = (
    "Penstock runs durable workflows. Workflows are tools of their own: calling one starts an execution and waits for"
    " its result. If it takes longer, or a person has to answer something, the answer says so and names the tools to go"
    " on with; the execution goes on meanwhile and survives restarts."
)
CATALOGUE_META = "penstock/catalogue"
"""Where a list of tools says how large it is."""
Context = ServerRequestContext[Any, Any]
CallerOf = Callable[[Context], Caller]
AskNow = Callable[[ClientQuestion], Awaitable[ClientAnswer | None]]


class TaskParams(types.RequestParams):
    """Which task."""

    task_id: str


class TaskUpdateParams(TaskParams):
    """Which task, and the answers to its questions."""

    # As it was sent: what is not an answer to a question of ours is left out, and the others count.
    input_responses: dict[str, Any] | None = None


class _Handlers:
    """What each method does."""

    def __init__(self, gate: Gate, options: McpOptions, caller_of: CallerOf, registry: ToolRegistry | None) -> None:
        self.registry = ToolRegistry(gate, options) if registry is None else registry
        self.calls = ToolCalls(gate, self.registry, options)
        self.tasks = Tasks(gate, self.registry, options)
        self.contents = Contents(gate, self.registry, self.calls)
        self.caller_of = caller_of
        self.services = gate.services
        self.hears_logs = options.step_logs
        self.changes = ChangeWatcher(gate, self.registry, self.contents)
        self.subscriptions = Subscriptions(gate, self.changes, self.tasks, caller_of)
        self.metrics = McpMetrics(gate.services.telemetry, self._tool_of, self._refused)
        self._gate = gate

    def _tool_of(self, context: Context, name: object) -> Tool | None:
        caller = self.caller_of(context)
        tool_list = caller.tool_list or self.registry.last_of(caller.principal, caller.toolset)
        return tool_list.find(name) if tool_list is not None and isinstance(name, str) else None

    def _refused(self, context: Context, method: str, error: Exception) -> None:
        """Note a request that is answered with an error; then nobody else has to."""
        if not isinstance(error, _Fault) or not error.on_record:
            record_refusal(self._gate, self.caller_of(context), method, _reason(error))
        if context.request is not None:
            context.request.scope["state"][AUDITED] = True

    @asynccontextmanager
    async def serving(self, server: Server[Any]) -> AsyncIterator[None]:
        """What lasts as long as the server does."""
        try:
            yield
        finally:
            await self.changes.stop()

    def _client(self, context: Context, params: types.InputResponseRequestParams) -> Client:
        """What the client can do on this request, as far as the operator lets it."""
        client = client_of(context, params)
        if client.ask is not None:
            client = replace(client, ask=self._asking(context, client.ask))
        return client if self.hears_logs else replace(client, log=None)

    def _asking(self, context: Context, ask: AskNow) -> AskNow:
        """Ask somebody for no longer than questions are open, and no more of them than one may have streams."""
        services, owner = self.services, self.caller_of(context).principal.id
        streams, chosen = services.open_streams, services.limits

        async def asked(question: ClientQuestion) -> ClientAnswer | None:
            try:
                streams.take(owner, at_most=chosen.streams_max, of_one=chosen.streams_per_key)
            except LimitExceeded:
                return None
            try:
                with not_in_flight(context.request.scope) if context.request is not None else nullcontext():
                    return await asyncio.wait_for(ask(question), limits.MCP_QUESTION_SECONDS_MAX)
            except TimeoutError:
                return None
            finally:
                streams.give_back(owner)

        return asked

    async def list_tools(self, context: Context, params: Any) -> Any:
        caller = self.caller_of(context)
        tool_list = caller.tool_list or await self.registry.of(caller.principal, caller.toolset)
        size = {CATALOGUE_META: tool_list.size()}
        return {"tools": [tool.listed for tool in tool_list.tools], "_meta": size, **_COMPLETE}

    async def call_tool(self, context: Context, params: types.CallToolRequestParams) -> Any:
        caller, client = self.caller_of(context), self._client(context, params)
        result = await _faults_raised(self.calls.call(caller, params.name, dict(params.arguments or {}), client))
        return (
            await self.tasks.created(caller, result["taskId"])
            if result["resultType"] == "task"
            else result_at(context.protocol_version, result)
        )

    async def get_task(self, context: Context, params: TaskParams) -> Any:
        return await _faults_raised(
            self.tasks.get(self._task_caller(context, params), params.task_id, kinds_of(context))
        )

    async def update_task(self, context: Context, params: TaskUpdateParams) -> Any:
        caller = self._task_caller(context, params)
        return await _faults_raised(
            self.tasks.update(
                caller, params.task_id, answers_of(known_answers(params.input_responses)), kinds_of(context)
            )
        )

    async def cancel_task(self, context: Context, params: TaskParams) -> Any:
        return await _faults_raised(self.tasks.cancel(self._task_caller(context, params), params.task_id))

    def _task_caller(self, context: Context, params: TaskParams) -> Caller:
        """Who asks about a task; only clients that declare tasks can, and over HTTP the header must name the task."""
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(code=types.METHOD_NOT_FOUND, message="Method not found")
        if context.request is not None:
            named = decode_header_value(context.request.headers.get(MCP_NAME_HEADER))
            if named != params.task_id:
                told = f"{MCP_NAME_HEADER} header does not match the request body's 'taskId' parameter"
                raise MCPError(code=types.HEADER_MISMATCH, message=told)
        if not takes_tasks(context):
            fault = tasks_missing(context.method)
            raise MCPError(code=fault.code, message=fault.message, data=fault.data)
        return self.caller_of(context)

    async def list_resources(self, context: Context, params: Any) -> Any:
        return {"resources": await _faults_raised(self.contents.resources(self.caller_of(context))), **_COMPLETE}

    async def list_templates(self, context: Context, params: Any) -> Any:
        found = await _faults_raised(self.contents.templates(self.caller_of(context)))
        return {"resourceTemplates": found, **_COMPLETE}

    async def read_resource(self, context: Context, params: types.ReadResourceRequestParams) -> Any:
        legacy = context.protocol_version not in MODERN_PROTOCOL_VERSIONS
        caller, client = self.caller_of(context), self._client(context, params)
        found = await _faults_raised(self.contents.read(caller, str(params.uri), client, legacy=legacy))
        return found if found.get("resultType") == "input_required" else {**found, **_COMPLETE}

    async def list_prompts(self, context: Context, params: Any) -> Any:
        return {"prompts": await _faults_raised(self.contents.prompts(self.caller_of(context))), **_COMPLETE}

    async def get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> Any:
        caller, client = self.caller_of(context), self._client(context, params)
        found = self.contents.prompt(caller, params.name, dict(params.arguments or {}), client)
        prompt = await _faults_raised(found)
        return {"resultType": "complete", **messages_at(context.protocol_version, prompt)}

    async def complete(self, context: Context, params: types.CompleteRequestParams) -> Any:
        reference = params.ref.name if isinstance(params.ref, types.PromptReference) else params.ref.uri
        argument, chosen = params.argument, params.context.arguments if params.context is not None else None
        found = self.contents.completion(self.caller_of(context), str(reference), argument.name, argument.value, chosen)
        return {"completion": await _faults_raised(found), "resultType": "complete"}


# Lists depend on who asks, and change when somebody changes a workflow.
_COMPLETE: JsonObject = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


class _Fault(MCPError):
    """An error of the protocol that was one of ours."""

    reason: str | None = None
    on_record = False


def _reason(error: Exception) -> str:
    """Our code for an error that the SDK answers a request with."""
    if isinstance(error, _Fault) and error.reason is not None:
        return error.reason
    if isinstance(error, ValidationError):
        return reason_of(types.INVALID_PARAMS)
    return reason_of(error.error.code) if isinstance(error, MCPError) else INTERNAL_ERROR


async def _faults_raised(work: Any) -> Any:
    """What some work gives; faults and refusals as errors of the protocol."""
    try:
        return await work
    except ProtocolFault as fault:
        known = _Fault(code=fault.code, message=fault.message, data=fault.data)
        known.reason, known.on_record = fault.reason, fault.on_record
        raise known from None
    except PenstockError as error:
        data = {"code": error.code, "hint": error.hint}
        known = _Fault(code=mapping_of(error).json_rpc, message=error.message, data=data)
        known.reason, known.on_record = error.code, error.on_record
        raise known from None


def _one_page(handler: Callable[[Context, Any], Awaitable[Any]]) -> Callable[[Context, Any], Awaitable[Any]]:
    """A list that is always whole, because most clients read the first page only: there is no cursor to go on from."""

    async def handle(context: Context, params: types.PaginatedRequestParams | None) -> Any:
        if params is not None and params.cursor:
            told = "Invalid cursor: this list is one page; ask for it without a cursor"
            raise MCPError(code=types.INVALID_PARAMS, message=told, data={"cursor": params.cursor[:200]})
        return await handler(context, params)

    return handle


def _raising(handler: Callable[[Context, Any], Awaitable[Any]]) -> Callable[[Context, Any], Awaitable[Any]]:
    """A handler whose faults and refusals are errors of the protocol."""

    async def handle(context: Context, params: Any) -> Any:
        return await _faults_raised(handler(context, params))

    return handle


async def _written(ctx: Context, call_next: Callable[[Context], Awaitable[Any]]) -> Any:
    """Refuse a request whose texts nobody can write down: the SDK lets halves of characters through."""
    if ctx.request_id is not None:
        try:
            msgspec.json.encode(ctx.params)
        except UnicodeEncodeError:
            told = "Invalid params: a text in them is not Unicode (it has half of a surrogate pair)"
            raise MCPError(code=types.INVALID_PARAMS, message=told) from None
        except RecursionError:
            raise MCPError(code=types.INVALID_PARAMS, message="Invalid params: they are nested too deeply") from None
    return await call_next(ctx)


def build_mcp_server(
    gate: Gate,
    options: McpOptions,
    caller_of: CallerOf,
    schema_of: Callable[[], Caller | None] = lambda: None,
    *,
    registry: ToolRegistry | None = None,
) -> Server[Any]:
    """The server. `schema_of` tells who calls just now, for the SDK's look at a tool's schema."""
    handlers = _Handlers(gate, options, caller_of, registry)

    def input_schema(name: str) -> Mapping[str, Any] | None:
        caller = schema_of()
        if caller is None:
            return None
        tool_list = caller.tool_list or handlers.registry.last_of(caller.principal, caller.toolset)
        tool = tool_list.find(name) if tool_list is not None else None
        return tool.capability.input_schema if tool is not None else None

    server = McpServer(
        "penstock",
        version=options.version,
        title="Penstock",
        instructions=INSTRUCTIONS,
        lifespan=handlers.serving,
        get_tool_input_schema=input_schema,
        on_list_tools=_one_page(handlers.list_tools),
        on_call_tool=handlers.call_tool,
        on_list_resources=_one_page(handlers.list_resources),
        on_list_resource_templates=_one_page(handlers.list_templates),
        on_read_resource=handlers.read_resource,
        on_list_prompts=_one_page(handlers.list_prompts),
        on_get_prompt=handlers.get_prompt,
        on_completion=handlers.complete,
        on_subscribe_resource=_raising(handlers.subscriptions.subscribe),
        on_unsubscribe_resource=_raising(handlers.subscriptions.unsubscribe),
        on_subscriptions_listen=_raising(handlers.subscriptions.listen),
    )
    server.middleware.insert(0, handlers.metrics.around)
    server.middleware.insert(1, _written)
    server.middleware.append(handlers.subscriptions.begun)
    initialized = handlers.subscriptions.initialized
    server.add_notification_handler("notifications/initialized", types.NotificationParams, initialized)
    if options.step_logs:
        # Not an argument above: the SDK warns of it, because the newest era names the level in each request instead.
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)
    server.extensions[TASKS_EXTENSION] = {}
    server.add_request_handler("tasks/get", TaskParams, handlers.get_task)
    server.add_request_handler("tasks/update", TaskUpdateParams, handlers.update_task)
    server.add_request_handler("tasks/cancel", TaskParams, handlers.cancel_task)
    return server
