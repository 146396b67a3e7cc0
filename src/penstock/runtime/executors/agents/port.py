"""A task for an agent, and the port that an A2A client implements: only data, no library.

Above it: `executor` makes tasks from activities. Below it: `a2a`, and the small clients inside `executor`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from penstock.base.json import JsonObject, JsonValue
from penstock.runtime.activities.performing import ActivityOutcome

__all__ = ["A2aAgent", "A2aDelegate", "AgentTask"]


async def _confirmed() -> None:
    """Do nothing: no other process can take this task over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTask:
    """A task for an agent. The correlation id names it in our history; the idempotency key makes it repeatable.

    After its agent asked a person, a task comes back with the agent's stored state (`resume`), the answer, and the
    number of questions so far (`round`). The epoch grows whenever another process starts to act for the run.
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
    """Await this directly before sending the task: another process may have taken it over in the meantime."""

    def result_metadata(self, external_task_id: str | None = None) -> JsonObject:
        """The metadata stored beside the result in history."""
        fields: JsonObject = {"delegateCorrelationId": self.correlation_id, "untrusted": True}
        if external_task_id is not None:
            fields["externalTaskId"] = external_task_id
        return fields


@dataclass(frozen=True, slots=True, kw_only=True)
class A2aAgent:
    """An agent that speaks the A2A standard. Its card is found below `url`.

    The card may refer to other addresses. Our key is sent only to the same origin and to the origins listed here.
    """

    url: str
    api_key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    trusted_origins: tuple[str, ...] = ()
    poll_interval_ms: int | None = None


class A2aDelegate(Protocol):
    """Gives tasks to agents that speak A2A."""

    async def delegate(self, agent: A2aAgent, task: AgentTask) -> ActivityOutcome:
        """Give the task to the agent and wait for its outcome."""

    async def withdraw(self, agent: A2aAgent, task: AgentTask) -> ActivityOutcome:
        """Cancel a task in which the agent asked something that nobody answers any more, as far as that is quick."""

    async def close(self) -> None:
        """Close the connections."""
