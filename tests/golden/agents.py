"""Agents with everything that a block may say, and runs of them that end in every way: their nodes must never change.

Above it: the recorder. Below it: documents, nothing that runs.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.build.workflow import build_workflow
from penstock.definitions.model import Workflow

__all__ = ["agent_cases"]

_TOTAL: JsonObject = {"type": "object", "required": ["total"], "properties": {"total": {"type": "number"}}}
_AGENT: JsonObject = {
    "penstock": "v1",
    "name": "everything",
    "input": {"type": "object", "required": ["question"], "properties": {"question": {"type": "string"}}},
    "agent": {
        "model": "large",
        "instructions": "Today is ${ .input.question | length }.",
        "prompt": "Answer: ${ .input.question }",
        "tools": [
            "query:*",
            "workflow:find-order",
            {"tool": "upstream:shop.search", "approve": True},
            {"tool": "upstream:shop.*", "approvers": {"group": "leads"}},
            "execution.status",
        ],
        "ask_user": True,
        "output_schema": _TOTAL,
        "limits": {"turns": 4, "tokens": 1000, "cost": 1, "time": "1h", "parallel_tools": 2},
        "temperature": 0,
        "max_tokens": 500,
        "retry": {"max_attempts": 2},
    },
}
_PLAIN: JsonObject = {"penstock": "v1", "name": "plain", "agent": {"model": "fast", "instructions": "Help."}}


def _calls(*made: tuple[str, JsonObject], **usage: JsonValue) -> JsonObject:
    listed: list[JsonValue] = [{"name": name, "arguments": arguments} for name, arguments in made]
    return {"tool_calls": listed, **({"usage": usage} if usage else {})}


_RESULTS: JsonObject = {"execution_status": {"status": "completed"}, "shop_search": {"n": 1}, "shop": {"n": 2}}
_ANSWERS: JsonObject = {
    "approve_shop_search": {"approved": True},
    "approve_shop": {"approved": False},
    "ask_user": {"answer": "A"},
}
_LISTED: JsonObject = {"tools": [{"name": "query:shop.orders", "description": "Orders."}], "left_out": []}
_ASKS = _calls(("query:shop.orders", {"n": 1}), ("workflow:find-order", {"id": "A-1"}), ("nothing", {}))
_MOCK: JsonObject = {"tools": _LISTED, "query": {"rows": [1, 2]}, "find_order": {"status": "sent"}, **_RESULTS}


def agent_cases() -> Iterator[tuple[Workflow, JsonObject]]:
    """A workflow and a case of it, many times."""
    question: JsonObject = {"question": "How much?"}
    everything: dict[str, list[JsonValue]] = {
        "calls side by side, and one that does not exist": [_ASKS, {"answer": {"total": 3}}],
        "an answer that is repaired": [
            {"text": "much", "problem": "it is no number"},
            {"answer": {"total": 3}},
        ],
        "an answer that never fits": [{"text": "much", "problem": "it is no number"}] * 3,
        "no answer in time": [_calls(("execution.status", {"execution_id": "r"}))] * 4,
        "too many tokens": [_calls(("execution.status", {}), input_tokens=900, output_tokens=200)],
        "too much money": [_calls(("execution.status", {}), cost=2)],
        "a price that is not known": [_calls(("execution.status", {}), cost=None)],
        "an approved call": [_calls(("upstream:shop.search", {"q": "x"})), {"answer": {"total": 1}}],
        "a declined call, and a question": [
            _calls(("upstream:shop.order", {"q": "x"}), ("ask_user", {"question": "Which?"})),
            {"answer": {"total": 2}},
        ],
        "a model that fails": [{"error": {"code": "LLM_PROVIDER_ERROR", "message": "busy"}}] * 3,
    }
    for name, model in everything.items():
        case: JsonObject = {"name": name, "input": question, "model": model, "mock": _MOCK, "answers": _ANSWERS}
        yield build_workflow(_AGENT), case
    said: JsonObject = {"prompt": "Hello?", "context": {"shop": "Acme"}}
    yield build_workflow(_PLAIN), {"name": "an answer at once", "input": said, "model": ["Hello."]}
