"""Somebody with a key on a live server, and the server's operations with arguments that they would take."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tests.live.rest.servers import Answer, LiveServer

__all__ = ["BODIES", "NUMBERS", "Member", "Operation", "member", "operations", "requests_about"]

# What every operation about something that exists is sent, beside the name of that thing.
BODIES: dict[str, dict[str, Any]] = {
    "workflow.update": {"tasks": [{"id": "done", "type": "end"}]},
    "workflow.diff": {},
    "workflow.test": {},
    "workflow.simulate": {"input": {"number": 1}},
    "workflow.execute": {"input": {"number": 1}},
    "task.create": {"task": {"id": "extra", "type": "wait", "duration": "1s"}},
    "task.execute": {"workflow_id": "count", "task_id": "note"},
    "task.update": {"task": {"id": "done", "type": "end"}},
    "execution.query": {"expression": "."},
    "execution.pause": {},
    "execution.resume": {},
    "execution.cancel": {"reason": "mine now"},
    "execution.retry": {"node_id": "ask"},
    "execution.fork": {"at_sequence": 1},
    "execution.signal": {"name": "go", "payload": 1},
    "execution.update": {"name": "go", "payload": 1, "wait_seconds": 0},
    "execution.answer": {"answer": {"ok": True}},
    "execution.submit_activity": {"ok": True},
    "execution.lease_activity": {"seconds": 5},
    "schedule.create": {"cron": "0 3 * * *", "input": {"number": 3}},
    "schedule.update": {"cron": "0 4 * * *"},
    "schedule.pause": {},
    "schedule.resume": {},
    "schedule.run_now": {},
    "control.workflow_status": {},
    "control.workflow_resume": {"resume_payload": {"ok": True}},
    "control.workflow_submit_activity": {"node_id": "ask", "outcome": {"ok": True, "result": 1}},
    "control.workflow_signal": {"signal_name": "go", "payload": 1},
    "control.workflow_cancel": {"reason": "mine now"},
    "key.revoke": {},
    "key.rotate": {},
    "schema.update": {"schema": {"type": "string"}},
    "model.update": {"provider": "other", "model": "large"},
    "tool.update": {"kind": "mcp", "name": "other", "server": "mine"},
    "tool.execute": {},
    "agent.update": {"model": "other"},
    "agent.execute": {"prompt": "tell me"},
    "agent.message": {"message": "tell me"},
    "session.end": {},
    "graph.update": {"title": "mine now"},
    "graph.schema_apply": {"schema": "node Person { name: String @key  age: I32? }"},
    "graph.branches_create": {"name": "mine"},
    "graph.collect": {"keep_days": 0},
    "graph.branches_merge": {"source": "work"},
    "graph.queries_put": {"source": "query find($name: String) { match { $p: Person { name: $name } } return { $p } }"},
    "graph.queries_validate": {"source": "query find() { match { $p: Person } return { $p } }"},
    "graph.queries_explain": {"params": {"name": "Ada"}},
    "graph.query_run": {"params": {"name": "Ada"}},
    "graph.query": {"query": "query find() { match { $p: Person } return { $p } }"},
    "graph.mutate": {"query": 'query add() { insert Person { name: "Eve" } }'},
    "graph.load": {"data": '{"type": "Person", "data": {"name": "Eve"}}'},
    "webhook.update": {"url": "https://example.com/mine"},
    "webhook.rotate": {},
    "webhook.test": {},
    "delivery.retry": {},
    "notification.set": {"url": "https://example.com/mine"},
    "draft.approve": {"note": "mine now"},
    "draft.reject": {"note": "mine now"},
    "draft.cancel": {"reason": "mine now"},
    "draft.commit": {"digest": "0" * 64},
    "draft.propose": {},
    "policy.put": {
        "text": '@id("mine") forbid (principal is Agent, action in Action::"write", resource) when '
        "{ context.time.hour > 24 };"
    },
    "memory.put": {"value": "mine now"},
    "quota.set": {"runs_per_day": 1},
    "upstream.accept": {"tools": ["*"]},
    "upstream.refuse": {"reason": "mine now"},
    "upstream.begin_sign_in": {"redirect_uri": "http://127.0.0.1:40123/callback"},
    "upstream.complete_sign_in": {"state": "any", "code": "any"},
    "upstream.refresh": {},
    "upstream.call": {"arguments": {}},
}
# In these, what the call is about stands in the body.
_NAMED_IN_BODY = {"schedule.create": "workflow_id"}
# Each tenant counts its own records from one, so that a number names something else in every trail.
NUMBERS = ("seq",)
# Memory is found by who calls. Its scopes have the same names everywhere, and a test of their own.
_FOUND_BY_CALLER = ("scope",)
_PATH_NAME = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation as the server describes it."""

    name: str
    method: str
    path: str
    scopes: tuple[str, ...]
    input_schema: dict[str, Any]

    @property
    def path_names(self) -> list[str]:
        return _PATH_NAME.findall(self.path)

    @property
    def about(self) -> str | None:
        """The member that names what a call is about; None for operations about nothing that exists."""
        if self.path_names:
            return None if self.path_names[0] in (*NUMBERS, *_FOUND_BY_CALLER) else self.path_names[0]
        if self.name.startswith("control.") and "execution_id" in self.input_schema["properties"]:
            return None if self.name == "control.workflow_start" else "execution_id"
        return _NAMED_IN_BODY.get(self.name)

    def request(self, named: dict[str, str], body: dict[str, Any] | None = None) -> tuple[str, str, Any]:
        """Method, path and body of a call with these names in their places."""
        path = _PATH_NAME.sub(lambda found: named[found[1]], self.path).removeprefix("/")
        if self.method in ("GET", "DELETE"):
            return self.method, path, None
        in_body = {name: value for name, value in named.items() if name not in self.path_names}
        return self.method, path, {**(body or {}), **in_body}


@dataclass(frozen=True, slots=True)
class Member:
    """The holder of a key."""

    server: LiveServer
    key: str

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.server.request(method, path, body, key=self.key, headers=sent)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of a request that must succeed."""
        return self.server.call(method, path, body, key=self.key)


def member(server: LiveServer, tenant: str, *scopes: str, name: str = "member") -> Member:
    """Somebody in a tenant, with a new key from the operator."""
    body = {"name": name, "tenant": tenant, "kind": "person", "scopes": list(scopes or ("*",))}
    return Member(server, server.call("POST", "keys", body)["secret"])


def operations(server: LiveServer) -> list[Operation]:
    """Everything that a server can be asked for over REST."""
    return [
        Operation(
            name=item["name"],
            method=item["method"],
            path=item["path"],
            scopes=tuple(item["scopes"]),
            input_schema=item["input_schema"],
        )
        for item in server.call("GET", "operations")["items"]
        if item["path"]
    ]


def requests_about(operation: Operation, seeds: dict[str, list[Any]]) -> list[tuple[str, tuple[str, str, Any]]]:
    """Calls of an operation about each thing that exists: the thing's id, and the request; none if there is none."""
    about = operation.about
    if about is None:
        return []
    if not seeds.get(about):
        return []
    others = {name: str(seeds[name][0]) for name in operation.path_names}
    return [
        (str(name), operation.request({**others, about: str(name)}, BODIES.get(operation.name)))
        for name in seeds[about]
    ]
