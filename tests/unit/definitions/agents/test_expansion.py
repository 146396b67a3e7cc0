"""An agent stands for a workflow: which nodes, in which order, and where a place in them comes from."""

import json
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.json import JsonObject, JsonValue, object_or_empty
from penstock.definitions.agents.expansion import expanded, expanded_case, source_path
from penstock.definitions.agents.nodes import agent_tools
from penstock.definitions.build.workflow import build_workflow
from penstock.definitions.canonical import definition_hash
from penstock.definitions.diff.compare import diff_documents
from penstock.definitions.outline.document import outline_of
from penstock.definitions.validate import check_source, validate_document

SAMPLE: JsonObject = {
    "penstock": "v1",
    "name": "support",
    "agent": {
        "model": "fast",
        "provider": "anthropic",
        "instructions": "Help ${ .input.context.shop }.",
        "tools": [
            "workflow:find_order",
            {"tool": "workflow:refund", "approvers": {"group": "leads"}},
            {"tool": "upstream:shop.cancel", "approve": True},
            "query:*",
        ],
        "ask_user": True,
        "output_schema": {"type": "object"},
        "limits": {"turns": 5, "tokens": 1000, "cost": 0.5, "time": "1h", "parallel_tools": 2},
        "temperature": 0.2,
        "max_tokens": 500,
        "retry": {"max_attempts": 2},
    },
}
SMALL: JsonObject = {"penstock": "v1", "name": "small", "agent": {"model": "fast", "instructions": "Help."}}


def _nodes(document: JsonObject) -> list[str]:
    return [node.id for node in outline_of(document).nodes]


def test_every_member_of_the_block_gives_a_document_without_findings() -> None:
    assert validate_document(SAMPLE) == ()
    assert validate_document(SMALL) == ()
    assert validate_document(expanded(SAMPLE)) == ()
    assert validate_document(expanded(SMALL)) == ()


def test_a_small_agent_has_only_the_nodes_that_it_needs() -> None:
    assert _nodes(SMALL) == [
        *("begin", "turns", "turn", "count", "decide", "turns_spent", "unfit", "repair"),
        *("calls", "route", "unknown", "malformed", "keep", "answer"),
    ]


def test_the_nodes_of_a_block_never_change() -> None:
    """Runs under way and old histories are read with them. If this fails, runs of agents are lost: change it back."""
    nodes = json.dumps(expanded(SAMPLE)["nodes"], sort_keys=True)
    assert sha256(nodes.encode()).hexdigest() == "82b372ed886d4f997ca90bba722f017efd0df53231ae99655ab4a49c3c405900"
    nodes = json.dumps(expanded(SMALL)["nodes"], sort_keys=True)
    assert sha256(nodes.encode()).hexdigest() == "9523e144d8e0af8037b2487458797c6b2b9f5f3741380a18709b21d75d505fb2"
    block: JsonObject = {**object_or_empty(SAMPLE["agent"]), "conversation": {"characters": 2000, "summarize": True}}
    nodes = json.dumps(expanded({**SAMPLE, "agent": block})["nodes"], sort_keys=True)
    assert sha256(nodes.encode()).hexdigest() == "fbfa05b96a2f057fb9db7d3de2008bbc7fc26915a6fa12ae396d9c88983aecee"


def test_the_document_and_its_hash_are_those_of_the_block() -> None:
    built = build_workflow(SAMPLE)
    assert built.document == SAMPLE
    assert built.hash == definition_hash(SAMPLE)
    assert built.input_schema_json == expanded(SAMPLE)["input"]
    assert "turn" in built.nodes


def test_any_other_document_is_returned_as_it_is() -> None:
    document: JsonObject = {"penstock": "v1", "name": "x", "nodes": [{"id": "done", "type": "end"}]}
    assert expanded(document) is document
    assert source_path(document, "/nodes/0/type") == "/nodes/0/type"
    assert expanded_case(document, {"model": ["x"]}) == {"model": ["x"]}


@pytest.mark.parametrize(
    ("place", "source"),
    [
        ("/name", "/name"),
        ("/nodes", "/agent"),
        ("/nodes/0/allow/1", "/agent/tools"),
        ("/nodes/2/timeout", "/agent/limits/time"),
        ("/nodes/2/max_iterations", "/agent/limits/turns"),
        ("/nodes/2/nodes/0/system_prompt", "/agent/instructions"),
        ("/nodes/2/nodes/0/retry/max_attempts", "/agent/retry/max_attempts"),
        ("/nodes/2/nodes/0/answer_schema/type", "/agent/output_schema/type"),
        ("/nodes/2/nodes/3/code", "/agent/limits/tokens"),
        ("/nodes/99/what", "/agent"),
    ],
)
def test_a_place_in_a_node_comes_from_a_place_in_the_block(place: str, source: str) -> None:
    assert source_path(SAMPLE, place) == source


def test_findings_point_at_the_text_of_the_block() -> None:
    text = (
        "penstock: v1\nname: x\nagent:\n  model: fast\n  instructions: Help ${ .inptu.name }.\n"
        "  tools:\n    - tool: workflow:a\n      approvers: {group: leads, escalate: {after: 1h, to: {group: b}}}\n"
    )
    findings = check_source(text).findings
    assert [(item.code, item.path, str(item.position.line if item.position else "")) for item in findings] == [
        ("UNKNOWN_REFERENCE", "/agent/instructions", "5")
    ]


def test_a_difference_is_one_of_the_block() -> None:
    agent = SAMPLE["agent"]
    assert isinstance(agent, dict)
    after: JsonObject = {**SAMPLE, "agent": {**agent, "model": "large"}}
    [change] = diff_documents(SAMPLE, after).changes
    assert (change.path, change.before, change.after) == ("/agent/model", "fast", "large")


def test_tools_have_ids_of_their_own() -> None:
    listed: list[JsonValue] = ["workflow:turn", "a:find", "b:find", "upstream:shop.find", "c:7", "query:*", "qu*"]
    found = {tool.name: tool.node_id for tool in agent_tools({"tools": listed})}
    assert len(set(found.values())) == len(listed)
    assert found["workflow:turn"] == "tool_turn"
    assert found["a:find"] == "find"
    assert found["upstream:shop.find"] == "shop_find"
    assert list(found)[-2:] == ["query:*", "qu*"]


def test_a_script_of_a_model_becomes_mocks_of_its_turns() -> None:
    case: JsonObject = {
        "name": "x",
        "model": [{"tool_calls": [{"name": "workflow:find_order"}], "usage": {"input_tokens": 7}}, "Done."],
        "mock": {"find_order": {"a": 1}},
        "expect": {},
    }
    mock = expanded_case(SAMPLE, case)["mock"]
    assert isinstance(mock, dict)
    assert mock["find_order"] == {"a": 1}
    assert mock["turn"] == {
        "sequence": [
            {
                "text": "",
                "tool_calls": [{"id": "call_1_1", "arguments": {}, "name": "workflow:find_order"}],
                "answer": None,
                "problem": None,
                "usage": {"input_tokens": 7, "output_tokens": 0, "cost": 0},
            },
            {
                "text": "Done.",
                "tool_calls": [],
                "answer": "Done.",
                "problem": None,
                "usage": {"input_tokens": 0, "output_tokens": 0, "cost": 0},
            },
        ]
    }
    assert expanded_case(SAMPLE, expanded_case(SAMPLE, case)) == expanded_case(SAMPLE, case)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["model", "instructions", "tools", "limits", "ask_user", "output_schema", "prompt", "retry"]),
        _JSON,
    ),
    _JSON,
)
def test_a_broken_block_gives_nodes_and_findings_and_never_fails(agent: JsonObject, tests: JsonValue) -> None:
    document: JsonObject = {"penstock": "v1", "name": "x", "agent": agent, "tests": tests}
    assert outline_of(document).nodes
    for finding in validate_document(document):
        assert not finding.path.startswith("/nodes")
