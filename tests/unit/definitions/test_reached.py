"""What documents name outside of themselves, in either format, with literal, computed and missing arguments."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.definitions.reached import Reached, reached_by, touched_by

OWN: dict[str, Any] = {"id": "a", "type": "tool_call", "server": "penstock"}


def _named(*nodes: dict[str, Any], **more: Any) -> list[str]:
    return [item.name for item in reached_by({"penstock": "v1", "name": "x", "nodes": list(nodes), **more})]


@pytest.mark.parametrize(
    ("node", "names"),
    [
        ({"id": "a", "type": "subworkflow", "workflow": "child"}, ["workflow:child"]),
        ({"id": "a", "type": "subworkflow", "workflow": "child", "version_pin": "abc"}, ["workflow:child@abc"]),
        ({"id": "a", "type": "llm_call", "model": "fast", "prompt": "?"}, ["model:fast"]),
        ({"id": "a", "type": "llm_call", "model": "m", "provider": "openai", "prompt": "?"}, []),
        ({"id": "a", "type": "tool_call", "server": "crm", "tool": "find"}, ["server:crm/find"]),
        ({"id": "a", "type": "tool_call", "server": "client", "tool": "roots/list"}, []),
        ({"id": "a", "type": "query", "graph": "shop", "query": "orders"}, ["graph:shop", "query:shop/orders"]),
        ({"id": "a", "type": "query", "graph": "shop", "merge": {"source": "b"}}, ["graph:shop"]),
        ({"id": "a", "type": "agent_delegate", "agent_id": "helper"}, ["agent:helper"]),
        ({**OWN, "tool": "workflow:pay"}, ["workflow:pay"]),
        ({**OWN, "tool": "tools/call", "allow": ["query:*", "tool:x"]}, ["query:*", "tool:x"]),
        ({"id": "a", "type": "step", "handler": "f"}, []),
    ],
)
def test_each_kind_of_node_names_what_it_reaches(node: dict[str, Any], names: list[str]) -> None:
    assert _named(node) == names
    inside = {"id": "each", "type": "for_each", "items": "${ [] }", "nodes": [node]}
    assert _named(inside) == names


@pytest.mark.parametrize(
    ("arguments", "known"),
    [
        ({"workflow_id": "pay"}, {"workflow_id": "pay"}),
        ({"workflow_id": {"literal": "pay"}}, {"workflow_id": "pay"}),
        ({"workflow_id": "${ .input.which }"}, {"workflow_id": "*"}),
        ({"workflow_id": {"jq": ".x"}}, {"workflow_id": "*"}),
        ("${ .input }", {"*": "*"}),
        ({"jq": ".input"}, {"*": "*"}),
        (None, {}),
    ],
)
def test_an_argument_that_is_computed_can_be_anything(arguments: Any, known: dict[str, str]) -> None:
    (found,) = reached_by({"penstock": "v1", "nodes": [{**OWN, "tool": "workflow.execute", "arguments": arguments}]})
    assert (found.name, found.known_arguments) == ("workflow.execute", known)


def test_compensations_and_agents_are_read_too() -> None:
    undo = {"type": "tool_call", "server": "penstock", "tool": "workflow:undo"}
    assert _named({"id": "a", "type": "step", "handler": "f", "compensate": undo}) == ["workflow:undo"]
    agent: dict[str, Any] = {
        "penstock": "v1",
        "name": "x",
        "agent": {"model": "fast", "instructions": "i", "tools": ["tool:search"]},
    }
    assert {"model:fast", "tool:search"} <= {item.name for item in reached_by(agent)}


def test_a_broken_document_names_what_can_be_read() -> None:
    assert reached_by({"nodes": [1, {"id": "a"}, {"id": "b", "type": "subworkflow"}]}) == ()
    assert reached_by({"nodes": "text"}) == ()
    node: dict[str, Any] = {"id": "a", "type": "subworkflow", "config": {"workflow_ref": "child", "input_mapping": {}}}
    assert reached_by({"name": "old", "nodes": [node]}) == (Reached("workflow:child"),)


def test_what_runs_use_beside_what_is_stored_is_told_too() -> None:
    document: dict[str, Any] = {
        "penstock": "v1",
        "name": "x",
        "secrets": ["KEY"],
        "triggers": [{"schedule": {"cron": "0 3 * * *"}}],
        "nodes": [
            {
                "id": "a",
                "type": "step",
                "handler": "shout",
                "compensate": {"type": "http", "url": "https://undo.example", "headers": {"x": "${secret:KEY}"}},
            },
            {"id": "b", "type": "http", "url": "https://evil.example/x"},
            {"id": "c", "type": "subworkflow", "workflow": "child"},
        ],
    }
    assert touched_by(document) == (
        ("address", "https://evil.example/x"),
        ("address", "https://undo.example"),
        ("secret", "KEY"),
        ("step", "shout"),
        ("trigger", "schedule"),
    )
    assert touched_by({}) == ()
