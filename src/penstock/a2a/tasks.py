"""Executions as tasks of the A2A wire.

A task is an execution and has its id; its context is itself. While somebody has to answer, its state is
`input-required`, and its message has the question in words and as data. A result is one artifact.

Above it: `methods`. Below it: results of executions as operations return them.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.base.json import JsonObject, JsonValue

__all__ = ["ASKING", "is_at_rest", "open_question", "state_of", "task_of", "updates_of"]

WORKING: Final = "TASK_STATE_WORKING"
ASKING: Final = "TASK_STATE_INPUT_REQUIRED"
_ENDED: Final = {
    "completed": "TASK_STATE_COMPLETED",
    "failed": "TASK_STATE_FAILED",
    "cancelled": "TASK_STATE_CANCELED",
}
_RESULT: Final = "result"


def state_of(result: dict[str, Any]) -> str:
    """Return the state of a task."""
    asks = bool(result.get("questions")) or result.get("held") is not None or bool(result.get("held_calls"))
    return _ENDED.get(str(result["status"]), ASKING if asks else WORKING)


def is_at_rest(result: dict[str, Any]) -> bool:
    """Whether a task goes on only if somebody acts, or not at all."""
    return state_of(result) != WORKING


def open_question(result: dict[str, Any]) -> dict[str, Any] | None:
    """Return the question that a message into a task answers: the first one."""
    questions = result.get("questions") or []
    found: dict[str, Any] | None = questions[0] if questions else None
    return found


def task_of(result: dict[str, Any]) -> JsonObject:
    """Return the task of an execution."""
    task_id = str(result["execution_id"])
    task: JsonObject = {"id": task_id, "contextId": task_id, "status": _status(result)}
    artifact = _artifact(result)
    return task if artifact is None else {**task, "artifacts": [artifact]}


def updates_of(result: dict[str, Any]) -> list[JsonObject]:
    """Return what a stream says when a task has ended or asks: its artifact, and its state."""
    task_id = str(result["execution_id"])
    of_task: JsonObject = {"taskId": task_id, "contextId": task_id}
    artifact = _artifact(result)
    found: list[JsonObject] = []
    if artifact is not None:
        found.append({"artifactUpdate": {**of_task, "artifact": artifact, "append": False, "lastChunk": True}})
    return [*found, {"statusUpdate": {**of_task, "status": _status(result)}}]


def _status(result: dict[str, Any]) -> JsonObject:
    state, said = state_of(result), _said(result)
    if said is None:
        return {"state": state}
    task_id = str(result["execution_id"])
    message: JsonObject = {
        "messageId": f"{task_id}-{result['sequence']}",
        "contextId": task_id,
        "taskId": task_id,
        "role": "ROLE_AGENT",
        "parts": said,
    }
    return {"state": state, "message": message}


def _said(result: dict[str, Any]) -> list[JsonValue] | None:
    """Return what the agent says about its state: its question, or why it failed."""
    question, error, held = open_question(result), result.get("error"), result.get("held")
    if error is not None:
        return [{"text": f"{error['code']}: {error['message']}"}]
    if question is not None:
        asked = question["prompt"]
        text = asked if isinstance(asked, str) else "The agent asks something; see the data."
        about = {name: question.get(name) for name in ("prompt", "answer_schema", "approvers", "expires_at")}
        return [{"text": text}, {"data": {**about, "node_id": question["node_id"]}}]
    if held is not None:
        return [{"text": f"The call waits for approval as draft {held['draft_id']}."}, {"data": held}]
    waiting = result.get("held_calls") or []
    if waiting:
        named = ", ".join(f"{call['operation']} (draft {call['draft_id']})" for call in waiting)
        return [{"text": f"Calls of the agent wait for approval: {named}."}, {"data": {"held_calls": waiting}}]
    return None


def _artifact(result: dict[str, Any]) -> JsonObject | None:
    if result["status"] != "completed":
        return None
    output = result.get("output")
    match output:
        case {"text": str(text), **others} if not others:
            part: JsonObject = {"text": text}
        case _:
            part = {"data": output}
    return {"artifactId": _RESULT, "name": _RESULT, "parts": [part]}
