"""A name keeps its protection: whoever changes what it stands for, or creates it anew, needs what it asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.authored import GRAPH, LATE, SCHEMA, query_source
from tests.scenarios.office import Office, in_office
from tests.scenarios.test_authorship import accepted

PLAIN = {"penstock": "v1", "name": "plain", "nodes": [{"id": "done", "type": "end"}]}
GUARD = {"risk": "high", "scopes": ["refunds:pay"]}
TOOL: dict[str, Any] = {"kind": "step", "name": "shout"}
DOCUMENT: dict[str, Any] = {
    "penstock": "v1",
    "name": "support",
    "governance": {"scopes": ["refunds:pay"]},
    "agent": {"model": "fast", "instructions": "help"},
}
# What is stored under a name, how it is deleted, and how it is stored again.
KINDS: dict[str, tuple[tuple[str, dict[str, Any]], tuple[str, dict[str, Any]]]] = {
    "tool": (("tool.create", {"id": "x", **TOOL}), ("tool.delete", {"tool_id": "x"})),
    "model": (
        ("model.create", {"id": "x", "provider": "mock", "model": "m", "replies": {"*": "fine"}}),
        ("model.delete", {"model_id": "x"}),
    ),
    "agent": (("agent.create", {"id": "x", "model": "fast"}), ("agent.delete", {"agent_id": "x"})),
    "schema": (("schema.create", {"id": "x", "schema": {"type": "object"}}), ("schema.delete", {"schema_id": "x"})),
    "query": (
        ("graph.queries_put", {"graph_id": GRAPH, "name": "x", "source": query_source("x")}),
        ("graph.queries_delete", {"graph_id": GRAPH, "name": "x"}),
    ),
    "schedule": (
        ("schedule.create", {"schedule_id": "x", "workflow_id": "plain", "cron": LATE}),
        ("schedule.delete", {"schedule_id": "x"}),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_deleted_name_is_stored_again_by_an_agent_only_if_a_person_accepts_it(tmp_path: Path, kind: str) -> None:
    (create, body), (delete, named) = KINDS[kind]

    async def test(office: Office) -> None:
        await office.hire("boss", "person", "*")
        await office.call("boss", "graph.create", id=GRAPH, schema=SCHEMA)
        await office.call("boss", "workflow.create", document=PLAIN)
        await office.call("boss", create, **body)
        await office.call("boss", delete, **named)
        held = await office.call("robot", create, **body)
        assert held["held"]["reason"] == "authorship", held
        await accepted(office, held)

    in_office(tmp_path, test)


def test_a_scope_of_a_tool_is_taken_out_only_by_somebody_who_has_it(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        clerk = await office.hire("clerk", "service", "tool:*")
        payer = await office.hire("payer", "service", "tool:*", "refunds:pay")
        await office.call(office.owner, "tool.create", id="refund", **TOOL, governance=GUARD)
        for governance in ({}, {"governance": {"risk": "low"}}, {"governance": {"scopes": ["other:one"]}}):
            refused = await office.refusal(clerk, "tool.update", tool_id="refund", **TOOL, **governance)
            assert refused.code == "SCOPE_REQUIRED", refused
            assert "refunds:pay" in refused.message
        await office.call(clerk, "tool.update", tool_id="refund", **TOOL, governance=GUARD, title="Refund")
        await office.call(payer, "tool.update", tool_id="refund", **TOOL)

    in_office(tmp_path, test)


def test_the_name_of_a_tool_keeps_its_scopes_after_it_was_deleted(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        clerk = await office.hire("clerk", "service", "tool:*")
        payer = await office.hire("payer", "service", "tool:*", "refunds:pay")
        await office.call(office.owner, "tool.create", id="refund", **TOOL, governance=GUARD)
        await office.call(clerk, "tool.delete", tool_id="refund")
        refused = await office.refusal(clerk, "tool.create", id="refund", **TOOL)
        assert refused.code == "SCOPE_REQUIRED", refused
        assert "refunds:pay" in refused.message
        # With the scope it may be left out, or the tool may be guarded as before; then it can be created by anybody.
        await office.call(clerk, "tool.create", id="refund", **TOOL, governance=GUARD)
        await office.call(clerk, "tool.delete", tool_id="refund")
        await office.call(payer, "tool.create", id="refund", **TOOL)
        await office.call(clerk, "tool.delete", tool_id="refund")
        await office.call(clerk, "tool.create", id="refund", **TOOL)

    in_office(tmp_path, test)


def test_a_person_who_accepts_a_deleted_name_is_told_what_protected_it(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.call(office.owner, "tool.create", id="refund", **TOOL, governance=GUARD)
        await office.call(office.owner, "tool.delete", tool_id="refund")
        held = await office.call("robot", "tool.create", id="refund", **TOOL)
        review = await office.call("ada", "draft.review", draft_id=held["held"]["draft_id"])
        changes = {item["path"]: item for item in review["impact"]["diff"]["changes"]}
        assert changes["/governance"]["before"] == GUARD
        assert changes["/governance"]["after"] is None

    in_office(tmp_path, test)


def test_an_entry_does_not_take_the_name_of_a_deleted_agent_document_without_its_scopes(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        clerk = await office.hire("clerk", "service", "agent:*", "workflow:*")
        payer = await office.hire("payer", "service", "agent:*", "refunds:pay")
        await office.call(office.owner, "workflow.create", document=DOCUMENT)
        await office.call(clerk, "workflow.delete", workflow_id="support")
        refused = await office.refusal(clerk, "agent.create", id="support", model="fast")
        assert refused.code == "SCOPE_REQUIRED", refused
        await office.call(payer, "agent.create", id="support", model="fast")

    in_office(tmp_path, test)


def test_a_query_that_an_agent_wrote_is_run_as_the_call_of_an_agent(tmp_path: Path) -> None:
    change = 'query add($name: String) @description("Add.") { insert Person { name: $name } }'

    async def test(office: Office) -> None:
        await office.hire("boss", "person", "*")
        await office.hire("narrow", "agent", "graph:admin", "graph:read", "graph:run", "draft:*")
        await office.call("boss", "graph.create", id=GRAPH, schema=SCHEMA)
        body = {"graph_id": GRAPH, "name": "add", "source": change}
        await accepted(office, await office.call("narrow", "graph.queries_put", **body))
        arguments = {"graph_id": GRAPH, "name": "add", "params": {"name": "Ada"}}
        refused = await office.refusal("boss", "graph.query_run", **arguments)
        assert refused.code == "SCOPE_REQUIRED", refused
        assert "graph:write" in refused.message
        found = await office.gate.exposed.find("default", f"query:{GRAPH}/add")
        assert found is not None
        assert found.governance.by_agent
        # A person who stores the same query answers for it.
        await office.call("boss", "graph.queries_put", **body)
        done = await office.call("boss", "graph.query_run", **arguments)
        assert done["affected_nodes"] == 1

    in_office(tmp_path, test)
