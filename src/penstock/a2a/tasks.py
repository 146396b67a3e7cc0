"""Executions as tasks of the A2A wire.

A task is an execution and has its id; its context is itself. While somebody has to answer, its state is
`input-required`, and its message has the question in words and as data. A result is one artifact.

Above it: `methods`. Below it: results of executions as operations return them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from penstock.base.json import JsonObject, JsonValue

__all__ = [
    "ASKING",
    "ENDED",
    "WORKING",
    "RunningArtifact",
    "has_ended",
    "is_at_rest",
    "message_of",
    "open_question",
    "state_of",
    "status_update",
    "task_of",
    "updates_of",
]

WORKING: Final = "TASK_STATE_WORKING"
ASKING: Final = "TASK_STATE_INPUT_REQUIRED"
ENDED: Final = {
    "completed": "TASK_STATE_COMPLETED",
    "failed": "TASK_STATE_FAILED",
    "cancelled": "TASK_STATE_CANCELED",
}
_RESULT: Final = "result"


def state_of(result: dict[str, Any]) -> str:
    """Return the state of a task."""
    asks = bool(result.get("questions")) or result.get("held") is not None or bool(result.get("held_calls"))
    return ENDED.get(str(result["status"]), ASKING if asks else WORKING)


def is_at_rest(result: dict[str, Any]) -> bool:
    """Whether a task waits for somebody or has ended."""
    return state_of(result) != WORKING


def has_ended(result: dict[str, Any]) -> bool:
    """Whether nothing more happens in a task."""
    return str(result["status"]) in ENDED


def open_question(result: dict[str, Any]) -> dict[str, Any] | None:
    """Return the question that a message into a task answers: the first one."""
    questions = result.get("questions") or []
    found: dict[str, Any] | None = questions[0] if questions else None
    return found


def task_of(result: dict[str, Any], *, at: str | None = None) -> JsonObject:
    """Return the task of an execution; `at` is when it moved last, if that is known."""
    task_id = str(result["execution_id"])
    status = _status(result) if at is None else {**_status(result), "timestamp": at}
    task: JsonObject = {"id": task_id, "contextId": task_id, "status": status}
    artifact = _artifact(result)
    return task if artifact is None else {**task, "artifacts": [artifact]}


@dataclass(slots=True)
class RunningArtifact:
    """The artifact of a task while its text is being written: what a stream has sent of it."""

    task_id: str
    sent: str | None = None
    """The text that the reader has; None if nothing of it can be gone on with."""

    def piece(self, text: str, offset: JsonValue) -> JsonObject | None:
        """Return the update for a piece of the text; at 0 a text begins. None for one that cannot be placed."""
        if offset == 0:
            self.sent = text
        elif self.sent is not None and offset == len(self.sent):
            self.sent += text
        else:
            self.sent = None
            return None
        return self._update(_artifact_of({"text": text}), append=offset != 0, last=False)

    def whole(self, artifact: JsonObject) -> JsonObject:
        """Return the update with the artifact as it is now that it is complete: the rest of it, if it is a text."""
        match artifact["parts"]:
            case [{"text": str(text)}] if self.sent and text.startswith(self.sent):
                rest = _artifact_of({"text": text[len(self.sent) :]})
                return self._update(rest, append=True, last=True)
            case _:
                return self._update(artifact, append=False, last=True)

    def _update(self, artifact: JsonObject, *, append: bool, last: bool) -> JsonObject:
        of_task: JsonObject = {"taskId": self.task_id, "contextId": self.task_id}
        return {"artifactUpdate": {**of_task, "artifact": artifact, "append": append, "lastChunk": last}}


def updates_of(result: dict[str, Any], written: RunningArtifact) -> list[JsonObject]:
    """Return what a stream says when a task has ended or asks: the rest of its artifact, and its state."""
    artifact = _artifact(result)
    return [*([] if artifact is None else [written.whole(artifact)]), status_update(result)]


def status_update(result: dict[str, Any]) -> JsonObject:
    """Return the update that says in which state a task is."""
    task_id = str(result["execution_id"])
    return {"statusUpdate": {"taskId": task_id, "contextId": task_id, "status": _status(result)}}


def message_of(task_id: str, message_id: str, parts: list[JsonValue]) -> JsonObject:
    """Return a message of the agent."""
    names: JsonObject = {"messageId": message_id, "contextId": task_id, "taskId": task_id}
    return {**names, "role": "ROLE_AGENT", "parts": parts}


def _status(result: dict[str, Any]) -> JsonObject:
    state, said = state_of(result), _said(result)
    if said is None:
        return {"state": state}
    task_id = str(result["execution_id"])
    return {"state": state, "message": message_of(task_id, f"{task_id}-{result['sequence']}", said)}


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
    return _artifact_of(part)


def _artifact_of(part: JsonObject) -> JsonObject:
    return {"artifactId": _RESULT, "name": _RESULT, "parts": [part]}
