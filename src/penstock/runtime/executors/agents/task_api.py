"""Delegation over the simple task API: ``POST {base}/tasks``, then poll ``GET {base}/tasks/{id}``.

This is the small HTTP protocol of the published engine, not the A2A standard, which has its own client.

Above it: `executor` uses the async client, the conformance harness the blocking one. Below it: httpx2. Timeouts and
refusals become error codes; nothing is raised.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx2

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.engine.effects import PerformActivity
from penstock.engine.state import RunState
from penstock.runtime.activities.performing import ActivityDone, ActivityError, ActivityOutcome
from penstock.runtime.executors.agents.port import AgentTask
from penstock.runtime.executors.outbound.bounded_body import ResponseLimits
from penstock.runtime.executors.outbound.httpx2_limits import ResponseTooLarge, limiting_hooks
from penstock.runtime.executors.outbound.json_tokens import TokenCounter
from penstock.runtime.executors.outbound.tls_trust import trusted_certificates

__all__ = ["AsyncTaskApiDelegate", "TaskApiDelegate"]

_UNAUTHORIZED = (401, 403)
_ANSWER = ResponseLimits(bytes_max=limits.AGENT_ANSWER_BYTES_MAX, tokens_max=limits.UPSTREAM_ANSWER_TOKENS_MAX)


@dataclass(slots=True, kw_only=True)
class TaskApiDelegate:
    """Delegates to an agent host that speaks the simple task API. It blocks while it waits."""

    base_url: str
    api_key: str
    poll_interval_ms: int = 500
    poll_timeout_ms: int = 120_000
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def perform(self, state: RunState, activity: PerformActivity) -> ActivityOutcome:
        """Create a task, wait for its end, and return its output with the correlation id."""
        delegate = activity.delegate or {}
        correlation = delegate.get("delegateCorrelationId")
        request = _request(delegate.get("agentId"), correlation, delegate.get("delegateInput"))
        headers = _headers(self.api_key, activity.idempotency_key)
        try:
            with httpx2.Client(base_url=self.base_url, headers=headers, timeout=self.poll_timeout_ms / 1000) as client:
                created = _sent(client, "POST", "/tasks", json=request)
                if created.status_code in _UNAUTHORIZED:
                    return _refused()
                created.raise_for_status()
                task_id = str(created.json()["id"])
                outcome = self._await(client, task_id)
        except ResponseTooLarge as error:
            return _too_large(delegate.get("agentId"), error)
        except (httpx2.HTTPError, ValueError, KeyError) as error:
            return _unexpected(error)
        if isinstance(outcome, ActivityDone):
            return ActivityDone(outcome.result, {"delegateCorrelationId": correlation, "externalTaskId": task_id})
        return outcome

    def _await(self, client: httpx2.Client, task_id: str) -> ActivityOutcome:
        give_up_at = self.monotonic() + self.poll_timeout_ms / 1000
        while True:
            polled = _sent(client, "GET", _task_path(task_id))
            polled.raise_for_status()
            outcome = _outcome(polled.json())
            if outcome is not None:
                return outcome
            if self.monotonic() >= give_up_at:
                return _late(task_id)
            self.sleep(self.poll_interval_ms / 1000)


@dataclass(slots=True, kw_only=True)
class AsyncTaskApiDelegate:
    """Delegates to an agent host that speaks the simple task API. It can be cancelled at any time."""

    base_url: str
    api_key: str
    poll_interval_ms: int = limits.AGENT_POLL_MS_DEFAULT
    _client: httpx2.AsyncClient | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _connected(self) -> httpx2.AsyncClient:
        verify = await trusted_certificates()
        if self._client is None:
            hooks = limiting_hooks(_ANSWER)
            self._client = httpx2.AsyncClient(base_url=self.base_url, timeout=None, event_hooks=hooks, verify=verify)
        return self._client

    async def delegate(self, task: AgentTask) -> ActivityOutcome:
        """Create a task, wait for its end, and return its output with the correlation id."""
        task_id = "(not created)"
        headers = _headers(self.api_key, task.idempotency_key, epoch=task.epoch)
        request = _request(task.agent_id, task.correlation_id, task.input)
        try:
            async with asyncio.timeout(task.timeout_ms / 1000):
                client = await self._connected()
                await task.confirm()
                created = await client.post("/tasks", json=request, headers=headers)
                if created.status_code in _UNAUTHORIZED:
                    return _refused()
                created.raise_for_status()
                task_id = str(created.json()["id"])
                while True:
                    polled = await client.get(_task_path(task_id), headers=headers)
                    polled.raise_for_status()
                    outcome = _outcome(polled.json())
                    if isinstance(outcome, ActivityDone):
                        return ActivityDone(outcome.result, task.result_metadata(task_id))
                    if outcome is not None:
                        return outcome
                    await asyncio.sleep(self.poll_interval_ms / 1000)
        except TimeoutError:
            return _late(task_id)
        except ResponseTooLarge as error:
            return _too_large(task.agent_id, error)
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, KeyError, TypeError) as error:
            return _unexpected(error)


def _too_large(agent_id: JsonValue, error: ResponseTooLarge) -> ActivityError:
    return ActivityError(f"{agent_id}: {error}", "A2A_RESULT_TOO_LARGE", retryable=False)


def _sent(client: httpx2.Client, method: str, path: str, **body: Any) -> httpx2.Response:
    """Send a request and read the response up to the limit."""
    with client.stream(method, path, headers={"accept-encoding": "identity"}, **body) as response:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise httpx2.DecodingError("the answer is encoded, which was not asked for")
        content, counter = bytearray(), TokenCounter()
        for part in response.iter_raw():
            content += part
            too_many = counter.feed(part) > limits.UPSTREAM_ANSWER_TOKENS_MAX
            if too_many or len(content) > _ANSWER.bytes_max:
                raise ResponseTooLarge(_ANSWER.exceeded_message())
        return httpx2.Response(response.status_code, content=bytes(content), request=response.request)


def _request(agent_id: JsonValue, correlation_id: JsonValue, given: JsonValue) -> JsonObject:
    return {"agent_id": agent_id, "correlation_id": correlation_id, "input": given}


def _task_path(task_id: str) -> str:
    return f"/tasks/{quote(task_id, safe='')}"  # the id comes from the agent, so it may contain anything


def _headers(api_key: str, idempotency_key: str, *, epoch: int = 0) -> dict[str, str]:
    headers = {"authorization": f"Bearer {api_key}", "idempotency-key": idempotency_key}
    return {**headers, "penstock-epoch": str(epoch)} if epoch else headers


def _outcome(task: Any) -> ActivityOutcome | None:
    """The outcome of a task; None while it is in progress."""
    match task.get("status") if isinstance(task, dict) else None:
        case "completed":
            return ActivityDone(task.get("output"))
        case "failed":
            return ActivityError(str(task.get("error", "the task failed")), "A2A_TASK_FAILED")
        case "input-required":
            return ActivityError("the agent asks for input, which this API cannot carry", "A2A_TASK_FAILED")
        case _:
            return None


def _refused() -> ActivityError:
    return ActivityError("the agent host refused the key", "A2A_CREDENTIALS_MISSING", retryable=False)


def _late(task_id: str) -> ActivityError:
    return ActivityError(f"task {task_id} did not end in time", "ACTIVITY_TIMEOUT")


def _unexpected(error: Exception) -> ActivityError:
    return ActivityError(f"the agent host did not answer as expected: {type(error).__name__}", "A2A_PROVIDER_ERROR")
