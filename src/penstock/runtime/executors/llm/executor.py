"""`llm_call`: asks a language model, validates its answer against the node's schema, and counts its cost.

    LlmExecutor({"openai": PydanticProvider("openai", LlmProviderConfig(kind="openai", api_key=…)),
                 "mock": MockProvider({"plan": {"topics": []}})})

An answer that violates `output_schema` is sent back to the model once, with what is wrong. If the second answer
violates it too, the attempt fails with OUTPUT_SCHEMA_VIOLATION. Without a schema the result is `{"text": …}`. Tokens
and costs of all requests of an attempt are stored in history, beside its result or its error.

With `provider: client`, the program that started the run is asked for its model's answer (`client_model`), if it
supports that. Otherwise the server's own model of that name answers, or its default model.

Above it: `app`. Below it: `port` and its implementations; `prompts`. It never retries a request by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.schemas.compiled import SchemaProblem, load_schema
from penstock.definitions.source.findings import suggestion
from penstock.runtime.activities.performing import ActivityCall, ActivityError, ActivityOutcome, NodeAction
from penstock.runtime.executors.llm.answers import (
    PreparedRequest,
    Usage,
    ValidAnswer,
    check_answer,
    done,
    repair_text,
    schema_violation,
)
from penstock.runtime.executors.llm.client_model import CLIENT, SAMPLING, ask_client_model, holds_secrets
from penstock.runtime.executors.llm.port import LlmFailure, LlmMessage, LlmProvider, LlmRequest
from penstock.runtime.executors.llm.prompts import build_prompts

__all__ = ["LlmExecutor"]

# What a document may set beside the listed fields. Anything else in a node is not for the model.
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


@dataclass(slots=True)
class LlmExecutor:
    """Performs `llm_call` nodes with the providers that an operator configured."""

    providers: Mapping[str, LlmProvider]
    # A relaxation for operators who trust everything that reaches their prompts. Documents cannot choose it.
    mark_untrusted: bool = field(default=True, kw_only=True)

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Ask the model, and once more if its answer violates the schema."""
        if self._is_for_client(call):
            return await self._through_client(call)
        chosen = self._choose(call.activity.config)
        if isinstance(chosen, ActivityError):
            return chosen
        if isinstance(chosen, str):
            return _misconfigured(call, chosen)
        name, model = chosen
        prepared = self._prepare(call, model)
        if isinstance(prepared, ActivityError):
            return prepared
        refused = await call.refusal(_model_action(name, model))
        if refused is not None:
            return refused
        account = Usage(provider=name, model=model)
        timeout_ms = call.activity.timeout_ms or limits.LLM_TIMEOUT_MS_DEFAULT
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await _converse(self.providers[name], prepared, account)
        except TimeoutError:
            message = f"{name} did not answer within {timeout_ms} ms"
            return ActivityError(message, "ACTIVITY_TIMEOUT", extra=account.failed_usage())

    def _is_for_client(self, call: ActivityCall) -> bool:
        """True if the client that started the run is asked: it supports that, or it has been asked already."""
        activity = call.activity
        can = SAMPLING in call.client_kinds or activity.answer is not None
        return activity.config.get("provider") == CLIENT and can

    async def _through_client(self, call: ActivityCall) -> ActivityOutcome:
        if holds_secrets(call):
            return _misconfigured(call, "a prompt with a secret in it cannot be sent to a client")
        model = call.activity.config.get("model")
        prepared = self._prepare(call, model if isinstance(model, str) else "default")
        if isinstance(prepared, ActivityError):
            return prepared
        refused = await call.refusal(_model_action(CLIENT, prepared.request.model))
        return ask_client_model(prepared, call) if refused is None else refused

    async def close(self) -> None:
        """Close the connections of all providers."""
        for provider in self.providers.values():
            await provider.close()

    def _prepare(self, call: ActivityCall, model: str) -> PreparedRequest | ActivityError:
        config = call.activity.config
        settings = _settings(config)
        if isinstance(settings, str):
            return _misconfigured(call, settings)
        schema = call.activity.output_schema or config.get("output_schema")
        compiled = load_schema(schema) if isinstance(schema, dict) else None
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
        return PreparedRequest(request=request, schema=compiled, untrusted=prompts.untrusted)

    def _choose(self, config: JsonObject) -> tuple[str, str] | str | ActivityError:
        """The provider and its name for the model, or the error if there is none."""
        named, model = config.get("provider"), config.get("model")
        if named == CLIENT:
            return self._instead_of_client(model)
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
            # A name close to a configured one is a typing mistake, and would be passed to the provider under a wrong
            # name.
            meant = None if serving else suggestion(model, self._model_names())
            if meant is not None:
                return f"no model {model} is configured; {meant} To ask for exactly {model}, write `provider` beside it"
            if not serving and len(candidates) != 1:
                return f"no provider is configured for the model {model} (configured: {known}); write `provider`"
            name = candidates[0]
        aliases = self.providers[name].models
        if config.get("model") is None and model not in aliases:
            return f"the node names no `model`, and {name} has no default"
        return name, aliases.get(model, model)

    def _model_names(self) -> list[str]:
        return [name for provider in self.providers.values() for name in provider.models]

    def _instead_of_client(self, model: JsonValue) -> tuple[str, str] | ActivityError:
        """The server's model that replaces a client which cannot answer: the named one, else the default."""
        for wanted in (model, "default"):
            for name, provider in self.providers.items():
                if isinstance(wanted, str) and wanted in provider.models:
                    return name, provider.models[wanted]
        message = "whoever started the run has no model that can be asked, and the server has none that stands in"
        return ActivityError(f"{message}; configure a model named `default`", "CLIENT_CANNOT_SAMPLE", retryable=False)


async def _converse(provider: LlmProvider, prepared: PreparedRequest, account: Usage) -> ActivityOutcome:
    request = prepared.request
    reply = await provider.ask(request)
    if isinstance(reply, LlmFailure):
        return _failed(reply, account)
    account.add(reply)
    if prepared.schema is None:
        return done({"text": reply.text}, prepared, account, reply)
    answer = check_answer(prepared.schema, reply)
    if isinstance(answer, ValidAnswer):
        return done(answer.value, prepared, account, reply)
    again = (*request.messages, LlmMessage("assistant", reply.text), LlmMessage("user", repair_text(answer)))
    repaired = await provider.ask(replace(request, messages=again))
    if isinstance(repaired, LlmFailure):
        return _failed(repaired, account)
    account.add(repaired)
    answer = check_answer(prepared.schema, repaired)
    return (
        done(answer.value, prepared, account, repaired)
        if isinstance(answer, ValidAnswer)
        else schema_violation(answer, account)
    )


def _model_action(provider: str, model: str) -> NodeAction:
    return NodeAction(name="llm_call", resource=f"{provider}:{model}", facts={"provider": provider, "model": model})


def _failed(failure: LlmFailure, account: Usage) -> ActivityError:
    return ActivityError(failure.error, failure.code, retryable=failure.retryable, extra=account.failed_usage())


def _misconfigured(call: ActivityCall, message: str) -> ActivityError:
    return ActivityError(f"{call.activity.node_id}: {message}", "LLM_CONFIG_INVALID", retryable=False)


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
