"""Asks a model, and the models that stand in for it if it cannot answer.

A fallback is asked when a model fails temporarily: with a provider's error, a rate limit, a lost connection or a
timeout. It is also asked when a limit of the model is reached, or when the model is no longer registered. An answer
that violates the schema is an answer: nobody else is asked. Every model that was tried is in the history, with its
error and what it used.

Above it: `executor`. Below it: `models`, `answers`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal

from msgspec.structs import replace as replace_struct

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.runtime.activities.performing import ActivityCall, ActivityDone, ActivityError, ActivityOutcome
from penstock.runtime.executors.llm.answers import PreparedRequest, Usage
from penstock.runtime.executors.llm.live_text import LiveText, is_read
from penstock.runtime.executors.llm.metering import MeteredProvider
from penstock.runtime.executors.llm.models import ModelMeter, ServedModel, model_action
from penstock.runtime.executors.llm.port import LlmFailure, LlmProvider
from penstock.runtime.executors.outbound.error_text import truncated
from penstock.runtime.ports.models import ModelUse

__all__ = ["Attempts", "Ways"]

Converse = Callable[[LlmProvider, PreparedRequest, Usage], Awaitable[ActivityOutcome]]
FindModel = Callable[[str], Awaitable[ServedModel | LlmFailure]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """What attempts are made with."""

    find: FindModel
    """Finds the model of a name, or says why it cannot be asked."""
    converse: Converse
    """Asks a model until it has answered or failed."""
    meter: ModelMeter
    observe: Callable[[ModelUse], None]


@dataclass(slots=True)
class _Attempt:
    name: str
    named: bool = True  # a document calls it so; otherwise it is the provider's name
    usage: Usage | None = None
    code: str | None = None
    error: str | None = None

    def to_json(self) -> JsonObject:
        told: JsonObject = {"name": self.name} if self.named else {}
        if self.usage is not None:
            told.update(self.usage.as_json())
        if self.code is not None:
            told.update({"code": self.code, "error": self.error})
        return told


@dataclass(slots=True)
class Attempts:
    """The attempts of one activity, in the order in which models were asked."""

    ways: Ways
    call: ActivityCall
    prepared: PreparedRequest
    made: list[_Attempt] = field(default_factory=list)

    async def ask(self, first: ServedModel) -> ActivityOutcome:
        """Ask a model, then its fallbacks, within the timeout of the node."""
        timeout_ms = self.call.activity.timeout_ms
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                outcome = await self._ask_in_order(first)
        except TimeoutError:
            outcome = self._timed_out(f"no model answered within {timeout_ms} ms")
        finally:
            if self.call.readers is not None:
                self.call.readers.written(self.call)
        return self._with_usage(outcome)

    def _timed_out(self, error: str) -> ActivityError:
        asked, code = self.made[-1], "ACTIVITY_TIMEOUT"
        if asked.code is None:
            error = f"{asked.usage.provider if asked.usage else asked.name} did not answer in time: {error}"
            asked.code, asked.error = code, error
            self._observe(asked)
        return ActivityError(error, code)

    async def _ask_in_order(self, first: ServedModel) -> ActivityOutcome:
        outcome, waiting = await self._try(first), list(first.rules.fallbacks)
        tried = {first.name}
        while waiting and self.made[-1].code is not None and _may_fall_back(outcome):
            name = waiting.pop(0)
            if name in tried or len(self.made) >= limits.LLM_FALLBACKS_MAX + 1:
                continue
            tried.add(name)
            found = await self.ways.find(name)
            await self.call.confirm()  # the model before it may have taken long
            if isinstance(found, LlmFailure):
                self.made.append(_Attempt(name, True, None, found.code, found.error))
                continue
            # The fallbacks of a fallback come before those that follow it.
            waiting = [*found.rules.fallbacks, *waiting]
            outcome = await self._try(found)
        return outcome

    async def _try(self, served: ServedModel) -> ActivityOutcome:
        usage = Usage(provider=served.provider_name, model=served.model)
        attempt = _Attempt(served.name or served.model, served.name is not None, usage)
        self.made.append(attempt)
        outcome: ActivityOutcome | None = await self.call.refusal(model_action(served.provider_name, served.model))
        refused = None if outcome is not None else await self.ways.meter.refusal(served, self.call.tenant)
        if refused is not None:
            outcome = ActivityError(refused.error, refused.code, retryable=refused.retryable)
        if outcome is None:
            outcome = await self._asked(served, usage)
        if isinstance(outcome, ActivityError):
            attempt.code, attempt.error = outcome.code, truncated(outcome.error)
        self._observe(attempt)
        return outcome

    async def _asked(self, served: ServedModel, usage: Usage) -> ActivityOutcome:
        own_ms = served.rules.timeout_ms
        timeout_ms = own_ms
        if own_ms is None and self.call.activity.timeout_ms is None:
            timeout_ms = limits.LLM_TIMEOUT_MS_DEFAULT
        live = LiveText.of(self.call) if is_read(self.call, self.prepared) else None
        request = replace(
            self.prepared.request,
            model=served.model,
            settings=self._settings(served),
            reader=live,
        )
        prepared = replace(self.prepared, request=request)
        bound = asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000)
        try:
            async with bound, self.ways.meter.place(served):
                outcome = await self.ways.converse(self._metered(served), prepared, usage)
                if live is not None and isinstance(outcome, ActivityDone):
                    live.finish()
                return outcome
        except TimeoutError:
            if not bound.expired():
                return ActivityError(f"{served.provider_name} did not answer in time", "LLM_PROVIDER_ERROR")
            message = f"{served.provider_name} did not answer within {timeout_ms} ms"
            return ActivityError(message, "ACTIVITY_TIMEOUT" if own_ms is None else "LLM_TIMEOUT")

    def _metered(self, served: ServedModel) -> MeteredProvider:
        turn = self.prepared.turn
        is_summary = turn is not None and turn.summarizing is not None
        return MeteredProvider(served.provider, self.call.budget, 0 if is_summary else 1)

    def _settings(self, served: ServedModel) -> JsonObject:
        settings = {**served.rules.parameters, **self.prepared.request.settings}
        most = served.rules.limits.max_tokens
        if most is not None:
            wanted = settings.get("max_tokens")
            settings["max_tokens"] = min(wanted, most) if isinstance(wanted, int) else most
        return settings

    def _observe(self, attempt: _Attempt) -> None:
        usage = attempt.usage
        if usage is not None:
            self.ways.observe(
                ModelUse(
                    provider=usage.provider,
                    code=attempt.code,
                    input_tokens=usage.input_tokens,
                    output_tokens=usage.output_tokens,
                    cost=usage.cost if usage.requests else None,
                )
            )

    def _with_usage(self, outcome: ActivityOutcome) -> ActivityOutcome:
        """Add what all attempts used to an outcome, and each of them if several models were tried."""
        if not isinstance(outcome, ActivityDone | ActivityError):
            return outcome
        extra: JsonObject = {name: value for name, value in (outcome.extra or {}).items() if name != "usage"}
        total = _total([attempt.usage for attempt in self.made if attempt.usage is not None])
        if total.requests:
            extra["usage"] = used = total.as_json()
            if len(self.made) == 1 and self.made[0].named:
                used["name"] = self.made[0].name  # what is counted against the limits of the model
        if len(self.made) > 1:
            attempts: list[JsonValue] = [attempt.to_json() for attempt in self.made]
            extra["attempts"] = attempts
        return replace_struct(outcome, extra=extra or None)


def _may_fall_back(outcome: ActivityOutcome) -> bool:
    if not isinstance(outcome, ActivityError):
        return False
    if outcome.code in ("LLM_LIMIT_REACHED", "LLM_TIMEOUT"):
        return True
    return outcome.retryable and outcome.code != "OUTPUT_SCHEMA_VIOLATION"


def _total(parts: list[Usage]) -> Usage:
    """The usage of all attempts, as that of the last model that was asked."""
    last = parts[-1]
    answered = [part for part in parts if part.requests] or [last]
    costs = [part.cost for part in answered]
    return Usage(
        provider=answered[-1].provider,
        model=answered[-1].model,
        input_tokens=sum(part.input_tokens for part in parts),
        output_tokens=sum(part.output_tokens for part in parts),
        requests=sum(part.requests for part in parts),
        # A sum with an unknown part is unknown.
        cost=None
        if any(cost is None for cost in costs)
        else sum((cost for cost in costs if cost is not None), Decimal(0)),
        tokens_known=all(part.tokens_known for part in answered),
        estimated=any(part.estimated for part in answered),
    )
