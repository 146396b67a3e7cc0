"""Delegation over the simple task API: ``POST {base}/tasks``, then poll ``GET {base}/tasks/{id}``.

This is the small HTTP protocol of the published engine, not the A2A standard (which has its own executor later).

Above it: `app` wires it. Below it: httpx2. Time-outs and refusals become codes; nothing is raised.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import httpx2

from penstock.base.json import JsonObject
from penstock.engine.effects import PerformActivity
from penstock.engine.state import RunState
from penstock.runtime.performing import ActivityDone, ActivityError, ActivityOutcome

__all__ = ["TaskApiDelegate"]

_UNAUTHORIZED = (401, 403)


@dataclass(slots=True, kw_only=True)
class TaskApiDelegate:
    """Delegates to an agent host that speaks the simple task API."""

    base_url: str
    api_key: str
    poll_interval_ms: int = 500
    poll_timeout_ms: int = 120_000
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def perform(self, state: RunState, activity: PerformActivity) -> ActivityOutcome:
        """Create a task, wait for its end, and hand back its output with the correlation id."""
        delegate = activity.delegate or {}
        correlation = delegate.get("delegateCorrelationId")
        request: JsonObject = {
            "agent_id": delegate.get("agentId"),
            "correlation_id": correlation,
            "input": delegate.get("delegateInput"),
        }
        headers = {"authorization": f"Bearer {self.api_key}", "idempotency-key": activity.idempotency_key}
        try:
            with httpx2.Client(base_url=self.base_url, headers=headers, timeout=self.poll_timeout_ms / 1000) as client:
                created = client.post("/tasks", json=request)
                if created.status_code in _UNAUTHORIZED:
                    return ActivityError("the agent host refused the key", "A2A_CREDENTIALS_MISSING", retryable=False)
                created.raise_for_status()
                task_id = str(created.json()["id"])
                outcome = self._await(client, task_id)
        except (httpx2.HTTPError, ValueError, KeyError) as error:
            return ActivityError(
                f"the agent host did not answer as expected: {type(error).__name__}", "A2A_PROVIDER_ERROR"
            )
        if isinstance(outcome, ActivityDone):
            return ActivityDone(outcome.result, {"delegateCorrelationId": correlation, "externalTaskId": task_id})
        return outcome

    def _await(self, client: httpx2.Client, task_id: str) -> ActivityOutcome:
        give_up_at = self.monotonic() + self.poll_timeout_ms / 1000
        while True:
            polled = client.get(f"/tasks/{task_id}")
            polled.raise_for_status()
            task = polled.json()
            match task.get("status"):
                case "completed":
                    return ActivityDone(task.get("output"))
                case "failed":
                    return ActivityError(str(task.get("error", "the task failed")), "A2A_TASK_FAILED")
                case "input-required":
                    return ActivityError("the agent asks for input, which this API cannot carry", "A2A_TASK_FAILED")
                case _:
                    pass
            if self.monotonic() >= give_up_at:
                return ActivityError(f"task {task_id} did not end in time", "ACTIVITY_TIMEOUT")
            self.sleep(self.poll_interval_ms / 1000)
