"""What a node of an approved run reaches is what was approved: asked before each attempt.

The approval of a start is bound to everything that the run could reach then, each with its version. Children run in the
version that was approved. Tools, queries, models and agents have one version only, so a node that would reach another
one than people saw fails, and nothing is called.

Above it: `app`, which asks before an attempt. Below it: `operations.reachable`, `definitions.reached`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from penstock.base.errors import PenstockError
from penstock.definitions.reached import Reached, reached_by_node
from penstock.engine.approved import CHANGED_CODE
from penstock.operations.executions.capability_calls import TOOLS_CALL, TOOLS_LIST
from penstock.operations.gate.pipeline import Gate
from penstock.operations.reachable import changes_since
from penstock.operations.runs.held_calls import HELD_SERVER
from penstock.runtime.activities.performing import ActivityCall, ActivityError

__all__ = ["check_approved_through"]

CheckApproved: TypeAlias = Callable[[ActivityCall], Awaitable[ActivityError | None]]
_OWN_SERVER = "penstock"
_NAMES_SHOWN = 5


def check_approved_through(gate: Gate) -> CheckApproved:
    """Return what is asked before a node of an approved run reaches something."""

    async def check(call: ActivityCall) -> ActivityError | None:
        if call.approved is None or call.activity.config.get("server") == HELD_SERVER:
            return None  # what a held call reaches is checked when it is made
        approved = {name: version if isinstance(version, str) else None for name, version in call.approved.items()}
        try:
            names = await changes_since(gate.services, gate.exposed, call.tenant, _roots(gate, call), approved)
        except PenstockError as error:
            return ActivityError(call.masked(error.message), error.code)
        if not names:
            return None
        message = f"{', '.join(names[:_NAMES_SHOWN])} changed after the run was approved; start the run again"
        return ActivityError(call.masked(message), CHANGED_CODE, retryable=False)

    return check


def _roots(gate: Gate, call: ActivityCall) -> list[Reached]:
    """Return what one attempt reaches, with the arguments that it has now."""
    config, given = call.activity.config, call.activity.arguments
    if config.get("server") != _OWN_SERVER:
        return list(reached_by_node(str(call.activity.node_type), config))
    members = given if isinstance(given, dict) else config.get("arguments")
    arguments = members if isinstance(members, dict) else {}
    name = config.get("tool")
    if name == TOOLS_LIST:
        return []  # each call is checked by itself
    if name == TOOLS_CALL:
        name, inner = arguments.get("name"), arguments.get("arguments")
        arguments = inner if isinstance(inner, dict) else {}
    if not isinstance(name, str):
        return []  # the call itself says what is wrong
    if ":" in name:
        return [Reached(name)]
    known = gate.catalogue.get(name)
    return [] if known is None or known.reaches is None else list(known.reaches(arguments))
