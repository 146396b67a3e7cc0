"""An agent that callers registered, as the document that its entry stands for.

Above it: the registry of agents, `operations.reachable`. Below it: plain JSON. It checks nothing: the
document is checked like any other.
"""

from __future__ import annotations

from penstock.base.json import JsonObject, JsonValue

__all__ = ["document_of_agent"]


def document_of_agent(agent_id: str, body: JsonObject) -> JsonObject:
    """Return the document that an entry stands for."""
    named, listed = body.get("workflows"), body.get("tools")
    tools: list[JsonValue] = [f"workflow:{name}" for name in (named if isinstance(named, list) else [])]
    tools += [tool for tool in (listed if isinstance(listed, list) else []) if tool not in tools]
    block: JsonObject = {
        "model": body.get("model", "default"),
        "instructions": body.get("instructions", ""),
        "tools": tools,
    }
    members = ("output_schema", "limits", "conversation", "ask_user", "memory")
    block |= {name: body[name] for name in members if name in body}
    # A dollar sign with a brace in an entry is text: entries come from callers, and have no expressions.
    block["instructions"] = str(block["instructions"]).replace("${", "$${")
    return {"penstock": "v1", "name": agent_id, "title": body.get("name", agent_id), "agent": block}
