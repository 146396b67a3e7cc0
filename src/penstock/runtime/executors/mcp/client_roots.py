"""Activities for the client that started the run: its model (`provider: client`) and its roots (`server: client`).

    - {id: folders, type: tool_call, server: client, tool: roots/list}

A client has one tool: `roots/list` returns the folders and files that it exposes. The client is asked durably, with a
question of kind `roots`, and its answer is untrusted. A run whose client cannot be asked fails here with a code that
`on_error` can catch.

Above it: `app`. Below it: the executors of everything else. It does no I/O: the surfaces talk to the client.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.runtime.activities.performing import (
    ActivityAsks,
    ActivityCall,
    ActivityDone,
    ActivityError,
    ActivityOutcome,
    AsyncPerformer,
)
from penstock.runtime.executors.mcp.config import CLIENT

__all__ = ["ROOTS", "ClientRoots", "ClientRouter"]

ROOTS = "roots"
_TOOL = "roots/list"
_ANSWER: JsonObject = {
    "type": "object",
    "required": ["roots"],
    "properties": {
        "roots": {
            "type": "array",
            "maxItems": limits.CLIENT_ROOTS_MAX,
            "items": {
                "type": "object",
                "required": ["uri"],
                "properties": {
                    "uri": {"type": "string", "maxLength": limits.CLIENT_ROOT_CHARACTERS_MAX},
                    "name": {"type": ["string", "null"], "maxLength": limits.CLIENT_ROOT_CHARACTERS_MAX},
                },
            },
        }
    },
}


@dataclass(slots=True, kw_only=True)
class ClientRouter:
    """Routes activities: `own` performs the activities whose `member` names the client, `others` performs the rest."""

    member: str
    own: AsyncPerformer
    others: AsyncPerformer | None

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Perform one attempt."""
        activity = call.activity
        chosen = self.own if activity.config.get(self.member) == CLIENT else self.others
        if chosen is None:
            message = f"no executor is configured for {activity.node_type} (node {activity.node_id})"
            return ActivityError(message, "COMPOSITE_EXECUTOR_NOT_CONFIGURED", retryable=False)
        return await chosen.perform(call)


class ClientRoots:
    """Performs `tool_call` nodes whose server is the client."""

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Ask for the roots, or continue with the answer."""
        activity = call.activity
        if activity.config.get("tool") != _TOOL:
            message = f"{activity.node_id}: a client has no tool {activity.config.get('tool')}, only {_TOOL}"
            return ActivityError(message, "INVALID_TOOL_CALL_CONFIG", retryable=False)
        if activity.answer is not None:
            return ActivityDone({"roots": _roots(activity.answer)}, {"untrusted": True})
        if ROOTS not in call.client_kinds:
            message = "the program that started the run offers no roots"
            return ActivityError(message, "CLIENT_CANNOT_LIST_ROOTS", retryable=False)
        return ActivityAsks("Which folders may be used?", _ANSWER, ask={"kind": ROOTS, "request": {}})


def _roots(answer: JsonValue) -> list[JsonValue]:
    listed = answer.get("roots") if isinstance(answer, dict) else None
    found: list[JsonValue] = []
    for item in listed if isinstance(listed, list) else []:
        if isinstance(item, dict):
            root: JsonObject = {"uri": item.get("uri")}
            found.append({**root, "name": item["name"]} if item.get("name") else root)
    return found
