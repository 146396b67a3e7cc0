"""The MCP server: the SDK's low-level server with handlers that translate and decide nothing.

Above it: `app` serves it over HTTP, the command line over a pipe. Below it: `calls`, `contents`, `tools`; the SDK.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject
from penstock.mcp_surface.calls import Caller, Client, Filled, ProtocolFault, ToolCalls
from penstock.mcp_surface.contents import TEMPLATES, Contents
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.questions import Form
from penstock.mcp_surface.tasks import TASKS_EXTENSION, TaskCalls
from penstock.mcp_surface.tools import ToolShelf
from penstock.operations.errors import mapping_of
from penstock.operations.pipeline import Gate

__all__ = ["IDEMPOTENCY_META", "CallerOf", "build_mcp_server"]

INSTRUCTIONS = (
    "Penstock runs durable workflows. Workflows are tools of their own: calling one starts an execution and waits for"
    " its result. If it takes longer, or a person has to answer something, the answer says so and names the tools to go"
    " on with; the execution goes on meanwhile and survives restarts."
)
IDEMPOTENCY_META = "penstock/idempotency_key"
Context = ServerRequestContext[Any, Any]
CallerOf = Callable[[Context], Caller]


class TaskParams(types.RequestParams):
    """Which task."""

    task_id: str


class TaskUpdateParams(TaskParams):
    """Which task, and the answers to its questions."""

    input_responses: types.InputResponses | None = None


class _Handlers:
    """What each method does."""

    def __init__(self, gate: Gate, options: McpOptions, caller_of: CallerOf, shelf: ToolShelf | None) -> None:
        self.shelf = ToolShelf(gate, options) if shelf is None else shelf
        self.calls = ToolCalls(gate, self.shelf, options)
        self.tasks = TaskCalls(gate, self.shelf, options)
        self.contents = Contents(gate, self.shelf)
        self.caller_of = caller_of

    async def list_tools(self, context: Context, params: Any) -> Any:
        caller = self.caller_of(context)
        book = await self.shelf.of(caller.principal, caller.toolset)
        return {"tools": [tool.listed for tool in book.tools], **_COMPLETE}

    async def call_tool(self, context: Context, params: types.CallToolRequestParams) -> Any:
        caller, client = self.caller_of(context), _client(context, params)
        result = await _faults_raised(self.calls.call(caller, params.name, dict(params.arguments or {}), client))
        return await self.tasks.created(caller, result["taskId"]) if result["resultType"] == "task" else result

    async def get_task(self, context: Context, params: TaskParams) -> Any:
        return await _faults_raised(self.tasks.get(self._task_caller(context, params), params.task_id))

    async def update_task(self, context: Context, params: TaskUpdateParams) -> Any:
        caller = self._task_caller(context, params)
        return await _faults_raised(self.tasks.update(caller, params.task_id, _filled(params.input_responses)))

    async def cancel_task(self, context: Context, params: TaskParams) -> Any:
        return await _faults_raised(self.tasks.cancel(self._task_caller(context, params), params.task_id))

    def _task_caller(self, context: Context, params: TaskParams) -> Caller:
        """Who asks about a task; only clients of the newest era can, and over HTTP the header must name the task."""
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(code=types.METHOD_NOT_FOUND, message="Method not found")
        if context.request is not None:
            named = decode_header_value(context.request.headers.get(MCP_NAME_HEADER))
            if named != params.task_id:
                told = f"{MCP_NAME_HEADER} header does not match the request body's 'taskId' parameter"
                raise MCPError(code=types.HEADER_MISMATCH, message=told)
        return self.caller_of(context)

    async def list_resources(self, context: Context, params: Any) -> Any:
        return {"resources": await _faults_raised(self.contents.resources(self.caller_of(context))), **_COMPLETE}

    async def list_templates(self, context: Context, params: Any) -> Any:
        return {"resourceTemplates": list(TEMPLATES), **_COMPLETE}

    async def read_resource(self, context: Context, params: types.ReadResourceRequestParams) -> Any:
        legacy = context.protocol_version not in MODERN_PROTOCOL_VERSIONS
        read = self.contents.read(self.caller_of(context), str(params.uri), legacy=legacy)
        return {"contents": await _faults_raised(read), **_COMPLETE}

    async def list_prompts(self, context: Context, params: Any) -> Any:
        return {"prompts": await _faults_raised(self.contents.prompts(self.caller_of(context))), **_COMPLETE}

    async def get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> Any:
        found = self.contents.prompt(self.caller_of(context), params.name, dict(params.arguments or {}))
        return {**await _faults_raised(found), "resultType": "complete"}

    async def complete(self, context: Context, params: types.CompleteRequestParams) -> Any:
        reference = params.ref.name if isinstance(params.ref, types.PromptReference) else params.ref.uri
        argument = params.argument
        values = await _faults_raised(
            self.contents.completions(self.caller_of(context), str(reference), argument.name, argument.value)
        )
        return {"completion": {"values": values, "total": len(values), "hasMore": False}, "resultType": "complete"}


# Lists depend on who asks, and change when somebody changes a workflow.
_COMPLETE: JsonObject = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


async def _faults_raised(work: Any) -> Any:
    """What some work gives; faults and refusals as errors of the protocol."""
    try:
        return await work
    except ProtocolFault as fault:
        raise MCPError(code=fault.code, message=fault.message, data=fault.data) from None
    except PenstockError as error:
        data = {"code": error.code, "hint": error.hint}
        raise MCPError(code=mapping_of(error).json_rpc, message=error.message, data=data) from None


def _client(context: Context, params: types.CallToolRequestParams) -> Client:
    """What the client of a request can do."""
    session, meta = context.session, context.meta or {}
    modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    asked = _takes_forms(session.client_capabilities)
    key = meta.get(IDEMPOTENCY_META)

    async def report(progress: float, message: str) -> None:
        await session.report_progress(progress, message=message)

    async def ask(form: Form) -> Filled | None:
        try:
            answer = await session.elicit_form(form.message, form.schema, related_request_id=context.request_id)
        except (NoBackChannelError, MCPError):
            return None
        return _filled_form(answer)

    return Client(
        report=report if "progress_token" in meta or "progressToken" in meta else None,
        ask=ask if asked and not modern and session.can_send_request else None,
        completes=asked and modern,
        tasks=modern and _declares(session.client_capabilities, TASKS_EXTENSION),
        filled=_filled(params.input_responses),
        state=params.request_state if modern else None,
        idempotency_key=key if isinstance(key, str) else None,
    )


def _declares(declared: types.ClientCapabilities | None, extension: str) -> bool:
    return declared is not None and extension in (declared.extensions or {})


def _takes_forms(declared: types.ClientCapabilities | None) -> bool:
    elicitation = declared.elicitation if declared is not None else None
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def _filled_form(answer: types.ElicitResult) -> Filled:
    content: JsonObject = {
        name: [*value] if isinstance(value, list) else value for name, value in (answer.content or {}).items()
    }
    return Filled(action=answer.action, content=content)


def _filled(responses: types.InputResponses | None) -> dict[str, Filled]:
    """The forms that came back with a call."""
    found: dict[str, Filled] = {}
    for name, response in (responses or {}).items():
        if isinstance(response, types.ElicitResult):
            found[name] = _filled_form(response)
    return found


def build_mcp_server(
    gate: Gate,
    options: McpOptions,
    caller_of: CallerOf,
    schema_of: Callable[[], Caller | None] = lambda: None,
    *,
    shelf: ToolShelf | None = None,
) -> Server[Any]:
    """The server. `schema_of` tells who calls just now, for the SDK's look at a tool's schema."""
    handlers = _Handlers(gate, options, caller_of, shelf)

    def input_schema(name: str) -> Mapping[str, Any] | None:
        caller = schema_of()
        book = handlers.shelf.last_of(caller.principal, caller.toolset) if caller is not None else None
        tool = book.find(name) if book is not None else None
        return tool.capability.input_schema if tool is not None else None

    server: Server[Any] = Server(
        "penstock",
        version=options.version,
        title="Penstock",
        instructions=INSTRUCTIONS,
        get_tool_input_schema=input_schema,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
        on_completion=handlers.complete,
    )
    server.extensions[TASKS_EXTENSION] = {}
    server.add_request_handler("tasks/get", TaskParams, handlers.get_task)
    server.add_request_handler("tasks/update", TaskUpdateParams, handlers.update_task)
    server.add_request_handler("tasks/cancel", TaskParams, handlers.cancel_task)
    return server
