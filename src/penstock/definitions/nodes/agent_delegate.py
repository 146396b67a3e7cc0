"""`agent_delegate`: hands a task to another agent."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from penstock.base.json import JsonObject
from penstock.definitions.model import ActivityDetail, NodeType
from penstock.definitions.node_parts.activity import activity_builder, activity_jq
from penstock.definitions.node_parts.captions import first_text
from penstock.definitions.node_parts.changes import Comparison
from penstock.definitions.node_parts.compiling import mapping_of
from penstock.definitions.node_parts.jq_places import mapping
from penstock.definitions.node_parts.kind import (
    Activity,
    Category,
    NodeKind,
    NodeSource,
    Pace,
    PublishedConfig,
    Reference,
    Resource,
)
from penstock.definitions.shapes.fields import OBJECT, STRING, Shape, choice, optional, ref, required

__all__ = ["KIND", "delegating_node"]

_ACTIVITY = Activity(arguments=("input", "input_mapping"), single=True)
_AGENT_ID = required("agent_id", STRING, "The agent.")
_PROTOCOLS = choice("a2a", "mcp", "sdk")
_DEFAULT_PROTOCOL = "a2a"
_build_activity = activity_builder(_ACTIVITY)


def _build(source: NodeSource) -> ActivityDetail:
    fields, detail = source.fields, _build_activity(source)
    arguments = detail.arguments
    if not source.native:
        arguments = mapping_of(fields.get("input_mapping"), source.node.field_path("input_mapping"))
    return msgspec.structs.replace(
        detail,
        arguments=arguments,
        agent_id=str(fields.get("agent_id", "")),
        protocol=str(fields.get("protocol", _DEFAULT_PROTOCOL)),
    )


def delegating_node(agent_id: str, protocol: str) -> JsonObject:
    """Return a node that gives the input of its run to an agent."""
    kind = NodeType.AGENT_DELEGATE.value
    return {"id": "work", "type": kind, "agent_id": agent_id, "protocol": protocol, "input": "${ .input }"}


def _references(fields: JsonObject) -> Iterator[Reference]:
    yield Reference(resource=Resource.AGENT, name=fields.get("agent_id"), field="agent_id")


KIND = NodeKind(
    type=NodeType.AGENT_DELEGATE,
    shape=Shape(
        name="agent_delegate",
        title="agent_delegate",
        description="Hands a task to another agent.",
        fields=(
            _AGENT_ID,
            optional("protocol", {**_PROTOCOLS, "default": _DEFAULT_PROTOCOL}, "How the agent is reached."),
            optional("input", ref("template_object"), "What the agent is given."),
            optional("input_mapping", ref("template_object"), "The same as `input`."),
        ),
        at_most_one=(("input", "input_mapping"),),
        hints={"with": "write `input`", "arguments": "write `input`", "agent": "write `agent_id`"},
    ),
    published=PublishedConfig(
        shape=Shape(
            name="published_config_agent_delegate",
            title="config of agent_delegate",
            description="Hands a task to another agent.",
            fields=(
                _AGENT_ID,
                required("protocol", _PROTOCOLS, "How the agent is reached."),
                required("input_mapping", OBJECT, "What the agent is given, per key."),
            ),
        ),
    ),
    other_words=("agent", "delegate", "a2a"),
    gives="the result of the agent's task",
    build=_build,
    category=Category.MODEL,
    caption=first_text("agent_id"),
    pace=Pace.WAITS,
    activity=_ACTIVITY,
    jq=activity_jq(_ACTIVITY),
    published_jq=(mapping("input_mapping"),),
    references=_references,
    comparison=Comparison(aliases={"input_mapping": "input"}, defaults={"protocol": _DEFAULT_PROTOCOL}),
)
