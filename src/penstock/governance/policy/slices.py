"""Which policies concern a principal and an action, and what remains of a policy for a list.

The scope of a policy names principals, actions and resources, and nothing else decides whether it concerns a call. The
groups of principals and of actions are flat, so scopes are compared here as Cedar compares them.

For a list the arguments are unknown, and with a built-in operation the resource too, because it is named by them. For
the repetition of a call that was decided before, what policies know of earlier calls is unknown: it has changed since.

Above it: `sets`. Below it: `expressions`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.governance.policy.expressions import (
    Expression,
    Path,
    approximated,
    conditions_of,
    entity_types_of,
    paths_of,
)
from penstock.governance.policy.requests import PrincipalEntity
from penstock.governance.policy.schema import PRINCIPAL_TYPES

__all__ = [
    "actions_named",
    "admits_action",
    "admits_principal",
    "list_form",
    "names_resources",
    "repeat_form",
    "tells_apart",
]

_UNKNOWN_IN_LISTS = frozenset({"input", "history", "has_idempotency_key"})
# What is the same for all resources of one action.
_OF_THE_ACTION = frozenset({"risk", "tenant"})
_NO_RESOURCES = frozenset({"Action", "Group", *PRINCIPAL_TYPES.values()})


def admits_principal(scope: dict[str, Any], principal: PrincipalEntity) -> bool:
    """Whether the scope of a policy admits a principal."""
    match scope["op"]:
        case "All":
            return True
        case "==":
            return _is(scope["entity"], principal)
        case "in":
            return _is_in(scope["entity"], principal)
        case "is":
            inside = scope.get("in")
            return scope["entity_type"] == principal.type and (inside is None or _is_in(inside["entity"], principal))
        case _:
            raise ValueError(f"a policy with the scope {scope['op']}")


def _is(entity: dict[str, str], principal: PrincipalEntity) -> bool:
    return entity["type"] == principal.type and entity["id"] == principal.id


def _is_in(entity: dict[str, str], principal: PrincipalEntity) -> bool:
    return _is(entity, principal) or (entity["type"] == "Group" and entity["id"] in principal.groups)


def admits_action(scope: dict[str, Any], name: str, groups: tuple[str, ...]) -> bool:
    """Whether the scope of a policy admits an action, by its name and its groups."""
    match scope["op"]:
        case "All":
            return True
        case "==":
            return bool(scope["entity"] == {"type": "Action", "id": name})
        case "in":
            return any(named in (name, *groups) for named in actions_named(scope))
        case _:
            raise ValueError(f"a policy with the scope {scope['op']}")


def actions_named(scope: dict[str, Any]) -> list[str]:
    """Return the actions and groups of actions that a scope names."""
    named = scope.get("entities", [scope["entity"]] if "entity" in scope else [])
    return [str(item["id"]) for item in named if item["type"] == "Action"]


def tells_apart(body: dict[str, Any]) -> tuple[bool, bool]:
    """Whether a policy, once its scope admits a call, can tell actions apart; and resources of one action."""
    read = [path for condition in conditions_of(body) for path in paths_of(condition)]
    actions = any(path[0] == "action" for path in read)
    resources = _names_resource(body["resource"]) or any(
        path[0] == "resource" and not _OF_THE_ACTION.issuperset(path[1:2] or ("",)) for path in read
    )
    return actions, resources


def names_resources(body: dict[str, Any]) -> bool:
    """Whether the decision of a policy may be another one for another resource of the same action.

    A condition may also look at a resource that it names itself, which is known only if it is the one that is called.
    """
    _, resources = tells_apart(body)
    return resources or any(
        kind not in _NO_RESOURCES for condition in conditions_of(body) for kind in entity_types_of(condition)
    )


def _names_resource(scope: dict[str, Any]) -> bool:
    return scope["op"] in ("==", "in") or "in" in scope


def list_form(body: dict[str, Any], *, knows_resource: bool) -> dict[str, Any] | None:
    """Return a policy as it applies to a list, without what is unknown then; None if it decides nothing there."""
    permits = body["effect"] == "permit"

    def is_known(path: Path) -> bool:
        if path[0] == "context":
            return len(path) > 1 and path[1] not in _UNKNOWN_IN_LISTS
        return path[0] != "resource" or knows_resource or path[1:2] in (("risk",), ("tenant",))

    resource = body["resource"]
    if not knows_resource and _names_resource(resource):
        if not permits:
            return None
        is_of_type = "entity_type" in resource
        resource = {"op": "is", "entity_type": resource["entity_type"]} if is_of_type else {"op": "All"}
    return {**body, "resource": resource, "conditions": _known_conditions(body, is_known)}


def repeat_form(body: dict[str, Any]) -> dict[str, Any]:
    """Return a policy as it applies to a call that was decided and made before: without what it knows of others."""

    def is_known(path: Path) -> bool:
        return path[0] != "context" or (len(path) > 1 and path[1] != "history")

    return {**body, "conditions": _known_conditions(body, is_known)}


def _known_conditions(body: dict[str, Any], is_known: Callable[[Path], bool]) -> list[dict[str, Any]]:
    """Return the conditions without what is unknown: a permit holds if it may, a forbid only if it must."""
    at_best = body["effect"] == "permit"
    shorter: list[Expression] = [approximated(item, is_known, at_best=at_best) for item in conditions_of(body)]
    return [{"kind": "when", "body": item} for item in shorter]
