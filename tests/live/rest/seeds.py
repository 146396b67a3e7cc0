"""Workflows that need nothing but the server, and a store that has one of everything."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["APPROVE", "COUNT", "SIGNALLED", "WORKFLOWS", "Caller", "Seeds", "seed"]


def _workflow(name: str, *nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"penstock": "v1", "name": name, "nodes": list(nodes), **more}


COUNT = _workflow(
    "count",
    {"id": "note", "type": "set_state", "set": {"number": "${ .input.number }"}},
    {"id": "done", "type": "end", "output": {"doubled": "${ .state.number * 2 }"}},
    input={
        "type": "object",
        "required": ["number"],
        "properties": {"number": {"type": "integer", "minimum": 0, "maximum": 1000}},
        "additionalProperties": False,
    },
)
APPROVE = _workflow(
    "approve",
    {
        "id": "ask",
        "type": "interrupt",
        "message": "May I?",
        "answer": {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}},
    },
    {"id": "done", "type": "end", "output": {"ok": "${ .ask.ok }"}},
)
SIGNALLED = _workflow(
    "signalled",
    {"id": "wait", "type": "wait", "signal": "go"},
    {"id": "note", "type": "set_state", "set": {"heard": "${ .wait }"}},
    {"id": "more", "type": "wait", "signal": "end"},
    {"id": "done", "type": "end", "output": "${ .state.heard }"},
)
WORKFLOWS = (COUNT, APPROVE, SIGNALLED)


class Caller(Protocol):
    """Somebody who calls the REST API and gets JSON back."""

    def __call__(self, method: str, path: str, body: Any = None) -> Any: ...


class Seeds(dict[str, list[Any]]):
    """Values that exist, by the name of the parameter that takes them."""


def seed(call: Caller) -> Seeds:
    """Put one of everything into a store; what can be named afterwards."""
    for document in WORKFLOWS:
        call("POST", "workflows", {"document": document})
    for number, execution_id in enumerate(("done-1", "done-2")):
        body = {"input": {"number": number}, "execution_id": execution_id, "sync": True}
        call("POST", "workflows/count/executions", body)
    call("POST", "workflows/approve/executions", {"execution_id": "asks-1"})
    call("POST", "workflows/signalled/executions", {"execution_id": "waits-1", "labels": {"team": "red"}})
    call("POST", "workflows/count/executions", {"execution_id": "given-1", "input": {"number": 1}})
    schedule = {"schedule_id": "nightly", "workflow_id": "count", "cron": "0 3 * * *", "input": {"number": 3}}
    call("POST", "schedules", schedule)
    key = call("POST", "keys", {"name": "reader", "scopes": ["execution:read"]})
    call("POST", "schemas", {"id": "order", "schema": {"type": "object"}})
    call("POST", "models", {"id": "fast", "provider": "openai", "model": "small"})
    call("POST", "tools", {"id": "search", "name": "search", "kind": "mcp", "server": "files"})
    call("POST", "agents", {"id": "helper", "model": "fast"})
    # Nothing is under way when this returns: some tests look twice whether something has changed.
    talk = call("POST", "agents/helper/messages", {"message": "Hello?", "sync": True})
    call("PUT", "memory/tenant/entries/tone", {"value": "formal"})
    call("POST", "graphs", {"id": "people", "schema": "node Person { name: String @key }"})
    loaded = call("POST", "graphs/people/load", {"data": '{"type": "Person", "data": {"name": "Ada"}}'})
    call("POST", "graphs/people/branches", {"name": "work"})
    find = "query find($name: String) { match { $p: Person { name: $name } } return { $p } }"
    call("PUT", "graphs/people/queries/find", {"source": find})
    webhook = call("POST", "webhooks", {"url": "https://example.com/events", "events": ["run.completed"]})["webhook"]
    delivery = call("POST", f"webhooks/{webhook['id']}/test")
    call("PUT", "executions/waits-1/notifications/main", {"url": "https://example.com/news"})
    return Seeds(
        workflow_id=["count", "approve", "signalled"],
        execution_id=["done-1", "done-2", "asks-1", "waits-1", "given-1"],
        schedule_id=["nightly"],
        key_id=[key["key"]["id"]],
        node_id=["ask", "wait", "note"],
        task_id=["note", "done"],
        schema_id=["order"],
        version=[1],
        model_id=["fast"],
        tool_id=["search"],
        agent_id=["helper"],
        session_id=[talk["session_id"]],
        graph_id=["people"],
        scope=["tenant"],
        key=["tone"],
        commit_id=[loaded["commit"]["commit_id"]],
        name=["find"],
        endpoint_id=[webhook["id"]],
        delivery_id=[delivery["id"]],
        notification_id=["main"],
    )
