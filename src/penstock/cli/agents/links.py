"""How a conversation reaches its agent: the operations and streams of a server, or of a file that is performed here.

Above it: `chat`. Below it: the client, the gate, `targets`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any, Protocol, assert_never

import msgspec

from penstock.app.gate import hold_choices, local_owner, open_gate
from penstock.base.json import JsonObject
from penstock.cli.run.workflow_lookup import runnable_in_project
from penstock.cli.server.workflows import load_workflow_into
from penstock.cli.targets.selection import FileTarget, ServerTarget, Target, connect
from penstock.cli.targets.workspace import Workspace, open_workspace
from penstock.client.asynchronous.connection import AsyncConnection
from penstock.client.events import StreamEvent
from penstock.definitions.model import Workflow
from penstock.operations.catalogue.capability import EventStream
from penstock.operations.gate.context import Request
from penstock.operations.gate.pipeline import AnsweredCall, Gate, RefusedCall

__all__ = ["Link", "open_link"]

_STREAM = "execution.stream"


class Link(Protocol):
    """Calls operations, and follows executions."""

    async def call(self, operation: str, **arguments: Any) -> Any:
        """The answer of a call, as plain data."""

    def events(self, execution_id: str) -> AsyncIterator[StreamEvent]:
        """What happens in an execution, until it has ended."""


class _ServerLink:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def call(self, operation: str, **arguments: Any) -> Any:
        return await self._connection.invoke_any(operation, arguments, (Any,))

    def events(self, execution_id: str) -> AsyncIterator[StreamEvent]:
        return self._connection.events(_STREAM, {"execution_id": execution_id})


class _GateLink:
    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def call(self, operation: str, **arguments: Any) -> Any:
        reply = (await self._answered(operation, arguments)).reply
        return None if isinstance(reply, EventStream) else msgspec.to_builtins(reply.value)

    async def events(self, execution_id: str) -> AsyncIterator[StreamEvent]:
        reply = (await self._answered(_STREAM, {"execution_id": execution_id})).reply
        if not isinstance(reply, EventStream):
            raise TypeError(f"{_STREAM} is not a stream")
        events = reply.events
        try:
            async for event in events:
                if event.event is not None and isinstance(event.data, dict):
                    yield StreamEvent(event=event.event, data=event.data, id=event.id)
        finally:
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()

    async def _answered(self, operation: str, arguments: JsonObject) -> AnsweredCall:
        request = Request(
            operation=operation, arguments=arguments, principal=local_owner(), surface="cli", request_id=token_hex(8)
        )
        outcome = await self._gate.call(request)
        if isinstance(outcome, RefusedCall):
            raise outcome.error
        return outcome


def open_link(
    target: Target, agent: str, workspace: Callable[[], Workspace]
) -> AbstractAsyncContextManager[tuple[Link, str]]:
    """A link to an agent, and the agent's name there. On a file, `agent` may also be a workflow file."""
    match target:
        case ServerTarget():
            return _on_server(target, agent)
        case FileTarget():
            chosen = workspace()
            written = Path(agent).is_file()
            return _on_file(
                chosen, agent, runnable_in_project(agent, (), chosen.settings, performs=True) if written else None
            )
        case _:
            assert_never(target)


@asynccontextmanager
async def _on_server(target: ServerTarget, agent: str) -> AsyncIterator[tuple[Link, str]]:
    connect(target, patient=False).close()  # for its warning about keys that are not encrypted
    async with AsyncConnection(target.server, target.key) as connection:
        yield _ServerLink(connection), agent


@asynccontextmanager
async def _on_file(
    workspace: Workspace, agent: str, found: tuple[Workflow, list[Workflow]] | None
) -> AsyncIterator[tuple[Link, str]]:
    async with (
        open_workspace(workspace, perform=True, create=found is not None) as penstock,
        open_gate(
            penstock,
            policy_files=workspace.settings.policy.files,
            graphs=workspace.settings.declared_graphs,
            holds=hold_choices(workspace.settings.governance),
        ) as gate,
    ):
        if found is not None:
            for workflow in (found[0], *found[1]):
                await load_workflow_into(gate, workflow, owner=local_owner())
        yield _GateLink(gate), agent if found is None else found[0].name
