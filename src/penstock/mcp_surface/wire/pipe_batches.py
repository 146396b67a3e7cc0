"""Lines of a pipe as messages, and answers as lines: invalid messages are refused as JSON-RPC requires.

In revision 2025-03-26 a line may be a batch, a list of messages. Its answers are a list too, sent when it is complete.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject
from penstock.mcp_surface.wire.codes import INVALID_REQUEST, PARSE_ERROR
from penstock.mcp_surface.wire.messages import (
    BATCHING,
    decoded,
    error_message,
    is_request,
    refusal_of,
)

__all__ = ["PipeMessages", "unreadable"]

_encode = encode_bytes


def unreadable() -> bytes:
    """Return the answer to a line that is not JSON."""
    return _encode(error_message(None, PARSE_ERROR, "Parse error"))


@dataclass(slots=True)
class _Batch:
    """A batch of messages that are not all answered yet."""

    missing: int = 0
    answers: list[Any] = field(default_factory=list)

    def line(self) -> bytes | None:
        """Return the line with all answers; None until they are complete."""
        return _encode(self.answers) if self.answers and not self.missing else None


class PipeMessages:
    """Reads and writes the messages of one pipe. `only` is the revision that it is pinned to."""

    def __init__(self, only: str | None = None) -> None:
        self._only = only
        self._takes_lists = only == BATCHING
        self._open: dict[str | int, _Batch] = {}

    def taken(self, line: bytes) -> tuple[list[bytes], bytes | None]:
        """Split a line into its messages; also return what is answered at once."""
        is_json, value = decoded(line)
        if not is_json:
            # The SDK accepts a little more than our decoder.
            return [line], None
        if isinstance(value, list):
            return self._list(value)
        refused = refusal_of(value)
        if refused is not None:
            return [], _encode(refused)
        return [line], self._note(value)

    def answered(self, message_id: str | int | None, line: bytes) -> bytes | None:
        """Return what to send for an answer: the answer, all answers of its batch, or nothing yet."""
        batch = self._open.pop(message_id, None) if message_id is not None else None
        if batch is None:
            return line
        batch.answers.append(msgspec.Raw(line))
        batch.missing -= 1
        return batch.line()

    def _note(self, message: JsonObject) -> bytes | None:
        """Note the revision of `initialize`, and requests that were cancelled and need no answer."""
        params = message.get("params")
        given: JsonObject = params if isinstance(params, dict) else {}
        if message.get("method") == "initialize" and self._only is None:
            self._takes_lists = given.get("protocolVersion") == BATCHING
        if message.get("method") == "notifications/cancelled":
            cancelled_id = given.get("requestId")
            batch = self._open.pop(cancelled_id, None) if isinstance(cancelled_id, str | int) else None
            if batch is not None:
                batch.missing -= 1
                return batch.line()
        return None

    def _list(self, messages: list[Any]) -> tuple[list[bytes], bytes | None]:
        why = self._unfit(messages)
        if why is not None:
            return [], _encode(error_message(None, INVALID_REQUEST, f"Invalid Request: {why}"))
        batch, passed = _Batch(), []
        for message in messages:
            refused = refusal_of(message) or self._refused_in_list(message)
            if refused is not None:
                batch.answers.append(refused)
                continue
            passed.append(_encode(message))
            if is_request(message):
                batch.missing += 1
                self._open[message["id"]] = batch
        return passed, batch.line()

    def _unfit(self, messages: list[Any]) -> str | None:
        if not messages:
            return "the list is empty"
        if not self._takes_lists:
            return f"only revision {BATCHING} has lists of messages"
        most = limits.MCP_BATCH_MESSAGES_MAX
        return f"a list has at most {most} messages" if len(messages) > most else None

    def _refused_in_list(self, message: JsonObject) -> JsonObject | None:
        if message.get("method") == "initialize":
            return error_message(message.get("id"), INVALID_REQUEST, "Invalid Request: `initialize` is sent alone")
        if is_request(message) and message["id"] in self._open:
            return error_message(
                message["id"], INVALID_REQUEST, "Invalid Request: a request with this id is in progress"
            )
        return None
