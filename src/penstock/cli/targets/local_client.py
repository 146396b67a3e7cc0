"""Calls through the gate on a file, in this process: anyone who can open the file owns what is in it.

Nothing is performed here. A `penstock serve` or `penstock server worker` does the work that a call starts; without
one, the command says so.

Above it: `clients`. Below it: `workspace`, `app.gate`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

import msgspec

from penstock.app.drivers import database_file
from penstock.app.files.graphs import create_declared_graphs
from penstock.app.gate import hold_choices, local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.base.json import JsonObject, JsonValue
from penstock.cli.targets.settings import command_settings
from penstock.cli.targets.workspace import Workspace, live_workers, open_workspace
from penstock.cli.terminal.console import console_for
from penstock.cli.terminal.exits import command_text
from penstock.cli.terminal.styled_text import Text
from penstock.client.events import StreamEvent
from penstock.client.operations import find_operation
from penstock.operations.catalogue.capability import EventStream
from penstock.operations.gate.context import Request
from penstock.operations.gate.pipeline import AnsweredCall, Gate, RefusedCall

__all__ = ["open_local_client", "warn_without_worker"]

_KEY_BYTES = 16


class _LocalClient:
    """Calls through the gate on a file. The event loop runs only during a call."""

    def __init__(self, runner: asyncio.Runner, gate: Gate, penstock: Penstock, workspace: Workspace) -> None:
        self._runner = runner
        self._gate = gate
        self._penstock = penstock
        self._workspace = workspace
        self._changed: dict[str, None] = {}

    def call(self, operation: str, arguments: JsonObject, *, idempotency_key: str | None = None) -> JsonValue:
        return self._runner.run(self._answer(operation, arguments, idempotency_key))

    async def _answer(self, operation: str, arguments: JsonObject, idempotency_key: str | None) -> JsonValue:
        answered = await self._ask(operation, arguments, idempotency_key)
        if isinstance(answered.reply, EventStream):
            raise TypeError(f"{operation} is a stream")
        value: JsonValue = msgspec.to_builtins(answered.reply.value)
        if isinstance(value, dict) and not answered.capability.annotations.read_only:
            changed = value.get("execution_id")
            if isinstance(changed, str):
                self._changed[changed] = None
        return value

    def warn(self) -> None:
        """Warn about the runs that were changed and that no process performs."""
        for run_id in self._changed:
            self._runner.run(warn_without_worker(self._penstock, run_id, self._workspace))

    async def _ask(self, operation: str, arguments: JsonObject, idempotency_key: str | None) -> AnsweredCall:
        if not find_operation(operation).read_only:
            # The HTTP client makes a key too, so that a repeated call gets the same answer on a file and on a server.
            idempotency_key = idempotency_key or token_hex(_KEY_BYTES)
        outcome = await self._gate.call(
            Request(
                operation=operation,
                arguments=arguments,
                principal=local_owner(),
                surface="cli",
                request_id=token_hex(8),
                idempotency_key=idempotency_key,
            )
        )
        if isinstance(outcome, RefusedCall):
            raise outcome.error
        return outcome

    def events(self, operation: str, arguments: JsonObject) -> Iterator[StreamEvent]:
        answered = self._runner.run(self._ask(operation, arguments, None))
        if not isinstance(answered.reply, EventStream):
            raise TypeError(f"{operation} is not a stream")
        events = answered.reply.events
        try:
            while (event := self._runner.run(_next(events))) is not None:
                if event.event is not None:
                    yield StreamEvent(event=event.event, data=_object(event.data), id=event.id)
        finally:
            close = getattr(events, "aclose", None)
            if close is not None:
                self._runner.run(close())


async def _next(events: Any) -> Any:
    return await anext(events, None)


def _object(data: JsonValue) -> dict[str, Any]:
    return data if isinstance(data, dict) else {"value": data}


@contextmanager
def open_local_client(
    path: Path | None, *, create: bool, changes: bool, changes_graphs: bool = False
) -> Iterator[_LocalClient]:
    """The gate on a file, as its owner; without a path, on the file that the settings name.

    `changes` is for an operation that changes something; one that reads creates neither a file nor its secret.
    With `changes_graphs`, the graphs that the settings declare are created if the file does not have them yet.
    """
    settings = command_settings(flags={"storage.path": path}).settings
    workspace = Workspace(database=database_file(settings.storage.path), settings=settings)
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        try:
            penstock = runner.run(stack.enter_async_context(open_workspace(workspace, create=create)))
            opening = open_gate(
                penstock,
                looks_only=not changes,
                policy_files=settings.policy.files,
                stored_graphs=settings.declared_graphs,
                holds=hold_choices(settings.governance),
            )
            gate = runner.run(stack.enter_async_context(opening))
            if changes_graphs:
                runner.run(create_declared_graphs(gate, settings.declared_graphs))
            client = _LocalClient(runner, gate, penstock, workspace)
            yield client
            client.warn()  # below what the command printed
        finally:
            runner.run(stack.aclose())


async def lacks_worker(penstock: Penstock, run_id: str) -> bool:
    """True when a run has work to do, now or later, and no process performs it."""
    row = await penstock.store.row(run_id)
    if row is None or not (row.has_work or (row.wake_at is not None and not row.terminal)):
        return False
    return not await live_workers(penstock)


async def warn_without_worker(penstock: Penstock, run_id: str, workspace: Workspace) -> None:
    """Warn when a run has work to do and no process performs it."""
    if await lacks_worker(penstock, run_id):
        here = command_text("runs", "watch", run_id, "--perform", *workspace.arguments())
        message = f"No worker is running for {workspace.database}. To continue this run here:\n  {here}"
        console_for(sys.stderr).print(Text(message, style="yellow"))
