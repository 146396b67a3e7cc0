"""How activities are performed in a session, as the driver asks: stubs, counters, handlers, refusals, a real delegate.

A run outside of tests never sees these, because an activity without a configured executor must fail.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.build.workflow import build_workflow
from penstock.definitions.model import Workflow
from penstock.engine.effects import PerformActivity
from penstock.engine.state import RunState
from penstock.runtime.activities.performing import ActivityCall, ActivityDone, ActivityError, ActivityOutcome, Performer
from penstock.runtime.executors.agents.task_api import TaskApiDelegate
from penstock.runtime.host.memory import Resolver
from penstock.runtime.ports.runs import DefinitionRow
from penstock.runtime.tables.runs.store import RunStore

__all__ = ["InThread", "keep_test_child", "performer_of", "resolver_of"]

# The one reference that the published engine knows by itself: a child that runs a test tool on a repository.
_TEST_CHILD_REFERENCE = "urn:awp:wf:unit-tests"
_TEST_CHILD: JsonObject = {
    "document": {"schema": "urn:penstock:harness", "name": "harness-unit-tests", "version": "1.0.0"},
    "state_schema": {
        "type": "object",
        "properties": {"repo": {"type": "string"}, "tests_passed": {"type": "boolean"}},
    },
    "nodes": [
        {"id": "start", "type": "start"},
        {
            "id": "run_tests",
            "type": "tool_call",
            "config": {"server": "test-runner", "tool": "run_unit_tests", "arguments": {}},
        },
        {"id": "end", "type": "end"},
    ],
    "edges": [
        {"source": "__start__", "target": "start"},
        {"source": "start", "target": "run_tests"},
        {"source": "run_tests", "target": "end"},
    ],
}


@dataclass(slots=True, kw_only=True)
class _SessionPerformer:
    """Performs the activities of one session as the driver asked."""

    activity: JsonObject
    delegate: Performer | None
    forbid_delegate: bool
    failures: int = 0
    calls: dict[str, int] = field(default_factory=dict)

    def perform(self, state: RunState, activity: PerformActivity) -> ActivityOutcome:
        """Do what the driver's specification says."""
        if activity.node_type == "agent_delegate":
            return self._delegate(state, activity)
        match self.activity.get("kind"):
            case "reject":
                return ActivityError("the activity port must not be called", "CONFORMANCE_ACTIVITY_PORT_INVOKED")
            case "stub":
                outputs = self.activity.get("outputs")
                return ActivityDone(outputs.get(activity.node_id, {}) if isinstance(outputs, dict) else {})
            case "retry_counting":
                return self._count()
            case "step_handlers":
                return self._handler(activity)
            case _:
                return ActivityDone({})

    def _delegate(self, state: RunState, activity: PerformActivity) -> ActivityOutcome:
        if self.forbid_delegate:
            return ActivityError("the delegate port must not be called", "CONFORMANCE_DELEGATE_PORT_INVOKED")
        if self.delegate is not None:
            return self.delegate.perform(state, activity)
        correlation = (activity.delegate or {}).get("delegateCorrelationId")
        result: JsonObject = {"patch": "// harness", "delegate_status": "completed"}
        return ActivityDone(result, {"delegateCorrelationId": correlation, "externalTaskId": f"task-{correlation}"})

    def _count(self) -> ActivityOutcome:
        limit = self.activity.get("failCount")
        if isinstance(limit, int) and self.failures < limit:
            self.failures += 1
            code = self.activity.get("errorCode")
            return ActivityError(f"failure {self.failures} of {limit}", str(code) if code else "CONFORMANCE_RETRY")
        return ActivityDone(self.activity.get("successOutput"))

    def _handler(self, activity: PerformActivity) -> ActivityOutcome:
        handlers, name = self.activity.get("handlers"), activity.config.get("handler")
        if not isinstance(name, str):
            return ActivityError("the step names no handler", "STEP_CONFIG_INVALID", retryable=False)
        if not isinstance(handlers, dict) or name not in handlers:
            return ActivityError(f"no handler is registered for {name}", "HANDLER_NOT_FOUND", retryable=False)
        return ActivityDone(handlers[name])


def performer_of(given: JsonObject) -> Performer:
    """The performer of a session."""
    activity, delegate = given.get("activity"), given.get("delegate")
    wanted = delegate if isinstance(delegate, dict) else {}
    real: Performer | None = None
    if wanted.get("kind") == "a2a":
        real = TaskApiDelegate(
            base_url=str(wanted.get("base_url")),
            api_key=str(wanted.get("api_key")),
            poll_interval_ms=_number(wanted.get("poll_interval_ms"), 500),
            poll_timeout_ms=_number(wanted.get("poll_timeout_ms"), 120_000),
        )
    return _SessionPerformer(
        activity=activity if isinstance(activity, dict) else {},
        delegate=real,
        forbid_delegate=given.get("forbid_delegate") is True or wanted.get("kind") == "reject",
    )


def resolver_of(given: JsonObject) -> Resolver:
    """The resolver of a session; one that forbids children knows none."""
    forbidden = given.get("forbid_subworkflow") is True

    def resolve(reference: str, version_pin: str | None) -> Workflow | None:
        if forbidden or reference != _TEST_CHILD_REFERENCE:
            return None
        return build_workflow(_TEST_CHILD)

    return resolve


def _number(value: JsonValue, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


async def keep_test_child(store: RunStore, given: JsonObject) -> None:
    """Put the test child into a store under its reference, unless the session forbids children."""
    if given.get("forbid_subworkflow") is not True:
        workflow = build_workflow(_TEST_CHILD)
        await store.definitions.put(
            DefinitionRow(
                hash=workflow.hash,
                name=_TEST_CHILD_REFERENCE,
                version=workflow.version,
                document=workflow.document,
                created_at=0,
            )
        )


@dataclass(frozen=True, slots=True)
class InThread:
    """A performer that may block, for a driver that must not."""

    performer: Performer

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Perform on a thread."""
        return await asyncio.to_thread(self.performer.perform, RunState(run_id=call.run_id), call.activity)
