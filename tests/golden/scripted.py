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
    yield from _approvals()
    yield ScriptedRun(
        name="native: secret input",
        workflow=_with_secret_input(),
        inputs=(
            inputs.StartRun(
                at=_AT,
                run_id=_RUN,
                input={"user": "ada", "password": "never recorded"},
                sealed={"/password": "b3BhcXVl"},
            ),
            inputs.CompleteActivity(at=_AT + 1, node_id="sign_in", result={"ok": True}),
        ),
    )


def _with_secret_input() -> Workflow:
    return build_workflow(
        {
            "penstock": "v1",
            "name": "signs_in",
            "version": "1.0.0",
            "input": {
                "type": "object",
                "required": ["password"],
                "properties": {
                    "user": {"type": "string"},
                    "password": {"type": "string", "writeOnly": True, "minLength": 8},
                },
            },
            "nodes": [
                {
                    "id": "sign_in",
                    "type": "step",
                    "handler": "sign_in",
                    "with": {"user": "${ .input.user }", "header": "Bearer ${ .input.password }"},
                },
                {"id": "done", "type": "end", "output": {"ok": "${ .sign_in.ok }", "given": "${ .input }"}},
            ],
        }
    )


def _approvals() -> Iterator[ScriptedRun]:
    """A question that several people have to agree on: they do, and one of them does not."""
    workflow = _approved_by_two()
    start = inputs.StartRun(
        at=_AT,
        run_id=_RUN,
        input={"amount": 180},
        started_by="key:robot",
        starter={"kind": "key", "credential": "robot", "principalKind": "agent", "owner": "key:owner"},
    )

    def vote(at: int, by: str, answer: JsonObject, owner: str | None = "key:owner") -> inputs.AnswerInterrupt:
        return inputs.AnswerInterrupt(
            at=_AT + at,
            answer=answer,
            node_id="agree",
            by=by,
            kind="person",
            groups=("leads",),
            owner=owner,
            note="looks right",
        )

    agreed: JsonObject = {"approved": True}
    declined: JsonObject = {"approved": False}
    yield ScriptedRun(
        name="native: two people agree",
        workflow=workflow,
        inputs=(start, vote(1, "key:ada", agreed), vote(2, "key:grace", agreed, None)),
    )
    yield ScriptedRun(
        name="native: one agrees and one declines",
        workflow=workflow,
        inputs=(start, vote(1, "key:ada", agreed), vote(2, "key:grace", declined)),
    )

    yield from _escalations()


def _escalations() -> Iterator[ScriptedRun]:
    """A question that the first do not answer in time: others answer it, or nobody does."""
    start = inputs.StartRun(at=_AT, run_id=_RUN, input={"amount": 180}, started_by="key:robot")
    asked = inputs.FireTimer(at=_AT + 3_600_000, kind="escalation", node_id="agree", visit=1)
    answer = inputs.AnswerInterrupt(
        at=_AT + 3_600_001,
        answer={"approved": True},
        node_id="agree",
        by="key:boss",
        kind="person",
        groups=("directors",),
    )
    ended = inputs.FireTimer(at=_AT + 7_200_000, kind="timeout", node_id="agree", visit=1)
    workflow = _escalated()
    yield ScriptedRun(name="native: an approval that is escalated", workflow=workflow, inputs=(start, asked, answer))
    yield ScriptedRun(name="native: an escalation that nobody heeds", workflow=workflow, inputs=(start, asked, ended))


def _escalated() -> Workflow:
    return build_workflow(
        {
            "penstock": "v1",
            "name": "escalated",
            "version": "1.0.0",
            "nodes": [
                {
                    "id": "agree",
                    "type": "interrupt",
                    "message": "Pay ${ .input.amount }?",
                    "answer": {"type": "object", "properties": {"approved": {"type": "boolean"}}},
                    "approvers": {
                        "group": "leads",
                        "not_requester": True,
                        "escalate": {"after": "1h", "to": {"groups": ["directors"], "users": ["key:owner"]}},
                    },
                    "timeout": "2h",
                },
                {"id": "done", "type": "end", "output": "${ .agree }"},
            ],
        }
    )


def _approved_by_two() -> Workflow:
    return build_workflow(
        {
            "penstock": "v1",
            "name": "agreed",
            "version": "1.0.0",
            "nodes": [
                {
                    "id": "agree",
                    "type": "interrupt",
                    "message": "Pay ${ .input.amount }?",
                    "answer": {
                        "type": "object",
                        "required": ["approved"],
                        "properties": {"approved": {"type": "boolean"}},
                    },
                    "approvers": {"groups": ["leads", "finance"], "count": 2, "not_requester": True},
                },
                {"id": "done", "type": "end", "output": "${ .agree }"},
            ],
        }
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
