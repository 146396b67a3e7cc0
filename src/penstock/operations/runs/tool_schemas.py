"""The schemas, annotations and governance of a workflow as a tool, read from its document.

Above it: `capabilities`, `actions.workflows`. Below it: the catalogue's types.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from penstock.base.json import JsonObject, JsonValue, object_or_empty
from penstock.definitions.node_parts.approvers import escalation_ms
from penstock.engine.approvers import approvers_of
from penstock.governance.holds import Approval, Escalation
from penstock.operations.catalogue.capability import Annotations, Governance

__all__ = [
    "WRAPPED",
    "annotations_of",
    "governance_of",
    "nested_schema",
    "object_at",
    "object_schema",
    "or_standing",
    "result_schema",
    "settings_of",
    "strictest",
    "takes_object",
    "text_of",
    "wrapped_input",
]

# The member that holds an input that is not an object: tools take objects only.
WRAPPED = "input"

_RISKS: dict[str, Literal["low", "medium", "high", "critical"]] = {
    "low": "low",
    "medium": "medium",
    "high": "high",
    "critical": "critical",
}
_DRAFTS: dict[str, Literal["never", "always", "on_risk"]] = {
    "never": "never",
    "always": "always",
    "on_risk": "on_risk",
}
_BY_STRICTNESS = ("never", "on_risk", "always")
# The state of an execution (`ExecutionResult`), as briefly as possible: every tool of a list repeats it, and all that a
# model needs to know about errors and questions is that there may be some. `execution.wait` shows all of it.
_STANDING: JsonObject = {
    "execution_id": {"type": "string"},
    "status": {"type": "string"},
    "error": {},
    "questions": {"type": "array"},
}
_ALWAYS: list[JsonValue] = ["execution_id", "status"]
_STANDING_INSTEAD: JsonObject = {
    "description": "No result yet: the call waits, or continues as a run. `held` names the draft.",
    "type": "object",
    "properties": {**_STANDING, "held": {"type": "object"}},
    "required": _ALWAYS,
}


def settings_of(document: JsonObject, kind: str) -> JsonObject | None:
    """Return how a document wants to be exposed as one kind of thing; None if it does not."""
    exposed = object_at(document, "expose").get(kind)
    if exposed is True:
        return {}
    return exposed if isinstance(exposed, dict) else None


def object_at(document: JsonObject, name: str) -> JsonObject:
    """Return a member that is an object; an empty object in place of anything else."""
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def text_of(*candidates: JsonValue) -> str | None:
    """Return the first non-empty string."""
    return next((text for text in candidates if isinstance(text, str) and text), None)


def annotations_of(declared: JsonObject) -> Annotations:
    """Return the annotations that the author declared. Without any, a workflow may do anything."""
    return Annotations(
        read_only=declared.get("read_only") is True,
        destructive=declared.get("destructive", declared.get("read_only") is not True) is True,
        idempotent=declared.get("idempotent") is True,
        open_world=declared.get("open_world", True) is True,
    )


def governance_of(declared: JsonObject, scopes: tuple[str, ...]) -> Governance:
    """Return what a caller needs: the document's governance, and the scopes of a start."""
    return Governance(
        risk=_RISKS.get(str(declared.get("risk")), "medium"),
        scopes=scopes,
        confirm=declared.get("confirm") is True,
        draft=_DRAFTS.get(str(declared.get("draft")), "never"),
        approval=_approval_of(declared.get("approvers")),
        bucket="write",
    )


def strictest(own: Governance, reached: Iterable[JsonObject | Governance]) -> Governance:
    """Return the governance of a workflow that runs children or calls tools: none waits less than by itself."""
    for declared in reached:
        child = declared if isinstance(declared, Governance) else governance_of(declared, own.scopes)
        own = msgspec.structs.replace(
            own,
            risk=max(own.risk, child.risk, key=list(_RISKS).index),
            confirm=own.confirm or child.confirm,
            draft=max(own.draft, child.draft, key=_BY_STRICTNESS.index),
            approval=own.approval or child.approval,
        )
    return own


def _approval_of(declared: JsonValue) -> Approval | None:
    """Return who approves calls of a workflow that are held, if its document says so."""
    approvers = approvers_of(declared)
    if approvers is None:
        return None
    return Approval(
        groups=approvers.groups,
        users=approvers.users,
        count=approvers.count,
        not_requester=approvers.not_requester,
        services=approvers.services,
        escalation=_escalation_of(declared),
    )


def _escalation_of(declared: JsonValue) -> Escalation | None:
    after_ms, escalate = escalation_ms(declared), object_or_empty(object_or_empty(declared).get("escalate"))
    to = approvers_of(escalate.get("to"))
    if after_ms is None or to is None:
        return None
    return Escalation(after_ms=after_ms, groups=to.groups, users=to.users, instead=escalate.get("instead") is True)


def takes_object(schema: JsonObject) -> bool:
    """Whether the input of a workflow is an object, or may be."""
    kind = schema.get("type")
    return not schema or kind == "object" or (kind is None and "properties" in schema)


def object_schema(schema: JsonObject) -> JsonObject:
    """Return the input schema of a workflow as a tool shows it: always that of an object."""
    if takes_object(schema):
        return {**schema, "type": "object"}
    nested, definitions = nested_schema(schema)
    wrapped: JsonObject = {"type": "object", "required": [WRAPPED], "properties": {WRAPPED: nested}}
    return {**wrapped, "$defs": definitions} if definitions else wrapped


def nested_schema(schema: JsonObject) -> tuple[JsonObject, JsonObject]:
    """Split a schema so that it can be nested in another one; return it and the definitions for the root of that one.

    A schema with references to anything but its own definitions cannot be nested; it becomes an empty one.
    """
    definitions = schema.get("$defs")
    if any(not reference.startswith("#/$defs/") for reference in _references(schema)):
        return {}, {}
    rest = {name: value for name, value in schema.items() if name not in ("$defs", "$schema", "$id")}
    return rest, definitions if isinstance(definitions, dict) else {}


def result_schema(output: JsonObject) -> JsonObject:
    """Return the schema of a call's result: the state of the run, with the output that is promised."""
    nested, definitions = nested_schema(output)
    schema: JsonObject = {"type": "object", "properties": {**_STANDING, "output": nested}, "required": _ALWAYS}
    return {**schema, "$defs": definitions} if definitions else schema


def or_standing(output: JsonObject) -> JsonObject:
    """Return the schema of an answer that may also be the state of a run, since any call may have to wait.

    Clients throw an answer away that does not fit the schema of its tool, so a held call must fit it as well.
    """
    nested, definitions = nested_schema(output)
    schema: JsonObject = {"type": "object", "anyOf": [nested, _STANDING_INSTEAD]}
    return {**schema, "$defs": definitions} if definitions else schema


def _references(value: JsonValue) -> list[str]:
    if isinstance(value, dict):
        own = [value[name] for name in ("$ref", "$dynamicRef") if name in value]
        return [str(item) for item in own] + [item for member in value.values() for item in _references(member)]
    return [item for member in value for item in _references(member)] if isinstance(value, list) else []


def wrapped_input(schema: JsonObject, given: JsonValue) -> JsonObject:
    """Return the input of a workflow as arguments of a tool, which are always an object."""
    if takes_object(schema):
        return given if isinstance(given, dict) else {}
    return {WRAPPED: given}
