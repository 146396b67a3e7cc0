"""Bodies of the OpenWOP wire: requests in our terms, and runs as the wire shows them.

A feature of the wire that we lack is refused, not ignored: a client that asked for it must not believe that it got it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject, JsonValue
from penstock.openwop.errors import wire_rejected
from penstock.operations.runs.starting import TRUST_LABEL, UNTRUSTED
from penstock.operations.runs.waits import asks_for_approval

__all__ = ["ACTIVE_STATUSES", "STATUSES", "run_arguments", "snapshot_of", "standing_of", "status_of", "workflow_of"]

STATUSES: dict[str, str] = {
    "pending": "pending",
    "running": "running",
    "paused": "paused",
    "waiting_input": "waiting-input",
    "waiting_approval": "waiting-approval",
    "waiting_activity": "waiting-external",
    "waiting_signal": "waiting-external",
    "waiting_timer": "running",
    "waiting_child": "running",
    "waiting_decision": "waiting-input",
    "compensating": "running",
    "completed": "completed",
    "failed": "failed",
    "cancelling": "cancelling",
    "cancelled": "cancelled",
}
"""Our statuses, with the wire's name for each."""
ACTIVE_STATUSES = frozenset(STATUSES.values()) - {"completed", "failed", "cancelled"}
_MEMBERS = frozenset({"workflowId", "inputs", "tenantId", "scopeId", "callbackUrl", "configurable", "tags", "metadata"})
_TAG = "openwop.tag."
_SCOPE = "openwop.scope"
_METADATA = "openwop.metadata"
# Tags and metadata are stored as labels, which are short.
_TAGS_MAX = 24
_LABEL_CHARACTERS_MAX = 256


def status_of(ours: str) -> str:
    """Return the wire's name for a status."""
    return STATUSES[ours]


def standing_of(view: dict[str, Any]) -> str:
    """Return the status of a run from its full view; a run that waits for an approval has a status of its own."""
    status = status_of(view["status"])
    is_approval = status == "waiting-input" and asks_for_approval(view["waiting_for"]["questions"])
    return "waiting-approval" if is_approval else status


def run_arguments(body: JsonObject) -> JsonObject:
    """Return the arguments of `workflow.execute` for a request that creates a run."""
    unknown = sorted(body.keys() - _MEMBERS)
    if unknown:
        raise wire_rejected(f"unknown members: {', '.join(unknown)[:200]}", {"fields": list(unknown)})
    workflow_id, inputs = body.get("workflowId"), body.get("inputs")
    if not isinstance(workflow_id, str) or not workflow_id:
        raise wire_rejected("workflowId must be a text", {"fields": ["workflowId"]})
    if inputs is not None and not isinstance(inputs, dict):
        raise wire_rejected("inputs must be an object", {"fields": ["inputs"]})
    if body.get("callbackUrl") is not None:
        raise wire_rejected("callbackUrl is not supported here", {"fields": ["callbackUrl"]})
    arguments: JsonObject = {"workflow_id": workflow_id, "input": inputs, "labels": _labels(body)}
    timeout = _timeout(body.get("configurable"))
    if timeout is not None:
        arguments["timeout"] = timeout
    return arguments


def _timeout(configurable: JsonValue) -> str | None:
    if configurable is None:
        return None
    if not isinstance(configurable, dict):
        raise wire_rejected("configurable must be an object", {"fields": ["configurable"]})
    unsupported: list[JsonValue] = [name for name in sorted(configurable) if name != "runTimeoutMs"]
    if unsupported:
        message = f"configurable.{unsupported[0]} is not supported here"
        raise wire_rejected(message, {"fields": unsupported, "supported": ["runTimeoutMs"]})
    wanted = configurable.get("runTimeoutMs")
    if wanted is None:
        return None
    if not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < 1:
        raise wire_rejected("runTimeoutMs must be a whole number of milliseconds", {"fields": ["runTimeoutMs"]})
    return f"{wanted}ms"


def _labels(body: JsonObject) -> JsonObject:
    labels: JsonObject = {}
    tags = body.get("tags")
    if tags is not None:
        if not isinstance(tags, list) or len(tags) > _TAGS_MAX or not all(isinstance(tag, str) for tag in tags):
            raise wire_rejected(f"tags must be at most {_TAGS_MAX} texts", {"fields": ["tags"]})
        labels.update({f"{_TAG}{number:02d}": tag for number, tag in enumerate(tags, 1)})
    if body.get("scopeId") is not None:
        labels[_SCOPE] = body["scopeId"]
    metadata = body.get("metadata")
    if metadata is not None:
        if not isinstance(metadata, dict):
            raise wire_rejected("metadata must be an object", {"fields": ["metadata"]})
        labels[_METADATA] = encode_bytes(metadata).decode()
    for name, text in labels.items():
        if not isinstance(text, str) or len(text) > _LABEL_CHARACTERS_MAX:
            field = name.removeprefix("openwop.").partition(".")[0]
            message = f"{field} must be a text of at most {_LABEL_CHARACTERS_MAX} characters as JSON"
            raise wire_rejected(message, {"fields": [field]})
    return labels


def snapshot_of(view: dict[str, Any], engine_version: str) -> JsonObject:
    """Return a run as it is now; `view` is the answer of `execution.status`."""
    status = standing_of(view)
    found: JsonObject = {
        "runId": view["execution_id"],
        "workflowId": view["workflow_id"],
        "status": status,
        "startedAt": view["created_at"],
        "nodeStates": {
            node["node_id"]: {"status": node["status"], "typeId": f"penstock.{node['type']}"} for node in view["nodes"]
        },
        "variables": {"inputs": view["input"], "state": view["state"], "output": view["output"]},
        "engineVersion": engine_version,
        "eventLogSchemaVersion": 1,
    }
    if view["ended_at"] is not None:
        found["completedAt"] = view["ended_at"]
    waits = _waits_at(view["waiting_for"])
    if waits is not None and status.startswith("waiting-"):
        found["currentNodeId"] = waits
    error = view["error"]
    if error is not None and status == "failed":
        found["error"] = {"code": error["code"], "message": error["message"] or error["code"]}
    found.update(_from_labels(view["labels"], untrusted=view["untrusted"]))
    return found


def _waits_at(waiting: dict[str, Any]) -> str | None:
    for items in (waiting["questions"], waiting["activities"], waiting["signals"]):
        if items:
            node: str = items[0]["node_id"]
            return node
    return None


def _from_labels(labels: dict[str, str], *, untrusted: bool) -> JsonObject:
    found: JsonObject = {}
    tags: list[JsonValue] = [value for name, value in sorted(labels.items()) if name.startswith(_TAG)]
    if tags:
        found["tags"] = tags
    metadata: JsonObject = msgspec.json.decode(labels[_METADATA]) if _METADATA in labels else {}
    if untrusted or TRUST_LABEL in labels:
        metadata["trustBoundary"] = UNTRUSTED
    if metadata:
        found["metadata"] = metadata
    return found


def workflow_of(view: dict[str, Any]) -> JsonObject:
    """Return a workflow in our own terms: its document is not in the form of the wire."""
    return {
        "id": view["id"],
        "workflowId": view["id"],
        "name": view["title"] or view["id"],
        "version": view["version"],
        "description": view["description"],
        "inputSchema": view["input_schema"],
        "outputSchema": view["output_schema"],
        "definition": view["document"],
    }
