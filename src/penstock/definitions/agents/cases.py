"""The tests of an agent: `model` says what the scripted model answers, turn by turn.

    tests:
      - name: it looks before it answers
        input: {prompt: "Where is order A-1?"}
        model:
          - tool_calls: [{name: workflow:find_order, arguments: {id: A-1}}]
          - It is on its way.
        mock: {find_order: {status: shipped}}
        expect: {output: {text: It is on its way.}}

A turn is a text; `{answer: …}` for an answer that is not a text; `{tool_calls: […]}`, perhaps with a `text`; or
`{error: {code, message}}`. Each may have `usage`. The list of tools is taken to be what the block names.

Above it: `expansion`. Below it: `nodes`. It never fails.
"""

from __future__ import annotations

from penstock.base.json import JsonObject, JsonValue, object_or_empty
from penstock.definitions.agents.memory import memory_tools
from penstock.definitions.agents.nodes import agent_tools

__all__ = ["expanded_test", "expanded_tests"]

_UNUSED: JsonObject = {"input_tokens": 0, "output_tokens": 0, "cost": 0}


def expanded_tests(tests: JsonValue, agent: JsonObject) -> JsonValue:
    """Return the tests of an agent as tests of the workflow that it stands for."""
    if not isinstance(tests, list):
        return tests
    return [expanded_test(test, agent) if isinstance(test, dict) else test for test in tests]


def expanded_test(test: JsonObject, agent: JsonObject) -> JsonObject:
    """Return one test. What is expanded already stays as it is."""
    written = object_or_empty(test.get("mock"))
    mock: JsonObject = {}
    tools, remembering = agent_tools(agent), memory_tools(agent)
    if (tools or remembering) and "tools" not in written:
        listed: list[JsonValue] = [{"name": tool.name} for tool in tools if not tool.pattern]
        listed += [{"name": name} for name in remembering]
        mock["tools"] = {"tools": listed, "left_out": []}
    script = test.get("model")
    if isinstance(script, list):
        mock["turn"] = {"sequence": [_turn(turn, number) for number, turn in enumerate(script, start=1)]}
    kept = {name: value for name, value in test.items() if name != "model"}
    return {**kept, "mock": {**mock, **written}}


def _turn(turn: JsonValue, number: int) -> JsonValue:
    """Return what the node of a turn gives. Calls without an id get one."""
    said: JsonObject = turn if isinstance(turn, dict) else {"text": turn, "answer": turn}
    if set(said) == {"error"}:
        return said
    calls: list[JsonValue] = []
    listed = said.get("tool_calls")
    for index, call in enumerate(listed if isinstance(listed, list) else [], start=1):
        if isinstance(call, dict):
            calls.append({"id": f"call_{number}_{index}", "arguments": {}, **call})
    text = said.get("text", "")
    return {
        "text": text,
        "tool_calls": calls,
        "answer": None if calls else said.get("answer", text),
        "problem": said.get("problem"),
        "usage": {**_UNUSED, **object_or_empty(said.get("usage"))},
    }
