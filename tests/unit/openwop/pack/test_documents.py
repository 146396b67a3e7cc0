"""Workflows of the OpenWOP wire as native documents."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.json import JsonObject
from penstock.definitions.build.workflow import build_workflow
from penstock.definitions.source.findings import Severity
from penstock.definitions.validate import validate_document
from penstock.openwop.pack.documents import PackProblem, native_document, native_name
from penstock.openwop.pack.node_types import PACK_NODES

PACK = "core.openwop.mcp."
SCHEMA: JsonObject = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def workflow(*nodes: tuple[str, dict[str, Any] | None], edges: list[tuple[int, int]] | None = None) -> JsonObject:
    placed: list[Any] = [
        {"nodeId": f"n{number}", "typeId": PACK + kind, **({} if config is None else {"config": config})}
        for number, (kind, config) in enumerate(nodes)
    ]
    joined: list[Any] = [{"edgeId": "e", "sourceNodeId": f"n{a}", "targetNodeId": f"n{b}"} for a, b in edges or []]
    return {"workflowId": "mcp.Demo:one", "nodes": placed, **({"edges": joined} if joined else {})}


def made(*nodes: tuple[str, dict[str, Any] | None], edges: list[tuple[int, int]] | None = None) -> JsonObject:
    """The document, which must be one that can be run."""
    document = native_document(workflow(*nodes, edges=edges))
    assert isinstance(document, dict), document
    assert not [item for item in validate_document(document) if item.severity is Severity.ERROR]
    build_workflow(document)
    return document


def problem(given: JsonObject) -> PackProblem:
    found = native_document(given)
    assert isinstance(found, PackProblem), found
    return found


def test_the_pack_has_eight_types_of_servers_and_thirteen_of_clients() -> None:
    sides = [node.side for node in PACK_NODES.values()]
    assert (sides.count("server"), sides.count("client")) == (8, 13)
    assert all(name == node.type_id for name, node in PACK_NODES.items())


def test_a_tool_gives_its_arguments_back() -> None:
    document = made(("expose-tool", {"name": "echo", "description": "Again.", "inputSchema": SCHEMA}))
    assert document["expose"] == {"tool": {"name": "echo"}}
    assert (document["input"], document["description"]) == (SCHEMA, "Again.")
    assert document["nodes"] == [{"id": "outcome", "type": "end", "output": "${ .input }"}]


def test_a_resource_has_its_address_and_a_template_its_variables() -> None:
    fixed = made(("expose-resource", {"uri": "mcp://test/1-a", "name": "A note", "mimeType": "text/plain"}))
    assert fixed["expose"] == {"resource": {"uri": "mcp://test/1-a", "title": "A note", "mime_type": "text/plain"}}
    open_one = made(("expose-resource-template", {"uriTemplate": "mcp://test/{day}"}))
    assert open_one["input"] == {"type": "object", "required": ["day"], "properties": {"day": {"type": "string"}}}


def test_a_prompt_needs_no_template_and_shows_arguments_as_text() -> None:
    arguments = [{"name": "topic", "description": "About.", "required": True}, {"name": "tone"}]
    plain = made(("expose-prompt", {"name": "ask", "description": "Asks.", "arguments": arguments}))
    assert plain["expose"] == {"prompt": {"name": "ask", "description": "Asks."}}
    schema = plain["input"]
    assert isinstance(schema, dict)
    assert schema["required"] == ["topic"]
    said = made(("expose-prompt", {"name": "ask", "template": "On {{topic}}: ${ 1 }", "arguments": arguments}))
    assert said["expose"] == {"prompt": {"name": "ask", "messages": [{"text": "On {{topic}}: ${ 1 }"}]}}


def test_nodes_follow_their_edges_and_texts_are_not_evaluated() -> None:
    question = {"message": "Really ${ .input.x } } \\(1)?", "requestedSchema": SCHEMA}
    document = made(("handle-elicitation", question), ("expose-tool", {"name": "asks"}), edges=[(1, 0)])
    nodes = document["nodes"]
    assert isinstance(nodes, list)
    first = nodes[0]
    assert isinstance(first, dict)
    assert (first["type"], first["answer"]) == ("interrupt", SCHEMA)
    assert first["message"] == '${ "Really ${ .input.x } } \\\\(1)?" }'


@pytest.mark.parametrize(("kind", "handled"), [("handle-sampling", "sampling"), ("handle-elicitation", "elicitation")])
def test_a_handler_alone_handles_what_clients_send(kind: str, handled: str) -> None:
    assert made((kind, None))["expose"] == {handled: True}


def test_a_tool_of_another_server_is_called_in_the_middle() -> None:
    call = {"serverId": "shop", "toolName": "find", "timeoutMs": 500}
    nodes = made(("server-trigger", {}), ("expose-tool", {"name": "find"}), ("invoke-tool", call))["nodes"]
    assert isinstance(nodes, list)
    assert nodes[0] == {
        "id": "step_1",
        "type": "tool_call",
        "server": "shop",
        "tool": "find",
        "arguments": "${ .input }",
        "timeout": "500ms",
    }


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"workflowId": "a/b", "nodes": [{"nodeId": "n", "typeId": PACK + "expose-tool", "config": {"name": "a"}}]},
        {"workflowId": "a", "nodes": []},
        {"workflowId": "a", "nodes": ["n"]},
        {"workflowId": "a", "nodes": [{"nodeId": "n", "typeId": PACK + "expose-tool", "config": []}]},
        workflow(("expose-tool", {})),
        workflow(("expose-tool", {"name": "not a name"})),
        workflow(("expose-tool", {"name": "a"}), ("expose-tool", {"name": "b"})),
        workflow(("expose-prompt", {"name": "a", "arguments": [{}]})),
        workflow(("expose-tool", {"name": "a"}), ("handle-sampling", None), edges=[(0, 1), (1, 0)]),
        workflow(("expose-tool", {"name": "a"}), ("handle-sampling", None), edges=[(0, 7)]),
        {**workflow(("expose-tool", {"name": "a"})), "edges": {}},
    ],
)
def test_what_is_wrong_is_told(given: JsonObject) -> None:
    assert problem(given).kind == "invalid"


def test_a_type_that_does_not_work_here_is_named() -> None:
    found = problem(workflow(("ping", {"serverId": "shop"})))
    assert (found.kind, found.type_id, found.node_id) == ("unsupported", f"{PACK}ping", "n0")


@given(st.from_regex(r"[A-Za-z0-9_.:-]{1,128}", fullmatch=True))
def test_every_id_has_a_name_of_its_own(workflow_id: str) -> None:
    document = native_document({**workflow(("expose-tool", {"name": "a"})), "workflowId": workflow_id})
    assert isinstance(document, dict)
    assert not [item for item in validate_document(document) if item.severity is Severity.ERROR]
    assert native_name(workflow_id) != native_name(f"{workflow_id}.")
