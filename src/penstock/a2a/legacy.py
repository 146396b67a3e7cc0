"""Version 0.3 of the protocol, as a translation: its requests become those of 1.0, and answers go the way back.

The shapes differ in names: a `kind` in every object, states and roles in lower case, an answer without a wrapper. What
is served, and by which rules, is the same. `tasks/list` is not there: 0.3 has it for other bindings only.

Above it: `endpoint`, `cards`, `notifications`. Below it: nothing; it is pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from penstock.base.json import JsonObject, JsonValue, object_or_empty

__all__ = ["LEGACY_METHODS", "LEGACY_VERSION", "LegacyMethod", "event_03", "legacy_fields", "task_03"]

LEGACY_VERSION: Final = "0.3"
_WIRE_VERSION: Final = "0.3.0"
_STATE: Final = "TASK_STATE_"
_WORKING: Final = "working"
# A mark of the official SDK: 0.3 has objects as data only, so another value is wrapped in one.
_WRAPPED: Final = "data_part_compat"

Params: TypeAlias = Callable[[JsonObject], JsonObject]
Result: TypeAlias = Callable[[JsonObject], JsonValue]


@dataclass(frozen=True, slots=True)
class LegacyMethod:
    """A method of 0.3: the one that it is in 1.0, and how its request and its answer are translated."""

    name: str
    params: Params
    result: Result


# --- requests ------------------------------------------------------------------------------------


def _part_10(part: JsonValue) -> JsonValue:
    match part:
        case {"kind": "text", "text": text}:
            return {"text": text}
        case {"kind": "data", "data": {"value": value}, "metadata": {"data_part_compat": True}}:
            return {"data": value}
        case {"kind": "data", "data": data}:
            return {"data": data}
        case {"kind": "file"}:
            return {"url": ""}  # refused, as every file is
        case _:
            return part


def _message_10(message: JsonValue) -> JsonValue:
    if not isinstance(message, dict):
        return message
    found, parts = {**message}, message.get("parts")
    found["role"] = {"user": "ROLE_USER", "agent": "ROLE_AGENT"}.get(str(message.get("role")), "")
    if isinstance(parts, list):
        found["parts"] = [_part_10(part) for part in parts]
    return found


def _config_10(config: JsonValue) -> JsonObject:
    found = {**object_or_empty(config)}
    authentication = object_or_empty(found.pop("authentication", None))
    schemes = authentication.get("schemes")
    if isinstance(schemes, list) and schemes:
        found["authentication"] = {"scheme": schemes[0], "credentials": authentication.get("credentials")}
    return found


def _sent_10(params: JsonObject) -> JsonObject:
    configuration = object_or_empty(params.get("configuration"))
    chosen: JsonObject = {"returnImmediately": configuration.get("blocking") is False}
    if configuration.get("pushNotificationConfig") is not None:
        chosen["taskPushNotificationConfig"] = _config_10(configuration["pushNotificationConfig"])
    return {"message": _message_10(params.get("message")), "configuration": chosen}


def _same(params: JsonObject) -> JsonObject:
    return params


def _set_10(params: JsonObject) -> JsonObject:
    return {**_config_10(params.get("pushNotificationConfig")), "taskId": params.get("taskId")}


def _named_10(params: JsonObject) -> JsonObject:
    return {"taskId": params.get("id"), "id": params.get("pushNotificationConfigId")}


# --- answers -------------------------------------------------------------------------------------


def _part_03(part: JsonValue) -> JsonValue:
    match part:
        case {"text": text}:
            return {"kind": "text", "text": text}
        case {"data": dict(data)}:
            return {"kind": "data", "data": data}
        case {"data": data}:
            return {"kind": "data", "data": {"value": data}, "metadata": {_WRAPPED: True}}
        case _:
            return part


def _parts_03(holder: JsonObject) -> list[JsonValue]:
    parts = holder.get("parts")
    return [_part_03(part) for part in parts] if isinstance(parts, list) else []


def _status_03(status: JsonValue) -> JsonObject:
    found = {**object_or_empty(status)}
    found["state"] = str(found.get("state")).removeprefix(_STATE).lower().replace("_", "-")
    message = found.get("message")
    if isinstance(message, dict):
        found["message"] = {**message, "kind": "message", "role": "agent", "parts": _parts_03(message)}
    return found


def _artifact_03(artifact: JsonValue) -> JsonObject:
    found = object_or_empty(artifact)
    return {**found, "parts": _parts_03(found)}


def task_03(task: JsonObject) -> JsonObject:
    """Return a task in the shape of 0.3."""
    found: JsonObject = {**task, "kind": "task", "status": _status_03(task.get("status"))}
    artifacts = task.get("artifacts")
    if isinstance(artifacts, list):
        found["artifacts"] = [_artifact_03(artifact) for artifact in artifacts]
    return found


def event_03(event: JsonObject) -> JsonObject:
    """Return an answer or an event of a stream in the shape of 0.3."""
    match event:
        case {"task": dict(task)}:
            return task_03(task)
        case {"statusUpdate": dict(update)}:
            status = _status_03(update.get("status"))
            return {**update, "kind": "status-update", "status": status, "final": status["state"] != _WORKING}
        case {"artifactUpdate": dict(update)}:
            return {**update, "kind": "artifact-update", "artifact": _artifact_03(update.get("artifact"))}
        case _:
            return event


def _config_03(config: JsonValue) -> JsonObject:
    found = {**object_or_empty(config)}
    return {"taskId": found.pop("taskId", None), "pushNotificationConfig": found}


def _configs_03(result: JsonObject) -> JsonValue:
    configs = result.get("configs")
    return [_config_03(config) for config in configs] if isinstance(configs, list) else []


_PUSH: Final = "tasks/pushNotificationConfig"
LEGACY_METHODS: Final[dict[str, LegacyMethod]] = {
    "message/send": LegacyMethod("SendMessage", _sent_10, event_03),
    "message/stream": LegacyMethod("SendStreamingMessage", _sent_10, event_03),
    "tasks/get": LegacyMethod("GetTask", _same, task_03),
    "tasks/cancel": LegacyMethod("CancelTask", _same, task_03),
    "tasks/resubscribe": LegacyMethod("SubscribeToTask", _same, event_03),
    f"{_PUSH}/set": LegacyMethod("CreateTaskPushNotificationConfig", _set_10, _config_03),
    f"{_PUSH}/get": LegacyMethod("GetTaskPushNotificationConfig", _named_10, _config_03),
    f"{_PUSH}/list": LegacyMethod("ListTaskPushNotificationConfigs", _named_10, _configs_03),
    f"{_PUSH}/delete": LegacyMethod("DeleteTaskPushNotificationConfig", _named_10, lambda result: None),
}


def legacy_fields(url: str) -> JsonObject:
    """Return what a card has for clients of 0.3 beside the fields that both versions read."""
    return {
        "protocolVersion": _WIRE_VERSION,
        "url": url,
        "preferredTransport": "JSONRPC",
        "security": [{"bearer": []}],
    }
