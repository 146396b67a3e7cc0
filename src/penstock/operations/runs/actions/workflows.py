"""A workflow as an action of policies: `workflow:NAME`, whichever way it is started.

Above it: `starting`, the operations on policies. Below it: `tool_schemas`.
"""

from __future__ import annotations

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.agents.schemas import input_schema_of, output_schema_of
from penstock.governance.policy.schema import ActionShape
from penstock.governance.policy.shapes import record_of
from penstock.operations.gate.policy_stage import Target
from penstock.operations.runs.tool_schemas import (
    annotations_of,
    governance_of,
    object_at,
    object_schema,
    settings_of,
    wrapped_input,
)

__all__ = ["start_arguments", "start_target", "workflow_action"]

# No document can have such a name: these are the workflows of registered tools.
_TOOL = "tool:"


def workflow_action(name: str, document: JsonObject) -> ActionShape:
    """Return the action of starting a workflow. Its arguments are those of the workflow as a tool."""
    if name.startswith(_TOOL):
        return _tool_action(name, document)
    shown = settings_of(document, "tool") or {}
    does = "read" if annotations_of(object_at(shown, "annotations")).read_only else "write"
    return ActionShape(
        name=f"workflow:{name}",
        groups=("call", does),
        resource_type="Workflow",
        input=record_of(object_schema(input_schema_of(document))),
        answer=lambda: output_schema_of(document) or None,
    )


def _tool_action(name: str, document: JsonObject) -> ActionShape:
    """Return the action of repeating a call of a registered tool: that of the call."""
    return ActionShape(
        name=name,
        groups=("call", "write"),
        resource_type="Tool",
        input=record_of(object_schema(input_schema_of(document))),
        answer=lambda: None,
    )


def start_target(name: str, document: JsonObject) -> Target:
    """Return what a start of a workflow is about, for policies."""
    risk = governance_of(object_at(document, "governance"), ()).risk
    return Target(workflow_action(name, document), risk, name.removeprefix(_TOOL))


def start_arguments(document: JsonObject, given: JsonValue) -> JsonObject:
    """Return the input of a start as policies see it."""
    return wrapped_input(input_schema_of(document), given)
