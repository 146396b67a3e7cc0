"""Registered tools are called through the gate as the caller: requests, steps, queries and tools of other servers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.app.gate import open_gate
from penstock.app.penstock import Penstock
from penstock.base import limits
from penstock.base.json import JsonObject
from penstock.operations.gate.context import HoldChoices
from penstock.runtime.executors.http.executor import HttpExecutor
from penstock.runtime.steps.registry import step
from tests.scenarios.agents import ScriptedModel, agent, calls, ended, executors, waiting_for
from tests.scenarios.office import Office, staff
from tests.unit.runtime.executors.web_server import Answer, Seen, WebServer, serving
from tests.waiting import SECONDS_MAX

_JSON = {"content-type": "application/json"}
ORDER: JsonObject = {
    "type": "object",
    "required": ["id"],
    "properties": {"id": {"type": "string"}, "note": {"type": "string"}},
    "additionalProperties": False,
}


@step(name="shout")
async def shout(text: str) -> dict[str, str]:
    """Say it louder."""
    return {"text": text.upper()}


def echo(request: Seen) -> Answer:
    said = {"target": request.target, "token": request.headers.get("authorization"), "body": request.body.decode()}
    return Answer(body=json.dumps(said).encode(), headers=_JSON)


@asynccontextmanager
async def open_shop(
    path: Path, model: ScriptedModel | None = None, holds: HoldChoices | None = None
) -> AsyncIterator[tuple[Office, WebServer]]:
    """An office with a server to send requests to, a step, and a secret."""
    async with serving(echo) as server:
        http = HttpExecutor(allow_private=True)
        performers: Any = {"http": http, **({} if model is None else executors(model))}
        secrets = {"SHOP_KEY": "s3cr3t-t0ken"}.get
        try:
            async with (
                Penstock.open(path / "penstock.db", executors=performers, steps=[shout], secrets=secrets) as penstock,
                open_gate(penstock, holds=holds) as gate,
            ):
                yield Office(gate, penstock), server
        finally:
            await http.close()


def in_shop(
    path: Path,
    body: Callable[[Office, WebServer], Awaitable[None]],
    model: ScriptedModel | None = None,
    holds: HoldChoices | None = None,
) -> None:
    async def test() -> None:
        async with open_shop(path, model, holds) as (office, server):
            await staff(office)
            await body(office, server)

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def order(server: WebServer, **more: Any) -> JsonObject:
    """A tool that asks the server for an order."""
    request = {
        "url": server.url("/orders/") + "${ .input.id }",
        "headers": {"authorization": "Bearer ${secret:SHOP_KEY}"},
    }
    return {"kind": "http", "http": request, "secrets": ["SHOP_KEY"], "input_schema": ORDER, **more}


def test_a_request_is_sent_with_its_secret_and_a_value_stays_in_its_segment_of_the_path(tmp_path: Path) -> None:
    async def test(office: Office, server: WebServer) -> None:
        await office.call(office.owner, "tool.create", id="order", **order(server))
        answer = await office.call(office.owner, "tool.execute", tool_id="order", arguments={"id": "../a?b#c d"})
        assert (answer["status"], answer["workflow_id"]) == ("completed", "tool:order")
        assert answer["output"]["target"] == "/orders/..%2Fa%3Fb%23c%20d"
        assert server.seen[0].headers["authorization"] == "Bearer s3cr3t-t0ken"
        shown = json.dumps(await office.call(office.owner, "tool.get", tool_id="order"))
        assert "s3cr3t-t0ken" not in shown
        dots = await office.call(office.owner, "tool.execute", tool_id="order", arguments={"id": ".."})
        assert (dots["status"], len(server.seen)) == ("failed", 1)
        unfit = await office.refusal(office.owner, "tool.execute", tool_id="order", arguments={"id": 7})
        assert unfit.code == "INVALID_ARGUMENTS"

    in_shop(tmp_path, test)


def test_a_tool_is_called_with_its_scopes_and_audited_under_its_name(tmp_path: Path) -> None:
    async def test(office: Office, server: WebServer) -> None:
        governed = order(server, governance={"risk": "low", "scopes": ["shop:read"]})
        await office.call(office.owner, "tool.create", id="order", **governed)
        await office.hire("clerk", "person", "tool:run", "tool:read")
        await office.hire("buyer", "person", "tool:run", "shop:read", "audit:read")
        asked: Any = {"tool_id": "order", "arguments": {"id": "A-1"}}
        assert (await office.refusal("clerk", "tool.execute", **asked)).code == "TOOL_NOT_FOUND"
        assert (await office.call("buyer", "tool.execute", **asked))["status"] == "completed"
        assert (await office.call("buyer", "tool:order", id="A-2"))["status"] == "completed"
        records = (await office.call(office.owner, "audit.list", operation="tool:order"))["items"]
        assert [record["outcome"] for record in records] == ["allowed", "allowed", "refused"]
        assert (await office.refusal(office.owner, "tool.execute", tool_id="nothing")).code == "TOOL_NOT_FOUND"

    in_shop(tmp_path, test)


def test_the_same_call_is_made_once(tmp_path: Path) -> None:
    async def test(office: Office, server: WebServer) -> None:
        await office.call(office.owner, "tool.create", id="order", **order(server))
        asked: Any = {"tool_id": "order", "arguments": {"id": "A-1"}, "request": {"idempotency_key": "k-1"}}
        first = await office.call(office.owner, "tool.execute", **asked)
        second = await office.call(office.owner, "tool.execute", **asked)
        assert first == second
        assert len(server.seen) == 1

    in_shop(tmp_path, test)


def test_a_risky_call_of_an_agent_waits_for_approval_and_is_made_then(tmp_path: Path) -> None:
    async def test(office: Office, server: WebServer) -> None:
        risky = order(server)
        risky["http"]["method"] = "POST"  # type: ignore[index,call-overload]  # an object
        await office.call(office.owner, "tool.create", id="order", **risky)
        held = await office.call("robot", "tool.execute", tool_id="order", arguments={"id": "A-1"})
        assert (held["status"], held["held"]["operation"], server.seen) == ("waiting_approval", "tool:order", [])
        await office.call("ada", "draft.approve", draft_id=held["held"]["draft_id"])
        run = await waiting_for(office, held["execution_id"], "completed", "failed")
        assert run["status"] == "completed", run
        assert (run["output"]["target"], [seen.method for seen in server.seen]) == ("/orders/A-1", ["POST"]), run

    in_shop(tmp_path, test)


def test_a_step_is_a_tool_and_its_result_has_to_fit(tmp_path: Path) -> None:
    async def test(office: Office, server: WebServer) -> None:
        text: JsonObject = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
        loud: Any = {"kind": "step", "name": "shout", "input_schema": text, "governance": {"risk": "low"}}
        await office.call(office.owner, "tool.create", id="shout", **loud, result="${ .call.text }")
        answer = await office.call(office.owner, "tool.execute", tool_id="shout", arguments={"text": "tea"})
        assert answer["output"] == "TEA"
        await office.call(office.owner, "tool.update", tool_id="shout", **loud, output_schema={"type": "integer"})
        again = await office.call(office.owner, "tool.execute", tool_id="shout", arguments={"text": "tea"})
        assert (again["status"], again["error"]["code"]) == ("failed", "OUTPUT_SCHEMA_VIOLATION")
        await office.call(office.owner, "tool.delete", tool_id="shout")
        gone = await office.refusal(office.owner, "tool.execute", tool_id="shout", arguments={"text": "tea"})
        assert gone.code == "TOOL_NOT_FOUND"

    in_shop(tmp_path, test)


def test_agents_and_workflows_call_it_and_only_exposed_ones_are_listed(tmp_path: Path) -> None:
    turns = [calls(("tool:shout", {"text": "tea"})), "Done."]
    model = ScriptedModel(turns)

    async def test(office: Office, server: WebServer) -> None:
        loud: Any = {"kind": "step", "name": "shout", "governance": {"risk": "low"}, "description": "Says it louder."}
        await office.call(office.owner, "tool.create", id="shout", **loud)
        await office.call(office.owner, "tool.create", id="shown", **loud, expose=True)
        names = {item.name for item in await office.gate.visible(office.owner)}
        assert "tool:shown" in names
        assert "tool:shout" not in names
        answer = await ended(office, agent("tool:shout"))
        assert answer["output"] == {"text": "Done."}, answer
        document: JsonObject = {
            "penstock": "v1",
            "name": "louder",
            "nodes": [
                {
                    "id": "said",
                    "type": "tool_call",
                    "server": "penstock",
                    "tool": "tool:shout",
                    "arguments": {"text": "me"},
                },
                {"id": "done", "type": "end", "output": "${ .said.text }"},
            ],
        }
        await office.call(office.owner, "workflow.create", document=document)
        ran = await office.call(office.owner, "workflow.execute", workflow_id="louder", sync=True)
        assert ran["output"] == "ME"

    in_shop(tmp_path, test, model)
    [tool] = model.requests[0].tools
    assert (tool.name, tool.description) == ("shout", "Says it louder.")
    assert "TEA" in model.requests[1].messages[-1].text


def test_a_stored_query_is_a_tool_with_the_parameters_of_the_query(tmp_path: Path) -> None:
    async def test(office: Office, server: WebServer) -> None:
        await office.call(office.owner, "graph.create", id="crm", schema="node Person {\n  name: String @key\n}")
        source = "query find($name: String) {\n  match { $p: Person { name: $name } }\n  return { $p.name }\n}"
        await office.call(office.owner, "graph.queries_put", graph_id="crm", name="find", source=source)
        await office.call(office.owner, "tool.create", id="person", kind="query", graph="crm", name="find")
        found = await office.call(office.owner, "tool.execute", tool_id="person", arguments={"name": "Ada"})
        assert (found["status"], found["output"]["rows"]) == ("completed", []), found
        refused = await office.refusal(office.owner, "tool.execute", tool_id="person", arguments={})
        assert refused.code == "INVALID_ARGUMENTS"
        # The caller's own rights decide about the query, too.
        await office.hire("clerk", "person", "tool:run")
        denied = await office.call("clerk", "tool.execute", tool_id="person", arguments={"name": "Ada"})
        assert (denied["status"], denied["error"]["code"]) == ("failed", "OPERATION_NOT_FOUND")

    in_shop(tmp_path, test)


def test_a_policy_names_a_tool_as_an_action_of_its_own_also_when_a_run_is_repeated(tmp_path: Path) -> None:
    async def test(office: Office, server: WebServer) -> None:
        await office.call(office.owner, "tool.create", id="order", **order(server))
        made = await office.call(office.owner, "tool.execute", tool_id="order", arguments={"id": "A-1"})
        scope = '@id("no-a1") forbid (principal, action == Action::"tool:order", resource)'
        text = scope + ' when { context.input.id == "A-1" };'
        await office.call(office.owner, "policy.put", policy_id="shop", text=text)
        await office.hire("clerk", "person", "tool:*", "execution:*", "workflow:*")
        asked: Any = {"tool_id": "order", "arguments": {"id": "A-1"}}
        assert (await office.refusal("clerk", "tool.execute", **asked)).code == "POLICY_DENIED"
        other = await office.call("clerk", "tool.execute", tool_id="order", arguments={"id": "A-2"})
        assert other["status"] == "completed"
        again = await office.refusal("clerk", "execution.fork", execution_id=made["execution_id"], at_sequence=1)
        assert again.code == "POLICY_DENIED", again

    in_shop(tmp_path, test)


def test_a_policy_that_would_hide_a_part_of_a_tools_answer_is_refused(tmp_path: Path) -> None:
    """The run of the call would show it all the same."""

    async def test(office: Office, server: WebServer) -> None:
        declared: JsonObject = {"type": "object", "properties": {"token": {"type": "string"}}}
        await office.call(office.owner, "tool.create", id="order", **order(server, output_schema=declared))
        text = '@id("tokens") @redact("output.token") forbid (principal, action == Action::"tool:order", resource);'
        refused = await office.refusal(office.owner, "policy.put", policy_id="shop", text=text)
        assert refused.code == "POLICY_INVALID"
        assert "@redact: tool:order: output.token: the answer has no declared fields" in refused.message

    in_shop(tmp_path, test)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"kind": "http"}, "needs `http`"),
        ({"kind": "step", "name": "shout", "server": "shop"}, "`server` has no effect"),
        ({"kind": "query", "name": "find"}, "needs `graph`"),
        ({"kind": "http", "http": {"url": "${ .input.url }"}}, "has to be fixed"),
        ({"kind": "http", "http": {"url": "https://${ .input.host }/a"}}, "has to be fixed"),
        ({"kind": "http", "http": {"url": "https://a.example${ .input.rest }"}}, "has to be fixed"),
        ({"kind": "http", "http": {"url": "https://u:p@a.example/"}}, "not the address"),
        ({"kind": "http", "http": {"url": "file:///etc/passwd"}}, "not the address"),
        ({"kind": "http", "http": {"url": "https://a.example/x?key=${secret:K}"}}, "cannot have secrets"),
        ({"kind": "http", "http": {"url": "https://a.example/x", "headers": {"a": "${secret:K}"}}}, "mistakes"),
        ({"kind": "step", "name": "shout", "input_schema": {"type": "string"}}, "not that of an object"),
        ({"kind": "step", "name": "shout", "result": "${ .call | }"}, "mistakes"),
        ({"kind": "step", "name": "shout", "timeout": "soon"}, "mistakes"),
        ({"kind": "step", "name": "shout", "governance": {"approvers": {"count": 0}}}, "mistakes"),
    ],
)
def test_what_cannot_be_called_as_it_is_declared_is_refused(tmp_path: Path, body: JsonObject, why: str) -> None:
    async def test(office: Office, server: WebServer) -> None:
        refused = await office.refusal(office.owner, "tool.create", id="x", **body)
        assert (refused.code, why in refused.message) == ("TOOL_INVALID", True), refused
        rate = await office.refusal(office.owner, "tool.create", id="x", kind="step", name="a", governance={"rate": {}})
        assert rate.code == "INVALID_ARGUMENTS"

    in_shop(tmp_path, test)


def test_a_tenant_has_a_bounded_number_of_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TOOLS_PER_TENANT_MAX", 1)

    async def test(office: Office, server: WebServer) -> None:
        await office.call(office.owner, "tool.create", id="a", kind="step", name="shout")
        refused = await office.refusal(office.owner, "tool.create", id="b", kind="step", name="shout")
        assert refused.code == "TOOLS_LIMITED"

    in_shop(tmp_path, test)
