"""Graphs of a real server: stored queries over REST, as tools on `/mcp`, and on the endpoint of their graph."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.fixtures.graph_data import DATA, SCHEMA, written_graph
from tests.live.mcp.clients import ERAS, connected, error_of
from tests.live.mcp.test_pipe import piped
from tests.live.rest.servers import LiveServer, serving
from tests.waiting import SECONDS_MAX
from tests.zygote import piped_command

pytestmark = pytest.mark.anyio
eras = pytest.mark.parametrize("era", ERAS)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server whose settings declare one graph."""
    folder = tmp_path_factory.mktemp("graphs")
    (folder / "penstock.yaml").write_text(f"graphs:\n  {written_graph(folder)}\n", encoding="utf-8")
    with serving(folder) as running:
        running.call("POST", "graphs/crm/load", {"data": DATA})
        yield running


def new_key(server: LiveServer, *scopes: str) -> str:
    made = server.call("POST", "keys", {"name": "somebody", "scopes": list(scopes), "kind": "agent"})
    return str(made["secret"])


@asynccontextmanager
async def at_graph(server: LiveServer, graph: str, era: str = "auto", key: str | None = None) -> AsyncIterator[Client]:
    """A client on the endpoint of a graph."""
    headers = {"Authorization": f"Bearer {server.key if key is None else key}"}
    async with httpx2.AsyncClient(headers=headers, timeout=SECONDS_MAX) as http:
        transport = streamable_http_client(f"{server.url}/graphs/{graph}/mcp", http_client=http)
        async with Client(transport, mode=era) as client:
            yield client


async def names(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


def test_a_stored_query_is_run_over_rest(server: LiveServer) -> None:
    found = server.call("POST", "graphs/crm/queries/tasks_of", {"params": {"owner": "ada"}})
    assert found["rows"] == [
        {"slug": "t1", "state": "open", "size": "9007199254740993"},
        {"slug": "t2", "state": "open"},
    ]
    assert [column["kind"] for column in found["columns"]] == ["string", "string", "bigint"]
    unknown = server.request("POST", "graphs/crm/queries/nothing", {})
    assert (unknown.status, unknown.json()["code"]) == (404, "QUERY_NOT_FOUND")
    unfit = server.request("POST", "graphs/crm/queries/tasks_of", {"params": {"owned": "ada"}}).json()
    assert unfit["code"] == "INVALID_ARGUMENTS"
    assert {item["pointer"] for item in unfit["errors"]} == {"/params/owned", "/params/owner"}


@eras
async def test_the_queries_of_the_only_graph_are_tools(server: LiveServer, era: str) -> None:
    async with connected(server, era) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        tool = tools["tasks_of"]
        assert tool.description == "Tasks of a person.\n\nUse the handle of the person."
        assert tool.annotations is not None
        assert (tool.annotations.read_only_hint, tool.annotations.open_world_hint) == (True, False)
        assert tool.input_schema["properties"]["params"]["required"] == ["owner"]
        assert tool.output_schema is not None
        assert "slug" in tool.output_schema["anyOf"][0]["properties"]["rows"]["items"]["properties"]
        result = await client.call_tool("tasks_of", {"params": {"owner": "ada"}})
        assert result.structured_content is not None
        assert result.structured_content["row_count"] == 2
        wrong = await client.call_tool("tasks_of", {"params": {"owner": 5}})
        assert wrong.is_error
        assert error_of(wrong)["code"] == "INVALID_ARGUMENTS"


@eras
async def test_the_endpoint_of_a_graph_has_its_tools_and_nothing_else(server: LiveServer, era: str) -> None:
    async with at_graph(server, "crm", era) as client:
        listed = await names(client)
        assert {"tasks_of", "close_task", "add_task", "schema_get", "branches_merge", "load", "health"} <= listed
        assert not {name for name in listed if name.startswith("penstock") or name in ("query", "mutate", "query_run")}
        schema = await client.call_tool("schema_get", {})
        assert schema.structured_content is not None
        assert schema.structured_content["schema"] == SCHEMA
        rows = await client.call_tool("tasks_of", {"params": {"owner": "ada"}})
        assert rows.structured_content is not None
        with pytest.raises(MCPError) as caught:
            await client.call_tool("penstock_workflow_list", {})
        assert caught.value.error.code == -32602
        # Only the stored queries of this graph may be run: it takes none from callers.
        with pytest.raises(MCPError):
            await client.call_tool("read", {"querySource": "query q() { match { $u: User } return { $u } }"})
    async with at_graph(server, "nothing", era) as client:
        assert await names(client) == set()


async def test_a_graph_is_read_as_resources(server: LiveServer) -> None:
    async with connected(server) as client:
        uris = {str(item.uri) for item in (await client.list_resources()).resources}
        assert "penstock://graphs" in uris
        branches = (await client.read_resource("penstock://graphs/crm/branches")).contents[0]
        assert json.loads(branches.text)[0]["name"] == "main"  # type: ignore[union-attr]  # it is text
    async with at_graph(server, "crm") as client:
        uris = {str(item.uri) for item in (await client.list_resources()).resources}
        assert {"omnigraph://schema", "penstock://graphs/crm/schema"} <= uris
        assert not {uri for uri in uris if uri.startswith(("penstock://workflows", "penstock://executions"))}
        schema = (await client.read_resource("omnigraph://schema")).contents[0]
        assert schema.text == SCHEMA  # type: ignore[union-attr]  # it is text


async def test_a_key_without_the_scopes_of_reads_sees_tools_and_no_schema(server: LiveServer) -> None:
    key = new_key(server, "graph:run")
    async with at_graph(server, "crm", key=key) as client:
        assert await names(client) == {"tasks_of"}
        assert (await client.list_resources()).resources == []
        with pytest.raises(MCPError):
            await client.read_resource("omnigraph://schema")
        with pytest.raises(MCPError) as unknown:
            await client.call_tool("nothing", {})
        with pytest.raises(MCPError) as denied:
            await client.call_tool("close_task", {"params": {"slug": "t1"}})
        assert (denied.value.error.code, unknown.value.error.code) == (-32602, -32602)
    refused = server.request("POST", "graphs/crm/queries/close_task", {"params": {"slug": "t1"}}, key=key)
    assert (refused.status, refused.json()["code"]) == (404, "QUERY_NOT_FOUND")


def test_pages_of_strangers_do_not_reach_the_endpoint_of_a_graph(server: LiveServer) -> None:
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Accept": "application/json, text/event-stream"}
    for extra, status in (({"Origin": "https://evil.example"}, 403), ({"Host": "evil.example"}, 421)):
        answer = server.request("POST", "/graphs/crm/mcp", body, headers={**headers, **extra})
        assert answer.status == status
    assert server.request("POST", "/graphs/crm/mcp", body, headers=headers, key="").status == 401
    stream = {"Accept": "text/event-stream"}
    assert server.request("GET", "/graphs/crm/mcp", headers={**stream, "Host": "evil.example"}).status == 421
    assert server.request("GET", "/graphs/crm/mcp", headers=stream, key="").status == 401


async def test_a_client_of_the_oldest_revision_reaches_one_graph_and_nothing_else(server: LiveServer) -> None:
    headers = {"Authorization": f"Bearer {server.key}"}
    async with Client(sse_client(f"{server.url}/graphs/crm/mcp", headers=headers), mode="legacy") as client:
        listed = await names(client)
        assert {"tasks_of", "close_task", "schema_get"} <= listed
        assert not {name for name in listed if name.startswith("penstock")}
        rows = await client.call_tool("tasks_of", {"params": {"owner": "bob"}})
        assert rows.structured_content is not None
        assert rows.structured_content["row_count"] == 0
        with pytest.raises(MCPError) as caught:
            await client.call_tool("penstock_workflow_list", {})
        assert caught.value.error.code == -32602
        uris = {str(item.uri) for item in (await client.list_resources()).resources}
        assert "omnigraph://schema" in uris
        assert "penstock://graphs" not in uris
    key = new_key(server, "graph:run")
    limited = {"Authorization": f"Bearer {key}"}
    async with Client(sse_client(f"{server.url}/graphs/crm/mcp", headers=limited), mode="legacy") as client:
        assert await names(client) == {"tasks_of"}
    async with Client(sse_client(f"{server.url}/graphs/nothing/mcp", headers=headers), mode="legacy") as client:
        assert await names(client) == set()


@eras
async def test_a_pipe_in_front_of_a_server_offers_one_graph(server: LiveServer, tmp_path: Path, era: str) -> None:
    command = piped_command("mcp", "--server", server.url, "--graph", "crm")
    async with piped([*command], era, tmp_path, env={"PENSTOCK_API_KEY": server.key}) as client:
        await check_pipe(client)


@eras
async def test_a_pipe_on_a_file_offers_one_graph_of_the_settings(tmp_path: Path, era: str) -> None:
    (tmp_path / "penstock.yaml").write_text(f"graphs:\n  {written_graph(tmp_path)}\n", encoding="utf-8")
    async with piped([*piped_command("mcp", "--graph", "crm")], era, tmp_path) as client:
        loaded = await client.call_tool("load", {"data": DATA})
        assert loaded.structured_content is not None
        assert loaded.structured_content["total_entities"] == 6
        await check_pipe(client)


async def test_the_branch_to_fork_is_named_source_or_from_and_not_both(server: LiveServer) -> None:
    record = '{"type": "User", "data": {"handle": "eve"}}'
    made = server.call("POST", "graphs/crm/branches", {"name": "from/rest", "from": "main"})
    assert (made["name"], made["parent"]) == ("from/rest", "main")
    loaded = server.call("POST", "graphs/crm/load", {"data": record, "branch": "from/load", "from": "from/rest"})
    assert (loaded["base_branch"], loaded["branch_created"]) == ("from/rest", True)
    both = {"from": "main", "source": "main"}
    for path, body in (("branches", {"name": "x"}), ("load", {"data": record, "branch": "x"})):
        refused = server.request("POST", f"graphs/crm/{path}", {**body, **both})
        assert (refused.status, refused.json()["code"]) == (422, "INVALID_ARGUMENTS")
        assert "from" in refused.json()["detail"]
    async with at_graph(server, "crm") as client:
        forked = await client.call_tool("branches_create", {"name": "from/mcp", "from": "from/rest"})
        assert forked.structured_content is not None
        assert forked.structured_content["parent"] == "from/rest"
        for tool, arguments in (("branches_create", {"name": "x"}), ("ingest", {"data": record, "branch": "x"})):
            wrong = await client.call_tool(tool, {**arguments, **both})
            assert (wrong.is_error, error_of(wrong)["code"]) == (True, "INVALID_ARGUMENTS")
    names_left = [item["name"] for item in server.call("GET", "graphs/crm/branches")["branches"]]
    assert "x" not in names_left
    for name in ("from/mcp", "from/load", "from/rest"):
        server.call("DELETE", f"graphs/crm/branches/{quote(name, safe='')}")


async def check_pipe(client: Client) -> None:
    listed = await names(client)
    assert {"tasks_of", "close_task", "schema_get", "branches_merge"} <= listed
    assert not {name for name in listed if name.startswith("penstock")}
    rows = await client.call_tool("tasks_of", {"params": {"owner": "ada"}})
    assert rows.structured_content is not None
    assert [row["slug"] for row in rows.structured_content["rows"]] == ["t1", "t2"]
    uris = {str(item.uri) for item in (await client.list_resources()).resources}
    assert {"omnigraph://schema", "omnigraph://branches", "penstock://graphs/crm/schema"} <= uris
    assert not {uri for uri in uris if uri.startswith(("penstock://workflows", "penstock://executions"))}
    schema = (await client.read_resource("omnigraph://schema")).contents[0]
    assert schema.text == SCHEMA  # type: ignore[union-attr]  # it is text
    branches = (await client.read_resource("penstock://graphs/crm/branches")).contents[0]
    assert "main" in [item["name"] for item in json.loads(branches.text)]  # type: ignore[union-attr]  # it is text
    for uri in ("penstock://graphs", "penstock://graphs/other/schema"):
        with pytest.raises(MCPError):
            await client.read_resource(uri)


async def test_work_on_a_branch_is_reviewed_and_merged(server: LiveServer) -> None:
    async with at_graph(server, "crm") as client:
        await client.call_tool("branches_create", {"name": "work/ada"})
        arguments = {"params": {"slug": "t3", "title": "Three"}, "branch": "work/ada"}
        added = await client.call_tool("add_task", arguments)
        assert added.structured_content is not None
        assert added.structured_content["affected_nodes"] == 1
        difference = await client.call_tool("branches_diff", {"source": "work/ada"})
        assert difference.structured_content is not None
        assert [item["entity_id"] for item in difference.structured_content["changes"]] == ["t3"]
        merged = await client.call_tool("branches_merge", {"source": "work/ada", "delete_branch": True})
        assert merged.structured_content is not None
        assert (merged.structured_content["outcome"], merged.structured_content["branch_deleted"]) == (
            "fast_forward",
            True,
        )
    commit = server.call("GET", "graphs/crm/snapshot")["graph_commit_id"]
    stale = {"params": {"slug": "t1"}, "if_graph_commit": "c_other"}
    refused = server.request("POST", "graphs/crm/queries/close_task", stale)
    assert (refused.status, refused.json()["details"]["precondition_failure"]["actual"]) == (412, commit)
