"""Where `penstock mcp` enters: one client on a pipe, with the SDK loaded only when it is needed.

The first messages are answered by `fast_path.pipe_opening`. When a message needs the SDK, or the client is quiet for a
moment, the SDK is loaded and takes over.

Above it: the command line. Below it: `fast_path.pipe_opening`, and `entry_points` through `load`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from types import ModuleType

from penstock.base import limits
from penstock.mcp_surface.callers import Caller
from penstock.mcp_surface.fast_path.pipe_opening import LIST_CHANGED, LeftToSdk, PipeOpening
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.tools.graph_tools import graph_of
from penstock.mcp_surface.tools.registry import ToolRegistry
from penstock.mcp_surface.wire.pipe import Pipe, PipeHandover
from penstock.operations.gate.context import Principal
from penstock.operations.gate.pipeline import Gate

__all__ = ["serve_pipe_client"]


async def serve_pipe_client(
    gate: Gate,
    options: McpOptions,
    principal: Callable[[], Principal],
    new_request_id: Callable[[], str],
    pipe: Pipe,
    load: Callable[[], ModuleType],
) -> None:
    """Serve the client at the other end of the pipe, as the principal that the operator chose for it.

    `load` imports `entry_points`.
    """
    # A client of one graph sees the resources of that graph only, as on the endpoint of the graph.
    only_graph = options.toolset if graph_of(options.toolset) is not None else None

    def new_caller() -> Caller:
        return Caller(principal=principal(), request_id=new_request_id(), toolset=only_graph)

    registry = ToolRegistry(gate, options)
    opening = PipeOpening(gate, options, registry, new_caller)
    lines = pipe.lines()
    # With one revision only, the SDK's loop decides what is refused.
    if options.fast_path and options.protocol_version is None:
        rest = await _open_without_sdk(opening, lines, pipe)
        if rest is None:
            gate.services.open_streams.end()
            return
        lines = rest

    async def report_old_list() -> None:
        # The SDK's server reports changes from now on. This one came before.
        if await opening.has_old_list():
            await pipe.write(LIST_CHANGED)

    handover = PipeHandover(lines, tuple(opening.handshake), report_old_list)
    module = await asyncio.to_thread(load)
    await module.serve_stdio(gate, options, registry, new_caller, pipe, handover)


async def _open_without_sdk(
    opening: PipeOpening, lines: AsyncIterator[bytes], pipe: Pipe
) -> AsyncIterator[bytes] | None:
    """Answer messages until one needs the SDK or none comes; return the messages to come, None after the last one."""
    while True:
        waiting = asyncio.ensure_future(anext(lines, None))
        await asyncio.wait((waiting,), timeout=limits.MCP_WARM_AFTER_SECONDS)
        if not waiting.done():
            return _lines_after(waiting, lines)
        line = waiting.result()
        if line is None:
            return None
        try:
            answer = await opening.answer(line)
        except LeftToSdk:
            return _lines_after(waiting, lines)
        if answer is not None:
            await pipe.write(answer)


async def _lines_after(first: asyncio.Future[bytes | None], lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    line = await first
    if line is None:
        return
    yield line
    async for following in lines:
        yield following
