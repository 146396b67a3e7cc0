"""Runs written by hand for what neither the examples nor the simulator show: full histories, tenants, a client's kinds.

Above it: the recorder. Below it: documents and inputs, nothing that runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from penstock.base.json import JsonObject
from penstock.definitions.build.workflow import build_workflow
from penstock.definitions.model import Workflow
from penstock.engine import inputs

__all__ = ["ScriptedRun", "scripted_runs"]

_AT = 1_767_225_600_000
_RUN = "scripted"


@dataclass(frozen=True, kw_only=True)
class ScriptedRun:
    """A document, the inputs of a run in order until it ends, and the limits that hold for it."""

    name: str
    workflow: Workflow
    inputs: tuple[inputs.Input, ...]
    limits: dict[str, int] = field(default_factory=dict)


def scripted_runs() -> Iterator[ScriptedRun]:
    """All of them."""
    for form, workflow in (("native", _native_steps()), ("published", _published_tools())):
        results = [inputs.CompleteActivity(at=_AT + at, node_id=f"work_{at}", result={"at": at}) for at in range(1, 5)]
        start = inputs.StartRun(at=_AT, run_id=_RUN, input={"n": 1})
        yield ScriptedRun(name=f"{form}: four activities", workflow=workflow, inputs=(start, *results))
        yield ScriptedRun(
            name=f"{form}: a history that is full",
            workflow=workflow,
            inputs=(start, *results),
            limits={"HISTORY_ROWS_MAX": 12},
        )
        elsewhere = inputs.StartRun(
            at=_AT,
            run_id=_RUN,
            input={"n": 1.5, "text": "é ☃ \u2028"},
            mode="host_mediated",
            run_attempt=3,
            tenant="acme",
            timeout_ms=60_000,
            client_kinds=("sampling", "roots"),
        )
        leased = inputs.LeaseActivity(at=_AT + 1, node_id="work_1", holder="ada", lease_ms=5_000)
        kept = inputs.LeaseActivity(at=_AT + 2, node_id="work_1", holder="ada", lease_ms=9_000, extend=True)
        done = inputs.CompleteActivity(at=_AT + 3, node_id="work_1", result={"a": [1, 2.5, None]}, holder="ada")
        late = inputs.FireTimer(at=_AT + 60_000, kind="run")
        yield ScriptedRun(
            name=f"{form}: a tenant's run that runs out of time",
            workflow=workflow,
            inputs=(elsewhere, leased, kept, done, late),
        )
        asking = inputs.AskInActivity(
            at=_AT + 1,
            node_id="work_1",
            question="Which folder?",
            answer_schema={"type": "object"},
            resume={"page": 2},
            ask={"kind": "roots", "request": {"method": "roots/list"}},
        )
        answered = inputs.AnswerInterrupt(
            at=_AT + 2, answer={"roots": []}, node_id="work_1", by="client", by_model=True
        )
        yield ScriptedRun(
            name=f"{form}: the client is asked",
            workflow=workflow,
            inputs=(
                inputs.StartRun(at=_AT, run_id=_RUN, input={}, client_kinds=("roots",)),
                asking,
                answered,
                inputs.FailActivity(
                    at=_AT + 3, node_id="work_1", error="no folder", code="NO_FOLDER", retryable=False, round=1
                ),
            ),
        )


def _native_steps() -> Workflow:
    steps: list[JsonObject] = [
        {"id": f"work_{at}", "type": "step", "handler": "do:it", "with": {"n": "${ .input.n }"}} for at in range(1, 5)
    ]
    end: JsonObject = {"id": "done", "type": "end", "output": "${ .work_4 }"}
    return build_workflow({"penstock": "v1", "name": "four_steps", "version": "1.0.0", "nodes": [*steps, end]})


def _published_tools() -> Workflow:
    names = [f"work_{at}" for at in range(1, 5)]
    tools: list[JsonObject] = [
        {"id": name, "type": "tool_call", "config": {"server": "shop", "tool": "look"}} for name in names
    ]
    listed = ["__start__", "begin", *names, "finish"]
    edges: list[JsonObject] = [{"source": source, "target": target} for source, target in pairwise(listed)]
    return build_workflow(
        {
            "document": {"schema": "https://example.com/schema", "name": "four_tools", "version": "1.0.0"},
            "state_schema": {"type": "object"},
            "nodes": [{"id": "begin", "type": "start"}, *tools, {"id": "finish", "type": "end"}],
            "edges": [*edges],
        }
    )
