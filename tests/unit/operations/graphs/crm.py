"""A gate with a graph in it, for tests of the operations on graphs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.fixtures.graph_data import DATA, QUERIES, SCHEMA
from tests.unit.operations.conftest import Caller, OpenGate
from tests.waiting import SECONDS_MAX

__all__ = ["stored", "with_crm"]


async def stored(caller: Caller, graph_id: str = "crm", **choices: Any) -> None:
    """Create the graph, load its data and store its queries."""
    await caller.call("graph.create", id=graph_id, schema=SCHEMA, **choices)
    await caller.call("graph.load", graph_id=graph_id, data=DATA)
    for name, source in QUERIES.items():
        await caller.call("graph.queries_put", graph_id=graph_id, name=name, source=source)


def with_crm(open_caller: OpenGate, test: Callable[[Caller], Awaitable[None]], **choices: Any) -> None:
    """Run a test at an open gate with the graph."""

    async def body() -> None:
        async with asyncio.timeout(SECONDS_MAX), open_caller() as caller:
            await stored(caller, **choices)
            await test(caller)

    asyncio.run(body())
