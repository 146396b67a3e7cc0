"""What `conversation: {summarize: true}` adds to an agent: nodes before each turn, and nothing to any other agent."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.base.json import JsonObject
from penstock.definitions.agents.expansion import expanded, source_path
from penstock.definitions.agents.sessions import conversation_of, session_document
from penstock.definitions.agents.summaries import SUMMARY_IDS
from penstock.definitions.build.workflow import build_workflow
from penstock.definitions.diff.compare import diff_documents
from penstock.definitions.validate import validate_document

BLOCK: JsonObject = {"model": "fast", "provider": "own", "instructions": "Help.", "tools": ["workflow:long"]}


def agent(**block: Any) -> JsonObject:
    return {"penstock": "v1", "name": "support", "agent": {**BLOCK, **block}}


def loop(document: JsonObject) -> dict[str, Any]:
    nodes: Any = document["nodes"]
    turns = next(node for node in nodes if node["id"] == "turns")
    return {node["id"]: node for node in turns["nodes"]}


def test_the_default_is_to_leave_out_and_adds_nothing() -> None:
    plain = expanded(agent(conversation={"characters": 2000}))
    assert not set(SUMMARY_IDS) & set(loop(plain))
    assert "summary" not in str(plain["state"])
    assert expanded(agent(conversation={"characters": 2000, "summarize": False})) == plain


def test_what_there_is_no_room_for_is_summarised_before_the_turn() -> None:
    document = agent(conversation={"characters": 2000, "summarize": True})
    assert validate_document(document) == ()
    nodes = loop(expanded(document))
    assert list(nodes)[:4] == ["long", "summarize", "shorten", "turn"]
    assert nodes["long"]["cases"][0]["when"].endswith("> 1500")
    assert (nodes["summarize"]["model"], nodes["summarize"]["provider"]) == ("fast", "own")
    assert (nodes["turn"]["summary"], nodes["turn"]["conversation_characters"]) == ("summary", 2000)
    assert "stream" not in loop(session_document(document))["summarize"]
    assert loop(session_document(document))["turn"]["stream"] is True
    build_workflow(session_document(document))
    assert build_workflow(document).hash != build_workflow(agent(conversation={"characters": 2000})).hash


def test_a_limit_ends_the_run_before_the_turn_that_would_exceed_it() -> None:
    limited = loop(expanded(agent(conversation={"summarize": True}, limits={"tokens": 100, "cost": 1, "turns": 3})))
    assert [case["next"] for case in limited["afford"]["cases"]] == ["tokens_spent", "cost_unknown", "cost_spent"]
    assert limited["afford"]["default"] == "turn"
    assert validate_document(agent(conversation={"summarize": True}, limits={"tokens": 100})) == ()


def test_another_model_may_summarise_and_the_ids_of_tools_make_way() -> None:
    document = agent(conversation={"summarize": True, "model": "cheap"})
    nodes = loop(expanded(document))
    assert (nodes["summarize"]["model"], "provider" in nodes["summarize"]) == ("cheap", False)
    inside: Any = nodes["calls"]["nodes"]
    assert "tool_long" in [node["id"] for node in inside]
    place = f"/nodes/{[node['id'] for node in expanded(document)['nodes']].index('turns')}/nodes/1/model"  # type: ignore[union-attr, index, call-overload]  # a list of objects
    assert source_path(document, place) == "/agent/conversation/model"


@pytest.mark.parametrize(
    ("conversation", "code", "path"),
    [
        ({"summarize": "yes"}, "INVALID_VALUE", "/agent/conversation/summarize"),
        ({"summarise": True}, "UNKNOWN_FIELD", "/agent/conversation/summarise"),
    ],
)
def test_what_would_have_no_effect_is_refused(conversation: JsonObject, code: str, path: str) -> None:
    [found] = validate_document(agent(conversation=conversation))
    assert (found.code, found.path) == (code, path)


def test_a_change_of_it_is_told() -> None:
    changes = str(diff_documents(agent(), agent(conversation={"summarize": True})))
    assert "summarize" in changes


def test_the_next_message_begins_with_the_summary() -> None:
    document = agent(conversation={"characters": 1000, "summarize": True})
    said: Any = [{"role": "user", "text": f"{number}", "message": True} for number in range(4)]
    values: JsonObject = {"conversation": said, "summary": {"text": "Two were asked.", "entries": 2}}
    begun = conversation_of(document, values)
    assert begun[1]["data"] == "Two were asked."
    assert begun[2:] == said[2:]
    assert conversation_of(agent(), values) == said  # an agent that summarises no longer reads what is there
