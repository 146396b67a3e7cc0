"""The memory of an agent: which tools a `memory` member of the block adds, and the nodes that call them.

    memory: {read: [principal, session], write: [session]}

The model is offered `memory.get` and `memory.search` for what it may read, and `memory.put` for what it may write.
Their schemas name the scopes of the block only. A call with another scope is refused before it is made, so the block
narrows what the model may do, as the list of tools does. The session is that of the run: the model cannot name another.

What is read back is a result of a tool, and so marked as data, as all results are.

Above it: `nodes` calls `add_memory` last; `cases`. Below it: plain JSON. Without the member nothing is changed.
"""

from __future__ import annotations

import json

from penstock.base.json import JsonObject, JsonValue, list_or_empty, object_or_empty
from penstock.definitions.shapes.agent import MEMORY_SCOPES

__all__ = ["MEMORY_IDS", "add_memory", "memory_tools"]

_READ_TOOLS, _WRITE_TOOLS = ("memory.get", "memory.search"), ("memory.put",)
_REFUSED = "memory_refused"
MEMORY_IDS = (*(name.replace(".", "_") for name in (*_READ_TOOLS, *_WRITE_TOOLS)), _REFUSED)
"""The ids of the nodes that it adds."""
_RETRY: JsonObject = {"max_attempts": 3, "initial_interval": "1s", "backoff_coefficient": 2}


def memory_tools(agent: JsonObject) -> dict[str, list[str]]:
    """Return the tools of a block's memory, each with the scopes that it may be called for."""
    block = object_or_empty(agent.get("memory"))
    found: dict[str, list[str]] = {}
    for member, tools in (("read", _READ_TOOLS), ("write", _WRITE_TOOLS)):
        listed = list_or_empty(block.get(member))
        scopes = [scope for scope in MEMORY_SCOPES if scope in listed]
        if scopes:
            found |= {name: scopes for name in tools}
    return found


def add_memory(nodes: list[JsonValue], sources: dict[str, dict[str, str]], agent: JsonObject) -> None:
    """Add the tools to the nodes of an agent."""
    tools = memory_tools(agent)
    if not tools:
        return
    by_id = {str(node["id"]): node for node in nodes if isinstance(node, dict)}
    listing = by_id.get("tools")
    if listing is None:
        listing = _listing()
        nodes.insert(0, listing)
        sources["tools"] = {"node": "/agent/memory"}
    listing["allow"] = [*list_or_empty(listing["allow"]), *tools]
    _narrow_schemas(by_id["begin"], tools, has_tools="tools" in by_id)
    turns = [node for node in list_or_empty(by_id["turns"].get("nodes")) if isinstance(node, dict)]
    calls = next(node for node in turns if node.get("id") == "calls")
    inside = list_or_empty(calls.get("nodes"))
    route = object_or_empty(inside[0])
    cases = list_or_empty(route.get("cases"))
    # After the case for malformed calls, and before the tools of the list: the block is narrower than these.
    route["cases"] = [*cases[:1], *_cases(tools), *cases[1:]]
    calls["nodes"] = [*inside, *(_call(name) for name in tools), _refusal()]
    for node_id in MEMORY_IDS:
        sources[node_id] = {"node": "/agent/memory"}


def _listing() -> JsonObject:
    return {
        "id": "tools",
        "type": "tool_call",
        "server": "penstock",
        "tool": "tools/list",
        "allow": [],
        "by_model": True,
        "retry": dict(_RETRY),
    }


def _narrow_schemas(begin: JsonObject, tools: dict[str, list[str]], *, has_tools: bool) -> None:
    """Let the schemas of the tools name the scopes of the block, and no session."""
    written = object_or_empty(begin.get("set"))
    program = str(object_or_empty(written.get("tools")).get("jq"))
    if not has_tools:
        # Without tools of its own, the block begins with an empty list.
        program = ".tools.tools" + program.removeprefix("[]")
    branches = " ".join(
        f"{'if' if index == 0 else 'elif'} .name == {json.dumps(name)} then"
        f" .input_schema.properties.scope.enum = {json.dumps(scopes)} | del(.input_schema.properties.session_id)"
        for index, (name, scopes) in enumerate(tools.items())
    )
    written["tools"] = {"jq": f"({program}) | map({branches} else . end)"}


def _cases(tools: dict[str, list[str]]) -> list[JsonValue]:
    cases: list[JsonValue] = []
    for name, scopes in tools.items():
        called = f".call.name == {json.dumps(name)}"
        allowed = f"(.call.arguments.scope as $scope | {json.dumps(scopes)} | any(. == $scope))"
        cases.append({"when": f"{called} and ({allowed} | not)", "next": _REFUSED})
        cases.append({"when": called, "next": name.replace(".", "_")})
    return cases


def _call(name: str) -> JsonObject:
    return {
        "id": name.replace(".", "_"),
        "type": "tool_call",
        "server": "penstock",
        "tool": name,
        "arguments": "${ .call.arguments | del(.session_id) }",
        "by_model": True,
        "retry": dict(_RETRY),
        "next": "$exit",
    }


def _refusal() -> JsonObject:
    return {
        "id": _REFUSED,
        "type": "fail",
        "code": "MEMORY_SCOPE_NOT_ALLOWED",
        "message": "${ .call.name } is not allowed for the scope ${ .call.arguments.scope | tojson }",
    }
