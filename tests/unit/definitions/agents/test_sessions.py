"""The workflow of a message: that of the agent, which begins with what was said before."""

from __future__ import annotations

from typing import Any

from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.definitions.agents.expansion import expanded
from penstock.definitions.agents.sessions import session_document, takes_messages
from penstock.definitions.build.workflow import build_workflow

BLOCK: JsonObject = {"model": "fast", "instructions": "Help.", "tools": ["workflow:find"]}
AGENT: JsonObject = {"penstock": "v1", "name": "support", "expose": {"tool": True}, "agent": BLOCK}


def nodes(document: JsonObject) -> Any:
    found: Any = document["nodes"]
    return {node["id"]: node for node in found}


def test_only_the_beginning_and_the_turns_differ_from_the_agent() -> None:
    own, made = nodes(expanded(AGENT)), nodes(session_document(AGENT))
    assert list(own) == list(made)
    assert {name for name in own if own[name] != made[name]} == {"begin", "turns"}
    turn = made["turns"]["nodes"][0]
    assert (turn["stream"], turn["conversation_characters"]) == (True, limits.AGENT_CONVERSATION_CHARACTERS_DEFAULT)
    assert made["turns"]["nodes"][1:] == own["turns"]["nodes"][1:]


def test_it_is_a_workflow_of_the_same_name_that_is_not_exposed() -> None:
    workflow = build_workflow(session_document(AGENT))
    assert workflow.name == "support"
    assert "expose" not in session_document(AGENT)


def test_the_block_says_how_much_is_read_also_in_the_agents_own_runs() -> None:
    bounded: JsonObject = {**AGENT, "agent": {**BLOCK, "conversation": {"characters": 2000}}}
    for document in (expanded(bounded), session_document(bounded)):
        assert nodes(document)["turns"]["nodes"][0]["conversation_characters"] == 2000
    assert "conversation_characters" not in nodes(expanded(AGENT))["turns"]["nodes"][0]


def test_an_agent_with_an_input_or_a_prompt_of_its_own_takes_no_messages() -> None:
    assert takes_messages(AGENT)
    assert not takes_messages({**AGENT, "input": {"type": "object"}})
    assert not takes_messages({**AGENT, "agent": {**BLOCK, "prompt": "Do it."}})
