"""`llm_call`: asks a language model, validates its answer against the node's schema, and counts its cost.

    LlmExecutor({"openai": PydanticProvider("openai", LlmProviderConfig(kind="openai", api_key=…)),
                 "mock": MockProvider({"plan": {"topics": []}})})

An answer that violates `output_schema` is sent back to the model once, with what is wrong. If the second answer
violates it too, the attempt fails with OUTPUT_SCHEMA_VIOLATION. Without a schema the result is `{"text": …}`. Tokens
and costs of all requests of an attempt are stored in history, beside its result or its error.

A model is one of the settings, or one that the tenant of the run has registered; it is looked up when the node is
performed. If it cannot answer, its fallbacks are asked (`attempts`).

With `conversation`, `tools` or `answer_schema`, the node is one turn of a conversation: the model is asked once, and
the result says which tools it calls, or its answer, or what is wrong with that (`turns`). With `summarize`, it
summarizes the part that no longer fits.

With `provider: client`, the model of the program that started the run answers (`client_model`), if the program supports
that. Otherwise the server's own model of that name answers, or its default model.

Above it: `app`. Below it: `models`, `attempts`, `port` and its implementations; `prompts`. It never resends a request
to the same model, except for a repair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.schemas.compiled import SchemaProblem, load_schema
from penstock.definitions.source.findings import suggestion
from penstock.runtime.activities.performing import ActivityCall, ActivityError, ActivityOutcome
from penstock.runtime.executors.llm.answers import (
    PreparedRequest,
    Usage,
    ValidAnswer,
    check_answer,
    done,
    repair_text,
    schema_violation,
    summary_before,
    summary_result,
    turn_result,
)
from penstock.runtime.executors.llm.attempts import Attempts, Ways
from penstock.runtime.executors.llm.client_model import CLIENT, SAMPLING, ask_client_model, holds_secrets
from penstock.runtime.executors.llm.models import ModelMeter, ModelSource, NoModels, ServedModel, model_action
from penstock.runtime.executors.llm.port import LlmFailure, LlmMessage, LlmProvider, LlmRequest
from penstock.runtime.executors.llm.prompts import build_prompts
from penstock.runtime.executors.llm.turns import read_turn
from penstock.runtime.ports.models import MODEL_PARAMETERS, ModelRules, ModelUse

__all__ = ["LlmExecutor"]

_DEFAULT = "default"


def _nobody(use: ModelUse) -> None:
    """Count nothing."""


@dataclass(slots=True)
class LlmExecutor:
    """Performs `llm_call` nodes with the providers that an operator configured."""

    providers: Mapping[str, LlmProvider]
    # A relaxation for operators who trust everything that reaches their prompts. Documents cannot choose it.
    mark_untrusted: bool = field(default=True, kw_only=True)
    rules: Mapping[str, ModelRules] = field(default_factory=dict, kw_only=True)
    """The rules for the models of the settings, by name."""
    registered: ModelSource = field(default_factory=NoModels, kw_only=True)
    """The models of tenants."""
    meter: ModelMeter = field(default_factory=ModelMeter, kw_only=True)
    observe: Callable[[ModelUse], None] = field(default=_nobody, kw_only=True)
    """Receives what every attempt used."""

    async def perform(self, call: ActivityCall) -> ActivityOutcome:
        """Ask the model, and once more if its answer violates the schema; then its fallbacks, if it cannot answer."""
        if self._is_for_client(call):
            return await self._through_client(call)
        chosen = await self._choose(call)
        if isinstance(chosen, ActivityError):
            return chosen
        prepared = self._prepare(call, chosen.model)
        if isinstance(prepared, ActivityError):
            return prepared
        summarizing = None if prepared.turn is None else prepared.turn.summarizing
        if summarizing is not None and not summarizing.is_needed:
            return summary_before(summarizing)

        async def find(name: str) -> ServedModel | LlmFailure:
            return await self._named(name, call.tenant)

        ways = Ways(find=find, converse=_converse, meter=self.meter, observe=self.observe)
        return await Attempts(ways, call, prepared).ask(chosen)

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
        if prepared.turn is not None:
            return _misconfigured(call, "the model of a client cannot be given tools or a conversation")
        refused = await call.refusal(model_action(CLIENT, prepared.request.model))
        return await ask_client_model(prepared, call) if refused is None else refused

    async def close(self) -> None:
        """Close the connections of all providers."""
        await self.registered.close()
        for provider in self.providers.values():
            await provider.close()

    def _prepare(self, call: ActivityCall, model: str) -> PreparedRequest | ActivityError:
        config = call.activity.config
        settings = _settings(config)
        if isinstance(settings, str):
            return _misconfigured(call, settings)
        turn = read_turn(config, call.values)
        if isinstance(turn, str):
            return _misconfigured(call, turn)
        # The engine checks `output_schema` against the result, and the result of a turn is not its answer.
        own = call.activity.output_schema or config.get("output_schema")
        named, schema = ("output_schema", own) if turn is None else ("answer_schema", config.get("answer_schema"))
        compiled = load_schema(schema) if isinstance(schema, dict) else None
        if isinstance(compiled, SchemaProblem):
            return _misconfigured(call, f"{named}{compiled.path}: {compiled.message}")
        prompts = build_prompts(call, turn=turn, mark_untrusted=self.mark_untrusted)
        if isinstance(prompts, str):
            return _misconfigured(call, prompts)
        request = LlmRequest(
            node_id=call.activity.node_id,
            model=model,
            messages=prompts.messages,
            system=prompts.system,
            output_schema=compiled.schema if compiled is not None else None,
            settings=settings,
            tools=prompts.tools,
        )
        return PreparedRequest(
            request=request, schema=compiled, untrusted=prompts.untrusted, turn=turn, hidden=tuple(call.hidden)
        )

    async def _choose(self, call: ActivityCall) -> ServedModel | ActivityError:
        """The model that a node names, or the error if it cannot be asked."""
        config = call.activity.config
        named, model = config.get("provider"), config.get("model")
        if named == CLIENT:
            return await self._instead_of_client(model, call.tenant)
        if not self.providers and not await self.registered.names(call.tenant):
            message = f"no model is configured or registered (node {call.activity.node_id})"
            return ActivityError(message, "COMPOSITE_EXECUTOR_NOT_CONFIGURED", retryable=False)
        if named is not None and (not isinstance(named, str) or named not in self.providers):
            known = ", ".join(self.providers) or "none"
            return _misconfigured(call, f"the provider {named} is not configured (configured: {known})")
        model = _DEFAULT if model is None else model
        if not isinstance(model, str):
            return _misconfigured(call, "`model` must be a text")
        prefix, colon, rest = model.partition(":")
        if isinstance(named, str):
            return self._of_provider(call, named, model)
        if colon and prefix in self.providers:
            return self._of_provider(call, prefix, rest)
        found = await self._named(model, call.tenant)
        return self._without_model(call, model, found) if isinstance(found, LlmFailure) else found

    def _without_model(self, call: ActivityCall, model: str, failure: LlmFailure) -> ServedModel | ActivityError:
        """Return the advice for a name that matches no model."""
        if failure.code == "LLM_MODEL_NOT_FOUND":
            if call.activity.config.get("model") is None:
                return _misconfigured(call, "the node names no `model`, and there is no model named `default`")
            only = next(iter(self.providers)) if len(self.providers) == 1 else None
            # A name close to a known one is a typing mistake, and is not passed on.
            if self.registered.passes_on and only is not None and suggestion(model, self._model_names()) is None:
                return self._of_provider(call, only, model)
        return ActivityError(f"{call.activity.node_id}: {failure.error}", failure.code, retryable=failure.retryable)

    def _of_provider(self, call: ActivityCall, name: str, model: str) -> ServedModel | ActivityError:
        """A model of a provider that the node names; other names than those of the settings are passed on to it."""
        provider = self.providers[name]
        if call.activity.config.get("model") is None and model not in provider.models:
            return _misconfigured(call, f"the node names no `model`, and {name} has no default")
        return self._served(name, provider, model)

    def _served(self, provider_name: str, provider: LlmProvider, model: str) -> ServedModel:
        known = model in provider.models
        return ServedModel(
            name=model if known else None,
            provider_name=provider_name,
            provider=provider,
            model=provider.models.get(model, model),
            rules=self.rules.get(model, ModelRules()) if known else ModelRules(),
        )

    async def _named(self, name: str, tenant: str) -> ServedModel | LlmFailure:
        """The model of a name: one of the settings, else one of the tenant."""
        for provider_name, provider in self.providers.items():
            if name in provider.models:
                return self._served(provider_name, provider, name)
        found = await self.registered.find(tenant, name)
        if found is not None:
            return found
        known = [*self._model_names(), *await self.registered.names(tenant)]
        advice = suggestion(name, known) or f"there is {', '.join(sorted(known)) or 'none'}."
        hint = f"{advice} To ask a provider for exactly {name}, write `provider` beside it"
        return LlmFailure(error=f"there is no model {name}; {hint}", code="LLM_MODEL_NOT_FOUND")

    def _model_names(self) -> list[str]:
        return [name for provider in self.providers.values() for name in provider.models]

    async def _instead_of_client(self, model: JsonValue, tenant: str) -> ServedModel | ActivityError:
        """The model that replaces a client which cannot answer: the named one, else the default."""
        for wanted in (model, _DEFAULT):
            found = await self._named(wanted, tenant) if isinstance(wanted, str) else None
            if isinstance(found, ServedModel):
                return found
        message = "the program that started the run offers no model, and the server has no replacement"
        return ActivityError(f"{message}; configure a model named `default`", "CLIENT_CANNOT_SAMPLE", retryable=False)


async def _converse(provider: LlmProvider, prepared: PreparedRequest, account: Usage) -> ActivityOutcome:
    request = prepared.request
    reply = await provider.ask(request)
    if isinstance(reply, LlmFailure):
        return _failed(reply, account)
    account.add(reply)
    if prepared.turn is not None and prepared.turn.summarizing is not None:
        written = summary_result(prepared.turn.summarizing, reply, account)
        return written if isinstance(written, ActivityError) else done(written, prepared, account, reply)
    if prepared.turn is not None:
        return done(turn_result(prepared.turn, prepared, reply, account), prepared, account, reply)
    if prepared.schema is None:
        return done({"text": reply.text}, prepared, account, reply)
    answer = check_answer(prepared.schema, reply)
    if isinstance(answer, ValidAnswer):
        return done(answer.value, prepared, account, reply)
    if request.reader is not None:
        request.reader.begin()
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


def _failed(failure: LlmFailure, account: Usage) -> ActivityError:
    return ActivityError(failure.error, failure.code, retryable=failure.retryable, extra=account.failed_usage())


def _misconfigured(call: ActivityCall, message: str) -> ActivityError:
    return ActivityError(f"{call.activity.node_id}: {message}", "LLM_CONFIG_INVALID", retryable=False)


def _settings(config: JsonObject) -> JsonObject | str:
    settings = {name: config[name] for name in MODEL_PARAMETERS if config.get(name) is not None}
    temperature, tokens = settings.get("temperature", 0), settings.get("max_tokens", 1)
    if not isinstance(temperature, int | float) or isinstance(temperature, bool) or temperature < 0:
        return "`temperature` must be a number, at least 0"
    if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 1:
        return "`max_tokens` must be a whole number, at least 1"
    return settings
