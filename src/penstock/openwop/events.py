"""Records of a history as events of the OpenWOP wire.

A record becomes at most one event, and the event's sequence number is that of its record, counted from zero: a reader
gets the same events with the same numbers every time. Records without a published event type have no event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.base.json import JsonObject, JsonValue
from penstock.operations.runs.events import Change, change_of

__all__ = ["LAST_EVENTS", "STREAM_MODES", "event_of", "sequence_of", "wanted_types"]

LAST_EVENTS = frozenset({"run.completed", "run.failed", "run.cancelled"})
_DETAILS = frozenset({"node.started", "node.retried"})
STREAM_MODES = ("updates", "debug")


def wanted_types(modes: frozenset[str]) -> Callable[[str], bool]:
    """Return a filter for the event types that the chosen modes include."""
    return (lambda name: True) if "debug" in modes else (lambda name: name not in _DETAILS)


def sequence_of(record_seq: int) -> int:
    """Return the sequence number of a record's event."""
    return record_seq - 1


def _as_object(value: JsonValue, name: str) -> JsonObject:
    """Wrap a value: the wire has objects where we allow any value."""
    if isinstance(value, dict):
        return value
    return {} if value is None else {name: value}


def _error(payload: Mapping[str, Any]) -> JsonObject:
    message = payload.get("error") or payload.get("message") or payload.get("reason")
    found: JsonObject = {"code": str(payload.get("code") or "FAILED"), "message": str(message or "failed")}
    if isinstance(payload.get("details"), dict):
        found["details"] = payload["details"]
    return found


def _started(payload: Mapping[str, Any], types: Mapping[str, str]) -> JsonObject:
    return {"workflowId": payload["workflowName"], "inputs": _as_object(payload.get("input"), "input")}


def _node_started(payload: Mapping[str, Any], types: Mapping[str, str]) -> JsonObject:
    kind = types.get(payload["nodeId"], "node")
    return {"nodeId": payload["nodeId"], "typeId": f"penstock.{kind}", "attempt": 0}


def _retried(payload: Mapping[str, Any], types: Mapping[str, str]) -> JsonObject | None:
    if not payload.get("willRetry"):
        return None
    return {"nodeId": payload["nodeId"], "attempt": int(payload.get("attempt") or 1), "lastError": _error(payload)}


def _completed(payload: Mapping[str, Any], types: Mapping[str, str]) -> JsonObject:
    return {"nodeId": payload["nodeId"], "outputs": _as_object(payload.get("output"), "output")}


def _failed(payload: Mapping[str, Any], types: Mapping[str, str]) -> JsonObject:
    return {"nodeId": payload["nodeId"], "error": _error(payload)}


def _suspended(kind: str) -> Callable[[Mapping[str, Any], Mapping[str, str]], JsonObject]:
    def payload_of(payload: Mapping[str, Any], types: Mapping[str, str]) -> JsonObject:
        key = f"{payload['nodeId']}:{payload.get('visit', 1)}"
        return {"nodeId": payload["nodeId"], "interruptId": key, "key": key, "kind": kind}

    return payload_of


def _asked(payload: Mapping[str, Any], types: Mapping[str, str]) -> JsonObject:
    identity = str(payload.get("interruptId") or f"{payload['nodeId']}:{payload.get('visit', 1)}")
    found: JsonObject = {
        "kind": "custom" if payload.get("approvers") is None else "approval",
        "key": identity,
        "data": {"prompt": payload.get("prompt")},
        "nodeId": payload["nodeId"],
        "interruptId": identity,
    }
    if isinstance(payload.get("answerSchema"), dict):
        found["resumeSchema"] = payload["answerSchema"]
    resume = payload.get("resume")
    if isinstance(resume, dict) and isinstance(resume.get("key"), str):
        # The question comes from another MCP server, which is called again with the answer under this key.
        found["metadata"] = {"mcp": {"inputRequestKey": resume["key"]}}
    return found


def _answered(payload: Mapping[str, Any], types: Mapping[str, str]) -> JsonObject:
    key = f"{payload['nodeId']}:{payload.get('visit', 1)}"
    found: JsonObject = {"nodeId": payload["nodeId"], "interruptId": key, "kind": "custom"}
    if "answer" in payload:
        found["resumeValue"] = payload["answer"]
    return found


def _ended(payload: Mapping[str, Any], types: Mapping[str, str]) -> JsonObject:
    return {"outputs": _as_object(payload.get("result"), "output")}


def _continued(payload: Mapping[str, Any], types: Mapping[str, str]) -> JsonObject:
    return {"outputs": {}, "continuedAs": payload.get("successorExecutionId")}


def _broken(payload: Mapping[str, Any], types: Mapping[str, str]) -> JsonObject:
    found: JsonObject = {"error": _error(payload)}
    if payload.get("nodeId"):
        found["failedNodeId"] = payload["nodeId"]
    return found


def _reasoned(payload: Mapping[str, Any], types: Mapping[str, str]) -> JsonObject:
    return {"reason": payload["reason"]} if isinstance(payload.get("reason"), str) else {}


_EVENTS: dict[Change, tuple[str, Callable[[Mapping[str, Any], Mapping[str, str]], JsonObject | None]]] = {
    Change.RUN_STARTED: ("run.started", _started),
    Change.RUN_COMPLETED: ("run.completed", _ended),
    Change.RUN_CONTINUED: ("run.completed", _continued),
    Change.RUN_FAILED: ("run.failed", _broken),
    Change.RUN_CANCELLED: ("run.cancelled", _reasoned),
    Change.RUN_PAUSED: ("run.paused", _reasoned),
    Change.RUN_RESUMED: ("run.resumed", _reasoned),
    Change.BEGUN: ("node.started", _node_started),
    Change.ATTEMPT_FAILED: ("node.retried", _retried),
    Change.COMPLETED: ("node.completed", _completed),
    Change.FAILED: ("node.failed", _failed),
    Change.ASKING: ("node.suspended", _suspended("custom")),
    Change.SIGNAL_AWAITED: ("node.suspended", _suspended("external-event")),
    Change.ASKED: ("interrupt.requested", _asked),
    Change.ATTEMPT_ASKED: ("interrupt.requested", _asked),
    Change.ANSWERED: ("interrupt.resolved", _answered),
}


def event_of(run_id: str, record: dict[str, Any], types: Mapping[str, str]) -> JsonObject | None:
    """Return the event of a record, if it has one; `types` maps node ids to node types."""
    change = change_of(record["name"])
    known = None if change is None else _EVENTS.get(change)
    payload = known[1](record["payload"], types) if known is not None else None
    if known is None or payload is None:
        return None
    sequence = sequence_of(record["seq"])
    event: JsonObject = {
        "eventId": f"evt-{run_id}-{sequence}",
        "runId": run_id,
        "type": known[0],
        "payload": payload,
        "timestamp": record["at"],
        "sequence": sequence,
    }
    node = record["payload"].get("nodeId")
    if isinstance(node, str) and known[0].startswith(("node.", "interrupt.")):
        event["nodeId"] = node
    return event
