"""`llm_call` with `provider: client`: the model of the program that started the run answers, and that program pays.

The request is asked durably, as a question of kind `sampling`. The run waits while a surface passes the request to that
program and brings its answer back. The node then treats the answer like that of any model: it is validated against the
schema, with one repair, and it is untrusted. The number of tokens is not reported and is stored as unknown in the
history. For the limits of the runs above, the client's model counts like an agent outside: each question is a request
with estimated tokens, entered before it is asked, and its price is not known.

Above it: `executor`. Below it: `answers`, the budget of the call. The surfaces talk to the client.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.jq.templates import SECRET_REFERENCE
from penstock.runtime.activities.budgets import tokens_in
from penstock.runtime.activities.performing import ActivityAsks, ActivityCall, ActivityError, ActivityOutcome
from penstock.runtime.executors.llm.answers import (
    PreparedRequest,
    Usage,
    ValidAnswer,
    check_answer,
    done,
    repair_text,
    schema_violation,
)
from penstock.runtime.executors.llm.metering import request_tokens
from penstock.runtime.executors.llm.port import LlmMessage, LlmReply, LlmRequest
from penstock.runtime.executors.outbound.error_text import truncated
from penstock.runtime.spending import Spent

__all__ = ["CLIENT", "SAMPLING", "ask_client_model", "holds_secrets"]

CLIENT = "client"
"""The provider name that stands for the program that started the run."""
SAMPLING = "sampling"
_ANY_MODEL = "default"
_PROMPTS = ("system_prompt", "prompt", "user_prompt", "messages")
# As in the protocol, or a plain text from clients that answer in another way.
_ANSWER: JsonObject = {
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "required": ["content"],
            "properties": {
                "role": {"type": "string"},
                "content": {"type": ["object", "array"]},
                "model": {"type": "string", "maxLength": 200},
                "stopReason": {"type": ["string", "null"], "maxLength": 100},
            },
        },
        {"type": "object", "required": ["refused"], "properties": {"refused": {"type": "string"}}},
    ]
}


def holds_secrets(call: ActivityCall) -> bool:
    """True if a prompt contains a secret. Such a prompt must not be sent to a client or stored in a history."""
    config = call.activity.config
    return any(SECRET_REFERENCE.search(encode_bytes(config.get(name)).decode()) for name in _PROMPTS)


async def ask_client_model(prepared: PreparedRequest, call: ActivityCall) -> ActivityOutcome:
    """Ask the client, if the run and all runs above it have anything left, or continue with its answer."""
    budget, answer = call.budget, call.activity.answer
    # What the answer was is entered first, so that a question after it is compared with all that was used.
    if budget is not None and answer is not None:
        await budget.settle(Spent(output_tokens=tokens_in(len(_written_text(answer)))))
    outcome = _continue_with(prepared, call)
    if budget is not None and isinstance(outcome, _Question):
        is_first = answer is None
        refused = await budget.take(
            Spent(turns=int(is_first), requests=1, input_tokens=request_tokens(outcome.request), unpriced=1)
        )
        if refused is not None:
            return ActivityError(refused.message, refused.code, retryable=False)
    return outcome.asked if isinstance(outcome, _Question) else outcome


@dataclass(frozen=True, slots=True)
class _Question:
    """What the client is to be asked."""

    request: LlmRequest
    asked: ActivityAsks


def _continue_with(prepared: PreparedRequest, call: ActivityCall) -> ActivityOutcome | _Question:
    """Ask the client, ask once more if the answer violates the schema, or return the outcome of the answer."""
    answer, before = call.activity.answer, call.activity.resume
    first = before.get("first") if isinstance(before, dict) else None
    if answer is None:
        return _question(prepared, None)
    account = Usage(provider=CLIENT, model=prepared.request.model, tokens_known=False)
    reply = _reply(answer, prepared.request.model)
    if isinstance(reply, ActivityError):
        return reply
    account.add(reply)
    # The output of somebody else's program is untrusted, whatever the prompt was.
    prepared = replace(prepared, untrusted=True)
    if prepared.schema is None:
        return done({"text": reply.text}, prepared, account, reply)
    found = check_answer(prepared.schema, reply)
    if isinstance(first, str):
        account.requests += 1
    if isinstance(found, ValidAnswer):
        return done(found.value, prepared, account, reply)
    if isinstance(first, str):
        return schema_violation(found, account)
    again = (LlmMessage("assistant", reply.text), LlmMessage("user", repair_text(found)))
    messages = (*prepared.request.messages, *again)
    return _question(replace(prepared, request=replace(prepared.request, messages=messages)), reply.text)


def _question(prepared: PreparedRequest, first: str | None) -> _Question:
    request = prepared.request
    asked = request.messages[-1].text if request.messages else ""
    question = ActivityAsks(
        question=truncated(asked) or "The model is asked.",
        answer_schema=_ANSWER,
        resume=None if first is None else {"first": first},
        ask={"kind": SAMPLING, "request": _wire(prepared)},
    )
    return _Question(request, question)


def _written_text(answer: JsonValue) -> str:
    """Return what the client's model wrote, or all of an answer that is not as the protocol has it."""
    reply = _reply(answer, _ANY_MODEL)
    return reply.text if isinstance(reply, LlmReply) else encode_bytes(answer).decode()


def _wire(prepared: PreparedRequest) -> JsonObject:
    """The request in the format of the protocol."""
    request = prepared.request
    messages: list[JsonValue] = [
        {"role": message.role, "content": {"type": "text", "text": message.text}} for message in request.messages
    ]
    wanted = request.settings.get("max_tokens")
    tokens = wanted if isinstance(wanted, int) else limits.CLIENT_TOKENS_DEFAULT
    wire: JsonObject = {"messages": messages, "maxTokens": min(tokens, limits.CLIENT_TOKENS_MAX)}
    system = [text for text in (request.system, _schema_notice(request.output_schema)) if text]
    if system:
        wire["systemPrompt"] = "\n\n".join(system)
    for name, spelled in (("temperature", "temperature"), ("stop_sequences", "stopSequences")):
        if request.settings.get(name) is not None:
            wire[spelled] = request.settings[name]
    if request.model != _ANY_MODEL:
        wire["modelPreferences"] = {"hints": [{"name": request.model}]}
    return wire


def _schema_notice(schema: JsonObject | None) -> str | None:
    if schema is None:
        return None
    return f"Answer with JSON only, that fits this JSON schema:\n{encode_bytes(schema).decode()}"


def _reply(answer: JsonValue, model: str) -> LlmReply | ActivityError:
    if isinstance(answer, str):
        return LlmReply(text=answer, input_tokens=0, output_tokens=0, model=model)
    if not isinstance(answer, dict) or "refused" in answer:
        reason = str(answer.get("refused")) if isinstance(answer, dict) else "it answered nothing"
        message = f"the client did not let its model answer: {reason}"
        return ActivityError(truncated(message), "SAMPLING_REFUSED", retryable=False)
    content = answer.get("content")
    blocks = content if isinstance(content, list) else [content]
    texts = [str(block["text"]) for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
    if not texts:
        return ActivityError("the client's model answered without any text", "SAMPLING_REFUSED", retryable=False)
    named = answer.get("model")
    return LlmReply(
        text="".join(texts),
        input_tokens=0,
        output_tokens=0,
        model=named if isinstance(named, str) else model,
        cut_off=answer.get("stopReason") == "maxTokens",
    )
