"""What a workflow needs of the program that calls it: its model, its roots, somebody to ask.

A document may say so (`expose.tool.requires`). If it does not, its nodes do: those that ask the caller's model or for
its roots, and have no way to go on without.

Above it: `workflows`. Below it: nothing but the document.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.base.json import JsonObject, JsonValue

__all__ = ["client_needs"]

_CLIENT = "client"


def client_needs(document: JsonObject, shown: JsonObject) -> JsonObject:
    """What is known about it, for the metadata of the capability."""
    said = shown.get("requires")
    if isinstance(said, list):
        return {"requires": said}
    alone = [node for node in _nodes(document.get("nodes")) if "on_error" not in node]
    models: list[JsonValue] = [
        str(node.get("model", "default"))
        for node in alone
        if node.get("type") == "llm_call" and node.get("provider") == _CLIENT
    ]
    roots = any("tool" in node and node.get("server") == _CLIENT for node in alone)
    needs: JsonObject = {"client_models": models} if models else {}
    return {**needs, "client_roots": True} if roots else needs


def _nodes(listed: JsonValue) -> Iterator[JsonObject]:
    """Every node, wherever it stands; the settings of published ones beside their type."""
    if isinstance(listed, list):
        for item in listed:
            yield from _nodes(item)
    elif isinstance(listed, dict):
        config = listed.get("config")
        yield {**listed, **config} if isinstance(config, dict) else listed
        for name in ("nodes", "branches"):
            yield from _nodes(listed.get(name))
