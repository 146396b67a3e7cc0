"""Runs, awaited: the generated operations, plus starting a run, waiting for its end, and both at once.

Above it: `resources`. Below it: the generated operations on runs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from penstock.client.errors import CallTimedOut
from penstock.client.generated.asynchronous.executions import AsyncExecutions as GeneratedExecutions
from penstock.client.generated.views.execution import ExecutionHandle, ExecutionView

__all__ = ["AsyncExecutions"]


class AsyncExecutions(GeneratedExecutions):
    """Operations on runs."""

    async def start(  # noqa: PLR0913  # what there is to say about a new execution
        self,
        workflow_id: str,
        input: Any = None,
        *,
        execution_id: str | None = None,
        labels: Mapping[str, str] | None = None,
        timeout: str | None = None,  # noqa: ASYNC109  # the execution's, not this call's
        hash: str | None = None,
        idempotency_key: str | None = None,
    ) -> ExecutionHandle:
        """Start a workflow without waiting; the same `execution_id` or `idempotency_key` starts it only once."""
        arguments = {
            "workflow_id": workflow_id,
            "input": input,
            "execution_id": execution_id,
            "labels": labels,
            "timeout": timeout,
            "hash": hash,
        }
        return await self._caller.invoke(
            "workflow.execute", arguments, ExecutionHandle, idempotency_key=idempotency_key
        )

    async def wait_for_end(self, execution_id: str, *, timeout_seconds: float | None = None) -> ExecutionView:
        """Wait until a run has ended and return it; `CallTimedOut` if that takes longer than allowed.

        Unlike `wait`, it does not return when the run asks a question. If a run continues as a new one, it
        waits for the last of them.
        """
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while True:
            arguments = {"execution_id": execution_id, "events": "complete"}
            remaining = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            continued_as: str | None = None
            async for event in self._caller.events("execution.stream", arguments, timeout_seconds=remaining):
                continued_as = event.data.get("continued_as")
            if continued_as is None:
                return await self.status(execution_id)
            execution_id = continued_as

    async def run(
        self,
        workflow_id: str,
        input: Any = None,
        *,
        labels: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
        idempotency_key: str | None = None,
    ) -> ExecutionView:
        """Start a workflow and wait for its end; see `status`, `output` and `error` of the result."""
        started = await self.start(workflow_id, input, labels=labels, idempotency_key=idempotency_key)
        try:
            return await self.wait_for_end(started.execution_id, timeout_seconds=timeout_seconds)
        except CallTimedOut as error:
            error.details["execution_id"] = started.execution_id
            raise
