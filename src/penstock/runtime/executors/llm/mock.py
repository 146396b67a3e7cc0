"""A language model that replies from a script: for tests, demonstrations and first steps without an API key.

    MockProvider(["Paris"])                                     replies in the order of the requests
    MockProvider({"plan": {"topics": ["a"]}, "*": "fine"})      the reply of a node, whatever is asked
    MockProvider({"plan": [MockFailure("busy"), {"n": 1}]})     the replies of a node in order

A reply `{"tool_calls": [{"name", "arguments"}]}`, perhaps with a `text`, calls tools.

Tokens are counted by a fixed rule, so that accounting can be tested too.

Above it: `app` configures it, tests use it. Below it: `port`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.base.json import JsonObject, JsonValue
from penstock.runtime.executors.llm.port import LlmAnswer, LlmFailure, LlmReply, LlmRequest, LlmToolCall
from penstock.runtime.executors.llm.untrusted import text_of

__all__ = ["MockFailure", "MockProvider", "MockReply", "MockScript", "count_tokens", "script_from_json"]

# The key for the reply of every node that the script does not name.
_ANY_NODE = "*"
_REQUESTS_KEPT = 1_000
_CHARACTERS_PER_TOKEN = 4
# A word with what stands before it.
_PIECES = re.compile(r"\s*\S+|\s+$")


@dataclass(frozen=True, slots=True)
class MockFailure:
    """A request that fails, instead of a reply."""

    error: str
    code: str = "LLM_PROVIDER_ERROR"
    retryable: bool = True


MockReply: TypeAlias = JsonValue | MockFailure
MockScript: TypeAlias = Sequence[MockReply] | Mapping[str, MockReply | Sequence[MockReply]]


@dataclass(slots=True)
class MockProvider:
    """Replies from a script. Fails after the last reply."""

    script: MockScript = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    requests: deque[LlmRequest] = field(default_factory=lambda: deque(maxlen=_REQUESTS_KEPT))
    _replied: dict[str, int] = field(default_factory=dict)

    async def ask(self, request: LlmRequest) -> LlmAnswer:
        """Return the next reply of the script."""
        self.requests.append(request)
        reply = self._next(request.node_id)
        if isinstance(reply, LlmFailure):
            return reply
        if isinstance(reply, MockFailure):
            return LlmFailure(error=reply.error, code=reply.code, retryable=reply.retryable)
        calls = _tool_calls(reply, len(request.messages))
        said = reply.get("text", "") if calls and isinstance(reply, dict) else reply
        text = text_of(said)
        if request.reader is not None:
            for piece in _PIECES.findall(text):
                request.reader.say(piece)
        asked = [request.system or "", *(message.text for message in request.messages)]
        return LlmReply(
            text=text,
            input_tokens=sum(count_tokens(part) for part in asked),
            output_tokens=count_tokens(text_of(reply)),
            model=request.model,
            tool_calls=calls,
        )

    async def close(self) -> None:
        """Nothing to close."""

    def _next(self, node_id: str) -> MockReply | LlmFailure:
        if not isinstance(self.script, Mapping):
            return self._line("", self.script)
        named = node_id if node_id in self.script else _ANY_NODE
        if named not in self.script:
            message = f"the script of the mock provider has no reply for node {node_id}"
            return LlmFailure(error=message, code="LLM_CONFIG_INVALID")
        replies = self.script[named]
        if isinstance(replies, Sequence) and not isinstance(replies, str):
            return self._line(named, replies)
        return replies

    def _line(self, name: str, replies: Sequence[MockReply]) -> MockReply | LlmFailure:
        position = self._replied.get(name, 0)
        if position >= len(replies):
            message = f"the script of the mock provider has no reply left after {position}"
            return LlmFailure(error=message, code="LLM_PROVIDER_ERROR")
        self._replied[name] = position + 1
        return replies[position]


def _tool_calls(reply: JsonValue, position: int) -> tuple[LlmToolCall, ...]:
    """Return the calls of a scripted reply; those without an id get one that is the same each time."""
    listed = reply.get("tool_calls") if isinstance(reply, dict) else None
    calls = []
    for index, item in enumerate(listed if isinstance(listed, list) else []):
        call = item if isinstance(item, dict) else {}
        arguments = call.get("arguments", {})
        calls.append(
            LlmToolCall(
                id=str(call.get("id", f"call_{position}_{index}")),
                name=str(call.get("name", "")),
                arguments=arguments if isinstance(arguments, dict) else text_of(arguments),
            )
        )
    return tuple(calls)


def count_tokens(text: str) -> int:
    """Tokens by a fixed rule: four characters each."""
    return -(-len(text) // _CHARACTERS_PER_TOKEN)


def script_from_json(value: JsonValue) -> MockScript | None:
    """A script from configuration. A reply `{"error": {"message", "code", "retryable"}}` is a failure."""
    if isinstance(value, list):
        return [_reply(item) for item in value]
    if isinstance(value, dict):
        return {
            name: [_reply(item) for item in member] if isinstance(member, list) else _reply(member)
            for name, member in value.items()
        }
    return None


def _reply(value: JsonValue) -> MockReply:
    if not isinstance(value, dict) or set(value) != {"error"}:
        return value
    given = value["error"]
    error: JsonObject = given if isinstance(given, dict) else {"message": given}
    code = str(error.get("code", "LLM_PROVIDER_ERROR"))
    return MockFailure(str(error.get("message", code)), code, error.get("retryable") is not False)
