"""What a call can reach: every change below it is seen, and no other; cycles and missing names are no problem."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base import limits
from penstock.base.errors import Rejected
from penstock.definitions.reached import Reached
from penstock.operations.builtin import builtin_operations, profile_operations
from penstock.operations.reachable import changes_since, reach_of
from tests.scenarios.office import Office, open_office
from tests.thorough import IS_THOROUGH

_NUMBERS = count()
# Operations that may be held and start nothing that is stored: they change only what their own witness shows.
_STARTS_NOTHING = frozenset(
    {
        "audit",
        "backup",
        "console_session",
        "delivery",
        "grant",
        "key",
        "memory",
        "model",
        "notification",
        "policy",
        "quota",
        "schema",
    }
    | {"session", "token", "transaction", "transactions", "ledger", "webhook", "app"}
)


class Desk:
    """An office on one event loop, for many examples."""

    def __init__(self, runner: asyncio.Runner, office: Office) -> None:
        self.runner, self.office = runner, office

    def reach(self, *roots: Reached) -> dict[str, str | None]:
        gate = self.office.gate
        return self.runner.run(reach_of(gate.services, gate.exposed, "default", roots))

    def call(self, operation: str, **arguments: Any) -> Any:
        return self.runner.run(self.office.call(self.office.owner, operation, **arguments))


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    path: Path = tmp_path_factory.mktemp("reach")
    with asyncio.Runner() as runner:
        opened = open_office(path)
        office = runner.run(opened.__aenter__())
        yield Desk(runner, office)
        runner.run(opened.__aexit__(None, None, None))


def _node(number: int, target: str, way: str) -> dict[str, Any]:
    if way == "child":
        return {"id": f"n{number}", "type": "subworkflow", "workflow": target, "input": {}}
    if way == "tool":
        return {"id": f"n{number}", "type": "tool_call", "server": "penstock", "tool": f"workflow:{target}"}
    return {
        "id": f"n{number}",
        "type": "tool_call",
        "server": "penstock",
        "tool": "workflow.execute",
        "arguments": {"workflow_id": target},
    }


def _document(name: str, edges: list[tuple[str, str]], text: str = "") -> dict[str, Any]:
    nodes = [_node(number, target, way) for number, (target, way) in enumerate(edges)]
    return {"penstock": "v1", "name": name, "nodes": [*nodes, {"id": "done", "type": "end", "output": {"v": text}}]}


@st.composite
def _graphs(draw: st.DrawFn) -> list[list[tuple[int, str]]]:
    """For each workflow, the workflows that it names; a number beyond the last is one that does not exist."""
    size = draw(st.integers(1, 6))
    edge = st.tuples(st.integers(0, size), st.sampled_from(["child", "tool", "operation"]))
    return draw(st.lists(st.lists(edge, max_size=3), min_size=size, max_size=size))


def _model(graph: list[list[tuple[int, str]]]) -> set[int]:
    found, waiting = {0}, [0]
    while waiting:
        at = waiting.pop()
        for target, _ in graph[at] if at < len(graph) else []:
            if target not in found:
                found.add(target)
                waiting.append(target)
    return found


@settings(max_examples=300 if IS_THOROUGH else 25, deadline=None)
@given(graph=_graphs(), data=st.data())
def test_a_change_is_seen_exactly_if_it_can_be_reached(
    desk: Desk, graph: list[list[tuple[int, str]]], data: st.DataObject
) -> None:
    prefix = f"g{next(_NUMBERS)}_"
    names = [f"{prefix}{number}" for number in range(len(graph) + 1)]
    wanted = [[(names[target], way) for target, way in edges] for edges in graph]
    for name, edges in zip(names, wanted, strict=False):
        desk.call("workflow.create", document=_document(name, edges))
    root = Reached(f"workflow:{names[0]}")
    before = desk.reach(root)
    reachable = _model(graph)
    assert {name.removeprefix("workflow:") for name in before} == {names[number] for number in reachable}
    changed = data.draw(st.integers(0, len(graph)))
    if changed == len(graph):
        desk.call("workflow.create", document=_document(names[changed], []))
    else:
        document = _document(names[changed], wanted[changed], text="changed")
        desk.call("workflow.update", workflow_id=names[changed], document=document)
    assert (desk.reach(root) != before) == (changed in reachable)
    gate = desk.office.gate
    seen = desk.runner.run(changes_since(gate.services, gate.exposed, "default", [root], before))
    assert seen == ((f"workflow:{names[changed]}",) if changed in reachable else ())


def test_everything_that_a_document_can_name_is_followed(desk: Desk) -> None:
    desk.call("model.create", id="spare", provider="mock", model="m", replies=["hello"])
    desk.call("model.create", id="fast", provider="mock", model="m", replies=["hello"], fallbacks=["spare"])
    http = {"url": "https://example.com/x"}
    desk.call("tool.create", id="lookup", kind="http", http=http, description="d", input_schema={"type": "object"})
    desk.call("agent.create", id="helper", model="fast", instructions="Help.", tools=["tool:lookup", "query:*"])
    document = {
        "penstock": "v1",
        "name": "everything",
        "nodes": [
            {"id": "ask", "type": "llm_call", "model": "fast", "prompt": "?"},
            {
                "id": "help",
                "type": "tool_call",
                "server": "penstock",
                "tool": "agent.execute",
                "arguments": {"agent_id": "helper", "prompt": "${ .ask }"},
                "compensate": {"type": "tool_call", "server": "penstock", "tool": "workflow:undo"},
            },
            {"id": "done", "type": "end"},
        ],
    }
    desk.call("workflow.create", document=document)
    reached = desk.reach(Reached("workflow:everything"))
    wanted = {"workflow:everything", "model:fast", "model:spare", "agent:helper", "tool:lookup", "query:*"}
    assert reached.keys() == wanted | {"workflow:undo"}
    assert reached["workflow:undo"] is None
    for operation, arguments in (
        ("model.update", {"model_id": "spare", "provider": "mock", "model": "m", "replies": ["other"]}),
        ("tool.update", {"tool_id": "lookup", "kind": "http", "http": {"url": "https://example.org/x"}}),
        ("agent.update", {"agent_id": "helper", "model": "fast", "instructions": "Harm.", "tools": ["tool:lookup"]}),
    ):
        before = desk.reach(Reached("workflow:everything"))
        desk.call(operation, **arguments)
        assert desk.reach(Reached("workflow:everything")) != before, operation


def test_a_computed_name_stands_for_every_workflow(desk: Desk) -> None:
    call = {"id": "c", "type": "tool_call", "server": "penstock", "tool": "workflow.execute"}
    document = {
        "penstock": "v1",
        "name": "chooses",
        "nodes": [{**call, "arguments": {"workflow_id": "${ .input }"}}, {"id": "done", "type": "end"}],
    }
    desk.call("workflow.create", document=document)
    before = desk.reach(Reached("workflow:chooses"))
    desk.call("workflow.create", document=_document("added_later", []))
    now = desk.reach(Reached("workflow:chooses"))
    assert "workflow:added_later" in now.keys() - before.keys()
    assert now["workflow:*"] != before["workflow:*"]


def test_more_than_can_be_kept_is_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REACH_ENTRIES_MAX", 2)
    with pytest.raises(Rejected) as refused:
        desk.reach(*(Reached(f"workflow:missing_{number}") for number in range(4)))
    assert refused.value.code == "REACH_TOO_LARGE"


def test_every_operation_that_starts_something_says_what_it_reaches() -> None:
    """An operation that runs what is stored says so; those that only store things are named by what they are about."""
    starting = {
        item.name
        for item in (*builtin_operations(), *profile_operations(fixtures=True))
        if not item.only_reads and item.governance.holdable and item.resource not in _STARTS_NOTHING
    }
    without = {item.name for item in builtin_operations() if item.name in starting and item.reaches is None}
    assert without == {
        *(
            f"{kind}.{verb}"
            for kind in ("workflow", "task", "tool", "agent")
            for verb in ("create", "update", "delete")
        ),
        *(f"execution.{verb}" for verb in ("pause", "resume", "cancel", "delete", "signal", "update", "answer")),
        *("execution.submit_activity", "execution.lease_activity", "workflow.import"),
        *(f"control.workflow_{verb}" for verb in ("resume", "submit_activity", "signal", "cancel")),
        *("schedule.delete", "schedule.pause"),
        *(f"graph.{verb}" for verb in ("create", "update", "delete", "schema_apply", "branches_create")),
        *(f"graph.{verb}" for verb in ("branches_delete", "collect", "queries_put", "queries_delete")),
        *(f"upstream.{verb}" for verb in ("accept", "revoke", "refuse", "refresh")),
        *(f"upstream.{verb}" for verb in ("begin_sign_in", "complete_sign_in", "sign_out")),
        *("graph.query_run", "tool.execute"),  # each stands for the call of a capability that says it
    }
