"""The Cedar schema of everything that can be called: an action for each operation and each tool of a tenant.

Policies are validated against it when they are stored, so that a misspelt attribute or a comparison of the wrong types
is found then and not in a call. Every action is in one or two of the groups `read`, `call`, `write` and `admin`, or in
`node`; what concerns graphs is in one of `graph:…`, too. A stored query is a resource inside its graph. The
`context.input` of an action has the declared arguments. What a request is made of stands here once: `requests` fills it
in.

Above it: `validation`, `requests`. Below it: `shapes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from penstock.base.json import JsonObject
from penstock.governance.policy.history import Counter
from penstock.governance.policy.shapes import RecordShape, cedar_type

__all__ = [
    "ACTION_GROUPS",
    "GRAPH_GROUPS",
    "PARENT_TYPES",
    "PRINCIPAL_TYPES",
    "RESERVED_TYPES",
    "ActionShape",
    "cedar_schema",
    "parent_of",
]

GRAPH_GROUPS = (
    "graph:list",
    "graph:read",
    "graph:export",
    "graph:change",
    "graph:schema_apply",
    "graph:branch_create",
    "graph:branch_delete",
    "graph:branch_merge",
    "graph:invoke_query",
    "graph:admin",
)
"""What a call does to a graph. Every operation on graphs, and every stored query, is in one of these, too."""
ACTION_GROUPS = ("read", "call", "write", "admin", "node", *GRAPH_GROUPS)
"""`call` has every tool of a tenant, `node` what nodes of runs reach; the others say what a call does.

No operation has one of these names.
"""
PARENT_TYPES = {"StoredQuery": "Graph"}
"""Resources that are inside another one. Their ids begin with the id of that one and a slash."""
PRINCIPAL_TYPES = {
    "person": "User",
    "local": "User",
    "agent": "Agent",
    "service": "Service",
    "schedule": "Service",
    "webhook": "Service",
    "system": "Service",
    "anonymous": "Service",
}
"""The type of entity for each kind of principal."""
RESERVED_TYPES = frozenset({"Action", "Group", *PRINCIPAL_TYPES.values()})
"""Types that a resource cannot have: Cedar declares `Action` itself, and the others are principals and their groups."""

_STRING: dict[str, Any] = {"type": "String"}
_STRINGS: dict[str, Any] = {"type": "Set", "element": {"type": "String"}}
_PRINCIPAL: dict[str, Any] = {
    "id": _STRING,
    "tenant": _STRING,
    "kind": _STRING,
    "name": _STRING,
    "scopes": _STRINGS,
    "groups": _STRINGS,
    "acting_for": _STRINGS,
    "subject": _STRING,
}
_RESOURCE: dict[str, Any] = {"id": _STRING, "tenant": _STRING, "risk": _STRING}
_LONG: dict[str, Any] = {"type": "Long"}
_DECIMAL: dict[str, Any] = {"type": "Extension", "name": "decimal"}
_NETWORK: dict[str, Any] = {
    "type": "Record",
    "attributes": {"address": {"type": "Extension", "name": "ipaddr", "required": False}},
}
_TIME: dict[str, Any] = {
    "type": "Record",
    "attributes": {"epoch_seconds": {"type": "Long"}, "hour": {"type": "Long"}, "weekday": {"type": "String"}},
}


def _no_answer() -> JsonObject | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionShape:
    """Something that can be called, as policies know it."""

    name: str
    groups: tuple[str, ...]
    resource_type: str
    input: RecordShape = field(default_factory=lambda: RecordShape({}), compare=False)
    """The arguments. They belong to the action of that name, so they are not compared."""
    answer: Callable[[], JsonObject | None] = field(default=_no_answer, compare=False)
    """Makes the schema of the answer: of a workflow, that of its output; None if no fields are declared."""


def cedar_schema(actions: Iterable[ActionShape], counters: Iterable[Counter] = ()) -> dict[str, Any]:
    """Return the schema, in Cedar's JSON form. `counters` are what the policies declare to know of earlier calls."""
    listed = sorted(actions, key=lambda action: action.name)
    principals = dict.fromkeys(PRINCIPAL_TYPES.values())
    entities: dict[str, Any] = {"Group": {}}
    for name in principals:
        shape = {"type": "Record", "attributes": _PRINCIPAL}
        entities[name] = {"memberOfTypes": ["Group"], "shape": shape, "tags": _STRING}
    for name in _resource_types(listed):
        parent = PARENT_TYPES.get(name)
        within: dict[str, Any] = {} if parent is None else {"memberOfTypes": [parent]}
        entities[name] = {**within, "shape": {"type": "Record", "attributes": _RESOURCE}}
    declared: dict[str, Any] = {group: {} for group in ACTION_GROUPS}
    history = _history(counters)
    for action in listed:
        declared[action.name] = {
            "memberOf": [{"id": group} for group in action.groups],
            "appliesTo": {
                "principalTypes": list(principals),
                "resourceTypes": [action.resource_type],
                "context": _context(action.input, history),
            },
        }
    return {"": {"entityTypes": entities, "actions": declared}}


def _resource_types(actions: Iterable[ActionShape]) -> Iterable[str]:
    """Return the types of the resources of some actions, and the types that those are inside of."""
    own = dict.fromkeys(action.resource_type for action in actions)
    return dict.fromkeys((*own, *(PARENT_TYPES[name] for name in own if name in PARENT_TYPES)))


def parent_of(resource_type: str, resource_id: str) -> tuple[str, str] | None:
    """Return the type and id of what a resource is inside of; None if it is inside of nothing."""
    parent, inside = PARENT_TYPES.get(resource_type), resource_id.partition("/")[0]
    return None if parent is None or not inside else (parent, inside)


def _context(given: RecordShape, history: dict[str, Any]) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "input": cedar_type(given),
        "network": _NETWORK,
        "time": _TIME,
        "surface": _STRING,
        "by_model": {"type": "Boolean"},
        "has_idempotency_key": {"type": "Boolean"},
    }
    if history:
        attributes["history"] = {"type": "Record", "attributes": history}
    return {"type": "Record", "attributes": attributes}


def _history(counters: Iterable[Counter]) -> dict[str, Any]:
    return {item.name: _DECIMAL if item.is_sum else _LONG for item in counters}
