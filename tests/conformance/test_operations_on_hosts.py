"""Operations use nothing of a host but the port: what holds of them on the embedded host holds on one of mailboxes.

The tests are those of `tests/unit/operations`, with another host behind the same gate.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from penstock.app.drivers import make_storage
from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.operations.gate.context import GateLimits
from penstock.runtime.activities.routing import Router
from penstock.runtime.executors.step.executor import StepExecutor
from penstock.runtime.steps.registry import StepRegistry
from penstock.runtime.system import SystemClock
from tests.conformance.mailbox_host import MailboxHost
from tests.unit.operations.conftest import Caller, OpenGate, double
from tests.unit.operations.executions import test_changes, test_control_plane, test_reads, test_streams
from tests.unit.operations.exposed import test_workflows
from tests.unit.operations.schedules import test_operations

SUBJECTS = (
    test_reads,
    test_changes,
    test_streams,
    test_control_plane,
    test_workflows,
    test_operations,
)


def gate_tests(subject: ModuleType) -> Iterator[Callable[[OpenGate], object]]:
    """The tests of a module that need nothing but an open gate."""
    for name, function in vars(subject).items():
        if not name.startswith("test_") or not inspect.isfunction(function):
            continue
        if list(inspect.signature(function).parameters) == ["open_caller"]:
            yield function


TESTS = [function for subject in SUBJECTS for function in gate_tests(subject)]


@pytest.fixture
def faults() -> list[str]:
    return []


@pytest.fixture
def open_caller(tmp_path: Path, faults: list[str]) -> OpenGate:
    """Opens a gate on a host of mailboxes, over a file."""

    @asynccontextmanager
    async def opened(**choices: Any) -> AsyncIterator[Caller]:
        storage, registry = make_storage(tmp_path / "penstock.db"), StepRegistry()
        registry.register(double)
        await storage.store.open()
        host = MailboxHost(
            store=storage.store,
            clock=SystemClock(),
            performer=Router(executors={"step": StepExecutor(registry)}),
            report=lambda where, error: faults.append(f"{where}: {error!r}"),
        )
        await host.open()
        penstock = Penstock(storage=storage, host=host, driver=None)
        try:
            async with open_gate(penstock, chosen=GateLimits(**choices)) as gate:
                yield Caller(gate, local_owner(), penstock)
        finally:
            await host.close()
            await storage.store.close()

    return opened


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.__name__.removeprefix("test_"))
def test_operations_do_the_same_on_a_host_of_mailboxes(
    test: Callable[[OpenGate], object], open_caller: OpenGate, faults: list[str]
) -> None:
    outcome = test(open_caller)
    if inspect.iscoroutine(outcome):
        asyncio.run(outcome)
    assert faults == []


def test_there_are_tests_of_every_subject() -> None:
    assert all(list(gate_tests(subject)) for subject in SUBJECTS)
    assert len(TESTS) > 60
