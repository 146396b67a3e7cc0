"""What nodes of runs reach outside, as actions of policies: hosts, models and agents.

    Action::"node:http"             Host            method, scheme, host, port, path
    Action::"node:llm_call"         LanguageModel   provider, model
    Action::"node:agent_delegate"   DelegateAgent   agent, protocol

Each has the node and the workflow of the run besides. They are in the group `node`.

Above it: `executions.node_permissions` decides about them, the operations on policies list them.
Below it: `governance.policy`. Imported tools that nodes call are actions of their own (`imported_tools`).
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from penstock.base.json import JsonObject, JsonValue
from penstock.governance.policy.schema import ActionShape
from penstock.governance.policy.shapes import record_of
from penstock.operations.gate.policy_stage import Target

__all__ = ["NODE_ACTIONS", "NodeKind", "NodeType", "node_target"]

NodeType: TypeAlias = Literal["http", "llm_call", "agent_delegate"]
_WITHOUT_EFFECT = ("GET", "HEAD", "OPTIONS")


class NodeKind(NamedTuple):
    """The action of a node type, how a refusal calls it, and which facts its resource is made of."""

    action: ActionShape
    words: str
    resource: tuple[str, ...]

    def resource_id(self, facts: JsonObject) -> str:
        """Return what a node reaches."""
        return ":".join(str(facts.get(name, "")) for name in self.resource)


def _kind(name: NodeType, words: str, resource_type: str, resource: tuple[str, ...], **facts: str) -> NodeKind:
    properties: JsonObject = {fact: {"type": kind} for fact, kind in facts.items()}
    properties |= {"node": {"type": "string"}, "workflow": {"type": "string"}}
    required: list[JsonValue] = [*properties]
    schema: JsonObject = {"type": "object", "required": required, "properties": properties}
    action = ActionShape(name=f"node:{name}", groups=("node",), resource_type=resource_type, input=record_of(schema))
    return NodeKind(action, words, resource)


NODE_ACTIONS: dict[str, NodeKind] = {
    "http": _kind(
        "http",
        "a request to {}",
        "Host",
        ("host",),
        method="string",
        scheme="string",
        host="string",
        port="integer",
        path="string",
    ),
    "llm_call": _kind(
        "llm_call",
        "a call of the model {}",
        "LanguageModel",
        ("provider", "model"),
        provider="string",
        model="string",
    ),
    "agent_delegate": _kind(
        "agent_delegate",
        "delegating to the agent {}",
        "DelegateAgent",
        ("agent",),
        agent="string",
        protocol="string",
    ),
}
"""The actions by the type of the node."""


def node_target(name: str, facts: JsonObject) -> Target:
    """Return what a node does, for policies. A request that only reads has a low risk, as models do."""
    kind = NODE_ACTIONS[name]
    harmless = name == "llm_call" or facts.get("method") in _WITHOUT_EFFECT
    return Target(kind.action, "low" if harmless else "medium", kind.resource_id(facts))
