"""An office for tests of approvals: a gate on a real file, an agent that wants things done, and people who decide."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from penstock.app.gate import local_owner
from penstock.app.penstock import Penstock
from penstock.base.clock import Clock
from penstock.base.errors import PenstockError
from penstock.operations.catalogue.capability import Reply
from penstock.operations.gate.authentication import principal_of
from penstock.operations.gate.context import HoldChoices, Principal, Request
from penstock.operations.gate.pipeline import AnsweredCall, Gate, Outcome, RefusedCall
from penstock.runtime.activities.performing import AsyncPerformer
from penstock.runtime.ports.host import Committed
from penstock.runtime.tables.api_keys import read_key
from tests.surroundings import open_store
from tests.waiting import SECONDS_MAX

__all__ = ["ERASE", "Office", "in_office", "open_office", "staff"]

ERASE: dict[str, Any] = {
    "penstock": "v1",
    "name": "erase_customer",
    "input": {
        "type": "object",
        "required": ["customer"],
        "properties": {"customer": {"type": "string"}, "reason": {"type": "string", "default": "asked"}},
    },
    "governance": {"risk": "high"},
    "expose": {"tool": True},
    "nodes": [{"id": "done", "type": "end", "output": {"erased": "${ .input.customer }"}}],
}
"""A workflow that could do harm."""
APPROVE = ("draft:*", "execution:*", "approve:approvers")


@dataclass(slots=True)
class Office:
    """Calls operations as anybody who has a key."""

    gate: Gate
    penstock: Penstock
    people: dict[str, Principal] = field(default_factory=dict)

    @property
    def owner(self) -> Principal:
        """Whoever owns the file."""
        return local_owner()

    async def hire(self, name: str, kind: str, *scopes: str, maker: Principal | None = None, **more: Any) -> Principal:
        """Make a key, and return whom it stands for."""
        arguments = {"name": name, "kind": kind, "scopes": list(scopes), **more}
        made = await self.call(maker or self.owner, "key.create", **arguments)
        key = await read_key(self.gate.services.platform, made["key"]["id"])
        assert key is not None
        self.people[name] = principal_of(key)
        return self.people[name]

    async def outcome(self, who: str | Principal, operation: str, /, **arguments: Any) -> Outcome:
        """What the gate says to a call; `request` has more members of the request."""
        more = arguments.pop("request", {})
        principal = self.people[who] if isinstance(who, str) else who
        return await self.gate.call(
            Request(
                operation=operation,
                arguments=arguments,
                principal=principal,
                **{"surface": "rest", "request_id": "test", **more},
            )
        )

    async def reply(self, who: str | Principal, operation: str, /, **arguments: Any) -> Reply[Any]:
        """The reply of a call that must be answered."""
        outcome = await self.outcome(who, operation, **arguments)
        assert isinstance(outcome, AnsweredCall), outcome
        assert isinstance(outcome.reply, Reply)
        return outcome.reply

    async def call(self, who: str | Principal, operation: str, /, **arguments: Any) -> Any:
        """The answer of a call that must be answered, as JSON."""
        return msgspec.to_builtins((await self.reply(who, operation, **arguments)).value)

    async def refusal(self, who: str | Principal, operation: str, /, **arguments: Any) -> PenstockError:
        """The error of a call that must be refused."""
        outcome = await self.outcome(who, operation, **arguments)
        assert isinstance(outcome, RefusedCall), outcome
        return outcome.error

    async def propose(self, who: str = "robot", customer: str = "C-7", **more: Any) -> str:
        """Let an agent ask for something dangerous, and return the id of the draft."""
        held = await self.call(who, "workflow:erase_customer", customer=customer, **more)
        assert held["status"] == "waiting_approval", held
        draft_id: str = held["held"]["draft_id"]
        return draft_id

    async def erased(self) -> list[str]:
        """The customers that were erased, in order."""
        listed = await self.call(self.owner, "execution.list", workflow_id="erase_customer")
        found = [
            await self.call(self.owner, "execution.status", execution_id=item["execution_id"])
            for item in listed["items"]
        ]
        return [item["output"]["erased"] for item in reversed(found)]


@asynccontextmanager
async def open_office(
    path: Path,
    holds: HoldChoices | None = None,
    clock: Clock | None = None,
    executors: Mapping[str, AsyncPerformer] | None = None,
    observe: Callable[[Committed], None] | None = None,
) -> AsyncIterator[Office]:
    """Open the office; a second time after the first is like a restart."""
    async with open_store(path, holds, clock=clock, executors=executors, observe=observe) as (penstock, gate):
        yield Office(gate, penstock)


async def staff(office: Office) -> None:
    """Store the dangerous workflow, and hire a robot and three people, all by the owner."""
    await office.call(office.owner, "workflow.create", document=ERASE)
    await office.hire("robot", "agent", "*")
    for name in ("ada", "grace", "edsger"):
        await office.hire(name, "person", *APPROVE)


def in_office(
    path: Path,
    body: Callable[[Office], Awaitable[None]],
    holds: HoldChoices | None = None,
    clock: Clock | None = None,
    executors: Mapping[str, AsyncPerformer] | None = None,
) -> None:
    """Run a test in an office with its staff."""

    async def test() -> None:
        async with open_office(path, holds, clock, executors) as office:
            await staff(office)
            await body(office)

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))
