"""Calls of tools, and of workflows that are started by reading a prompt or a resource.

`ToolCalls.call` serves tools. `ToolCalls.read` serves anything else that is the result of a run: it returns
`render` of the ended run, or the `input_required` to be answered first. Each call is a `call.Call`.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

from penstock.base.errors import PenstockError
from penstock.base.json import JsonObject
from penstock.mcp_surface.apps.results import ViewedResults
from penstock.mcp_surface.audit import record_error, record_refusal
from penstock.mcp_surface.callers import Caller, ProtocolFault
from penstock.mcp_surface.calls.call import Call, CallContext, Render
from penstock.mcp_surface.content.results import answer_result, error_result
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.questions.clients import Client
from penstock.mcp_surface.questions.links import AnswerLinks
from penstock.mcp_surface.questions.signing import state_signer
from penstock.mcp_surface.rates import RequestRates
from penstock.mcp_surface.tools.registry import ToolRegistry
from penstock.mcp_surface.tools.tool_list import CATALOGUE, Tool, ToolList, listed_tool
from penstock.mcp_surface.tools.toolsets import described, found_tools, inner_call, meant
from penstock.mcp_surface.wire.codes import INVALID_PARAMS
from penstock.operations.catalogue.capability import Capability
from penstock.operations.gate.pipeline import Gate

__all__ = ["ToolCalls"]


class ToolCalls:
    """Calls tools, and reads prompts and resources, for all callers."""

    def __init__(self, gate: Gate, registry: ToolRegistry, options: McpOptions) -> None:
        self._gate = gate
        self._registry = registry
        self._options = options
        links = AnswerLinks(gate.services, options.answer_path)
        self._context = CallContext(gate, options, state_signer(gate.services.pepper), links)
        self._rates = RequestRates(gate)
        self._views = ViewedResults(gate, options)
        self._giving_up: set[asyncio.Future[None]] = set()

    async def call(self, caller: Caller, name: str, arguments: JsonObject, client: Client) -> JsonObject:
        """Call a tool and return its result in wire form; raises `ProtocolFault` for an invalid call."""
        tool_list = caller.tool_list or await self._registry.of(caller.principal, caller.toolset, caller.remote)
        tool = tool_list.find(name)
        if tool is None or tool.capability.populator == CATALOGUE:
            self._rates.charge_lookup(caller)
        if tool is None:
            record_refusal(self._gate, caller, name, "OPERATION_NOT_FOUND")
            raise ProtocolFault(INVALID_PARAMS, f"Unknown tool: {name[:200]}{meant(tool_list, name)}", on_record=True)
        if tool.capability.populator == CATALOGUE:
            try:
                looked_up = _catalogue_answer(tool, tool_list, arguments)
            except PenstockError as error:
                record_error(self._gate, caller, tool.capability.name, error)
                return error_result(error, tool_list, tool)
            if not isinstance(looked_up, tuple):
                return answer_result(looked_up, self._options.result_characters)
            tool, arguments = looked_up
        made = Call(self._context, caller, client, tool_list, tool, tool.arguments(arguments))
        result = await self._run(made)
        if not client.apps or not made.answered or result["resultType"] != "complete":
            return result
        return await self._views.beside(result, caller, tool_list, tool, made.answered[-1])

    async def read(
        self, caller: Caller, capability: Capability, arguments: JsonObject, client: Client, render: Render
    ) -> JsonObject:
        """Return the rendered result of a run that is started by reading, or the questions to be answered first.

        Refusals are raised, because the result of a read cannot express them. A read never becomes a task.
        """
        tool_list = caller.tool_list or await self._registry.of(caller.principal, caller.toolset, caller.remote)
        tool = listed_tool(capability.name, capability, output_schemas=False)
        asking = replace(client, tasks=False)
        return await self._run(Call(self._context, caller, asking, tool_list, tool, arguments, render))

    async def _run(self, call: Call) -> JsonObject:
        try:
            return await call.result()
        except asyncio.CancelledError:
            self._client_left(call)
            raise

    def _client_left(self, call: Call) -> None:
        """Handle a call that ended early: the client cancelled it, or disconnected, which does not mean to cancel.

        Until the call is answered it owns the run, unless the server is stopping.
        """
        cancelled = call.client.cancelled() or self._options.on_disconnect == "cancel"
        if not cancelled or self._gate.services.open_streams.ending:
            return
        if call.begun:
            self._give_up(call, call.begun[-1])
        else:
            # The execution is just being started.
            call.begun_late.append(partial(self._give_up, call))

    def _give_up(self, call: Call, execution_id: str) -> None:
        ending = asyncio.ensure_future(call.give_up(execution_id))
        self._giving_up.add(ending)
        ending.add_done_callback(self._giving_up.discard)


def _catalogue_answer(tool: Tool, tool_list: ToolList, arguments: JsonObject) -> JsonObject | tuple[Tool, JsonObject]:
    """Return the result of a catalogue tool, or the tool to call in its place with the arguments for it."""
    match tool.capability.name:
        case "tools.search":
            return found_tools(tool_list, arguments)
        case "tools.describe":
            return described(tool_list, arguments)
        case _:
            return inner_call(tool_list, arguments)
