"""A language model that replies from a script: for tests, demonstrations and first steps without an API key.

    MockProvider(["Paris"])                                     replies in the order of the requests
    MockProvider({"plan": {"topics": ["a"]}, "*": "fine"})      the reply of a node, whatever is asked
    MockProvider({"plan": [MockFailure("busy"), {"n": 1}]})     the replies of a node in order

    MockProvider({"turn": MockTurns([{"tool_calls": [...]}, "fine"])})    a reply for each turn since the user spoke

Replies in order are counted in this process, over all runs. Those of `MockTurns` depend on the conversation alone, so
every run begins with the first one, and a run that another process resumes gets the next.

A reply `{"tool_calls": [{"name", "arguments"}]}`, perhaps with a `text`, calls tools.

Tokens are counted by a fixed rule, so that accounting can be tested too.

Above it: `app` configures it, tests use it. Below it: `port`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TypeAlias

from penstock.base.json import JsonObject, JsonValue
from penstock.runtime.executors.llm.port import LlmAnswer, LlmFailure, LlmMessage, LlmReply, LlmRequest, LlmToolCall
from penstock.runtime.executors.llm.untrusted import text_of

__all__ = [
    "MockFailure",
    "MockPrices",
    "MockProvider",
    "MockReply",
    "MockScript",
    "MockTurns",
    "count_tokens",
    "script_from_json",
]

# The key for the reply of every node that the script does not name.
_ANY_NODE = "*"
_REQUESTS_KEPT = 1_000
_CHARACTERS_PER_TOKEN = 4
_MILLION = 1_000_000
# A word with what stands before it.
_PIECES = re.compile(r"\s*\S+|\s+$")


@dataclass(frozen=True, slots=True)
class MockFailure:
    """A request that fails, instead of a reply."""

    error: str
    code: str = "LLM_PROVIDER_ERROR"
    retryable: bool = True


MockReply: TypeAlias = JsonValue | MockFailure


@dataclass(frozen=True, slots=True)
class MockTurns:
    """The replies to one message of a user: the first, the one after its tools were called, and so on."""

    replies: Sequence[MockReply]


MockScript: TypeAlias = Sequence[MockReply] | Mapping[str, MockReply | Sequence[MockReply] | MockTurns]


@dataclass(frozen=True, slots=True, kw_only=True)
class MockPrices:
    """What a million tokens cost in US dollars."""

    input_per_million: Decimal
    output_per_million: Decimal


@dataclass(slots=True)
class MockProvider:
    """Replies from a script. Fails after the last reply. Without prices, its cost is unknown."""

    script: MockScript = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    prices: MockPrices | None = None
    requests: deque[LlmRequest] = field(default_factory=lambda: deque(maxlen=_REQUESTS_KEPT))
    _replied: dict[str, int] = field(default_factory=dict)

    async def ask(self, request: LlmRequest) -> LlmAnswer:
        """Return the next reply of the script."""
        self.requests.append(request)
        reply = self._next(request)
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
        tokens_in, tokens_out = sum(map(count_tokens, asked)), count_tokens(text_of(reply))
        return LlmReply(
            text=text,
            input_tokens=tokens_in,
            output_tokens=tokens_out,
            model=request.model,
            cost=self.price(request.model, tokens_in, tokens_out),
            tool_calls=calls,
        )

    def price(self, model: str, input_tokens: int, output_tokens: int) -> Decimal | None:
        """What so many tokens cost; None without prices."""
        if self.prices is None:
            return None
        spent = self.prices.input_per_million * input_tokens + self.prices.output_per_million * output_tokens
        return spent / _MILLION

    async def close(self) -> None:
        """Nothing to close."""

    def _next(self, request: LlmRequest) -> MockReply | LlmFailure:
        if not isinstance(self.script, Mapping):
            return self._line("", self.script)
        named = request.node_id if request.node_id in self.script else _ANY_NODE
        if named not in self.script:
            message = f"the script of the mock provider has no reply for node {request.node_id}"
            return LlmFailure(error=message, code="LLM_CONFIG_INVALID")
        replies = self.script[named]
        if isinstance(replies, MockTurns):
            return _reply_at(replies.replies, _count_turns(request.messages))
        if isinstance(replies, Sequence) and not isinstance(replies, str):
            return self._line(named, replies)
        return replies

    def _line(self, name: str, replies: Sequence[MockReply]) -> MockReply | LlmFailure:
        position = self._replied.get(name, 0)
        if position < len(replies):
            self._replied[name] = position + 1
        return _reply_at(replies, position)


def _reply_at(replies: Sequence[MockReply], position: int) -> MockReply | LlmFailure:
    if position >= len(replies):
        message = f"the script of the mock provider has no reply left after {position}"
        return LlmFailure(error=message, code="LLM_PROVIDER_ERROR")
    return replies[position]


def _count_turns(messages: Sequence[LlmMessage]) -> int:
    """How often the model has spoken since the user last did."""
    turns = 0
    for message in reversed(messages):
        if message.role == "user":
            return turns
        turns += message.role == "assistant"
    return turns


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
    """A script from configuration. A reply `{"error": {"message", "code", "retryable"}}` is a failure.

    `{"turns": [...]}` in place of the replies of a node are `MockTurns`.
    """
    if isinstance(value, list):
        return [_reply(item) for item in value]
    if isinstance(value, dict):
        return {
            name: [_reply(item) for item in member] if isinstance(member, list) else _turns_or_reply(member)
            for name, member in value.items()
        }
    return None


def _turns_or_reply(value: JsonValue) -> MockReply | MockTurns:
    if isinstance(value, dict) and set(value) == {"turns"} and isinstance(value["turns"], list):
        return MockTurns([_reply(item) for item in value["turns"]])
    return _reply(value)


def _reply(value: JsonValue) -> MockReply:
    if not isinstance(value, dict) or set(value) != {"error"}:
        return value
    given = value["error"]
    error: JsonObject = given if isinstance(given, dict) else {"message": given}
    code = str(error.get("code", "LLM_PROVIDER_ERROR"))
    return MockFailure(str(error.get("message", code)), code, error.get("retryable") is not False)
