"""What is wrong with an agent beyond its shape."""

from typing import Any

import pytest

from penstock.base.json import JsonObject
from penstock.definitions.validate import validate_document


def _agent(document: dict[str, Any] | None = None, **block: Any) -> JsonObject:
    agent = {"model": "fast", "instructions": "Help.", **block}
    return {"penstock": "v1", "name": "x", "agent": agent, **(document or {})}


@pytest.mark.parametrize(
    ("document", "code", "path"),
    [
        (_agent({"state": {"type": "object"}}), "NOT_WITH_AGENT", "/state"),
        (_agent({"input": {"type": "object", "properties": {"q": {}}}}), "AGENT_PROMPT_MISSING", "/agent"),
        (_agent(provider="client"), "AGENT_PROVIDER_UNSUITED", "/agent/provider"),
        (_agent(conversation={"model": "cheap"}), "AGENT_SUMMARY_UNUSED", "/agent/conversation/model"),
        (_agent(tools=["workflow:a", {"tool": "workflow:a"}]), "DUPLICATE_TOOL", "/agent/tools/1"),
        (_agent(tools=["*"]), "INVALID_VALUE", "/agent/tools/0"),
        (_agent(limits={"turns": 0}), "INVALID_VALUE", "/agent/limits/turns"),
        (_agent(limits={"cost": 0}), "INVALID_VALUE", "/agent/limits/cost"),
        (_agent(output_schema={"type": "thing"}), "INVALID_SCHEMA", "/agent/output_schema/type"),
        (_agent(prompt="${ .inptu }"), "UNKNOWN_REFERENCE", "/agent/prompt"),
        (
            _agent({"input": {"type": "object", "properties": {"q": {}}}, "expose": {"a2a": True}}, prompt="Hello."),
            "A2A_PROMPT_UNSUITED",
            "/expose/a2a",
        ),
        (
            {
                "penstock": "v1",
                "name": "x",
                "nodes": [{"id": "done", "type": "end", "output": 1}],
                "expose": {"a2a": True},
            },
            "A2A_WITHOUT_AGENT",
            "/expose/a2a",
        ),
    ],
)
def test_a_mistake_is_reported_once_where_it_stands(document: JsonObject, code: str, path: str) -> None:
    assert [(finding.code, finding.path) for finding in validate_document(document)] == [(code, path)]


def test_an_agent_with_nodes_beside_it_is_refused() -> None:
    found = validate_document(_agent({"nodes": [{"id": "done", "type": "end"}]}))
    assert [finding.code for finding in found if "agent" in finding.message] != []


def test_an_input_of_its_own_needs_a_prompt_in_it_or_in_the_block() -> None:
    own = {"input": {"type": "object", "properties": {"question": {"type": "string"}}}}
    assert validate_document(_agent(own, prompt="Answer: ${ .input.question }")) == ()
    theirs: dict[str, Any] = {
        "input": {"type": "object", "required": ["prompt"], "properties": {"prompt": {"type": "string"}}}
    }
    assert validate_document(_agent(theirs)) == ()
    theirs["input"]["additionalProperties"] = False
    assert validate_document(_agent(theirs)) == ()


def test_a_script_of_a_model_is_for_agents() -> None:
    document: JsonObject = {
        "penstock": "v1",
        "name": "x",
        "nodes": [{"id": "done", "type": "end"}],
        "tests": [{"name": "x", "model": ["hello"], "expect": {"status": "completed"}}],
    }
    assert [(item.code, item.path) for item in validate_document(document)] == [
        ("TEST_WITHOUT_AGENT", "/tests/0/model")
    ]
