"""Stands in for activities whose results a case scripts: what a model says, what a step, a request or a tool returns.

A script is followed by the number of the visit and of the attempt, not by counting calls: after a restart it continues
where the run is. A run of a case, its child runs and its continuations follow the script of the case; runs that an
agent starts through a tool do not, so a tool that is to be scripted is mocked as the call that it is.

Above it: `opening`. Below it: what performs activities in earnest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.base.ids import chain_of
from penstock.base.json import JsonObject
from penstock.cli.evaluation.dataset import Case
from penstock.cli.evaluation.judging import JUDGE_PREFIX
from penstock.definitions.agents.expansion import expanded_case
from penstock.definitions.agents.schemas import is_agent
from penstock.definitions.agents.summaries import SUMMARIZE
from penstock.definitions.model import NodeType, Workflow
from penstock.runtime.activities.performing import (
    ActivityCall,
    ActivityError,
    ActivityOutcome,
    AsyncPerformer,
)
from penstock.runtime.simulation.dry_run import mocked_outcome, nth_scripted

__all__ = ["ScriptedCases", "unscripted"]

_TURN = "turn"


def script_of(workflow: Workflow, case: Case) -> JsonObject:
    """Return what the nodes of a case's run give, by their ids."""
    if case.model is None:
        return case.mock
    expanded = expanded_case(workflow.document, {"model": case.model, "mock": case.mock}).get("mock")
    return expanded if isinstance(expanded, dict) else {}


def unscripted(workflow: Workflow, case: Case, *, strict: bool) -> str | None:
    """Say why the script of a case cannot be followed; with `strict`, also if it leaves a model to be asked."""
    if case.model is not None and not is_agent(workflow.document):
        return f"`model` is for agents, and {workflow.name} is not an agent; write `mock` with the ids of its nodes"
    script = script_of(workflow, case)
    unknown = [node for node in case.mock if node not in workflow.nodes and not _is_inside(workflow)]
    if unknown:
        return f"`mock` names {unknown[0]!r}, and {workflow.name} has no such node"
    # Whether a long conversation is summarised depends on the turns: if it is, the run says what script is missing.
    asked = [
        node_id
        for node_id, node in workflow.nodes.items()
        if node.type is NodeType.LLM_CALL and not (node_id == SUMMARIZE and is_agent(workflow.document))
    ]
    missing = [node_id for node_id in asked if node_id not in script]
    if strict and missing:
        told = "`model`" if is_agent(workflow.document) else f"`mock` for {missing[0]}"
        return f"it has no script: with --scripted, every case needs {told}"
    return None


def _is_inside(workflow: Workflow) -> bool:
    """Whether nodes of child runs could be meant."""
    return any(node.type is NodeType.SUBWORKFLOW for node in workflow.nodes.values())


@dataclass(slots=True, kw_only=True)
class ScriptedCases:
    """Performs what is scripted, and has everything else performed."""

    scripts: dict[str, JsonObject]
    strict: bool = False
    """Whether no model may be asked but the judge."""
    inner: AsyncPerformer = field(init=False)

    @classmethod
    def of(cls, workflow: Workflow, cases: Iterable[Case], *, strict: bool) -> ScriptedCases:
        """The scripts of cases, by the ids of their runs."""
        found = {case.run_id: script for case in cases if (script := script_of(workflow, case))}
        return cls(scripts=found, strict=strict)

    def around(self, inner: AsyncPerformer) -> AsyncPerformer:
        """Stand in for what performs activities."""
        self.inner = inner
        return self

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Perform one attempt."""
        activity = call.activity
        script = self.scripts.get(chain_of(call.run_id.partition(":")[0]), {})
        if activity.node_id in script:
            # The first of each is number 1.
            return mocked_outcome(nth_scripted(script[activity.node_id], activity.visit + activity.attempt - 2))
        asks_model = activity.node_type == NodeType.LLM_CALL and not call.workflow_name.startswith(JUDGE_PREFIX)
        if self.strict and asks_model:
            message = f"{activity.node_id} would ask a model, and the case has no script for it"
            return ActivityError(message, "EVALUATION_NOT_SCRIPTED", retryable=False)
        return await self.inner.perform(call)
