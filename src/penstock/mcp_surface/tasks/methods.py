"""The MCP methods of the tasks extension: `tasks/get`, `tasks/update`, `tasks/cancel`. Only the newest era has them."""

from __future__ import annotations

from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from penstock.mcp_surface.callers import Caller, tasks_missing
from penstock.mcp_surface.eras.clients import answers_of, kinds_of, known_answers, takes_tasks
from penstock.mcp_surface.handlers import Context, Handler, Requests
from penstock.mcp_surface.tasks.tasks import Tasks

__all__ = ["TaskMethods"]


class TaskParams(types.RequestParams):
    """Which task."""

    task_id: str


class TaskUpdateParams(TaskParams):
    """Which task, and the answers to its questions."""

    # As sent: entries that are not a valid answer are ignored, and the others count.
    input_responses: dict[str, Any] | None = None


class TaskMethods:
    """Handles the methods that read, answer and cancel tasks."""

    def __init__(self, requests: Requests, tasks: Tasks) -> None:
        self._requests = requests
        self._tasks = tasks

    def handlers(self) -> list[Handler]:
        """Return the handler of each method."""
        return [
            Handler("tasks/get", TaskParams, self._get),
            Handler("tasks/update", TaskUpdateParams, self._update),
            Handler("tasks/cancel", TaskParams, self._cancel),
        ]

    async def _get(self, context: Context, params: TaskParams) -> Any:
        return await self._tasks.get(self._caller(context, params), params.task_id, kinds_of(context))

    async def _update(self, context: Context, params: TaskUpdateParams) -> Any:
        caller, answers = self._caller(context, params), answers_of(known_answers(params.input_responses))
        return await self._tasks.update(caller, params.task_id, answers, kinds_of(context))

    async def _cancel(self, context: Context, params: TaskParams) -> Any:
        return await self._tasks.cancel(self._caller(context, params), params.task_id)

    def _caller(self, context: Context, params: TaskParams) -> Caller:
        """Return the caller; refuse a client that does not declare tasks, or whose HTTP header names another task."""
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(code=types.METHOD_NOT_FOUND, message="Method not found")
        if context.request is not None:
            named = decode_header_value(context.request.headers.get(MCP_NAME_HEADER))
            if named != params.task_id:
                message = f"{MCP_NAME_HEADER} header does not match the request body's 'taskId' parameter"
                raise MCPError(code=types.HEADER_MISMATCH, message=message)
        if not takes_tasks(context):
            fault = tasks_missing(context.method)
            raise MCPError(code=fault.code, message=fault.message, data=fault.data)
        return self._requests.caller_of(context)
