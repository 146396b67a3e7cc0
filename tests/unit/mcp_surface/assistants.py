"""Assistants that call tools through a gate, without a wire in between."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock.app.executors.configured import open_executors
from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.app.serving.mcp import mcp_options
from penstock.app.settings.model import Settings
from penstock.base.json import JsonObject
from penstock.mcp_surface.callers import Caller
from penstock.mcp_surface.calls.calls import ToolCalls
from penstock.mcp_surface.options import McpOptions
from penstock.mcp_surface.questions.client_questions import Kind
from penstock.mcp_surface.questions.clients import Client, ClientAnswer
from penstock.mcp_surface.tasks.tasks import Tasks
from penstock.mcp_surface.tools.registry import ToolRegistry
from tests.unit.operations.conftest import Caller as GateCaller

__all__ = ["SAID", "Assistant", "accept", "assisted", "exposed"]

FORMS: frozenset[Kind] = frozenset({"form"})
OPTIONS = McpOptions(patience_seconds=20)
SAID: JsonObject = {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "theirs"}


def exposed(name: str, *nodes: dict[str, Any], **tool: Any) -> dict[str, Any]:
    """A workflow that is a tool."""
    return {"penstock": "v1", "name": name, "expose": {"tool": tool or True}, "nodes": list(nodes)}


def accept(**content: Any) -> ClientAnswer:
    """A form that was filled in."""
    return ClientAnswer(action="accept", content=content)


@dataclass(slots=True)
class Assistant:
    """Calls tools as somebody."""

    caller: GateCaller
    options: McpOptions = OPTIONS
    address: str | None = "http://penstock.test"

    async def who(self) -> Caller:
        """As the surface knows them."""
        return Caller(principal=await self.caller.principal(), request_id="test", address=self.address)

    def _tasks(self) -> Tasks:
        return Tasks(self.caller.gate, ToolRegistry(self.caller.gate, self.options), self.options)

    async def task(self, task_id: str, kinds: frozenset[Kind] = FORMS) -> Any:
        """How a task stands."""
        return await self._tasks().get(await self.who(), task_id, kinds)

    async def update(self, task_id: str, answers: Mapping[str, ClientAnswer], kinds: frozenset[Kind] = FORMS) -> Any:
        """Answer questions of a task."""
        return await self._tasks().update(await self.who(), task_id, answers, kinds)

    async def cancel(self, task_id: str) -> Any:
        """Stop a task."""
        return await self._tasks().cancel(await self.who(), task_id)

    async def call(self, name: str, arguments: dict[str, Any] | None = None, **client: Any) -> Any:
        """The result of a call; the client takes forms and answers by calling again unless it is said otherwise."""
        calls = ToolCalls(self.caller.gate, ToolRegistry(self.caller.gate, self.options), self.options)
        chosen = {"kinds": FORMS, "completes": "ask" not in client, **client}
        return await calls.call(await self.who(), name, arguments or {}, Client(**chosen))

    async def executions(self) -> list[Any]:
        """What was started so far."""
        listed: list[Any] = (await self.caller.call("execution.list"))["items"]
        return listed

    async def other(self, *scopes: str, tenant: str | None = None) -> Assistant:
        """Somebody else."""
        made = await self.caller.new_caller(*(scopes or ("*",)), tenant=tenant, name="other", kind="person")
        return Assistant(made, self.options, self.address)


@asynccontextmanager
async def assisted(
    folder: Path, *documents: dict[str, Any], settings: Settings | None = None
) -> AsyncIterator[Assistant]:
    """Somebody with a key, on a gate of their own with these workflows, whose executors are as the settings say."""
    chosen = Settings() if settings is None else settings
    async with (
        open_executors(chosen) as equipment,
        Penstock.open(folder / "penstock.db", executors=equipment.executors) as penstock,
        open_gate(penstock) as gate,
    ):
        owner = GateCaller(gate, local_owner(), penstock)
        for document in documents:
            await owner.call("workflow.create", document=document)
        options = replace(mcp_options(chosen), patience_seconds=20, toolset="all")
        yield Assistant(await owner.new_caller("*", name="assistant", kind="person"), options)
