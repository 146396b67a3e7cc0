"""Convert workflows that consist of nodes of `core.openwop.mcp` to native documents.

    {"workflowId": "mcp.demo.echo", "nodes": [{"nodeId": "tool", "typeId": "core.openwop.mcp.expose-tool",
                                               "config": {"name": "echo"}}]}

becomes a document that exposes a tool and returns its arguments. The edges must connect the nodes to a chain. Texts
stay texts: nothing in them is evaluated as an expression. This module only computes; `importing` stores.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal

from penstock.base.ids import PERSON_AGENT
from penstock.base.json import JsonObject, JsonValue
from penstock.openwop.pack.node_types import PACK, PACK_NODES, PackNode
from penstock.operations.catalogue.schema_checks import first_violation

__all__ = ["PackProblem", "PlacedNode", "native_document", "native_name", "placed_nodes"]

_WORKFLOW_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_NATIVE_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_WIRE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NATIVE_LENGTH = 64
_NODES_MAX = 100
_VARIABLE = re.compile(r"\{([^{}]*)\}")
# All messages of the client, one after another; the prompt says that none of them is an instruction.
_MESSAGES = (
    '${ [(.input.request.systemPrompt // empty), (.input.request.messages[] | .role + ": " + '
    '([.content | if type == "array" then .[] else . end | .text] | join("\\n")))] | join("\\n\\n") }'
)
_QUESTION = "Please answer."


@dataclass(frozen=True, slots=True, kw_only=True)
class PackProblem:
    """Why a workflow cannot be converted; `type_id` and `node_id` name the node, if it is about one."""

    kind: Literal["invalid", "unsupported", "unmounted"]
    message: str
    hint: str = ""
    type_id: str | None = None
    node_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedNode:
    """A node of a workflow, with its type if it is one of the pack."""

    node_id: str
    type_id: str
    config: JsonObject
    known: PackNode | None


@dataclass(slots=True)
class _Draft:
    """A document under construction."""

    nodes: list[JsonValue] = field(default_factory=list)
    expose: JsonObject = field(default_factory=dict)
    input: JsonObject = field(default_factory=dict)
    output: JsonValue = None
    description: str | None = None

    def add(self, node: JsonObject) -> None:
        """Add a node; the document returns its result."""
        name = f"step_{len(self.nodes) + 1}"
        self.nodes.append({"id": name, **node})
        self.output = f"${{ .{name} }}"


def native_name(workflow_id: str) -> str:
    """Return the native name of a workflow: its own, or a derived one if that is not a native name."""
    if _NATIVE_NAME.fullmatch(workflow_id):
        return workflow_id
    digest = sha256(workflow_id.encode()).hexdigest()[:8]
    plain = re.sub("[^a-z0-9_-]", "-", workflow_id.lower())
    named = plain if plain[:1].isalpha() else f"w-{plain}"
    return f"{named[: _NATIVE_LENGTH - len(digest) - 1]}-{digest}"


def placed_nodes(workflow: JsonObject) -> tuple[PlacedNode, ...] | PackProblem:
    """Return the nodes of a workflow, in the order in which they are listed."""
    listed = workflow.get("nodes")
    if not isinstance(listed, list) or not 1 <= len(listed) <= _NODES_MAX:
        return _invalid(f"`nodes` must be a list of 1 to {_NODES_MAX} nodes")
    found: dict[str, PlacedNode] = {}
    for number, item in enumerate(listed):
        node = item if isinstance(item, dict) else {}
        node_id, type_id, config = node.get("nodeId", node.get("id")), node.get("typeId"), node.get("config", {})
        if not isinstance(node_id, str) or not isinstance(type_id, str) or not isinstance(config, dict):
            return _invalid(f"`nodes[{number}]` must have `nodeId` and `typeId`, and `config` must be an object")
        if node_id in found:
            return _invalid(f"two nodes are called {node_id[:60]!r}")
        found[node_id] = PlacedNode(node_id=node_id, type_id=type_id, config=config, known=PACK_NODES.get(type_id))
    return tuple(found.values())


def native_document(workflow: JsonObject) -> JsonObject | PackProblem:
    """Convert a workflow to a document, or return why that is not possible."""
    workflow_id = workflow.get("workflowId", workflow.get("id"))
    if not isinstance(workflow_id, str) or _WORKFLOW_ID.fullmatch(workflow_id) is None:
        return _invalid("`workflowId` must be 1 to 128 letters, digits, `_`, `.`, `-` and `:`")
    nodes = placed_nodes(workflow)
    if isinstance(nodes, PackProblem):
        return nodes
    ordered = _in_order(nodes, workflow.get("edges", []))
    if isinstance(ordered, PackProblem):
        return ordered
    draft = _Draft()
    # Nodes that declare what is exposed come before those that do something.
    for node in sorted(ordered, key=lambda item: item.type_id not in _DECLARING):
        problem = _add_node(draft, node)
        if problem is not None:
            return problem
    return _document_of(draft, workflow_id)


def _document_of(draft: _Draft, workflow_id: str) -> JsonObject:
    output = "${ .input }" if draft.output is None else draft.output
    document: JsonObject = {
        "penstock": "v1",
        "name": native_name(workflow_id),
        "title": workflow_id,
        "metadata": {"openwop": {"workflowId": workflow_id, "pack": PACK}},
        "nodes": [*draft.nodes, {"id": "outcome", "type": "end", "output": output}],
    }
    members: JsonObject = {"description": draft.description, "expose": draft.expose, "input": draft.input}
    return {**document, **{name: value for name, value in members.items() if value}}


def _in_order(nodes: tuple[PlacedNode, ...], edges: JsonValue) -> tuple[PlacedNode, ...] | PackProblem:
    """Return the nodes in the order of the edges; without edges, in the order in which they are listed."""
    if not isinstance(edges, list):
        return _invalid("`edges` must be a list")
    follows: dict[str, str] = {}
    known = {node.node_id: node for node in nodes}
    for edge in edges:
        ends = edge if isinstance(edge, dict) else {}
        source, target = ends.get("sourceNodeId"), ends.get("targetNodeId")
        if not isinstance(source, str) or not isinstance(target, str) or not {source, target} <= known.keys():
            return _invalid("every edge must have `sourceNodeId` and `targetNodeId`, which name nodes")
        if source in follows or target in follows.values():
            return _invalid("the nodes must form a chain: each has at most one successor")
        follows[source] = target
    ordered: list[PlacedNode] = []
    for node in nodes:
        place: str | None = node.node_id if node.node_id not in follows.values() else None
        while place is not None and known[place] not in ordered:
            ordered.append(known[place])
            place = follows.get(place)
    return tuple(ordered) if len(ordered) == len(nodes) else _invalid("the edges lead in a circle")


def _add_node(draft: _Draft, node: PlacedNode) -> PackProblem | None:
    """Add a node to the document."""
    handle = _BY_TYPE.get(node.type_id)
    if node.known is None or handle is None:
        message = f"nodes of the type {node.type_id[:100]} are not supported"
        hint = f"the types of {PACK} are: {', '.join(name.removeprefix(f'{PACK}.') for name in _BY_TYPE)}"
        return PackProblem(kind="unsupported", message=message, hint=hint, type_id=node.type_id, node_id=node.node_id)
    violation = first_violation(node.known.config_schema, node.config)
    if violation is not None:
        return _invalid(f"config{violation.instance_path}: {violation.message}", node)
    return handle(draft, node)


def _declared(draft: _Draft, node: PlacedNode) -> PackProblem | None:
    return None


def _tool(draft: _Draft, node: PlacedNode) -> PackProblem | None:
    name, description = str(node.config["name"]), node.config.get("description")
    if _WIRE_NAME.fullmatch(name) is None:
        return _invalid(f"a tool cannot be called {name[:70]!r}", node)
    draft.description = description if isinstance(description, str) else draft.description
    draft.input = _object(node.config.get("inputSchema")) or {"type": "object"}
    return _exposed(draft, node, "tool", {"name": name})


def _resource(draft: _Draft, node: PlacedNode) -> PackProblem | None:
    address = str(node.config.get("uri", node.config.get("uriTemplate")))
    title, kind = node.config.get("name"), node.config.get("mimeType")
    shown: JsonObject = {"uri": address}
    if isinstance(title, str) and title:
        shown["title"] = title
        if _WIRE_NAME.fullmatch(title):
            shown["name"] = title
    if isinstance(kind, str) and kind:
        shown["mime_type"] = kind
    variables: list[JsonValue] = [*_VARIABLE.findall(address)]
    if variables:
        members: JsonObject = {str(name): {"type": "string"} for name in variables}
        draft.input = {"type": "object", "required": variables, "properties": members}
    else:
        draft.output = {"literal": title if isinstance(title, str) and title else address}
    return _exposed(draft, node, "resource", shown)


def _prompt(draft: _Draft, node: PlacedNode) -> PackProblem | None:
    name, description, template = str(node.config["name"]), node.config.get("description"), node.config.get("template")
    if _WIRE_NAME.fullmatch(name) is None:
        return _invalid(f"a prompt cannot be called {name[:70]!r}", node)
    members: JsonObject = {}
    needed: list[JsonValue] = []
    listed = node.config.get("arguments")
    for item in listed if isinstance(listed, list) else []:
        argument = item if isinstance(item, dict) else {}
        member = argument.get("name")
        if not isinstance(member, str) or not member:
            return _invalid("every argument must have a `name`", node)
        message = argument.get("description")
        members[member] = {"type": "string", **({"description": message} if isinstance(message, str) else {})}
        if argument.get("required") is True:
            needed.append(member)
    draft.input = {"type": "object", "properties": members, **({"required": needed} if needed else {})}
    shown: JsonObject = {"name": name}
    if isinstance(description, str) and description:
        shown["description"] = description
    if isinstance(template, str) and template:
        shown["messages"] = [{"text": template}]
    return _exposed(draft, node, "prompt", shown)


def _sampling(draft: _Draft, node: PlacedNode) -> PackProblem | None:
    prompt = "${ .input | tojson }"
    if not draft.expose:
        draft.expose["sampling"] = True
        prompt = _MESSAGES
    model = node.config.get("modelHint")
    chosen = model if isinstance(model, str) and model else "default"
    draft.add({"type": "llm_call", "model": chosen, "prompt": prompt})
    draft.output = {"text": f"{str(draft.output)[:-2]}.text }}", "model": {"literal": chosen}}
    return None


def _elicitation(draft: _Draft, node: PlacedNode) -> PackProblem | None:
    if not draft.expose:
        draft.expose["elicitation"] = True
        request = {"message": "${ .input.request.message }", "schema": "${ .input.request.requestedSchema }"}
        draft.add({"type": "agent_delegate", "agent_id": PERSON_AGENT, "protocol": "sdk", "input": {**request}})
        return None
    message, schema = node.config.get("message"), node.config.get("requestedSchema")
    question: JsonObject = {
        "type": "interrupt",
        "message": _literal(message if isinstance(message, str) else _QUESTION),
    }
    draft.add({**question, "answer": _object(schema)} if schema else question)
    return None


def _roots(draft: _Draft, node: PlacedNode) -> PackProblem | None:
    listed = node.config["roots"]
    roots = listed if isinstance(listed, list) else []
    if not all(isinstance(root, dict) and isinstance(root.get("uri"), str) and root["uri"] for root in roots):
        return _invalid("every root must have a `uri`", node)
    if not draft.expose:
        draft.expose["roots"] = True
    draft.output = {"roots": {"literal": roots}, "count": len(roots)}
    return None


def _invoke(draft: _Draft, node: PlacedNode) -> PackProblem | None:
    call: JsonObject = {
        "type": "tool_call",
        "server": str(node.config["serverId"]),
        "tool": str(node.config["toolName"]),
        "arguments": "${ .input }",
    }
    timeout = node.config.get("timeoutMs")
    draft.add({**call, "timeout": f"{timeout}ms"} if timeout is not None else call)
    return None


_BY_TYPE: dict[str, Callable[[_Draft, PlacedNode], PackProblem | None]] = {
    f"{PACK}.server-trigger": _declared,
    f"{PACK}.expose-tool": _tool,
    f"{PACK}.expose-resource": _resource,
    f"{PACK}.expose-resource-template": _resource,
    f"{PACK}.expose-prompt": _prompt,
    f"{PACK}.handle-sampling": _sampling,
    f"{PACK}.handle-elicitation": _elicitation,
    f"{PACK}.provide-roots": _roots,
    f"{PACK}.invoke-tool": _invoke,
}


_DECLARING = frozenset(name for name in _BY_TYPE if name.startswith(f"{PACK}.expose-"))


def _exposed(draft: _Draft, node: PlacedNode, kind: str, shown: JsonObject) -> PackProblem | None:
    if draft.expose:
        return _invalid("a workflow is listed once, as one thing", node)
    draft.expose[kind] = shown
    return None


def _literal(text: str) -> str:
    """Return a text that a native document does not evaluate as an expression."""
    return f"${{ {json.dumps(text)} }}" if "${" in text else text


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _invalid(message: str, node: PlacedNode | None = None) -> PackProblem:
    text = message if node is None else f"{node.node_id[:60]}: {message}"
    named = (None, None) if node is None else (node.type_id, node.node_id)
    return PackProblem(kind="invalid", message=text, type_id=named[0], node_id=named[1])
