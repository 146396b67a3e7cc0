"""The common part of all activities: fields, compilation and the places of jq.

Above it: the node types that are activities. Each of them declares with `Activity` which of its fields are rendered.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.base.json import JsonObject
from penstock.definitions.jq.templates import Template
from penstock.definitions.model import ActivityDetail
from penstock.definitions.node_parts.compiling import template_of
from penstock.definitions.node_parts.jq_places import JqReader, template
from penstock.definitions.node_parts.kind import Activity, NodeSource

__all__ = ["activity_arguments", "activity_builder", "activity_config", "activity_jq"]

# Fields that say how the engine runs a node, not what an executor does.
_ENGINE_FIELDS = frozenset(
    {
        "retry",
        "timeout",
        "metadata",
        "next",
        "on_error",
        "title",
        "description",
        "compensate",
        "effects",
        "idempotency_key",
    }
)


def activity_jq(activity: Activity) -> tuple[JqReader, ...]:
    """The places of jq in an activity; `outline.jq_places` finds those of its compensation."""
    return (*(template(name, allows_secrets=True) for name in activity.arguments), template("idempotency_key"))


def activity_config(fields: JsonObject) -> JsonObject:
    """The part of an activity that an executor gets as written."""
    return {name: value for name, value in fields.items() if name not in _ENGINE_FIELDS}


def activity_arguments(activity: Activity, fields: JsonObject, path: str) -> Template | None:
    """The part of an activity that is rendered for an executor; None if there is nothing to render."""
    names = [name for name in activity.arguments if name in fields]
    if not names:
        return None
    if activity.single:
        return template_of(fields[names[0]], f"{path}/{names[0]}")
    return template_of({name: fields[name] for name in names}, path)


def activity_builder(activity: Activity) -> Callable[[NodeSource], ActivityDetail]:
    """Return the function that compiles nodes of an activity."""

    def build(source: NodeSource) -> ActivityDetail:
        node, key = source.node, source.fields.get("idempotency_key")
        # The published format evaluates jq only in mappings; tool arguments and prompts are verbatim.
        arguments = activity_arguments(activity, node.fields, node.fields_path) if source.native else None
        return ActivityDetail(
            config=activity_config(node.fields),
            arguments=arguments,
            at_most_once=node.fields.get("effects") == "at_most_once",
            idempotency_key=None if key is None else template_of(key, node.field_path("idempotency_key")),
            compensate=source.compensate,
        )

    return build
