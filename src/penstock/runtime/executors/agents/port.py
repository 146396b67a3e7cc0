"""A task for an agent, and what an agent's own executor must offer: only data, no library.

Above it: `delegate` makes tasks of activities. Below it: `a2a`, and the small executors inside `delegate`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from penstock.base.json import JsonObject, JsonValue
from penstock.runtime.activities.performing import ActivityOutcome

__all__ = ["A2aAgent", "A2aDelegate", "AgentTask"]


async def _confirmed() -> None:
    """Nobody else can have taken it over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTask:
    """What an agent is asked to do. The correlation id names the task in our history, the key makes it repeatable.

    A task whose agent asked a person comes back with what the agent left (`resume`), the answer, and the number of
    questions so far (`round`). The epoch grows whenever another process begins to act for the run.
    """

    agent_id: str
    input: JsonValue
    correlation_id: str
    idempotency_key: str
    timeout_ms: int
    output_schema: JsonObject | None = None
    round: int = 0
    resume: JsonValue = None
    answer: JsonValue = None
    epoch: int = 0
    confirm: Callable[[], Awaitable[None]] = field(default=_confirmed, repr=False, compare=False)
    """To be awaited directly before the task is handed over: another process may have taken it over meanwhile."""

    def result_metadata(self, external_task_id: str | None = None) -> JsonObject:
        """What is kept beside the result in history."""
        fields: JsonObject = {"delegateCorrelationId": self.correlation_id, "untrusted": True}
        if external_task_id is not None:
            fields["externalTaskId"] = external_task_id
        return fields


@dataclass(frozen=True, slots=True, kw_only=True)
class A2aAgent:
    """An agent that speaks the A2A standard; its card is found below `url`.

    The card may send us to other addresses; only those of the same origin, or listed here, are given our key.
    """

    url: str
    api_key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    trusted_origins: tuple[str, ...] = ()
    poll_interval_ms: int | None = None


class A2aDelegate(Protocol):
    """Gives tasks to agents that speak A2A."""

    async def delegate(self, agent: A2aAgent, task: AgentTask) -> ActivityOutcome:
        """Give the task to the agent and wait for its end."""

    async def close(self) -> None:
        """Let go of connections."""
