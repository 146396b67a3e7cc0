"""`llm_call`: asks a language model, holds its answer to the node's schema, and counts what it cost.

    LlmExecutor({"openai": PydanticProvider("openai", LlmProviderConfig(kind="openai", api_key=…)),
                 "mock": MockProvider({"plan": {"topics": []}})})

An answer that does not fit `output_schema` is shown to the model once, with what is wrong; if the second does not fit
either, the attempt fails with OUTPUT_SCHEMA_VIOLATION. Without a schema the result is `{"text": …}`. Tokens and costs
of all requests of an attempt are kept in history, beside its result or its error.

Above it: `app`. Below it: `llm_port` and whoever implements it; `llm_prompts`. It never repeats a request by itself.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

import msgspec

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue, exceeds_depth
from penstock.definitions.json_schemas import CompiledSchema, SchemaProblem, Violation, compile_schema, violations
from penstock.runtime.executors.failures import shortened
from penstock.runtime.executors.llm_port import LlmFailure, LlmMessage, LlmProvider, LlmReply, LlmRequest
from penstock.runtime.executors.llm_prompts import build_prompts
from penstock.runtime.performing import ActivityCall, ActivityDone, ActivityError, ActivityOutcome

__all__ = ["LlmExecutor"]

# What a document may set beside the listed fields; anything else in a node is not for the model.
_SETTINGS = (
    "frequency_penalty",
    "max_tokens",
    "presence_penalty",
    "seed",
    "stop_sequences",
    "temperature",
    "thinking",
    "top_k",
    "top_p",
)
_FENCED_JSON = re.compile(r"\s*```(?:json)?\s*\n(.*?)\n\s*```\s*", re.DOTALL | re.IGNORECASE)


@dataclass(slots=True, kw_only=True)
class _Account:
    """What an attempt has used so far."""

    provider: str
    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0
    cost: Decimal | None = Decimal(0)

    def add(self, reply: LlmReply) -> None:
        self.requests += 1
        self.model = reply.model
        self.input_tokens += reply.input_tokens
        self.output_tokens += reply.output_tokens
        # A sum with an unknown part is unknown: a wrong price is worse than none.
        self.cost = None if self.cost is None or reply.cost is None else self.cost + reply.cost

    def spent(self) -> JsonObject | None:
        """What a failed attempt has used all the same; None when it got no answer to be paid for."""
        return {"usage": self.as_json()} if self.requests else None

    def as_json(self) -> JsonObject:
        used: JsonObject = {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "requests": self.requests,
            "model": self.model,
            "provider": self.provider,
        }
        if self.cost is not None and self.requests:
            used["cost"] = {"amount": f"{self.cost:f}", "currency": "USD"}
        return used


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """A call that is ready to be made."""

    provider: LlmProvider
    provider_name: str
    request: LlmRequest
    schema: CompiledSchema | None
    untrusted: bool


@dataclass(frozen=True, slots=True)
class _Fits:
    """An answer that fits the schema."""

    value: JsonValue


@dataclass(slots=True)
class LlmExecutor:
    """Performs `llm_call` nodes with the providers that an operator configured."""

    providers: Mapping[str, LlmProvider]
    # A relaxation for operators who trust everything that reaches their prompts; documents cannot choose it.
    mark_untrusted: bool = field(default=True, kw_only=True)

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Ask the model, and once more if its answer does not fit."""
        prepared = self._prepare(call)
        if isinstance(prepared, ActivityError):
            return prepared
        account = _Account(provider=prepared.provider_name, model=prepared.request.model)
        timeout_ms = call.activity.timeout_ms or limits.LLM_TIMEOUT_MS_DEFAULT
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await _converse(prepared, account)
        except TimeoutError:
            told = f"{prepared.provider_name} did not answer within {timeout_ms} ms"
            return ActivityError(told, "ACTIVITY_TIMEOUT", extra=account.spent())

    async def close(self) -> None:
        """Close the connections of all providers."""
        for provider in self.providers.values():
            await provider.close()

    def _prepare(self, call: ActivityCall) -> _Prepared | ActivityError:
        config = call.activity.config
        chosen = self._choose(config)
        if isinstance(chosen, str):
            return _misconfigured(call, chosen)
        name, model = chosen
        settings = _settings(config)
        if isinstance(settings, str):
            return _misconfigured(call, settings)
        schema = call.activity.output_schema or config.get("output_schema")
        compiled = compile_schema(schema) if isinstance(schema, dict) else None
        if isinstance(compiled, SchemaProblem):
            return _misconfigured(call, f"output_schema{compiled.path}: {compiled.message}")
        prompts = build_prompts(call, mark_untrusted=self.mark_untrusted)
        if isinstance(prompts, str):
            return _misconfigured(call, prompts)
        request = LlmRequest(
            node_id=call.activity.node_id,
            model=model,
            messages=prompts.messages,
            system=prompts.system,
            output_schema=compiled.schema if compiled is not None else None,
            settings=settings,
        )
        return _Prepared(
            provider=self.providers[name],
            provider_name=name,
            request=request,
            schema=compiled,
            untrusted=prompts.untrusted,
        )

    def _choose(self, config: JsonObject) -> tuple[str, str] | str:
        """The provider and its name for the model, or why there is none."""
        named, model = config.get("provider"), config.get("model")
        known = ", ".join(self.providers) or "none"
        if named is not None and named not in self.providers:
            return f"the provider {named} is not configured (configured: {known})"
        model = "default" if model is None else model
        if not isinstance(model, str):
            return "`model` must be a text"
        prefix, colon, rest = model.partition(":")
        if isinstance(named, str):
            name = named
        elif colon and prefix in self.providers:
            name, model = prefix, rest
        else:
            serving = [key for key, provider in self.providers.items() if model in provider.models]
            candidates = serving or list(self.providers)
            if not serving and len(candidates) != 1:
                return f"no provider is configured for the model {model} (configured: {known}); write `provider`"
            name = candidates[0]
        aliases = self.providers[name].models
        if config.get("model") is None and model not in aliases:
            return f"the node names no `model`, and {name} has no default"
        return name, aliases.get(model, model)


async def _converse(prepared: _Prepared, account: _Account) -> ActivityOutcome:
    request = prepared.request
    reply = await prepared.provider.ask(request)
    if isinstance(reply, LlmFailure):
        return _failed(reply, account)
    account.add(reply)
    if prepared.schema is None:
        return _done({"text": reply.text}, prepared, account, reply)
    answer = _check(prepared.schema, reply)
    if isinstance(answer, _Fits):
        return _done(answer.value, prepared, account, reply)
    again = (*request.messages, LlmMessage("assistant", reply.text), LlmMessage("user", _repair(answer)))
    repaired = await prepared.provider.ask(replace(request, messages=again))
    if isinstance(repaired, LlmFailure):
        return _failed(repaired, account)
    account.add(repaired)
    answer = _check(prepared.schema, repaired)
    if isinstance(answer, _Fits):
        return _done(answer.value, prepared, account, repaired)
    told = f"the answer does not fit output_schema, also after a repair: {_listed(answer, '; ')}"
    return ActivityError(shortened(told), "OUTPUT_SCHEMA_VIOLATION", extra=account.spent())


def _done(result: JsonValue, prepared: _Prepared, account: _Account, reply: LlmReply) -> ActivityDone:
    extra: JsonObject = {"usage": account.as_json()}
    if prepared.untrusted:
        # What was made from untrusted text is untrusted: passing it through a model does not launder it.
        extra["untrusted"] = True
    if reply.cut_off:
        extra["cutOff"] = True
    return ActivityDone(result, extra)


def _failed(failure: LlmFailure, account: _Account) -> ActivityError:
    return ActivityError(failure.error, failure.code, retryable=failure.retryable, extra=account.spent())


def _misconfigured(call: ActivityCall, told: str) -> ActivityError:
    return ActivityError(f"{call.activity.node_id}: {told}", "LLM_CONFIG_INVALID", retryable=False)


def _settings(config: JsonObject) -> JsonObject | str:
    if config.get("tools"):
        return "`tools` cannot be used yet; call tools with tool_call nodes"
    settings = {name: config[name] for name in _SETTINGS if config.get(name) is not None}
    temperature, tokens = settings.get("temperature", 0), settings.get("max_tokens", 1)
    if not isinstance(temperature, int | float) or isinstance(temperature, bool) or temperature < 0:
        return "`temperature` must be a number, at least 0"
    if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 1:
        return "`max_tokens` must be a whole number, at least 1"
    return settings


def _check(schema: CompiledSchema, reply: LlmReply) -> _Fits | tuple[Violation, ...]:
    fenced = _FENCED_JSON.fullmatch(reply.text)
    try:
        value: JsonValue = msgspec.json.decode(fenced[1] if fenced else reply.text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        reason = "must be JSON and nothing else"
        return (Violation("", "type", f"{reason}, and it was cut off at max_tokens" if reply.cut_off else reason),)
    if exceeds_depth(value, limits.JSON_DEPTH_MAX):
        return (Violation("", "type", f"must not be nested deeper than {limits.JSON_DEPTH_MAX} levels"),)
    found = violations(schema, value)
    return found or _Fits(value)


def _repair(found: tuple[Violation, ...]) -> str:
    listed = _listed(found[: limits.LLM_VIOLATIONS_SHOWN_MAX], "\n- ")
    return (
        f"Your answer does not fit the required JSON schema:\n- {listed}\nAnswer again, with the corrected JSON only."
    )


def _listed(found: tuple[Violation, ...], separator: str) -> str:
    return separator.join(f"{item.instance_path or '(the whole answer)'} {item.message}" for item in found)
