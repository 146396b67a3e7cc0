"""`agent_delegate`: gives a task to an agent that the operator configured, over the protocol that the agent speaks.

    AgentExecutor({"code-reviewer": A2aAgent(url="https://agents.example/reviewer"),     # the A2A standard
                   "planner": TaskApiAgent(base_url=…, api_key=…),                       # the simple task API
                   "shop": McpAgent(server="shop", tool="assist"),                       # a tool of an MCP server
                   "triage": SdkAgent(triage)},                                          # a function of this process
                  a2a=A2aClients(), tools=McpToolExecutor(…))

The correlation id of the run is passed to the agent and stored beside the result, with the agent's own task id. An
agent that needs information from a person asks the run, which waits for the answer and passes it to the same task.

Above it: `app`. Below it: one client per protocol. Clients that need a library are passed in, so this module needs
none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from msgspec.structs import replace

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue, exceeds_depth
from penstock.runtime.activities.performing import (
    ActivityAsks,
    ActivityCall,
    ActivityDone,
    ActivityError,
    ActivityOutcome,
    AsyncPerformer,
    NodeAction,
)
from penstock.runtime.executors.agents.port import A2aAgent, A2aDelegate, AgentTask
from penstock.runtime.executors.agents.task_api import AsyncTaskApiDelegate
from penstock.runtime.executors.outbound.error_text import truncated
from penstock.runtime.extras import install_hint
from penstock.runtime.steps.registry import StepFailed

__all__ = ["AgentConfig", "AgentExecutor", "McpAgent", "SdkAgent", "TaskApiAgent"]

_PROTOCOLS: Final = ("a2a", "mcp", "sdk")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskApiAgent:
    """An agent behind the simple task API of the published engine: `POST /tasks`, then polling."""

    base_url: str
    api_key: str | None = field(default=None, repr=False)
    poll_interval_ms: int = limits.AGENT_POLL_MS_DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class McpAgent:
    """An agent that is a tool of a configured MCP server."""

    server: str
    tool: str


@dataclass(frozen=True, slots=True)
class SdkAgent:
    """An agent that is a function of this process. It may ask a person by returning `ActivityAsks`."""

    function: Callable[[AgentTask], Awaitable[JsonValue | ActivityAsks]]


AgentConfig: TypeAlias = A2aAgent | TaskApiAgent | McpAgent | SdkAgent


@dataclass(slots=True)
class AgentExecutor:
    """Performs `agent_delegate` nodes."""

    agents: Mapping[str, AgentConfig]
    a2a: A2aDelegate | None = field(default=None, kw_only=True)
    tools: AsyncPerformer | None = field(default=None, kw_only=True)
    _task_hosts: dict[str, AsyncTaskApiDelegate] = field(default_factory=dict, init=False, repr=False)

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Give the task to its agent and wait for the outcome."""
        protocol = _delegation(call, "protocol", "protocol", "a2a")
        task = _task(call)
        agent = self.agents.get(task.agent_id)
        if protocol not in _PROTOCOLS:
            message = f"the protocol {protocol} is not supported (supported: {', '.join(_PROTOCOLS)})"
            return ActivityError(message, "DELEGATE_PROTOCOL_UNSUPPORTED", retryable=False)
        if agent is None:
            known = ", ".join(sorted(self.agents)) or "none"
            message = f"the agent {task.agent_id} is not configured (configured: {known})"
            return ActivityError(message, "DELEGATE_AGENT_NOT_FOUND", retryable=False)
        if protocol != _spoken(agent):
            message = f"the agent {task.agent_id} is configured for {_spoken(agent)}, not for {protocol}"
            return ActivityError(message, "DELEGATE_PROTOCOL_UNSUPPORTED", retryable=False)
        if call.withdraws:
            return await self._withdraw(agent, task)  # no policy is asked: what may be begun may be ended
        facts: JsonObject = {"agent": task.agent_id, "protocol": protocol}
        refused = await call.refusal(NodeAction(resource=task.agent_id, facts=facts))
        if refused is not None:
            return refused
        outcome = await self._delegate(call, agent, task)
        if isinstance(outcome, ActivityDone) and exceeds_depth(outcome.result, limits.JSON_DEPTH_MAX):
            message = f"{task.agent_id}: the result nests deeper than {limits.JSON_DEPTH_MAX} levels"
            return ActivityError(message, "DELEGATE_PROTOCOL_ERROR", retryable=False)
        return outcome

    async def close(self) -> None:
        """Close the connections of this executor. The caller closes the tool executor that it passed in."""
        if self.a2a is not None:
            await self.a2a.close()
        for host in self._task_hosts.values():
            await host.close()

    async def _withdraw(self, agent: AgentConfig, task: AgentTask) -> ActivityOutcome:
        """Cancel a task at its agent. Only those that speak A2A keep a task while they wait for an answer."""
        if isinstance(agent, A2aAgent) and self.a2a is not None:
            return await self.a2a.withdraw(agent, task)
        return ActivityDone(None)

    async def _delegate(self, call: ActivityCall, agent: AgentConfig, task: AgentTask) -> ActivityOutcome:
        match agent:
            case A2aAgent():
                if self.a2a is None:
                    return _without("A2A", f"{install_hint('a2a')} and configure it")
                return await self.a2a.delegate(agent, task)
            case TaskApiAgent():
                if not agent.api_key:
                    message = f"the agent {task.agent_id} has no key"
                    return ActivityError(message, "A2A_CREDENTIALS_MISSING", retryable=False)
                host = self._task_hosts.get(task.agent_id)
                if host is None:
                    host = self._task_hosts[task.agent_id] = AsyncTaskApiDelegate(
                        base_url=agent.base_url, api_key=agent.api_key, poll_interval_ms=agent.poll_interval_ms
                    )
                return await host.delegate(task)
            case McpAgent():
                if self.tools is None:
                    return _without("MCP", "configure a server in mcp_servers")
                return await _call_tool(self.tools, call, agent, task)
            case SdkAgent():
                return await _call_function(agent, task)


def _spoken(agent: AgentConfig) -> str:
    match agent:
        case A2aAgent() | TaskApiAgent():
            return "a2a"
        case McpAgent():
            return "mcp"
        case SdkAgent():
            return "sdk"


def _without(name: str, todo: str) -> ActivityError:
    message = f"agents that speak {name} cannot be reached here; {todo}"
    return ActivityError(message, "DELEGATE_PROTOCOL_UNSUPPORTED", retryable=False)


def _delegation(call: ActivityCall, name: str, field_name: str, default: str = "") -> str:
    # A compensating activity has no delegation record of its own; its fields have the same values.
    value = (call.activity.delegate or {}).get(name, call.activity.config.get(field_name))
    return value if isinstance(value, str) else default


def _task(call: ActivityCall) -> AgentTask:
    activity = call.activity
    # Rendered arguments contain their secrets; the record in history does not.
    given = activity.arguments if activity.arguments is not None else (activity.delegate or {}).get("delegateInput")
    fallback = f"{call.run_id}:delegate:{activity.node_id}"
    return AgentTask(
        agent_id=_delegation(call, "agentId", "agent_id"),
        input=given,
        correlation_id=_delegation(call, "delegateCorrelationId", "", fallback),
        idempotency_key=activity.idempotency_key,
        timeout_ms=activity.timeout_ms or limits.AGENT_TIMEOUT_MS_DEFAULT,
        output_schema=activity.output_schema,
        round=activity.round,
        resume=activity.resume,
        answer=activity.answer,
        epoch=call.epoch,
        confirm=call.confirm,
    )


async def _call_tool(tools: AsyncPerformer, call: ActivityCall, agent: McpAgent, task: AgentTask) -> ActivityOutcome:
    config: JsonObject = {"server": agent.server, "tool": agent.tool}
    arguments = task.input if isinstance(task.input, dict) else {"input": task.input}
    activity = replace(
        call.activity, node_type="tool_call", config=config, arguments=arguments, timeout_ms=task.timeout_ms
    )
    outcome = await tools.perform(replace(call, activity=activity))
    if isinstance(outcome, ActivityDone):
        return ActivityDone(outcome.result, {**(outcome.extra or {}), **task.result_metadata()})
    return outcome


async def _call_function(agent: SdkAgent, task: AgentTask) -> ActivityOutcome:
    try:
        async with asyncio.timeout(task.timeout_ms / 1000):
            result = await agent.function(task)
    except TimeoutError:
        message = f"the agent {task.agent_id} did not end within {task.timeout_ms} ms"
        return ActivityError(message, "ACTIVITY_TIMEOUT")
    except StepFailed as error:
        return ActivityError(truncated(error.message), error.code, retryable=error.retryable)
    except Exception as error:  # the function is user code; any exception is a failed attempt
        message = f"the agent {task.agent_id} raised {type(error).__name__}: {error}"
        return ActivityError(truncated(message), "HANDLER_ERROR")
    return result if isinstance(result, ActivityAsks) else ActivityDone(result, task.result_metadata())
