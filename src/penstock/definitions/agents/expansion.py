"""An agent as the workflow that it stands for, and the way back from a place in that to the block.

    expanded(document)                           the document with `nodes` and `state` instead of `agent`
    source_path(document, "/nodes/2/timeout")    /agent/limits/time

Above it: `outline.document`, `build.workflow` and `validate`. Below it: `nodes`, `cases`, `schemas`. A document that is
no agent is returned as it is; a broken one gives nodes, too, and the checks of its shape say what is wrong with it.
"""

from __future__ import annotations

from penstock.base.json import JsonObject, JsonValue, object_or_empty
from penstock.definitions.agents.cases import expanded_test, expanded_tests
from penstock.definitions.agents.nodes import agent_nodes, agent_state
from penstock.definitions.agents.schemas import input_schema_of, is_agent, output_schema_of

__all__ = ["expanded", "expanded_case", "source_path"]

_NODES, _BLOCK = "/nodes", "/agent"


def expanded(document: JsonObject) -> JsonObject:
    """Return the workflow that an agent stands for; any other document as it is."""
    if not is_agent(document):
        return document
    agent = object_or_empty(document["agent"])
    whole: JsonObject = {name: value for name, value in document.items() if name != "agent"}
    whole |= {
        "input": document["input"] if "input" in document else input_schema_of(document),
        "output": document["output"] if "output" in document else output_schema_of(document),
        "state": agent_state(document),
        "nodes": agent_nodes(document).nodes,
    }
    if "tests" in document:
        whole["tests"] = expanded_tests(document["tests"], agent)
    return whole


def expanded_case(document: JsonObject, case: JsonObject) -> JsonObject:
    """Return a test of an agent as one of the workflow that it stands for; any other test as it is."""
    if not is_agent(document):
        return case
    return expanded_test(case, object_or_empty(document["agent"]))


def source_path(document: JsonObject, path: str) -> str:
    """Return the place in the document for a place in what it stands for."""
    if not is_agent(document) or (path != _NODES and not path.startswith(f"{_NODES}/")):
        return path
    made = agent_nodes(document)
    value: JsonValue = {"nodes": made.nodes}
    found, parts = _BLOCK, path.split("/")[1:]
    for depth, part in enumerate(parts):
        if isinstance(value, dict) and isinstance(value.get("id"), str):
            sources = made.sources.get(str(value["id"]), {})
            own = sources.get(part)
            if own is not None:
                return "/".join((own, *parts[depth + 1 :]))
            found = sources.get("node", found)
        value = _member(value, part)
    if isinstance(value, dict) and isinstance(value.get("id"), str):
        found = made.sources.get(str(value["id"]), {}).get("node", found)
    return found


def _member(value: JsonValue, part: str) -> JsonValue:
    if isinstance(value, list):
        return value[int(part)] if part.isdecimal() and int(part) < len(value) else None
    return value.get(part) if isinstance(value, dict) else None
