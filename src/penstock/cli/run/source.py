"""Where a followed run is read from: operations, called through the gate of this process or on a server.

Both work the same, whichever process performs the run.

Above it: `follower`, and the commands that watch. Below it: the gate, `targets.clients`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import msgspec

from penstock.app.gate import local_owner
from penstock.base import limits
from penstock.base.errors import Denied, NotFound
from penstock.base.ids import chain_of, generation_of
from penstock.base.json import JsonObject, JsonValue
from penstock.cli.targets.clients import OperationClient
from penstock.cli.targets.run_ids import CANDIDATES_MAX, match_run
from penstock.definitions.build.workflow import build_workflow
from penstock.definitions.durations import parse_instant_ms
from penstock.definitions.model import Workflow
from penstock.engine.records import Record
from penstock.operations.gate.internal_callers import internal_call
from penstock.operations.gate.pipeline import Gate
from penstock.runtime.chains import CHAIN_LABEL

__all__ = ["AsyncCall", "RunSource", "calls_of_client", "calls_of_gate", "record_of"]

AsyncCall: TypeAlias = Callable[[str, JsonObject], Awaitable[Any]]
"""Calls an operation with its arguments, and gives the answer as plain data."""

_CHAIN_LOOKED_AT: Final = 20


def calls_of_gate(gate: Gate) -> AsyncCall:
    """Calls through a gate of this process, as the user of the operating system."""

    async def call(operation: str, arguments: JsonObject) -> Any:
        return msgspec.to_builtins(await internal_call(gate, local_owner(), operation, arguments, surface="cli"))

    return call


def calls_of_client(surface: OperationClient) -> AsyncCall:
    """Calls of a server, made in a thread, so that watching is not blocked."""

    async def call(operation: str, arguments: JsonObject) -> Any:
        return await asyncio.to_thread(surface.call, operation, arguments)

    return call


def record_of(item: Any) -> Record:
    """The engine's record for an item of `execution.history`."""
    at = parse_instant_ms(item["at"] or "") or 0
    return Record(seq=item["seq"], kind=item["kind"], name=item["name"], at=at, content=item["payload"])


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSource:
    """The runs of one target."""

    call: AsyncCall
    performs: bool = False
    """Whether this process does their work."""
    look_seconds: float = limits.FOREIGN_CHANGE_POLL_SECONDS
    """How long to wait for a record before checking the child runs again."""
    _workflows: dict[str, Workflow | None] = field(default_factory=dict)

    async def records(self, run_id: str, after_seq: int) -> list[Record]:
        """Every record after a point, as far as there are any."""
        found: list[Record] = []
        while True:
            after = found[-1].seq if found else after_seq
            arguments: JsonObject = {"execution_id": run_id, "after": after, "limit": limits.PAGE_LIMIT_MAX}
            page = await self.call("execution.history", arguments)
            found += [record_of(item) for item in page["items"]]
            if page["next_cursor"] is None:
                return found

    async def wait(self, run_id: str, after_seq: int) -> None:
        """Wait for the next record, or long enough to look again."""
        arguments: JsonObject = {"execution_id": run_id, "after": after_seq, "limit": 1}
        page = await self.call("execution.history", {**arguments, "wait_seconds": self.look_seconds})
        if page["ended"]:  # comes back at once; its successor may need a moment
            await asyncio.sleep(self.look_seconds)

    async def view(self, run_id: str) -> JsonObject:
        """The state of a run, as `execution.status` answers."""
        answer: JsonObject = await self.call("execution.status", {"execution_id": run_id})
        return answer

    async def newest(self, named: str) -> str:
        """Resolve an id, or the beginning of one, to a run, or to the newest run that continues it."""
        try:
            run_id = str((await self.view(named))["execution_id"])
        except NotFound as error:
            page = await self.call("execution.list", {"text": named, "limit": CANDIDATES_MAX})
            run_id = match_run(named, page["items"], error)
        return await self.latest(run_id) or run_id

    async def workflow(self, run_id: str) -> Workflow | None:
        """The workflow of a run in the version that it is pinned to; None when there is no such run, or no document."""
        try:
            view: Any = await self.view(run_id)
            pinned = view["definition_hash"]
            if pinned not in self._workflows:
                arguments: JsonObject = {"workflow_id": view["workflow_id"], "hash": pinned}
                answer = await self.call("workflow.get", arguments)
                self._workflows[pinned] = await asyncio.to_thread(build_workflow, answer["document"])
            return self._workflows[pinned]
        except (Denied, NotFound):
            return None

    async def latest(self, run_id: str) -> str | None:
        """The newest run that continues a run; None when none does."""
        chain = chain_of(run_id)
        arguments: JsonObject = {"label": f"{CHAIN_LABEL}={chain}", "limit": _CHAIN_LOOKED_AT}
        page = await self.call("execution.list", arguments)
        names = [item["execution_id"] for item in page["items"] if chain_of(item["execution_id"]) == chain]
        later = [name for name in names if generation_of(name) > generation_of(run_id)]
        return max(later, key=generation_of, default=None)

    async def answer(self, run_id: str, interrupt_id: str, value: JsonValue) -> None:
        """Answer a question of a run as the user of this command."""
        arguments: JsonObject = {"execution_id": run_id, "interrupt_id": interrupt_id, "answer": value}
        await self.call("execution.answer", arguments)
