"""The workflow that a call of a registered tool runs: one node, and an end that returns its result.

    http     a request to a fixed host; values in its path are escaped, so that none of them leaves its place
    mcp      a tool of a server; that of an imported server is called through the gate, with the rights of the caller
    step     a Python step
    query    a stored query of a graph, through the gate

Above it: the registry checks entries with it, `capabilities` runs it. Below it: templates, plain JSON. A body that the
registry has not checked may raise `Rejected`.
"""

from __future__ import annotations

import json
import re

from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue, object_or_empty
from penstock.definitions.jq.templates import LiteralTemplate, QueryTemplate, TextTemplate, load_template
from penstock.operations.stored_queries.capabilities import query_capability_name

__all__ = ["CALL", "READING_METHODS", "TOOL_INVALID", "document_of_tool", "invalid_tool", "is_repeatable"]

CALL = "call"
"""The id of the node that does the work."""
TOOL_INVALID = "TOOL_INVALID"
READING_METHODS = frozenset({"GET", "HEAD"})
"""Methods that change nothing (RFC 9110)."""
_REPEATABLE_METHODS = READING_METHODS | {"PUT", "DELETE"}
_OWN_SERVER = "penstock"
# The address up to its path. User names, ports and hosts made of expressions are for nobody to choose but the author.
_FIXED_HOST = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+(/[^?#]*)?")
# A value in a path is one segment of it: no slashes, no dots alone, not nothing.
_SEGMENT = (
    'def segment: tostring | if . == "" or . == "." or . == ".." '
    'then error("a value in the path of the address is empty, or dots alone") else @uri end; '
)


def invalid_tool(message: str, hint: str) -> Rejected:
    """Return the error for an entry that is not a tool that can be called."""
    return Rejected(TOOL_INVALID, message, hint)


def is_repeatable(body: JsonObject) -> bool:
    """Whether a call with an unknown outcome may be made again."""
    said = object_or_empty(body.get("annotations"))
    if said.get("read_only") is True or said.get("idempotent") is True:
        return True
    return "idempotent" not in said and body.get("kind") == "http" and _method(body) in _REPEATABLE_METHODS


def _method(body: JsonObject) -> str:
    return str(object_or_empty(body.get("http")).get("method", "GET"))


def document_of_tool(name: str, body: JsonObject, *, imported: str | None = None) -> JsonObject:
    """Return the document of the workflow that a call runs, with this name.

    `imported` is the name in the catalogue of the tool that an `mcp` entry means, if its server is imported.
    """
    repeatable = is_repeatable(body)
    node: JsonObject = {
        "id": CALL,
        **_work(body, imported),
        "retry": {"max_attempts": 3, "initial_interval": "1s"} if repeatable else {"max_attempts": 1},
        "effects": "at_least_once" if repeatable else "at_most_once",
    }
    if "timeout" in body:
        node["timeout"] = body["timeout"]
    given = body.get("result", "${ .call.body }" if body.get("kind") == "http" else "${ .call }")
    document: JsonObject = {
        "penstock": "v1",
        "name": name,
        "title": str(body.get("title", name)),
        "nodes": [node, {"id": "done", "type": "end", "output": given}],
    }
    members = {"secrets": "secrets", "input_schema": "input", "output_schema": "output", "governance": "governance"}
    document |= {there: body[here] for here, there in members.items() if body.get(here)}
    return document


def _work(body: JsonObject, imported: str | None) -> JsonObject:
    """Return what the node does."""
    match body.get("kind"):
        case "http":
            request = object_or_empty(body.get("http"))
            return {"type": "http", **request, "url": _address(request.get("url"))}
        case "mcp" if imported is not None:
            return {"type": "tool_call", "server": _OWN_SERVER, "tool": imported, "arguments": "${ .input }"}
        case "mcp":
            return {
                "type": "tool_call",
                "server": body.get("server"),
                "tool": body.get("name"),
                "arguments": "${ .input }",
            }
        case "query":
            called = query_capability_name(str(body.get("graph")), str(body.get("name")))
            arguments: JsonObject = {"params": "${ .input }"}
            if "branch" in body:
                arguments["branch"] = {"literal": body["branch"]}
            return {"type": "tool_call", "server": _OWN_SERVER, "tool": called, "arguments": arguments}
        case _:
            return {"type": "step", "handler": body.get("name"), "with": "${ .input }"}


def _address(url: JsonValue) -> JsonValue:
    """Return the address as a template in which every value is escaped; raise `Rejected` if its host is not fixed."""
    hint = "write it as https://api.example.com/orders/${ .input.id }, and what follows a `?` into `query`"
    if not isinstance(url, str):
        raise invalid_tool("`http` needs `url`", hint)
    template = load_template(url)
    match template:
        case LiteralTemplate(value=str(text)):
            if _FIXED_HOST.fullmatch(text) is None:
                raise invalid_tool("`url` is not the address of a host and a path", hint)
            return url
        case TextTemplate(parts=parts):
            first = parts[0]
            texts = [part for part in parts if isinstance(part, str)]
            fixed = isinstance(first, str) and "/" in first.partition("://")[2]
            if not fixed or _FIXED_HOST.fullmatch("".join(texts)) is None:
                raise invalid_tool("the host in `url` has to be fixed, and its values belong into the path", hint)
            joined = " + ".join(
                json.dumps(part) if isinstance(part, str) else f"(({part.text}) | segment)" for part in parts
            )
            return f"${{ {_SEGMENT}{joined} }}"
        case QueryTemplate():
            raise invalid_tool("the host in `url` has to be fixed, and its values belong into the path", hint)
        case _:
            raise invalid_tool("`url` cannot have secrets, and its expressions have to compile", hint)
