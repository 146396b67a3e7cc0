"""Policies never fail open: whatever happens to files, what was refused stays refused, and health says why."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.app.serving.server import ServerOptions
from penstock.app.settings.graphs import GraphSettings
from penstock.base.errors import Rejected
from tests.fixtures.graph_data import written_graph
from tests.scenarios.test_policies import BASE, new_key
from tests.unit.rest.conftest import Client, opened
from tests.waiting import until

pytestmark = pytest.mark.anyio
NO_AGENTS = '@id("no-agents") forbid (principal is Agent, action, resource);\n'
GRAPH_POLICY = '@id("graph-only") permit (principal, action, resource) when { principal.kind == "local" };\n'
COMMENT = "// nothing is left\n"


async def write(file: Path, text: str) -> None:
    await asyncio.to_thread(file.write_text, text, encoding="utf-8")


async def ready_checks(client: Client) -> tuple[int, dict[str, str]]:
    probe = await client("GET", "/readyz", key="")
    return probe.status, (await client("GET", "health")).json()["checks"]


def options(folder: Path) -> tuple[ServerOptions, dict[str, Path]]:
    """A server with a policy file, and a graph with a query file and a policy file of its own."""
    written_graph(folder)
    files = {
        "policies": folder / "policies.cedar",
        "graph_policies": folder / "crm.cedar",
        "queries": folder / "crm/queries/tasks.gq",
        "schema": folder / "crm/schema.pg",
    }
    files["policies"].write_text(BASE + NO_AGENTS, encoding="utf-8")
    files["graph_policies"].write_text(GRAPH_POLICY, encoding="utf-8")
    graph = GraphSettings(
        schema=str(files["schema"]), queries=(str(folder / "crm/queries"),), policy=(str(files["graph_policies"]),)
    )
    return ServerOptions(policy_files=(str(files["policies"]),), graphs={"crm": graph}), files


async def test_an_emptied_policy_file_permits_nothing_new_and_the_server_is_not_ready(tmp_path: Path) -> None:
    chosen, files = options(tmp_path)
    file, good = files["policies"], files["policies"].read_text(encoding="utf-8")
    async with opened(tmp_path, chosen) as client:
        agent = await new_key(client, "workflow:read", kind="agent")

        async def is_named() -> bool:
            status, checks = await ready_checks(client)
            assert (await client("GET", "workflows", key=agent)).status == 403
            return status == 503 and str(file) in checks["policies"]

        async def is_ready() -> bool:
            return (await ready_checks(client))[0] == 200

        await write(file, COMMENT)
        await until(is_named)
        metrics = (await client("GET", "/metrics")).body.decode()
        assert 'penstock_watched_files_failing{source="policies"} 1' in metrics
        await asyncio.to_thread(file.unlink)
        await until(is_named)
        await write(file, good)
        await until(is_ready)


async def test_a_query_file_without_a_query_does_not_keep_policies_from_being_enforced(tmp_path: Path) -> None:
    chosen, files = options(tmp_path)
    async with opened(tmp_path, chosen) as client:
        key = await new_key(client, "workflow:read", kind="service")
        assert (await client("GET", "workflows", key=key)).status == 200
        await write(files["queries"], COMMENT)

        async def is_named() -> bool:
            status, checks = await ready_checks(client)
            return status == 503 and str(files["queries"]) in checks["graph_files"]

        await until(is_named)
        await write(files["policies"], BASE + NO_AGENTS.replace("Agent", "Service"))

        async def is_refused() -> bool:
            return (await client("GET", "workflows", key=key)).status == 403

        await until(is_refused)


async def test_an_emptied_policy_file_of_a_graph_stays_in_force(tmp_path: Path) -> None:
    chosen, files = options(tmp_path)
    async with opened(tmp_path, chosen) as client:
        await write(files["graph_policies"], "")

        async def is_named() -> bool:
            status, checks = await ready_checks(client)
            return status == 503 and str(files["graph_policies"]) in checks["graph_files"]

        await until(is_named)


@pytest.mark.parametrize("kind", ["policies", "graph_policies", "queries", "schema"])
@pytest.mark.parametrize("text", ["", COMMENT, None], ids=["empty", "comment", "missing"])
async def test_a_server_does_not_start_with_a_file_that_says_nothing(
    kind: str, text: str | None, tmp_path: Path
) -> None:
    chosen, files = options(tmp_path)
    if text is None:
        files[kind].unlink()
    else:
        files[kind].write_text(text, encoding="utf-8")
    place = str(files[kind].parent if kind == "queries" and text is None else files[kind])
    with pytest.raises(Rejected) as caught:
        async with opened(tmp_path, chosen):
            pass
    assert place in caught.value.message
