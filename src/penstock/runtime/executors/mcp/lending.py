"""Answers MCP servers that ask for our model (`sampling/createMessage`) or for folders (`roots/list`).

A server is answered only if its settings lend it something for the tenant of the call. A request for the model belongs
to one call of a tool: it counts against the bounds of that call and is listed in its outcome. Text is all that a server
may send and get. It gets no tools, and sees nothing of the run except what it was sent.

Above it: `executor`, `session`. Below it: `runtime.upstreams.lending`, the types of the SDK. Models are asked by the
`ModelLender`, not here.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import msgspec
from mcp_types import (
    INVALID_REQUEST,
    CreateMessageRequestParams,
    CreateMessageResult,
    ErrorData,
    ListRootsResult,
    Root,
    TextContent,
)
from pydantic import FileUrl

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.json import JsonObject, JsonValue
from penstock.base.masking import mask
from penstock.runtime.activities.performing import ActivityCall, ActivityDone, ActivityError, ActivityOutcome
from penstock.runtime.upstreams.lending import (
    Lending,
    ModelLender,
    SampledText,
    SamplingMessage,
    SamplingRefusal,
    SamplingRequest,
    SamplingTerms,
    token_step,
)

__all__ = ["LENT_ROOTS", "LENT_SAMPLING", "LentToCall", "existing_folders", "listed_roots", "with_sampling"]

LENT_SAMPLING = "sampling/createMessage"
LENT_ROOTS = "roots/list"
_NOT_LENT = "SAMPLING_NOT_LENT"
_TOO_MUCH = "SAMPLING_LIMIT_REACHED"
_UNFIT = "SAMPLING_REQUEST_INVALID"


@dataclass(slots=True, kw_only=True)
class LentToCall:
    """What a server is lent during one call of its tool, and what it has used of it."""

    server: str
    lending: Lending = field(default_factory=Lending)
    lend: ModelLender | None = None
    call: ActivityCall | None = None
    """The call whose run pays. It is replaced when the run continues after a question."""
    hidden: tuple[str, ...] = ()
    """Secrets that were sent to the server. It may repeat them, and no model may read them."""
    used: list[JsonObject] = field(default_factory=list)
    """Every request for the model, as the history lists it."""
    has_ended: bool = False
    refusal: SamplingRefusal | None = None
    """Why the last request was refused."""
    _equal: Counter[str] = field(default_factory=Counter)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def sample(self, params: CreateMessageRequestParams) -> CreateMessageResult | ErrorData:
        """Have the lent model answer a request of the server."""
        async with self._turn:  # one at a time: the cost of one is known before the next
            answer = await self._answer(params)
        if isinstance(answer, SamplingRefusal):
            self.refusal = answer
            return ErrorData(code=INVALID_REQUEST, message=_told(answer))
        text, was_stopped = _stopped(answer.text, params.stop_sequences or ())
        reason = "stopSequence" if was_stopped else "maxTokens" if answer.cut_off else "endTurn"
        content = TextContent(type="text", text=text)
        return CreateMessageResult(role="assistant", content=content, model=self._model(), stop_reason=reason)

    def _model(self) -> str:
        return "" if self.lending.sampling is None else self.lending.sampling.model

    async def _answer(self, params: CreateMessageRequestParams) -> SampledText | SamplingRefusal:
        terms, call, lend = self.lending.sampling, self.call, self.lend
        if terms is None or call is None:
            return SamplingRefusal(code=_NOT_LENT, message=f"{self.server} is lent no model")
        if lend is None:
            message = "this process has no open gate, and only a gate lends models; run it on a server"
            return SamplingRefusal(code="GATE_CLOSED", message=message)
        refused = self._exceeded(terms)
        if refused is not None:
            return refused
        request = self._request(terms, params)
        if isinstance(request, SamplingRefusal):
            return request
        entry: JsonObject = {"model": terms.model}
        self.used.append(entry)
        async with call.waiting():
            answer = await lend(call, terms, request)
        entry.update(_entry(answer))
        return answer

    def _exceeded(self, terms: SamplingTerms) -> SamplingRefusal | None:
        if self.has_ended:
            return SamplingRefusal(code=_TOO_MUCH, message=f"the call of {self.server} has ended")
        if len(self.used) >= terms.requests_per_call:
            message = f"{self.server} may ask the model {terms.requests_per_call} times in one call"
            return SamplingRefusal(code=_TOO_MUCH, message=f"{message}; `sampling.requests_per_call` allows more")
        if terms.cost_per_call is None:
            return None
        costs = [item.get("cost") for item in self.used if "cost" in item]
        if None in costs:
            message = f"what the model {terms.model} costs is unknown, and `sampling.cost_per_call` limits it"
            return SamplingRefusal(code=_TOO_MUCH, message=f"{message}; give the model `prices`")
        spent = sum((Decimal(str(cost)) for cost in costs), Decimal(0))
        if spent >= Decimal(str(terms.cost_per_call)):
            message = f"{self.server} has spent {spent:f} dollars in this call; {terms.cost_per_call:g} are allowed"
            return SamplingRefusal(code=_TOO_MUCH, message=f"{message} (`sampling.cost_per_call`)")
        return None

    def _request(self, terms: SamplingTerms, params: CreateMessageRequestParams) -> SamplingRequest | SamplingRefusal:
        if params.tools or params.tool_choice is not None:
            return self._unfit("gives the model tools, which is not lent")
        if params.max_tokens < 1:
            return self._unfit("asks for an answer of less than one token")
        if not params.messages or len(params.messages) > limits.MCP_SAMPLING_MESSAGES_MAX:
            return self._unfit(f"must send between 1 and {limits.MCP_SAMPLING_MESSAGES_MAX} messages")
        messages: list[SamplingMessage] = []
        for message in params.messages:
            blocks = message.content_as_list
            texts = [block.text for block in blocks if isinstance(block, TextContent)]
            if len(texts) < len(blocks):
                return self._unfit("sends something else than text")
            messages.append(SamplingMessage(message.role, self._masked("\n".join(texts))))
        system = None if params.system_prompt is None else self._masked(params.system_prompt)
        size = sum(len(item.text.encode(errors="replace")) for item in messages)
        size += len((system or "").encode(errors="replace"))
        if size > limits.MCP_SAMPLING_BYTES_MAX:
            return self._unfit(f"sends {size} bytes of text; {limits.MCP_SAMPLING_BYTES_MAX} are allowed")
        request = SamplingRequest(
            server=self.server,
            messages=tuple(messages),
            system=system,
            max_tokens=token_step(params.max_tokens, terms.max_tokens),
        )
        digest = hashlib.sha256(encode_bytes(request)).hexdigest()
        number, self._equal[digest] = self._equal[digest], self._equal[digest] + 1
        return msgspec.structs.replace(request, number=number)

    def _unfit(self, what: str) -> SamplingRefusal:
        return SamplingRefusal(code=_UNFIT, message=f"{self.server} {what}")

    def _masked(self, text: str) -> str:
        return mask(text, self.hidden)


def with_sampling(outcome: ActivityOutcome, lent: LentToCall) -> ActivityOutcome:
    """Add to the outcome of a call what its server had a lent model answer."""
    if not lent.used or not isinstance(outcome, ActivityDone | ActivityError):
        return outcome
    sampling: list[JsonValue] = [*lent.used]
    return msgspec.structs.replace(outcome, extra={**(outcome.extra or {}), "sampling": sampling})


def _told(refusal: SamplingRefusal) -> str:
    """Return the refusal for the server.

    A failed run's message may name our other models, so the server gets only its code.
    """
    return refusal.code if refusal.execution_id is not None else f"{refusal.code}: {refusal.message}"


def _entry(answer: SampledText | SamplingRefusal) -> JsonObject:
    if isinstance(answer, SamplingRefusal):
        found: JsonObject = {"code": answer.code, "error": answer.message}
        return found if answer.execution_id is None else {**found, "executionId": answer.execution_id}
    return {
        "executionId": answer.execution_id,
        "inputTokens": answer.input_tokens,
        "outputTokens": answer.output_tokens,
        "cost": None if answer.cost is None else f"{answer.cost:f}",
    }


def _stopped(text: str, stops: Sequence[str]) -> tuple[str, bool]:
    """The text up to the first of the sequences at which the server wants it to end, and whether there was one."""
    places = [place for stop in stops if stop and (place := text.find(stop)) >= 0]
    return (text[: min(places)], True) if places else (text, False)


async def existing_folders(lending: Lending | None) -> tuple[str, ...]:
    """The lent folders that exist now."""
    folders = () if lending is None else lending.folders
    if not folders:
        return ()
    return await asyncio.to_thread(lambda: tuple(folder for folder in folders if os.path.isdir(folder)))


def listed_roots(folders: Sequence[str]) -> ListRootsResult:
    """Folders as the protocol lists them."""
    return ListRootsResult(roots=[Root(uri=FileUrl(Path(folder).as_uri()), name=_name(folder)) for folder in folders])


def _name(folder: str) -> str:
    return Path(folder).name or folder
