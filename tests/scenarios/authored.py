"""What can be stored and takes effect later: how each operation stores it, and every way in which it then does.

`rows` has one row for each operation that declares `stores`, `WAYS` the ways of each kind of definition. A way returns
what came of it: `done`, `held`, or the code of the refusal.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from penstock.agent_profile.surface import AgentProfileOptions
from penstock.app.executors.configured import open_executors
from penstock.app.gate import local_owner
from penstock.app.penstock import Penstock
from penstock.app.serving.server import ServerOptions, open_application
from penstock.app.settings.model import HttpSettings, Settings
from penstock.app.settings.named import ModelSettings
from penstock.operations.catalogue.capability import Reply
from penstock.operations.gate.authentication import principal_of
from penstock.operations.gate.context import GateLimits, HoldChoices, Principal, WebhookChoices
from penstock.operations.gate.pipeline import RefusedCall
from penstock.runtime.schedules.scheduler import NotAllowed, Started
from penstock.runtime.tables.api_keys import read_key
from tests.scenarios.agents import conversation
from tests.scenarios.office import Office
from tests.unit.operations.receiver import Receiver
from tests.unit.rest.conftest import Answered, Client
from tests.waiting import until_found

__all__ = [
    "WAYS",
    "Bench",
    "Row",
    "open_bench",
    "operation_of",
    "prepare_ways",
    "rows",
    "run_before",
    "store",
    "store_by_model",
]

SETTINGS = Settings(
    http=HttpSettings(allow_private=True),
    models={"fast": ModelSettings(provider="mock", replies={"*": "fine"})},
)
PROFILE_SCOPES = ["workflow:run", "workflow:read", "tool:run", "agent:run", "graph:run", "draft:write", "draft:read"]
MUCH = GateLimits(read_per_minute=100_000, write_per_minute=100_000, admin_per_minute=100_000)
GRAPH = "crm"
SCHEMA = "node Person {\n  name: String @key\n}\n"


def document(name: str, **more: Any) -> dict[str, Any]:
    """A workflow that asks a model, and has triggers of its own."""
    return {
        "penstock": "v1",
        "name": name,
        "expose": {"tool": True},
        "triggers": [
            {"id": f"{name}-clock", "schedule": {"cron": "0 3 1 1 *"}},
            {"id": f"{name}-hook", "webhook": {"path": f"/hooks/{name}", "verify": {"strategy": "none"}}},
        ],
        "nodes": [
            {"id": "ask", "type": "llm_call", "model": "fast", "prompt": "Well?"},
            {"id": "done", "type": "end", "output": "ran"},
        ],
        **more,
    }


def query_source(name: str) -> str:
    return f'query {name}() @description("People.") {{ match {{ $p: Person }} return {{ $p.name }} }}'


@dataclass(slots=True)
class Bench:
    """A server with everything on, and somebody of each kind."""

    office: Office
    client: Client
    boss: str
    """The key of a person who tries the ways."""
    app: str
    """The key of an agent of the agent profile."""
    address: str
    endpoints: dict[str, str] = field(default_factory=dict)
    """The ids of webhooks, by the names of their rows."""
    runs: dict[str, str] = field(default_factory=dict)
    """Runs of before whose ids nobody could choose, by the names of their rows."""
    messages: dict[str, str] = field(default_factory=dict)
    """Runs that answered a message of before, by the names of their rows."""
    later: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """What people store once there is something to use."""

    @property
    def owner(self) -> Principal:
        return local_owner()

    async def result(self, who: str | Principal, operation: str, /, **arguments: Any) -> str:
        """What came of a call."""
        outcome = await self.office.outcome(who, operation, **arguments)
        if isinstance(outcome, RefusedCall):
            return outcome.error.code
        reply = outcome.reply
        return await self.ended(msgspec.to_builtins(reply.value) if isinstance(reply, Reply) else None)

    async def ended(self, value: Any) -> str:
        """What came of an execution that a call started, once it has ended."""
        if not isinstance(value, dict):
            return "done"
        if value.get("held"):
            return "held"
        execution_id = value.get("execution_id")
        if execution_id is None or "status" not in value:
            return "done"

        async def look() -> Any:
            found = await self.office.call(self.owner, "execution.status", execution_id=execution_id)
            return found if found["status"] in ("completed", "failed", "cancelled") else None

        found = await until_found(look)
        return "done" if found["status"] == "completed" else str(found["error"]["code"])

    async def answered(self, answer: Answered) -> str:
        """What came of a request."""
        body = json.loads(answer.body)
        if answer.status >= 400:
            return str(body.get("code") or body.get("error") or body)
        return await self.ended(body)

    async def rest(self, method: str, path: str, body: Any = None) -> str:
        return await self.answered(await self.client(method, path, body or {}, key=self.boss))

    async def mcp(self, tool: str) -> str:
        """What came of a call over MCP by the client of a person."""
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {}}}
        headers = {"accept": "application/json", "host": "127.0.0.1"}
        answer = (await self.client("POST", "/v1/mcp", body, headers=headers, key=self.boss)).json()
        result = answer.get("result")
        if result is None:
            return str(answer["error"])
        if result.get("isError"):
            return named_code(result)
        return await self.ended(result["structuredContent"])

    async def profile(self, operation: str, **payload: Any) -> str:
        """What came of an action of the agent profile."""
        body = {"action": operation, "payload": payload, "execute": True}
        answer = (await self.client("POST", "/api/agent/v1/actions", body, key=self.app)).json()
        if not answer["ok"]:
            return named_code(answer)
        return "held" if answer["data"]["status"] == "draft" else "done"

    async def by_agent(self, name: str) -> str:
        """What came of a call that the model of a person's agent makes."""
        found = await self.office.call(
            self.office.people["boss"],
            "agent.execute",
            agent_id=f"uses-{name}",
            prompt="go",
            sync=True,
            wait_seconds=60,
        )
        assert found["status"] == "completed", found
        (told,) = [item for item in await conversation(self.office, found["execution_id"]) if item["role"] == "tool"]
        return "done" if "error" not in json.dumps(told) else named_code(told)

    async def run_of(self, name: str) -> str:
        """What came of a person's own workflow that uses what is stored."""
        return await self.result("boss", "workflow.execute", workflow_id=f"uses-{name}", sync=True)

    async def fired(self, schedule_id: str) -> str:
        """What came of a schedule that is due."""
        scheduler = self.office.gate.services.scheduler
        row = await scheduler.find(schedule_id)
        assert row is not None, schedule_id
        assert scheduler.fire is not None
        outcome = await scheduler.fire(row, "tonight")
        if isinstance(outcome, NotAllowed):
            return outcome.code
        assert isinstance(outcome, Started), outcome
        return "done"


def named_code(answer: Any) -> str:
    """The code of a refusal on a surface that has words of its own for it."""
    text = json.dumps(answer)
    return "VERSION_PROPOSED" if "is proposed, and a person must accept it" in text else text


Way: TypeAlias = Callable[[Bench, str], Awaitable[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """How an operation stores something under a name."""

    kind: str
    arguments: Mapping[str, Any]
    name: str
    before: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    """What the owner of the server stores first."""


def workflow_row(name: str, arguments: Mapping[str, Any], was: dict[str, Any] | None = None) -> Row:
    before = () if was is None else (("workflow.create", {"document": was}),)
    return Row(kind="workflow", name=name, arguments=arguments, before=before)


def registered(kind: str, body: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Row]:
    """The two rows of a registry; an entry is updated from another one."""
    made, changed = f"{kind}_create", f"{kind}_update"
    return {
        f"{kind}.create": Row(kind=kind, name=made, arguments={"id": made, **body}),
        f"{kind}.update": Row(
            kind=kind,
            name=changed,
            arguments={f"{kind}_id": changed, **body},
            before=((f"{kind}.create", {"id": changed, **other}),),
        ),
    }


ASK = document("")["nodes"][0]
PAUSE = {"id": "pause", "type": "wait", "duration": "1ms"}
LATE = "0 4 1 1 *"
SCHEDULED = {"penstock": "v1", "name": "scheduled", "nodes": [{"id": "done", "type": "end", "output": "ran"}]}


def rows(address: str) -> dict[str, Row]:
    """How each operation stores something that takes effect later."""
    hook = {"url": f"{address}/agents", "events": ["run.completed"], "workflows": ["scheduled"]}
    return {
        "workflow.create": workflow_row("workflow_create", {"document": document("workflow_create")}),
        "workflow.update": workflow_row(
            "workflow_update",
            {"workflow_id": "workflow_update", "document": document("workflow_update")},
            document("workflow_update", title="before"),
        ),
        "workflow.import": workflow_row(
            "workflow_import",
            {"workflows": [document("workflow_import")], "overwrite": True},
            document("workflow_import", title="before"),
        ),
        "task.create": workflow_row(
            "task_create",
            {"workflow_id": "task_create", "task": PAUSE, "after": "ask"},
            document("task_create"),
        ),
        "task.update": workflow_row(
            "task_update",
            {"workflow_id": "task_update", "task_id": "ask", "task": {**ASK, "prompt": "Now?"}},
            document("task_update"),
        ),
        "task.delete": workflow_row(
            "task_delete",
            {"workflow_id": "task_delete", "task_id": "pause"},
            document("task_delete", nodes=[PAUSE, *document("")["nodes"]]),
        ),
        "control.workflow_start": workflow_row(
            "control_start", {"definition": document("control_start"), "execution_id": "sent-control_start"}
        ),
        "workflow.create of an agent": Row(
            kind="agent document",
            name="agent_document",
            arguments={
                "document": {
                    "penstock": "v1",
                    "name": "agent_document",
                    "expose": {"a2a": True},
                    "agent": {"model": "fast", "instructions": "obey"},
                }
            },
        ),
        "task.execute": Row(kind="task", name="task_execute", arguments={"task": ASK, "execution_id": "task_execute"}),
        **registered(
            "tool", {"kind": "http", "http": {"url": f"{address}/tool"}, "expose": True}, {"kind": "step", "name": "x"}
        ),
        **registered(
            "model",
            {"provider": "mock", "model": "m", "replies": {"*": "fine"}},
            {"provider": "mock", "model": "m", "replies": {"*": "before"}},
        ),
        **registered("agent", {"model": "fast", "instructions": "obey"}, {"model": "fast", "instructions": "be good"}),
        **registered("schema", {"schema": {"type": "object"}}, {"schema": {"type": "string"}}),
        "schedule.create": Row(
            kind="schedule",
            name="schedule_create",
            arguments={"schedule_id": "schedule_create", "workflow_id": "scheduled", "cron": LATE},
        ),
        "schedule.update": Row(
            kind="schedule",
            name="schedule_update",
            arguments={"schedule_id": "schedule_update", "cron": LATE},
            before=(
                (
                    "schedule.create",
                    {"schedule_id": "schedule_update", "workflow_id": "scheduled", "cron": "0 5 1 1 *"},
                ),
            ),
        ),
        "webhook.create": Row(kind="webhook", name="webhook_create", arguments=hook),
        "webhook.update": Row(
            kind="webhook",
            name="webhook_update",
            arguments={"endpoint_id": "webhook_update", **hook},
            before=(("webhook.create", {**hook, "events": ["run.failed"]}),),
        ),
        "webhook.rotate": Row(
            kind="webhook",
            name="webhook_rotate",
            arguments={"endpoint_id": "webhook_rotate"},
            before=(("webhook.create", hook),),
        ),
        "graph.queries_put": Row(
            kind="query",
            name="queries_put",
            arguments={"graph_id": GRAPH, "name": "queries_put", "source": query_source("queries_put")},
        ),
        "policy.put": Row(
            kind="policy",
            name="policy_put",
            arguments={
                "policy_id": "policy_put",
                "text": '@id("p") forbid (principal, action == Action::"backup.create", resource);',
            },
        ),
    }


def operation_of(label: str) -> str:
    """The operation of a row."""
    return label.partition(" ")[0]


async def prepare_ways(bench: Bench, known: Mapping[str, Row]) -> None:
    """Store what people have that uses what is about to be stored, and what is about to be replaced."""
    office, owner = bench.office, bench.owner
    await office.call(owner, "graph.create", id=GRAPH, schema=SCHEMA)
    await office.call(owner, "workflow.create", document=SCHEDULED)
    for row in known.values():
        for operation, arguments in row.before:
            made = await office.call(owner, operation, **arguments)
            if operation == "webhook.create":
                bench.endpoints[row.name] = made["webhook"]["id"]
        for made_document in uses(row):
            await office.call(owner, "workflow.create", document=made_document)
        called = CALLED.get(row.kind)
        if called is not None:
            turns = [{"tool_calls": [{"name": called.format(row.name), "arguments": {}}]}, "ready"]
            await office.call(
                owner, "model.create", id=f"calls-{row.name}", provider="mock", model="m", replies={"*": turns}
            )
            body = {"model": f"calls-{row.name}", "instructions": "call it", "tools": [called.format(row.name)]}
            await office.call(owner, "agent.create", id=f"uses-{row.name}", **body)
        if row.kind == "model":
            body = {"model": row.name, "instructions": "answer"}
            await office.call(owner, "agent.create", id=f"with-{row.name}", **body)
        if row.kind == "workflow":
            clock = {"schedule_id": f"of-{row.name}", "workflow_id": row.name, "cron": LATE}
            bench.later.append(("schedule.create", clock))
        if row.kind == "query":
            body = {"kind": "query", "graph": GRAPH, "name": row.name}
            bench.later.append(("tool.create", {"id": f"uses-{row.name}", **body}))


CALLED = {"workflow": "workflow:{}", "tool": "tool:{}", "query": f"query:{GRAPH}/{{}}"}
"""What a model calls, by the kind of what is stored."""


def uses(row: Row) -> list[dict[str, Any]]:
    """Workflows of people that use what is stored."""
    end = {"id": "done", "type": "end"}
    own = {"id": "use", "type": "tool_call", "server": "penstock", "arguments": {}}
    nodes: dict[str, dict[str, Any]] = {
        "workflow": {"id": "use", "type": "subworkflow", "workflow": row.name},
        "tool": {**own, "tool": f"tool:{row.name}"},
        "model": {"id": "use", "type": "llm_call", "model": row.name, "prompt": "Well?"},
        "query": {"id": "use", "type": "query", "graph": GRAPH, "query": row.name},
        "agent": {**own, "tool": "agent.execute", "arguments": {"agent_id": row.name, "prompt": "go", "sync": True}},
    }
    if row.kind not in nodes:
        return []
    return [{"penstock": "v1", "name": f"uses-{row.name}", "nodes": [nodes[row.kind], end]}]


async def store(bench: Bench, who: str | Principal, label: str, row: Row, request: dict[str, Any]) -> Any:
    """Store something as somebody, and return the answer."""
    operation = operation_of(label)
    arguments = dict(row.arguments)
    if "endpoint_id" in arguments:
        arguments["endpoint_id"] = bench.endpoints[row.name]
    return await bench.office.call(who, operation, request=request, **arguments)


async def store_by_model(bench: Bench, label: str, row: Row) -> Any:
    """Let the model of an agent of a person store something, and return what it is told."""
    office, owner, name = bench.office, bench.owner, f"writes-{row.name}"
    arguments = dict(row.arguments)
    if "endpoint_id" in arguments:
        arguments["endpoint_id"] = bench.endpoints[row.name]
    turns = [{"tool_calls": [{"name": operation_of(label), "arguments": arguments}]}, "ready"]
    await office.call(owner, "model.create", id=name, provider="mock", model="m", replies={"*": turns})
    body = {"model": name, "instructions": "store it", "tools": [operation_of(label)]}
    await office.call(owner, "agent.create", id=name, **body)
    begun = await office.call("boss", "agent.execute", agent_id=name, prompt="go")
    execution_id = begun["execution_id"]

    async def look() -> Any:
        waiting = await office.call(owner, "draft.list", status="open")
        for draft in waiting["items"]:
            if draft["made_by_execution"] == execution_id:
                return {"held": {"draft_id": draft["id"]}}
        told = [item for item in await conversation(office, execution_id) if item["role"] == "tool"]
        return told[0]["content"] if told else None

    return await until_found(look)


async def run_before(bench: Bench, row: Row) -> None:
    """Run what was stored once, for the ways that repeat a run; note the id of a webhook."""
    office, owner, chosen = bench.office, bench.owner, f"before-{row.name}"
    match row.kind:
        case "workflow":
            await office.call(owner, "workflow.execute", workflow_id=row.name, execution_id=chosen, sync=True)
        case "tool":
            done = await office.call(owner, "tool.execute", tool_id=row.name, arguments={})
            bench.runs[row.name] = done["execution_id"]
        case "agent" | "agent document":
            await office.call(owner, "agent.execute", agent_id=row.name, prompt="go", execution_id=chosen, sync=True)
            said = await office.call(owner, "agent.message", agent_id=row.name, message="hello", wait_seconds=60)
            bench.messages[row.name] = said["execution_id"]
        case "webhook" if row.name not in bench.endpoints:
            page = await office.call(owner, "webhook.list")
            known = bench.endpoints.values()
            (bench.endpoints[row.name],) = [item["id"] for item in page["items"] if item["id"] not in known]
        case _:
            pass


async def by_rest(bench: Bench, name: str) -> str:
    return await bench.rest("POST", f"workflows/{name}/executions", {"sync": True})


async def by_name_over_mcp(bench: Bench, name: str) -> str:
    return await bench.mcp(name)


async def as_child(bench: Bench, name: str) -> str:
    return await bench.run_of(name)


async def by_older_hash(bench: Bench, name: str) -> str:
    found = await bench.office.call(bench.owner, "workflow.get", workflow_id=name)
    return await bench.result("boss", "workflow.execute", workflow_id=name, hash=found["hash"], sync=True)


async def as_pinned_child(bench: Bench, name: str) -> str:
    found = await bench.office.call(bench.owner, "workflow.get", workflow_id=name)
    node = {"id": "use", "type": "subworkflow", "workflow": name, "version_pin": found["hash"]}
    pinned = {"penstock": "v1", "name": f"pins-{name}", "nodes": [node, {"id": "done", "type": "end"}]}
    await bench.office.call(bench.owner, "workflow.create", document=pinned)
    return await bench.result("boss", "workflow.execute", workflow_id=pinned["name"], sync=True)


async def by_own_clock(bench: Bench, name: str) -> str:
    return await bench.fired(f"{name}-clock")


async def by_clock_of_person(bench: Bench, name: str) -> str:
    return await bench.fired(f"of-{name}")


async def by_request(bench: Bench, name: str) -> str:
    return await bench.answered(await bench.client("POST", f"/hooks/{name}", {}, key=""))


async def by_model(bench: Bench, name: str) -> str:
    return await bench.by_agent(name)


async def over_openwop(bench: Bench, name: str) -> str:
    answer = await bench.client("POST", "/v1/runs", {"workflowId": name}, key=bench.boss)
    body = answer.json()
    if answer.status >= 400:
        return str(body["details"].get("code") if "details" in body else body)
    return await bench.ended({"execution_id": body["runId"], "status": body["status"]})


async def as_action(bench: Bench, name: str) -> str:
    return await bench.profile("workflow.execute", workflow_id=name)


async def as_fork(bench: Bench, name: str) -> str:
    execution_id = bench.runs.get(name, f"before-{name}")
    return await bench.result("boss", "execution.fork", execution_id=execution_id, at_sequence=1)


async def fork_of_message(bench: Bench, name: str) -> str:
    return await bench.result("boss", "execution.fork", execution_id=bench.messages[name], at_sequence=1)


async def one_task(bench: Bench, name: str) -> str:
    return await bench.result("boss", "task.execute", workflow_id=name, task_id="ask", sync=True)


async def tool_by_rest(bench: Bench, name: str) -> str:
    return await bench.rest("POST", f"tools/{name}/executions")


async def tool_as_action(bench: Bench, name: str) -> str:
    return await bench.profile("tool.execute", tool_id=name, arguments={})


async def as_model_of_agent(bench: Bench, name: str) -> str:
    return await bench.result("boss", "agent.execute", agent_id=f"with-{name}", prompt="go", sync=True)


async def as_fallback(bench: Bench, name: str) -> str:
    broken = {"provider": "mock", "model": "m", "replies": {"*": {"error": {"message": "busy"}}}}
    body = {**broken, "fallbacks": [name]}
    await bench.office.call(bench.owner, "model.create", id=f"falls-to-{name}", **body)
    task = {**ASK, "model": f"falls-to-{name}"}
    found = await bench.result("boss", "task.execute", task=task, sync=True)
    # If the fallback cannot be asked, the mistake of the first model is told.
    return "VERSION_PROPOSED" if found == "LLM_PROVIDER_ERROR" else found


async def model_in_task(bench: Bench, name: str) -> str:
    return await bench.result("boss", "task.execute", task={**ASK, "model": name}, sync=True)


async def agent_by_rest(bench: Bench, name: str) -> str:
    return await bench.rest("POST", f"agents/{name}/executions", {"prompt": "go", "sync": True})


async def agent_as_action(bench: Bench, name: str) -> str:
    return await bench.profile("agent.execute", agent_id=name, prompt="go")


async def by_message(bench: Bench, name: str) -> str:
    return await bench.result("boss", "agent.message", agent_id=name, message="hello", wait_seconds=60)


async def over_a2a(bench: Bench, name: str) -> str:
    message = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "go"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    answer = (await bench.client("POST", f"/a2a/{name}", body, key=bench.boss)).json()
    return "done" if "result" in answer else named_code(answer)


async def query_by_rest(bench: Bench, name: str) -> str:
    return await bench.rest("POST", f"graphs/{GRAPH}/queries/{name}")


async def query_as_tool(bench: Bench, name: str) -> str:
    return await bench.result("boss", "tool.execute", tool_id=f"uses-{name}", arguments={})


async def query_as_action(bench: Bench, name: str) -> str:
    return await bench.profile("graph.query_run", graph_id=GRAPH, name=name)


async def schedule_due(bench: Bench, name: str) -> str:
    return await bench.fired(name)


async def schedule_now(bench: Bench, name: str) -> str:
    return await bench.result("boss", "schedule.run_now", schedule_id=name)


async def is_sent(bench: Bench, name: str, before: int) -> str:
    """Whether a delivery of a webhook arrives, or is refused."""
    endpoint_id = bench.endpoints[name]

    async def look() -> Any:
        page = await bench.office.call(bench.owner, "delivery.list", endpoint_id=endpoint_id)
        states = [item["state"] for item in page["items"]]
        return states if len(states) > before and "pending" not in states else None

    states = await until_found(look)
    return "done" if states[0] == "delivered" else "VERSION_PROPOSED"


async def test_event(bench: Bench, name: str) -> str:
    before = await bench.office.call(bench.owner, "delivery.list", endpoint_id=bench.endpoints[name])
    await bench.office.call("boss", "webhook.test", endpoint_id=bench.endpoints[name])
    return await is_sent(bench, name, len(before["items"]))


async def event_of_run(bench: Bench, name: str) -> str:
    before = await bench.office.call(bench.owner, "delivery.list", endpoint_id=bench.endpoints[name])
    await bench.office.call("boss", "workflow.execute", workflow_id="scheduled", sync=True)
    return await is_sent(bench, name, len(before["items"]))


async def schema_in_tool(bench: Bench, name: str) -> str:
    body = {"kind": "http", "http": {"url": f"{bench.address}/x"}, "input_schema": {"$ref": f"schema:{name}"}}
    return await bench.result("boss", "tool.create", id=f"with-{name}", **body)


async def schema_in_document(bench: Bench, name: str) -> str:
    made = {**SCHEDULED, "name": f"with-{name}", "input": {"$ref": f"schema:{name}"}}
    return await bench.result("boss", "workflow.create", document=made)


async def forked_task(bench: Bench, name: str) -> str:
    return await bench.result("boss", "execution.fork", execution_id=name, at_sequence=1)


WAYS: dict[str, dict[str, Way]] = {
    "workflow": {
        "REST": by_rest,
        "MCP": by_name_over_mcp,
        "child": as_child,
        "pinned child": as_pinned_child,
        "version by hash": by_older_hash,
        "its own schedule": by_own_clock,
        "a person's schedule": by_clock_of_person,
        "its own webhook": by_request,
        "tool of an agent": by_model,
        "OpenWOP": over_openwop,
        "agent profile": as_action,
        "fork": as_fork,
        "one task of it": one_task,
    },
    "tool": {
        "REST": tool_by_rest,
        "MCP": by_name_over_mcp,
        "node": as_child,
        "tool of an agent": by_model,
        "agent profile": tool_as_action,
        "fork": as_fork,
    },
    "model": {
        "node": as_child,
        "agent": as_model_of_agent,
        "fallback": as_fallback,
        "task": model_in_task,
    },
    "agent": {
        "REST": agent_by_rest,
        "node": as_child,
        "message": by_message,
        "agent profile": agent_as_action,
        "fork": as_fork,
        "fork of a message": fork_of_message,
    },
    "agent document": {
        "REST": agent_by_rest,
        "message": by_message,
        "agent profile": agent_as_action,
        "A2A": over_a2a,
        "fork": as_fork,
        "fork of a message": fork_of_message,
    },
    "query": {
        "REST": query_by_rest,
        "MCP": by_name_over_mcp,
        "node": as_child,
        "registered tool": query_as_tool,
        "tool of an agent": by_model,
        "agent profile": query_as_action,
    },
    "schedule": {"when it is due": schedule_due, "run now": schedule_now},
    "webhook": {"test event": test_event, "event of a run": event_of_run},
    "schema": {"tool": schema_in_tool, "workflow": schema_in_document},
    "task": {"fork": forked_task},
    "policy": {},
}


@asynccontextmanager
async def open_bench(
    folder: Path, holds: HoldChoices, receiver: Receiver, kept: Bench | None = None
) -> AsyncIterator[Bench]:
    """Open the server; a second time, with what is `kept` of the first, is like a restart."""
    options = ServerOptions(
        holds=holds,
        gate=MUCH,
        openwop_seam=True,
        agent_profile=AgentProfileOptions(enabled=True, fixtures=True),
        webhooks=WebhookChoices(allow_unsigned=True, allow_private_addresses=True),
    )
    async with (
        open_executors(SETTINGS) as equipment,
        Penstock.open(
            folder / "penstock.db", executors=equipment.executors, secrets=equipment.secrets, models=equipment.models
        ) as penstock,
        open_application(penstock, options) as (app, gate),
    ):
        bench = Bench(Office(gate, penstock), Client(app, gate, ""), "", "", receiver.url)
        if kept is None:
            made = await bench.office.call(bench.owner, "key.create", name="boss", kind="person", scopes=["*"])
            bench.boss, boss_id = made["secret"], made["key"]["id"]
            body = {"name": "bookkeeper", "scope": "personal", "scopes": PROFILE_SCOPES}
            answer = await bench.client("POST", "/api/agent-admin/v1/apps", body, key=bench.boss)
            assert answer.status == 200, answer
            bench.app = answer.json()["data"]["token"]
            key = await read_key(gate.services.platform, boss_id)
            assert key is not None
            bench.office.people["boss"] = principal_of(key)
        else:
            bench.boss, bench.app, bench.endpoints, bench.runs = kept.boss, kept.app, kept.endpoints, kept.runs
            bench.messages = kept.messages
            bench.later, bench.office.people = kept.later, kept.office.people
        yield bench
