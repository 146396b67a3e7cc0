"""Who may do what with graphs: by graph, by query, by branch, on every surface, and by the policy that is shipped.

Every test runs twice: for callers with a key of ours, and for callers with an access token of an issuer.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.app.serving.server import ServerOptions
from penstock.app.settings.graphs import GraphSettings
from tests.fixtures.graph_data import DATA, written_graph
from tests.issuers import Issuer, IssuerDirectory
from tests.scenarios.test_start_scopes import META
from tests.unit.rest.conftest import Answered, Client, opened

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("kind", ["key", "token"])]
SHIPPED = Path(__file__).parents[2] / "examples" / "policies" / "graph-agent.cedar"
OTHERS = '@id("others") permit (principal, action, resource) unless { principal is Agent };\n'
_UNKNOWN_TOOL = -32602
_GRAPH_SCOPES = ("graph:run", "graph:read", "graph:write", "graph:admin")
ISSUER = Issuer()


@asynccontextmanager
async def served(folder: Path, *policies: str, shipped: bool = False, **choices: Any) -> AsyncIterator[Client]:
    """A server with the graphs crm and hr, and these policies."""
    graphs: dict[str, GraphSettings] = {}
    for name in ("crm", "hr"):
        written_graph(folder, name)
        queries = (str(folder / name / "queries"),)
        graphs[name] = GraphSettings(schema=str(folder / name / "schema.pg"), queries=queries, **choices)
    (folder / "own.cedar").write_text("".join(policies), encoding="utf-8")
    named = (str(SHIPPED) if shipped else str(folder / "own.cedar"),)
    tokens = IssuerDirectory([ISSUER]).choices(agent_clients=frozenset({"desktop"}), tenant_claim="org")
    async with opened(folder, ServerOptions(graphs=graphs, policy_files=named, tokens=tokens)) as client:
        for name in graphs:
            loaded = await client("POST", f"graphs/{name}/load", {"data": DATA})
            assert loaded.status == 200, loaded
        yield client


async def credential(client: Client, kind: str, *scopes: str, tenant: str = "default", by: str = "agent") -> str:
    """What an agent, or somebody else (`by`), sends: a key of ours, or an access token of its issuer."""
    chosen = scopes or _GRAPH_SCOPES
    if kind == "token":
        program = "desktop" if by == "agent" else "browser"
        return ISSUER.token(scope=" ".join(chosen), org=tenant, client_id=program)
    made = await client("POST", "keys", {"name": by, "scopes": list(chosen), "kind": by, "tenant": tenant})
    assert made.status == 201, made
    return str(made.json()["secret"])


async def asked(client: Client, key: str, graph: str, method: str, params: dict[str, Any]) -> Any:
    """What the endpoint of a graph answers to a message."""
    headers = {
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": method,
        "host": "127.0.0.1",
        "accept": "application/json, text/event-stream",
    }
    if "name" in params or "uri" in params:
        headers["mcp-name"] = str(params.get("name", params.get("uri")))
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
    answer: Answered = await client("POST", f"/graphs/{graph}/mcp", body, headers=headers, key=key)
    return answer.json()


async def tools(client: Client, key: str, graph: str = "crm") -> list[str]:
    listed = await asked(client, key, graph, "tools/list", {})
    return [tool["name"] for tool in listed["result"]["tools"]]


async def tool(client: Client, key: str, called: str, /, **arguments: Any) -> Any:
    return await asked(client, key, "crm", "tools/call", {"name": called, "arguments": arguments})


async def test_the_shipped_policy_shows_an_agent_two_tools_and_no_schema(tmp_path: Path, kind: str) -> None:
    async with served(tmp_path, shipped=True) as client:
        key = await credential(client, kind, "graph:run", "graph:write", "graph:read")
        assert await tools(client, key) == ["close_task", "tasks_of"]
        assert await tools(client, key, "hr") == []
        assert (await asked(client, key, "crm", "resources/list", {}))["result"]["resources"] == []
        for uri in ("omnigraph://schema", "penstock://graphs/crm/schema", "penstock://graphs"):
            hidden = await asked(client, key, "crm", "resources/read", {"uri": uri})
            assert hidden["error"]["code"] == _UNKNOWN_TOOL
        rows = await tool(client, key, "tasks_of", params={"owner": "ada"})
        assert rows["result"]["structuredContent"]["row_count"] == 2
        # What it may not call and what does not exist look the same.
        codes = {
            (await tool(client, key, name))["error"]["code"] for name in ("schema_get", "add_task", "load", "nothing")
        }
        assert codes == {_UNKNOWN_TOOL}
        # The second gate: a mutation that may be run changes only branches that may be changed.
        main = await tool(client, key, "close_task", params={"slug": "t1"})
        assert (main["result"]["isError"], main["result"]["_meta"]["penstock/error"]["code"]) == (True, "POLICY_DENIED")
        assert (await client("POST", "graphs/crm/branches", {"name": "agent/7"})).status == 201
        own = await tool(client, key, "close_task", params={"slug": "t1"}, branch="agent/7")
        assert own["result"]["structuredContent"]["affected_nodes"] == 1


async def test_a_rule_about_a_graph_permits_every_query_of_it_and_none_of_another(tmp_path: Path, kind: str) -> None:
    rule = '@id("crm") permit (principal is Agent, action, resource in Graph::"crm");\n'
    async with served(tmp_path, OTHERS, rule) as client:
        key = await credential(client, kind)
        listed = await tools(client, key)
        assert {"tasks_of", "close_task", "add_task", "schema_get", "branches_merge"} <= set(listed)
        assert [name for name in await tools(client, key, "hr") if name != "graphs_list"] == []
        assert (await client("GET", "graphs/crm/schema", key=key)).status == 200
        assert (await client("GET", "graphs/hr/schema", key=key)).json()["code"] == "POLICY_DENIED"
        other = await client("POST", "graphs/hr/queries/tasks_of", {"params": {"owner": "ada"}}, key=key)
        assert (other.status, other.json()["code"]) == (404, "QUERY_NOT_FOUND")


async def test_a_query_that_a_policy_forbids_looks_unknown_on_every_surface(tmp_path: Path, kind: str) -> None:
    rules = (
        '@id("all") permit (principal, action, resource);\n'
        '@id("no") forbid (principal is Agent, action, resource == StoredQuery::"crm/tasks_of");\n'
    )
    async with served(tmp_path, rules) as client:
        key = await credential(client, kind, "graph:run", "graph:read", "graph:write")
        assert "tasks_of" not in await tools(client, key)
        assert "tasks_of" in await tools(client, key, "hr")
        body = {"params": {"owner": "ada"}}
        denied = await client("POST", "graphs/crm/queries/tasks_of", body, key=key)
        unknown = await client("POST", "graphs/crm/queries/nothing_s", body, key=key)
        assert (denied.status, denied.json()["code"]) == (unknown.status, unknown.json()["code"])
        listed = (await client("GET", "graphs/crm/queries", key=key)).json()["queries"]
        assert [item["name"] for item in listed] == ["add_task", "close_task"]
        # People still have it.
        assert (await client("POST", "graphs/crm/queries/tasks_of", body)).status == 200


async def test_policies_read_the_arguments_of_a_query(tmp_path: Path, kind: str) -> None:
    rules = (
        '@id("all") permit (principal, action, resource);\n'
        '@id("own") forbid (principal is Agent, action == Action::"query:crm/tasks_of", resource)'
        ' unless { context.input has params && context.input.params.owner == "ada" };\n'
    )
    async with served(tmp_path, rules) as client:
        key = await credential(client, kind)
        path = "graphs/crm/queries/tasks_of"
        assert (await client("POST", path, {"params": {"owner": "ada"}}, key=key)).status == 200
        assert (await client("POST", path, {"params": {"owner": "bob"}}, key=key)).json()["code"] == "POLICY_DENIED"


async def test_a_load_that_forks_a_branch_is_decided_as_a_new_branch_too(tmp_path: Path, kind: str) -> None:
    rules = (
        '@id("all") permit (principal, action, resource);\n'
        '@id("no") forbid (principal is Agent, action in Action::"graph:branch_create", resource);\n'
    )
    async with served(tmp_path, rules) as client:
        key = await credential(client, kind)
        body = {"data": '{"type": "User", "data": {"handle": "eve"}}'}
        assert (await client("POST", "graphs/crm/load", body, key=key)).status == 200
        forked = await client("POST", "graphs/crm/load", {**body, "branch": "new", "source": "main"}, key=key)
        assert forked.json()["code"] == "POLICY_DENIED"
        branches = (await client("GET", "graphs/crm/branches")).json()["branches"]
        assert [item["name"] for item in branches] == ["main"]


async def test_graphs_of_a_tenant_do_not_exist_for_another(tmp_path: Path, kind: str) -> None:
    async with served(tmp_path, '@id("all") permit (principal, action, resource);\n') as client:
        key = await credential(client, kind, tenant="b", by="person")
        assert (await client("GET", "graphs", key=key)).json() == {"graphs": []}
        assert (await client("GET", "graphs/crm", key=key)).json()["code"] == "GRAPH_NOT_FOUND"
        run = await client("POST", "graphs/crm/queries/tasks_of", {"params": {"owner": "ada"}}, key=key)
        assert run.json()["code"] == "QUERY_NOT_FOUND"
        assert await tools(client, key) == []
        own = await client("POST", "graphs", {"id": "crm", "schema": "node A { b: String @key }"}, key=key)
        assert own.status == 201
        assert (await client("GET", "graphs/crm/schema", key=key)).json()["schema"] == "node A { b: String @key }"
        assert json.loads((await client("GET", "graphs/crm/schema")).body)["schema"] != "node A { b: String @key }"


async def test_with_many_queries_two_tools_list_and_run_those_that_are_permitted(tmp_path: Path, kind: str) -> None:
    rules = OTHERS + '@id("reads") permit (principal is Agent, action in Action::"graph:invoke_query", resource)\n'
    rules += 'when { resource == Graph::"crm" || resource == StoredQuery::"crm/tasks_of" };\n'
    async with served(tmp_path, rules, tools_max=1) as client:
        key = await credential(client, kind)
        assert await tools(client, key) == ["queries_list", "query_run"]
        listed = await tool(client, key, "queries_list")
        assert [item["name"] for item in listed["result"]["structuredContent"]["queries"]] == ["tasks_of"]
        ran = await tool(client, key, "query_run", name="tasks_of", params={"owner": "ada"})
        assert ran["result"]["structuredContent"]["row_count"] == 2
        for name in ("close_task", "nothing"):
            refused = await tool(client, key, "query_run", name=name, params={"slug": "t1"})
            assert refused["result"]["_meta"]["penstock/error"]["code"] == "QUERY_NOT_FOUND"


async def test_ad_hoc_queries_are_there_only_where_a_graph_allows_them(tmp_path: Path, kind: str) -> None:
    query = "query q() { match { $u: User } return { $u.handle as handle } order { handle asc } }"
    change = 'query q() { insert User { handle: "eve" } }'
    everything = '@id("all") permit (principal, action, resource);\n'
    async with served(tmp_path, everything) as client:
        key = await credential(client, kind)
        refused = await client("POST", "graphs/crm/query", {"query": query}, key=key)
        assert (refused.status, refused.json()["code"]) == (403, "ADHOC_NOT_ALLOWED")
    (tmp_path / "other").mkdir()
    async with served(tmp_path / "other", everything, allow_adhoc=True) as client:
        key = await credential(client, kind)
        rows = await tool(client, key, "read", querySource=query)
        assert [row["handle"] for row in rows["result"]["structuredContent"]["rows"]] == ["ada", "bob"]
        changed = await tool(client, key, "change", querySource=change)
        assert changed["result"]["structuredContent"]["affected_nodes"] == 1
        wrong = await client("POST", "graphs/crm/query", {"query": change}, key=key)
        assert wrong.json()["code"] == "QUERY_INVALID"
