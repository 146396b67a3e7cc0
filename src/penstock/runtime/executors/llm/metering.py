"""Meters the requests to a model: each is taken from the budget of its run first, and counted as it was used.

What a provider says that it used is believed as far as it can be true. A reply without tokens, with a negative number
or an absurd one is estimated: four characters are a token, and the model's price is applied to that.

Above it: `attempts`. Below it: `port`, the budget of the call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.runtime.activities.budgets import RunBudget, nanodollars, tokens_in
from penstock.runtime.executors.llm.port import (
    LlmAnswer,
    LlmFailure,
    LlmProvider,
    LlmReply,
    LlmRequest,
    LlmToolCall,
    price_of,
)
from penstock.runtime.spending import Spent

__all__ = ["MeteredProvider", "believable_reply", "request_tokens"]


@dataclass(slots=True)
class MeteredProvider:
    """A provider whose requests count for a run."""

    provider: LlmProvider
    budget: RunBudget | None
    turns: int = 1
    """How many turns the next request counts as: one for the first, none for its repairs, and none for a summary."""

    @property
    def models(self) -> Mapping[str, str]:
        """The models of the provider."""
        return self.provider.models

    async def ask(self, request: LlmRequest) -> LlmAnswer:
        """Send one request, if the run and all runs above it have anything left."""
        taken = None
        if self.budget is not None:
            taken = self._estimate(request)
            refused = await self.budget.take(taken)
            if refused is not None:
                return LlmFailure(error=refused.message, code=refused.code)
        # If this is cancelled, or the process dies, the estimate goes on counting: the provider may have answered.
        answer = await self.provider.ask(request)
        if isinstance(answer, LlmReply):
            answer = believable_reply(self.provider, request, answer)
        if self.budget is not None and taken is not None:
            used = Spent() if isinstance(answer, LlmFailure) else _spent(answer, taken.turns)
            await self.budget.settle(used + -taken)
        if isinstance(answer, LlmReply):
            self.turns = 0
        return answer

    async def close(self) -> None:
        """Close the connections."""
        await self.provider.close()

    def _estimate(self, request: LlmRequest) -> Spent:
        wanted = request.settings.get("max_tokens")
        most = limits.LLM_OUTPUT_TOKENS_ESTIMATED
        reads = request_tokens(request)
        writes = min(wanted, most) if isinstance(wanted, int) else most
        cost = nanodollars(_price(self.provider, request.model, reads, writes))
        return Spent(turns=self.turns, requests=1, input_tokens=reads, output_tokens=writes, cost=cost)


def _spent(reply: LlmReply, turns: int) -> Spent:
    return Spent(
        turns=turns,
        requests=1,
        input_tokens=reply.input_tokens,
        output_tokens=reply.output_tokens,
        cost=nanodollars(reply.cost),
        unpriced=int(reply.cost is None),
    )


def believable_reply(provider: LlmProvider, request: LlmRequest, reply: LlmReply) -> LlmReply:
    """Return a reply with numbers that can be true: those of the provider, or else estimates."""
    empty = not reply.text and not reply.tool_calls
    reads_known = reply.tokens_known and _is_believable(reply.input_tokens)
    writes_known = reply.tokens_known and (_is_believable(reply.output_tokens) or (reply.output_tokens == 0 and empty))
    if reads_known and writes_known:
        return reply if _is_amount(reply.cost) else replace(reply, cost=_known_price(provider, reply))
    written = len(reply.text) + _characters(reply.tool_calls)
    estimated = replace(
        reply,
        input_tokens=reply.input_tokens if reads_known else request_tokens(request),
        output_tokens=reply.output_tokens if writes_known else tokens_in(written),
        tokens_known=True,
        estimated=True,
    )
    return replace(estimated, cost=_known_price(provider, estimated))


def _known_price(provider: LlmProvider, reply: LlmReply) -> Decimal | None:
    return _price(provider, reply.model, reply.input_tokens, reply.output_tokens)


def _price(provider: LlmProvider, model: str, input_tokens: int, output_tokens: int) -> Decimal | None:
    found = price_of(provider, model, input_tokens, output_tokens)
    return found if _is_amount(found) else None


def _is_amount(cost: Decimal | None) -> bool:
    return cost is None or (cost.is_finite() and 0 <= cost <= limits.LLM_COST_BELIEVED_MAX)


def _is_believable(tokens: int) -> bool:
    return 0 < tokens <= limits.LLM_TOKENS_BELIEVED_MAX


def request_tokens(request: LlmRequest) -> int:
    """Estimate how many tokens a model reads."""
    said = sum(len(message.text) + _characters(message.tool_calls) for message in request.messages)
    described = len(encode_bytes((request.tools, request.output_schema)))
    return tokens_in(len(request.system or "") + said + described)


def _characters(calls: tuple[LlmToolCall, ...]) -> int:
    return len(encode_bytes(calls)) if calls else 0
