"""What happens to a model's answer: it is validated against the node's schema, and its usage is counted.

Above it: `executor` (models that the server asks), `client_model` (the model of the client that started the run). Below
it: `port`, `turns`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from decimal import Decimal

import msgspec

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue, exceeds_depth
from penstock.base.text import clean
from penstock.definitions.schemas.compiled import CompiledSchema, Violation, is_prompt, violations
from penstock.definitions.schemas.misfits import tell_violation
from penstock.runtime.activities.performing import ActivityDone, ActivityError
from penstock.runtime.activities.progress import value_without
from penstock.runtime.executors.llm.port import LlmReply, LlmRequest, LlmToolCall
from penstock.runtime.executors.llm.tool_names import ToolNames
from penstock.runtime.executors.llm.turns import Summarizing, Turn
from penstock.runtime.executors.outbound.error_text import truncated
from penstock.runtime.executors.outbound.json_tokens import has_more_tokens

__all__ = [
    "PreparedRequest",
    "Usage",
    "ValidAnswer",
    "check_answer",
    "done",
    "format_violations",
    "repair_text",
    "schema_violation",
    "summary_before",
    "summary_result",
    "turn_result",
]

_FENCED_JSON = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n\s*```\s*", re.DOTALL | re.IGNORECASE)
_EMPTY = "Your answer is empty. Answer, or call a tool."


@dataclass(slots=True, kw_only=True)
class Usage:
    """What an attempt has used so far."""

    provider: str
    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0
    cost: Decimal | None = Decimal(0)
    tokens_known: bool = True
    estimated: bool = False

    def add(self, reply: LlmReply) -> None:
        """Add the usage of a reply."""
        self.requests += 1
        self.model = reply.model
        self.input_tokens += reply.input_tokens
        self.output_tokens += reply.output_tokens
        self.tokens_known = self.tokens_known and reply.tokens_known
        self.estimated = self.estimated or reply.estimated
        # A sum with an unknown part is unknown: a wrong price is worse than none.
        self.cost = None if self.cost is None or reply.cost is None else self.cost + reply.cost

    def failed_usage(self) -> JsonObject | None:
        """The usage of a failed attempt; None if it got no answer that has to be paid for."""
        return {"usage": self.as_json()} if self.requests else None

    def as_json(self) -> JsonObject:
        """The usage as it is stored in history. Token counts that are unknown are left out, not reported as zero."""
        tokens: JsonObject = {"input_tokens": self.input_tokens, "output_tokens": self.output_tokens}
        used: JsonObject = {
            **(tokens if self.tokens_known else {"tokens": "unknown"}),
            "requests": self.requests,
            "model": self.model,
            "provider": self.provider,
        }
        if self.estimated:
            used["estimated"] = True
        if self.cost is not None and self.requests:
            used["cost"] = {"amount": f"{self.cost:f}", "currency": "USD"}
        return used


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRequest:
    """A request that is ready to send, and the schema of its answer."""

    request: LlmRequest
    schema: CompiledSchema | None
    untrusted: bool
    hidden: tuple[str, ...] = field(default=(), repr=False)
    """Secrets of the call: they are masked in what is recorded."""
    turn: Turn | None = None
    """What a turn of a conversation begins with; None for a call that is answered once."""


@dataclass(frozen=True, slots=True)
class ValidAnswer:
    """An answer that matches the schema."""

    value: JsonValue


def check_answer(schema: CompiledSchema, reply: LlmReply) -> ValidAnswer | tuple[Violation, ...]:
    """The value of a reply, or the violations of the schema."""
    fenced = _FENCED_JSON.fullmatch(reply.text)
    text = fenced[1] if fenced else reply.text
    if has_more_tokens(text.encode(errors="replace"), limits.LLM_ANSWER_TOKENS_MAX):
        return (Violation("", "maxItems", f"must have at most {limits.LLM_ANSWER_TOKENS_MAX} values"),)
    try:
        value: JsonValue = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        reason = "must be JSON and nothing else"
        return (Violation("", "type", f"{reason}, and it was cut off at max_tokens" if reply.cut_off else reason),)
    if exceeds_depth(value, limits.JSON_DEPTH_MAX):
        return (Violation("", "type", f"must not be nested deeper than {limits.JSON_DEPTH_MAX} levels"),)
    if not is_prompt(schema, value, len(reply.text)):
        return ValidAnswer(value)  # the engine validates it when it arrives, off the hot path
    found = violations(schema, value)[: limits.LLM_VIOLATIONS_SHOWN_MAX]
    named = tuple(replace(item, message=tell_violation(item, schema.schema)) for item in found)
    return named or ValidAnswer(value)


def done(result: JsonValue, prepared: PreparedRequest, account: Usage, reply: LlmReply) -> ActivityDone:
    """The outcome of a successful call."""
    extra: JsonObject = {"usage": account.as_json()}
    if prepared.untrusted:
        # A result made from untrusted text is untrusted: passing it through a model does not launder it.
        extra["untrusted"] = True
    if reply.cut_off:
        extra["cutOff"] = True
    return ActivityDone(result, extra)


def schema_violation(found: tuple[Violation, ...], account: Usage) -> ActivityError:
    """The error of a call whose answer and repair both violate the schema."""
    message = f"the answer does not fit output_schema, also after a repair: {format_violations(found, '; ')}"
    return ActivityError(truncated(message), "OUTPUT_SCHEMA_VIOLATION", extra=account.failed_usage())


def repair_text(found: tuple[Violation, ...]) -> str:
    """The message to a model whose answer violates the schema."""
    # A path names what the model wrote, perhaps as a text from outside told it to: each stays on a line of its own.
    named = "\n- ".join(clean(format_violations((item,), "")) for item in found[: limits.LLM_VIOLATIONS_SHOWN_MAX])
    return f"Your answer does not fit the required JSON schema:\n- {named}\nAnswer again, with the corrected JSON only."


def format_violations(found: tuple[Violation, ...], separator: str) -> str:
    """Violations as text."""
    return separator.join(f"{item.instance_path or '(the whole answer)'} {item.message}" for item in found)


def turn_result(turn: Turn, prepared: PreparedRequest, reply: LlmReply, account: Usage) -> JsonObject:
    """Return the result of a node that asked for one turn."""
    schema = prepared.schema
    made = [_call(call, index, turn.names) for index, call in enumerate(reply.tool_calls[: limits.LLM_TOOL_CALLS_MAX])]
    if made and len(made) == len(reply.tool_calls) and _is_kept_whole(reply.thoughts, prepared.hidden):
        made[0]["thoughts"] = reply.thoughts
    calls: list[JsonValue] = [*made]
    result: JsonObject = {"text": reply.text, "tool_calls": calls, "answer": None, "problem": None}
    if not calls:
        checked = None if schema is None else check_answer(schema, reply)
        if isinstance(checked, ValidAnswer):
            result["answer"] = checked.value
        elif checked is not None:
            result["problem"] = repair_text(checked)
        elif not reply.text.strip():
            result["problem"] = _EMPTY
        else:
            result["answer"] = reply.text
    result["usage"] = _turn_usage(account)
    return result


def _is_kept_whole(thoughts: JsonObject | None, hidden: tuple[str, ...]) -> bool:
    """Whether there are thoughts that are recorded as they are: with a secret masked, a provider refuses them."""
    return thoughts is not None and (not hidden or value_without(thoughts, hidden) == thoughts)


def _turn_usage(account: Usage) -> JsonObject:
    return {
        "input_tokens": account.input_tokens,
        "output_tokens": account.output_tokens,
        "cost": None if account.cost is None else float(account.cost),
    }


def summary_result(wanted: Summarizing, reply: LlmReply, account: Usage) -> JsonObject | ActivityError:
    """Return the result of a node that asked for a summary."""
    text, most = reply.text.strip(), wanted.characters_max
    if not text:
        return ActivityError("the summary is empty", "LLM_PROVIDER_ERROR", extra=account.failed_usage())
    kept = text if len(text) <= most else f"{text[:most]} …"
    return {"text": kept, "entries": wanted.entries, "usage": _turn_usage(account)}


def summary_before(wanted: Summarizing) -> ActivityDone:
    """Return the result if there is nothing more to summarise: nobody is asked, and the summary stays as it is."""
    unused: JsonObject = {"input_tokens": 0, "output_tokens": 0, "cost": 0}
    return ActivityDone({"text": wanted.before, "entries": wanted.entries, "usage": unused})


def _call(call: LlmToolCall, index: int, names: ToolNames) -> JsonObject:
    # Ids are the provider's choice; they only have to be those of the answers.
    call_id = call.id if 0 < len(call.id) <= limits.LLM_TOOL_CALL_ID_CHARACTERS_MAX else f"call_{index}"
    found: JsonObject = {"id": call_id, "name": names.canonical(call.name), "arguments": {}}
    if isinstance(call.arguments, dict):
        return {**found, "arguments": call.arguments}
    return {**found, "problem": "the arguments are not a JSON object"}
