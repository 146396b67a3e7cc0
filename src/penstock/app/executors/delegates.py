"""Performs `agent_delegate` nodes: with the agents of the settings, or with those of this server through its gate.

Both kinds share one namespace; no agent can be stored under a name that the settings have. An agent of this server is
called with `agent.execute`, on behalf of the principal who started the run, and waited for.

Above it: `Penstock`. Below it: the executor for configured agents, `held_calls`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from penstock.app.executors.lazy_executor import ClosableExecutor
from penstock.base.encoding import encode_bytes
from penstock.base.ids import PERSON_AGENT
from penstock.base.json import JsonObject, JsonValue
from penstock.runtime.activities.budgets import tokens_in
from penstock.runtime.activities.performing import (
    ActivityCall,
    ActivityDone,
    ActivityError,
    ActivityOutcome,
    AsyncPerformer,
)
from penstock.runtime.executors.mcp.config import OWN_SERVER
from penstock.runtime.spending import Spent

__all__ = ["DelegateExecutor"]

_EXECUTE = "agent.execute"


@dataclass(slots=True, kw_only=True)
class DelegateExecutor:
    """Gives tasks to agents."""

    agents: ClosableExecutor | None = None
    """The executor for agents of the settings."""
    protocols: Mapping[str, str] = field(default_factory=dict)
    """The names of these agents, each with its protocol."""
    calls: AsyncPerformer | None = None
    """What calls capabilities of this server."""

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Perform one attempt."""
        named = (call.activity.delegate or {}).get("agentId", call.activity.config.get("agent_id"))
        if self.agents is not None and (named in self.protocols or self.calls is None):
            return await _paid(self.agents, call)
        if call.withdraws:
            return ActivityDone(None)  # a run of this server is cancelled with the run that waits for it
        if self.calls is None:
            message = f"the agent {named} is not configured, and this process has no gate to look it up"
            return ActivityError(message, "DELEGATE_AGENT_NOT_FOUND", retryable=False)
        return await self.calls.perform(_call_of_agent(call, named))


async def _paid(agents: AsyncPerformer, call: ActivityCall) -> ActivityOutcome:
    """Give a task to an agent outside, if the limits of the runs above leave room for it.

    It counts as one turn, with the tokens of the task and the answer. Its cost is unknown, so runs below a cost limit
    cannot call it. The agent that asks a person costs nothing.
    """
    budget, named = call.budget, (call.activity.delegate or {}).get("agentId", call.activity.config.get("agent_id"))
    if budget is None or call.withdraws or call.activity.round > 0 or named == PERSON_AGENT:
        return await agents.perform(call)
    given = (call.activity.delegate or {}).get("delegateInput", call.activity.arguments)
    refused = await budget.take(Spent(turns=1, requests=1, input_tokens=_tokens(given), unpriced=1))
    if refused is not None:
        return ActivityError(refused.message, refused.code, retryable=False)
    outcome = await agents.perform(call)
    if isinstance(outcome, ActivityDone):
        await budget.settle(Spent(output_tokens=_tokens(outcome.result)))
    return outcome


def _tokens(value: JsonValue) -> int:
    return tokens_in(len(encode_bytes(value)))


def _call_of_agent(call: ActivityCall, name: JsonValue) -> ActivityCall:
    """Return the capability call for a task of an agent of this server."""
    given = (call.activity.delegate or {}).get("delegateInput", call.activity.arguments)
    members = given if isinstance(given, dict) else {"input": given}
    prompt, context = members.get("prompt"), members.get("context")
    arguments: JsonObject = {"agent_id": name}
    if isinstance(prompt, str):
        rest = {key: value for key, value in members.items() if key not in ("prompt", "context")}
        facts: JsonObject = {**(context if isinstance(context, dict) else {}), **rest}
        arguments |= {"prompt": prompt, **({"context": facts} if facts else {})}
    else:
        # A task without a prompt is the whole input.
        arguments["prompt"] = encode_bytes(given).decode()
    config: JsonObject = {"server": OWN_SERVER, "tool": _EXECUTE}
    return replace(call, activity=replace(call.activity, config=config, arguments=arguments))
