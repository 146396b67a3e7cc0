"""Language models through `pydantic-ai-slim`: OpenAI, every OpenAI-compatible address, Anthropic, and others.

    LlmProviderConfig(kind="openai-compatible", base_url="http://127.0.0.1:11434/v1", needs_key=False)
    LlmProviderConfig(kind="anthropic", api_key=…, models={"large": "claude-…"})

`kind` is `openai-compatible` or any provider that pydantic-ai knows by name, if its library is installed. Nothing is
read from the environment: a key that is not configured is missing.

Above it: `app` loads this module only when a provider is configured (extra `executor`). Below it: pydantic-ai, httpx2.
It sends a request once: neither the library nor the provider's client retries.

If the request has a reader (`LlmRequest.reader`), it asks for the answer as a stream of events. It counts when it is
complete; of one that ends too early, nothing is left but the error.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import groupby
from typing import Any, Final, Literal, cast

import httpx2
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import (
    AgentRunError,
    ContentFilterError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    UserError,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.providers import infer_provider_class
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from penstock.base import limits
from penstock.base.json import JsonObject, JsonValue
from penstock.base.lazy_import import importing_alone
from penstock.base.traces import current_traceparent
from penstock.runtime.address_guard import AddressDenied, AddressGuard
from penstock.runtime.executors.llm.port import LlmAnswer, LlmFailure, LlmMessage, LlmReply, LlmRequest, LlmToolCall
from penstock.runtime.executors.llm.thoughts import said_before, thoughts_of
from penstock.runtime.executors.llm.tool_names import ANSWER_TOOL
from penstock.runtime.executors.llm.written_text import WrittenText, text_of_answer
from penstock.runtime.executors.outbound.bounded_body import BodyTooLarge, ResponseLimits, was_too_large
from penstock.runtime.executors.outbound.error_text import truncated
from penstock.runtime.executors.outbound.guarded_transport import GuardedTransport
from penstock.runtime.executors.outbound.httpx2_limits import limiting_hooks
from penstock.runtime.executors.outbound.tls_trust import trusted_certificates

__all__ = ["LlmProviderConfig", "PydanticProvider", "TokenPrices"]

_COMPATIBLE: Final = "openai-compatible"
_CONNECT_SECONDS: Final = 10.0
_RETRYABLE_STATUS: Final = frozenset({408, 409, 425, 429})
_SERVER_ERROR_MIN: Final = 500
_ANSWER: Final = ResponseLimits(bytes_max=limits.LLM_ANSWER_BYTES_MAX, tokens_max=limits.LLM_ANSWER_TOKENS_MAX)
_PER_MILLION: Final = Decimal(1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPrices:
    """The price of a million tokens in US dollars, for models that the library's price list does not have."""

    input_per_million: Decimal
    output_per_million: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmProviderConfig:
    """Where models are served. `api_key_name` is where the operator should put the key; errors name it."""

    kind: str
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    api_key_name: str | None = None
    needs_key: bool = True
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    models: Mapping[str, str] = field(default_factory=dict)
    prices: TokenPrices | None = None
    guard: AddressGuard | None = None
    """Which addresses may be reached, for an address that the operator did not choose; without it, every address."""


class _CutOff(Exception):
    """An answer ended before it was complete."""


async def _add_trace(request: httpx2.Request) -> None:
    """Tell the provider which trace a request belongs to, if any."""
    traceparent = current_traceparent()
    if traceparent is not None:
        request.headers["traceparent"] = traceparent


class PydanticProvider:
    """One configured provider, with a connection pool and a client per model."""

    def __init__(self, name: str, config: LlmProviderConfig) -> None:
        self.name = name
        self.config = config
        self._http: httpx2.AsyncClient | None = None
        self._clients: dict[str, Model[Any]] = {}
        self._making = asyncio.Lock()
        self._uncounted: set[str] = set()
        """Models that do not say what they used when their answer comes in pieces."""

    @property
    def models(self) -> Mapping[str, str]:
        """Model names that documents may use."""
        return self.config.models

    async def close(self) -> None:
        """Close the connections. A later request opens new ones."""
        self._clients.clear()
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    async def ask(self, request: LlmRequest) -> LlmAnswer:
        """Send the request once."""
        if self.config.needs_key and not self.config.api_key:
            where = f"set {self.config.api_key_name}" if self.config.api_key_name else "configure its key"
            return LlmFailure(error=f"the provider {self.name} has no key: {where}", code="LLM_CREDENTIALS_MISSING")
        try:
            model = await self._client(request.model)
        except (UserError, ImportError, TypeError, ValueError) as error:
            # The library does not know this kind of provider, or its package is not installed.
            return LlmFailure(error=self._error_text(error), code="LLM_CONFIG_INVALID")
        try:
            response = await self._response(model, request)
        except UserError as error:
            return LlmFailure(error=self._error_text(error), code="LLM_CONFIG_INVALID")
        except (AgentRunError, AddressDenied) as error:
            return self._failure(error)
        except _CutOff as error:
            return LlmFailure(error=f"{self.name}: {error}", code="LLM_PROVIDER_ERROR", retryable=True)
        except BodyTooLarge:
            return LlmFailure(error=f"{self.name}: {_ANSWER.exceeded_message()}", code="LLM_RESPONSE_TOO_LARGE")
        except (TypeError, ValueError, AttributeError, LookupError):
            # The library parses an answer without checking that it is one.
            message = f"{self.name} answered with something that is not a model's answer"
            return LlmFailure(error=message, code="LLM_PROVIDER_ERROR", retryable=True)
        return self._reply(request, response)

    async def _response(self, model: Model[Any], request: LlmRequest) -> ModelResponse:
        messages, settings, parameters = _messages(request, self.name), _settings(request), _parameters(request)
        reader = None if request.model in self._uncounted else request.reader
        if reader is None:
            response = await model_request(
                model, messages, model_settings=settings, model_request_parameters=parameters
            )
            if request.reader is not None:
                request.reader.say(text_of_answer(response))
            return response
        written = WrittenText(reader)
        try:
            async with model_request_stream(
                model, messages, model_settings=settings, model_request_parameters=parameters
            ) as stream:
                async for event in stream:
                    written.take(event)
                    if written.size > limits.LLM_ANSWER_BYTES_MAX:
                        raise BodyTooLarge(_ANSWER.exceeded_message())
                response = stream.get()
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            if was_too_large(error):
                raise BodyTooLarge(_ANSWER.exceeded_message()) from error
            raise _CutOff(f"the connection was lost in the middle of the answer: {type(error).__name__}") from error
        # The library takes a chat completion without a reason to end for one that has ended.
        named = "finish_reason" in (response.provider_details or {}) or response.finish_reason == "content_filter"
        if response.finish_reason is None or (isinstance(model, OpenAIChatModel) and not named):
            # A connection that ends properly in the middle of a stream looks like its end.
            raise _CutOff("the answer ended before it was complete")
        if response.usage.unmeasured_requests or not response.usage.has_values():
            # What is not counted is not limited: this model is not asked in this way again.
            self._uncounted.add(request.model)
        return response

    async def _client(self, model: str) -> Model[Any]:
        known = self._clients.get(model)
        if known is not None:
            return known
        async with self._making:
            known = self._clients.get(model)
            if known is not None:
                return known
            if len(self._clients) >= limits.LLM_MODELS_CACHED_MAX:
                self._clients.pop(next(iter(self._clients)))
            if self._http is None:
                # The executor limits the read time, because it knows the node's own limit.
                timeout = httpx2.Timeout(None, connect=_CONNECT_SECONDS)
                hooks, verify = limiting_hooks(_ANSWER, events=True), await trusted_certificates()
                hooks.setdefault("request", []).append(_add_trace)
                guard = self.config.guard
                transport = None if guard is None else GuardedTransport(guard, verify=verify)
                self._http = httpx2.AsyncClient(
                    headers=dict(self.config.headers),
                    timeout=timeout,
                    event_hooks=hooks,
                    verify=verify,
                    transport=transport,
                )
            # In a thread, because the first client of a kind imports the library of its provider.
            self._clients[model] = made = await asyncio.to_thread(self._make_alone, model, self._http)
            return made

    def _make_alone(self, model: str, http: httpx2.AsyncClient) -> Model[Any]:
        with importing_alone():
            return self._make(model, http)

    def _make(self, model: str, http: httpx2.AsyncClient) -> Model[Any]:
        config = self.config
        if config.kind == _COMPATIBLE:
            if not config.base_url:
                raise UserError(f"`{_COMPATIBLE}` needs a base_url")
            provider = OpenAICompatibleProvider(
                self.name, base_url=config.base_url, api_key=config.api_key, http_client=http
            )
            return OpenAIChatModel(model, provider=provider)
        arguments: dict[str, Any] = {"api_key": config.api_key, "http_client": http}
        if config.base_url is not None:
            arguments["base_url"] = config.base_url
        make_provider = cast("Any", infer_provider_class(config.kind))
        return infer_model(f"{config.kind}:{model}", provider_factory=lambda _: make_provider(**arguments))

    def _reply(self, request: LlmRequest, response: ModelResponse) -> LlmReply:
        usage = response.usage
        return LlmReply(
            text=text_of_answer(response),
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            model=response.model_name or request.model,
            cost=self._cost(response),
            cut_off=response.finish_reason == "length",
            tool_calls=_tool_calls(response),
            tokens_known=request.reader is None or usage.has_values(),
            thoughts=thoughts_of(response, self.name, request.model),
        )

    def price(self, model: str, input_tokens: int, output_tokens: int) -> Decimal | None:
        """Return what so many tokens of a model cost, in US dollars; None if that is unknown."""
        usage = RequestUsage(input_tokens=input_tokens, output_tokens=output_tokens)
        return self._cost(ModelResponse(parts=[], usage=usage, model_name=model, provider_name=self.config.kind))

    def _cost(self, response: ModelResponse) -> Decimal | None:
        prices, usage = self.config.prices, response.usage
        if prices is not None:
            spent = prices.input_per_million * usage.input_tokens + prices.output_per_million * usage.output_tokens
            return spent / _PER_MILLION
        if self.config.kind == _COMPATIBLE:
            return None  # the price list does not apply to somebody else's server, even if a name matches
        try:
            return response.cost().total_price
        except (LookupError, ValueError, AssertionError):
            return None

    def _failure(self, error: AgentRunError | AddressDenied) -> LlmFailure:
        denied = _denied_by(error)
        if denied is not None:
            message = f"{self.name}: {denied}; an operator can allow it with `http.allow_hosts`"
            return LlmFailure(error=message, code="HTTP_ADDRESS_DENIED")
        if was_too_large(error):
            message = f"{self.name}: {_ANSWER.exceeded_message()}"
            return LlmFailure(error=message, code="LLM_RESPONSE_TOO_LARGE")
        message = self._error_text(error)
        match error:
            case ModelAuthenticationError():
                return LlmFailure(error=f"{self.name} refused the key: {message}", code="LLM_CREDENTIALS_MISSING")
            case ModelNotFoundError():
                return LlmFailure(error=message, code="LLM_CONFIG_INVALID")
            case ModelQuotaExceededError() | ModelRequestRejectedError() | ContentFilterError():
                retryable = False
            case ModelHTTPError(status_code=status) if not isinstance(error, ModelRateLimitError):
                retryable = status in _RETRYABLE_STATUS or status >= _SERVER_ERROR_MIN
            case ModelAPIError():
                retryable = True
            case _:
                retryable = True  # an answer that could not be read
        return LlmFailure(error=message, code="LLM_PROVIDER_ERROR", retryable=retryable)

    def _error_text(self, error: Exception) -> str:
        return truncated(f"{self.name}: {error}", hidden=self.config.api_key)


def _denied_by(error: BaseException | None) -> AddressDenied | None:
    """The refusal of an address that an error was caused by; some providers' libraries wrap it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, AddressDenied):
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


def _messages(request: LlmRequest, provider: str) -> list[ModelMessage]:
    messages: list[ModelMessage] = []
    for role, group in groupby(request.messages, key=lambda message: message.role):
        if role == "assistant":
            messages.extend(said_before(message, provider, request.model) for message in group)
        elif role == "tool":
            # The results of one turn are one message: Anthropic refuses anything else.
            messages.append(ModelRequest(parts=[_returned(item) for item in group], instructions=request.system))
        else:
            messages.extend(
                ModelRequest(parts=[UserPromptPart(message.text)], instructions=request.system) for message in group
            )
    return messages


def _returned(message: LlmMessage) -> ModelRequestPart:
    outcome: Literal["success", "failed"] = "failed" if message.failed else "success"
    return ToolReturnPart(message.tool or "", message.text, message.call_id or "", outcome=outcome)


def _settings(request: LlmRequest) -> ModelSettings:
    # The engine does the retries, and records every attempt.
    return cast("ModelSettings", {**request.settings, "max_retries": 0})


def _parameters(request: LlmRequest) -> ModelRequestParameters:
    schema = request.output_schema
    tools = [
        ToolDefinition(
            name=tool.name,
            description=tool.description,
            parameters_json_schema=cast("dict[str, Any]", tool.input_schema),
        )
        for tool in request.tools
    ]
    if schema is None:
        return ModelRequestParameters(function_tools=tools)
    described = OutputObjectDefinition(json_schema=cast("dict[str, Any]", schema), name=ANSWER_TOOL)
    if not _is_object(schema):
        # Providers accept only objects as structured answers. Anything else is asked for in the prompt, and validated
        # by us.
        return ModelRequestParameters(function_tools=tools, output_mode="prompted", output_object=described)
    tool = ToolDefinition(
        name=ANSWER_TOOL,
        parameters_json_schema=cast("dict[str, Any]", schema),
        description="Give the final answer.",
        kind="output",
    )
    # With tools of its own, a model calls one of them or `answer`; native structured output would rule out calls.
    return ModelRequestParameters(
        function_tools=tools,
        output_mode="tool" if tools else "auto",
        output_object=described,
        output_tools=[tool],
        allow_text_output=False,
    )


def _is_object(schema: JsonObject) -> bool:
    return schema.get("type") == "object"


def _tool_calls(response: ModelResponse) -> tuple[LlmToolCall, ...]:
    calls = (part for part in response.parts if isinstance(part, ToolCallPart) and part.tool_name != ANSWER_TOOL)
    return tuple(LlmToolCall(id=part.tool_call_id, name=part.tool_name, arguments=_arguments(part)) for part in calls)


def _arguments(part: ToolCallPart) -> JsonObject | str:
    """Return the arguments of a call, or what the model wrote instead of an object."""
    if not isinstance(part.args, str):
        return cast("JsonObject", part.args or {})
    try:
        value: JsonValue = json.loads(part.args) if part.args.strip() else {}
    except (ValueError, RecursionError):
        return part.args
    return value if isinstance(value, dict) else part.args
