"""A gate on a real SQLite file, and short ways to call it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.base.errors import Denied, PenstockError
from penstock.operations.catalogue.capability import EventStream, Reply
from penstock.operations.gate.context import Credentials, GateLimits, Principal, Request
from penstock.operations.gate.pipeline import AnsweredCall, Gate, Outcome, RefusedCall
from penstock.runtime.steps.registry import step


@step(name="double")
async def double(number: int) -> int:
    """A step that workflows of these tests use."""
    return number * 2


@dataclass(slots=True)
class Caller:
    """Calls operations as somebody."""

    gate: Gate
    who: Principal | Credentials
    penstock: Penstock

    async def principal(self, operation: str = "authenticate") -> Principal:
        """Who they are, as the gate finds out."""
        if isinstance(self.who, Principal):
            return self.who
        return await self.gate.authenticate(self.who, surface="sdk", request_id="test", operation=operation)

    async def outcome(self, operation: str, /, *, idempotency_key: str | None = None, **arguments: Any) -> Outcome:
        """What the gate says to a call."""
        try:
            principal = await self.principal(operation)
        except Denied as error:
            return RefusedCall(error=error)
        return await self.gate.call(
            Request(
                operation=operation,
                arguments=arguments,
                principal=principal,
                surface="sdk",
                request_id="test",
                idempotency_key=idempotency_key,
            )
        )

    async def reply(self, operation: str, /, *, idempotency_key: str | None = None, **arguments: Any) -> Reply[Any]:
        """The reply of a call that must be answered with a value."""
        outcome = await self.outcome(operation, idempotency_key=idempotency_key, **arguments)
        assert isinstance(outcome, AnsweredCall), outcome
        assert isinstance(outcome.reply, Reply)
        return outcome.reply

    async def call(self, operation: str, /, **arguments: Any) -> Any:
        """The answer of a call that must succeed, as JSON."""
        return msgspec.to_builtins((await self.reply(operation, **arguments)).value)

    async def accepted(self, held: Any) -> Any:
        """The result of a call that an agent made and that waited, after it was approved."""
        made = await self.call("draft.approve", draft_id=held["held"]["draft_id"])
        assert made["status"] == "executed", made
        return made["result"]

    async def stream(self, operation: str, /, **arguments: Any) -> EventStream:
        """The stream of a call that must be answered with one."""
        outcome = await self.outcome(operation, **arguments)
        assert isinstance(outcome, AnsweredCall), outcome
        assert isinstance(outcome.reply, EventStream)
        return outcome.reply

    async def refusal(self, operation: str, /, **arguments: Any) -> PenstockError:
        """The error of a call that must be refused."""
        outcome = await self.outcome(operation, **arguments)
        assert isinstance(outcome, RefusedCall), outcome
        return outcome.error

    def with_key(self, secret: str) -> Caller:
        """The same gate for the holder of a key."""
        return Caller(self.gate, Credentials(bearer=secret), self.penstock)

    async def new_caller(self, *scopes: str, name: str = "somebody", **more: Any) -> Caller:
        """Somebody with a new key."""
        made = await self.call("key.create", name=name, scopes=list(scopes), **more)
        return self.with_key(made["secret"])


def change_services(gate: Gate, **changes: Any) -> None:
    """Let a gate work with other services from now on: services themselves do not change."""
    gate.services = replace(gate.services, **changes)


OpenGate = Callable[..., AbstractAsyncContextManager[Caller]]


@pytest.fixture
def open_caller(tmp_path: Path) -> OpenGate:
    """Opens the gate as the local owner; a second time after the first is like a restart."""

    @asynccontextmanager
    async def opened(**choices: Any) -> AsyncIterator[Caller]:
        async with (
            Penstock.open(tmp_path / "penstock.db", steps=[double]) as penstock,
            open_gate(penstock, chosen=GateLimits(**choices)) as gate,
        ):
            yield Caller(gate, local_owner(), penstock)

    return opened
