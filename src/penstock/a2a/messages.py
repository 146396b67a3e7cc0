"""Messages of A2A clients: work for an agent, or the answer to its question.

Texts are the prompt, data is the context. In a task that asks, data is the answer; a text is the answer if the question
takes one text, or yes or no. Nothing is guessed beyond that: an approval must be explicit.

Above it: `methods`. Below it: `errors`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from penstock.a2a.errors import CONTENT_TYPE_NOT_SUPPORTED, INVALID_PARAMS, RpcError
from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue, object_or_empty

__all__ = ["ReceivedMessage", "answer_to", "read_message"]

_YES: Final = frozenset({"yes", "approve", "approved", "true"})
_NO: Final = frozenset({"no", "decline", "declined", "false"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedMessage:
    """A message of a client. `key` is what it is known by if it is sent again."""

    text: str
    data: tuple[JsonValue, ...]
    task_id: str | None
    key: str | None
    waits: bool
    push: JsonObject | None = None
    """The push notification configuration of the task."""

    @property
    def context(self) -> JsonObject | None:
        """The data as the context of an agent."""
        if not self.data:
            return None
        only = self.data[0]
        return only if len(self.data) == 1 and isinstance(only, dict) else {"data": [*self.data]}


def read_message(params: JsonObject) -> ReceivedMessage:
    """Return the message of a request; raise `RpcError` if it is not a message, or has unsupported parts."""
    message = params.get("message")
    parts = message.get("parts") if isinstance(message, dict) else None
    if not isinstance(message, dict) or not isinstance(parts, list) or not parts:
        raise _invalid("`message` must have `messageId`, `role` and `parts`")
    message_id, role, task_id = message.get("messageId"), message.get("role"), message.get("taskId")
    if not isinstance(message_id, str) or not message_id:
        raise _invalid("`message.messageId` must be a text")
    if role != "ROLE_USER":
        raise _invalid("`message.role` must be ROLE_USER")
    texts: list[str] = []
    data: list[JsonValue] = []
    for index, part in enumerate(parts):
        if not isinstance(part, dict):
            raise _invalid(f"`message.parts[{index}]` must be an object")
        if isinstance(part.get("text"), str):
            texts.append(str(part["text"]))
        elif "data" in part:
            data.append(part["data"])
        else:
            said = f"`message.parts[{index}]` is neither text nor data; files are not supported"
            raise RpcError(CONTENT_TYPE_NOT_SUPPORTED, said, "CONTENT_TYPE_NOT_SUPPORTED", "send text or data")
    configuration = object_or_empty(params.get("configuration"))
    push = configuration.get("taskPushNotificationConfig")
    return ReceivedMessage(
        text="\n\n".join(texts),
        data=tuple(data),
        task_id=task_id if isinstance(task_id, str) and task_id else None,
        key=_key(message_id),
        waits=configuration.get("returnImmediately") is not True,
        push=push if isinstance(push, dict) and push else None,
    )


def _key(message_id: str) -> str | None:
    """The idempotency key of a message; None for an id that cannot be one."""
    key = f"a2a-{message_id}"
    plain = key.isascii() and key.isprintable() and " " not in key
    return key if plain and len(key) <= limits.IDEMPOTENCY_KEY_CHARACTERS_MAX else None


def answer_to(question: dict[str, Any], message: ReceivedMessage) -> JsonValue:
    """Return the answer that a message gives to a question; raise `RpcError` if it does not answer the question."""
    if len(message.data) == 1 and not message.text:
        return message.data[0]
    schema = object_or_empty(question.get("answer_schema"))
    properties = object_or_empty(schema.get("properties"))
    if message.data or len(properties) != 1:
        raise _invalid("the question expects data: send one data part that fits its schema")
    [(name, member)] = properties.items()
    kind, text = object_or_empty(member).get("type"), message.text.strip()
    if kind == "string" and text:
        return {name: message.text}
    if kind == "boolean" and text.lower() in _YES | _NO:
        return {name: text.lower() in _YES}
    raise _invalid("the text does not answer the question: send one data part that fits its schema")


def _invalid(message: str) -> RpcError:
    return RpcError(INVALID_PARAMS, message, "INVALID_MESSAGE", "see the guide to agents")
