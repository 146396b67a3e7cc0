"""`step`: calls a function of the workflow's author."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.base.json import JsonObject
from penstock.definitions.model import NodeType
from penstock.definitions.node_parts.activity import activity_builder, activity_jq
from penstock.definitions.node_parts.captions import first_text
from penstock.definitions.node_parts.kind import (
    Activity,
    Category,
    NodeKind,
    Pace,
    PublishedConfig,
    Reference,
    Resource,
)
from penstock.definitions.shapes.fields import ANYTHING, STRING, Shape, optional, ref

__all__ = ["KIND"]

_ACTIVITY = Activity(arguments=("with",), single=True)


def _references(fields: JsonObject) -> Iterator[Reference]:
    yield Reference(resource=Resource.STEP, name=fields.get("handler"), field="handler")


KIND = NodeKind(
    type=NodeType.STEP,
    shape=Shape(
        name="step",
        title="step",
        description="Calls a function of your own.",
        fields=(
            optional("handler", {**STRING, "examples": ["shop.payments:refund"]}, "The function, as module:function."),
            optional("code_ref", STRING, "The function, by a reference that the host resolves."),
            optional("with", ref("template"), "The function's arguments."),
        ),
        exactly_one=(("handler", "code_ref"),),
        hints={
            "input": "write `with`",
            "arguments": "write `with`",
            "args": "write `with`",
            "function": "write `handler`",
            "run": "write `handler`",
            "server": "a call of a tool has `type: tool_call`",
            "tool": "a call of a tool has `type: tool_call`",
            "url": "a request has `type: http`",
        },
    ),
    published=PublishedConfig(
        shape=Shape(
            name="published_config_step",
            title="config of step",
            description="Calls a function of your own.",
            fields=(
                optional("handler", ANYTHING, "The function."),
                optional("code_ref", ANYTHING, "The function, by a reference that the host resolves."),
            ),
            accepts_more=True,
            at_least_one=(("handler", "code_ref"),),
        ),
    ),
    other_words=("function", "script", "task", "action", "code", "python"),
    gives="what the function returned",
    build=activity_builder(_ACTIVITY),
    category=Category.WORK,
    caption=first_text("handler", "code_ref"),
    pace=Pace.WAITS,
    activity=_ACTIVITY,
    jq=activity_jq(_ACTIVITY),
    references=_references,
)
