"""What `http`, `llm_call` and `agent_delegate` nodes reach is decided by policies, for the principal of the run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.base.json import JsonValue
from penstock.runtime.activities.performing import AsyncPerformer
from penstock.runtime.executors.agents.executor import AgentExecutor, SdkAgent
from penstock.runtime.executors.agents.port import AgentTask
from penstock.runtime.executors.http.executor import HttpExecutor
from penstock.runtime.executors.llm.executor import LlmExecutor
from penstock.runtime.executors.llm.mock import MockProvider
from tests.unit.operations.conftest import Caller
from tests.unit.operations.documents import workflow
from tests.unit.runtime.executors.web_server import Answer, Seen, WebServer, serving

pytestmark = pytest.mark.anyio
DONE = {"id": "done", "type": "end", "output": "${ .it }"}
FETCH = workflow(
    "fetch",
    {"id": "it", "type": "http", "method": "GET", "url": "${ .input.url }", "follow_redirects": True},
    DONE,
    input={"type": "object", "required": ["url"], "properties": {"url": {"type": "string"}}},
)
ASK = workflow("ask", {"id": "it", "type": "llm_call", "provider": "mock", "model": "small", "prompt": "hello"}, DONE)
DELEGATE = workflow(
    "delegate", {"id": "it", "type": "agent_delegate", "agent_id": "helper", "protocol": "sdk", "input": {}}, DONE
)
NEVER = '@id("never") {} forbid (principal is Agent, action == Action::"node:{}", resource) when {{ {} }};'


@dataclass
class World:
    """A gate whose runs reach things that remember what they were asked."""

    owner: Caller
    agent: Caller
    web: WebServer
    models: MockProvider
    delegated: list[str] = field(default_factory=list)

    async def runs(self, who: Caller, name: str, **given: Any) -> str:
        """How a run ends: `completed`, or the code of its failure."""
        ended = await who.call("workflow.execute", workflow_id=name, input=given, sync=True)
        return str(ended["status"] if ended["status"] == "completed" else ended["error"]["code"])

    async def forbid(self, kind: str, condition: str, annotations: str = "") -> None:
        """Store a policy that forbids something to agents."""
        text = NEVER.format(annotations, kind, condition)
        await self.owner.call("policy.put", policy_id="nodes", text=text)

    async def records(self) -> list[dict[str, Any]]:
        """The audit records of decisions about nodes, newest first."""
        found: list[dict[str, Any]] = (await self.owner.call("audit.list", operation="execution.reach"))["items"]
        return found


def respond(seen: Seen) -> Answer:
    if seen.target == "/go":
        return Answer(status=302, headers={"location": "/admin/users"})
    return Answer(body=b'"page"', headers={"content-type": "application/json"})


@asynccontextmanager
async def opened(folder: Path, *policies: str) -> AsyncIterator[World]:
    models, delegated = MockProvider({"it": ["a", "b", "c"]}, {"small": "small-1"}), list[str]()

    async def helper(task: AgentTask) -> JsonValue:
        delegated.append(task.agent_id)
        return "helped"

    http = HttpExecutor(allow_private=True)
    executors: dict[str, AsyncPerformer] = {
        "http": http,
        "llm_call": LlmExecutor({"mock": models}),
        "agent_delegate": AgentExecutor({"helper": SdkAgent(helper)}),
    }
    for number, text in enumerate(policies):
        (folder / f"{number}.cedar").write_text(text, encoding="utf-8")
    files = [str(folder / f"{number}.cedar") for number in range(len(policies))]
    async with (
        serving(respond) as web,
        Penstock.open(folder / "penstock.db", executors=executors, governed=True) as penstock,
        open_gate(penstock, policy_files=files) as gate,
    ):
        owner = Caller(gate, local_owner(), penstock)
        for document in (FETCH, ASK, DELEGATE):
            await owner.call("workflow.create", document=document)
        agent = await owner.new_caller("*", kind="agent")
        try:
            yield World(owner, agent, web, models, delegated)
        finally:
            await http.close()  # the server waits for its connections


async def test_a_request_is_decided_by_its_host_method_and_path(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        inside = 'resource == Host::"127.0.0.1" && context.input.path like "/admin*" && context.input.method == "GET"'
        await world.forbid("http", inside)
        assert await world.runs(world.agent, "fetch", url=world.web.url("/orders")) == "completed"
        for path in ("/admin", "/%61dmin/users", "/orders/../admin"):
            assert await world.runs(world.agent, "fetch", url=world.web.url(path)) == "POLICY_DENIED", path
        assert [seen.target for seen in world.web.seen] == ["/orders"]
        assert await world.runs(world.owner, "fetch", url=world.web.url("/admin")) == "completed"
        outcomes = [item["outcome"] for item in await world.records()]
        assert outcomes == ["allowed", "refused", "refused", "refused", "allowed"]
        refused = (await world.records())[1]
        assert list(refused["reasons"]) == ["never"]
        who = (await world.agent.principal()).id
        assert (refused["principal"], list(refused["acting_for"] or ())) == ("system:runs", [who])


async def test_where_a_redirect_leads_is_decided_before_it_is_followed(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        await world.forbid("http", 'context.input.path like "/admin*"')
        assert await world.runs(world.agent, "fetch", url=world.web.url("/go")) == "POLICY_DENIED"
        assert [seen.target for seen in world.web.seen] == ["/go"]
        assert await world.runs(world.owner, "fetch", url=world.web.url("/go")) == "completed"


@pytest.mark.parametrize(
    ("name", "kind", "condition", "other"),
    [
        ("ask", "llm_call", 'resource == LanguageModel::"mock:small-1"', 'context.input.model == "large"'),
        ("ask", "llm_call", 'context.input.provider == "mock"', 'context.input.provider == "client"'),
        ("delegate", "agent_delegate", 'resource == DelegateAgent::"helper"', 'context.input.agent == "other"'),
        ("delegate", "agent_delegate", 'context.input.protocol == "sdk"', 'context.input.node == "them"'),
        ("delegate", "agent_delegate", 'context.input.workflow == "delegate"', 'context.input.workflow == "ask"'),
    ],
)
async def test_models_and_agents_are_decided_before_they_are_asked(
    tmp_path: Path, name: str, kind: str, condition: str, other: str
) -> None:
    async with opened(tmp_path) as world:
        await world.forbid(kind, condition)
        assert await world.runs(world.agent, name) == "POLICY_DENIED"
        assert not world.models.requests
        assert not world.delegated
        await world.forbid(kind, other)
        assert await world.runs(world.agent, name) == "completed"
        assert len(world.models.requests) + len(world.delegated) == 1


async def test_nobody_approves_what_a_node_reaches(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        await world.forbid("http", 'context.input.method == "GET"', '@outcome("approval") @approvers("leads")')
        assert await world.runs(world.agent, "fetch", url=world.web.url()) == "APPROVAL_REQUIRED"
        assert world.web.seen == []


async def test_requests_can_be_counted(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        counted = '@history("sent: count of node:http by principal within 1h")'
        await world.forbid("http", "context.history.sent > 2", counted)
        ended = [await world.runs(world.agent, "fetch", url=world.web.url("/orders")) for _ in range(3)]
        assert ended == ["completed", "completed", "POLICY_DENIED"]


async def test_policies_about_something_else_cost_nodes_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        text = '@id("stay") forbid (principal is Agent, action == Action::"workflow.delete", resource);'
        await world.owner.call("policy.put", policy_id="other", text=text)
        assert await world.runs(world.agent, "fetch", url=world.web.url()) == "completed"
        assert await world.records() == []


async def test_a_set_that_permits_no_nodes_refuses_them(tmp_path: Path) -> None:
    calls = '@id("calls") permit (principal, action in [Action::"read", Action::"call", Action::"write"], resource);'
    admin = '@id("admin") permit (principal, action in Action::"admin", resource);'
    async with opened(tmp_path, calls, admin) as world:
        assert await world.runs(world.owner, "ask") == "POLICY_DENIED"
    (tmp_path / "penstock.db").unlink()
    nodes = '@id("nodes") permit (principal, action in Action::"node", resource);'
    async with opened(tmp_path, calls, admin, nodes) as world:
        assert await world.runs(world.owner, "ask") == "completed"


async def test_the_schema_knows_nodes_and_a_decision_can_be_explained(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        await world.forbid("http", 'context.input.host == "example.com"')
        explained = await world.owner.call(
            "policy.explain",
            action="node:http",
            principal={"kind": "agent"},
            surface="run",
            arguments={"host": "example.com", "method": "GET"},
        )
        assert (explained["call"], explained["policies"]) == ("forbidden", ["never"])
        text = NEVER.format("", "http", 'context.input.hots == "example.com"')
        refused = await world.owner.refusal("policy.put", policy_id="nodes", text=text)
        assert refused.code == "POLICY_INVALID"
        assert "hots" in refused.message
