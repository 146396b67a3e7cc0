"""Graphs that the settings declare: in force from the start, taken up when files change, and never half."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.app.files.graphs import declared_graph, graph_checks, load_graphs
from penstock.app.files.watcher import FileWatcher
from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.app.settings.graphs import GraphSettings, QueryFileSettings, QueryToolSettings
from penstock.base.errors import PenstockError, Rejected
from penstock.operations.gate.context import Principal, Request
from penstock.operations.gate.internal_callers import internal_call
from penstock.operations.gate.pipeline import Gate, RefusedCall
from penstock.operations.gate.policy_stage import Standpoint
from penstock.operations.system.health import is_ready
from tests.fixtures.graph_data import CLOSE_TASK, SCHEMA, TASKS_OF, written_graph
from tests.waiting import SECONDS_MAX


def crm(folder: Path, **more: Any) -> GraphSettings:
    written_graph(folder)
    return GraphSettings(schema=str(folder / "crm/schema.pg"), queries=(str(folder / "crm/queries"),), **more)


@asynccontextmanager
async def gate_with(folder: Path, graphs: Mapping[str, GraphSettings]) -> AsyncIterator[Gate]:
    async with (
        asyncio.timeout(SECONDS_MAX),
        Penstock.open(folder / "penstock.db") as penstock,
        open_gate(penstock, graphs=graphs) as gate,
    ):
        yield gate


async def call(gate: Gate, operation: str, **arguments: Any) -> Any:
    return msgspec.to_builtins(await internal_call(gate, local_owner(), operation, arguments, surface="cli"))


async def code(gate: Gate, operation: str, **arguments: Any) -> str:
    with pytest.raises(PenstockError) as caught:
        await call(gate, operation, **arguments)
    return caught.value.code


async def queries(gate: Gate) -> list[str]:
    return [item["name"] for item in (await call(gate, "graph.queries_list", graph_id="crm"))["queries"]]


def test_a_declared_graph_is_there_and_callers_do_not_change_it(tmp_path: Path) -> None:
    async def body() -> None:
        async with gate_with(tmp_path, {"crm": crm(tmp_path, title="Customers")}) as gate:
            found = await call(gate, "graph.get", graph_id="crm")
            assert (found["title"], found["of_settings"], found["queries"]) == ("Customers", True, 3)
            put = {"graph_id": "crm", "name": "close_task", "source": CLOSE_TASK}
            assert await code(gate, "graph.queries_put", **put) == "GRAPH_OF_SETTINGS"
            assert await code(gate, "graph.schema_apply", graph_id="crm", schema=SCHEMA) == "GRAPH_OF_SETTINGS"
            assert await code(gate, "graph.delete", graph_id="crm") == "GRAPH_OF_SETTINGS"
        async with gate_with(tmp_path, {"hr": crm(tmp_path)}) as gate:
            assert (await call(gate, "graph.get", graph_id="crm"))["of_settings"] is False
            assert (await call(gate, "graph.queries_put", **put))["mutation"]

    asyncio.run(body())


def test_mistakes_stop_the_start_or_quarantine_their_graph(tmp_path: Path) -> None:
    async def body() -> None:
        refusing, quarantining = crm(tmp_path), crm(tmp_path, on_broken="quarantine")
        file = tmp_path / "crm/queries/tasks.gq"
        good = file.read_text(encoding="utf-8")
        file.write_text(good.replace("$t.slug as slug", "$t.slugg as slug"), encoding="utf-8")
        with pytest.raises(Rejected, match="slugg"):
            async with gate_with(tmp_path, {"crm": refusing}):
                pass
        files = {"crm": quarantining, "hr": GraphSettings(schema=str(tmp_path / "crm/schema.pg"))}
        async with gate_with(tmp_path, files) as gate:
            checks = await gate.services.checks()
            assert "slugg" in checks["graphs"]
            assert is_ready(checks)  # the other graphs, and everything else, are served
            assert (await call(gate, "graph.get", graph_id="hr"))["quarantine"] is None
            assert await code(gate, "graph.get", graph_id="crm") == "GRAPH_NOT_FOUND"
        file.write_text(good, encoding="utf-8")
        async with gate_with(tmp_path, {"crm": quarantining}) as gate:
            assert await queries(gate) == ["add_task", "close_task", "tasks_of"]
        file.write_text("query (", encoding="utf-8")
        async with gate_with(tmp_path, {"crm": quarantining}) as gate:
            assert await code(gate, "graph.schema_get", graph_id="crm") == "GRAPH_QUARANTINED"
            assert (await call(gate, "graph.get", graph_id="crm"))["quarantine"]
            run = {"graph_id": "crm", "name": "tasks_of", "params": {"owner": "ada"}}
            assert await code(gate, "graph.query_run", **run) == "QUERY_NOT_FOUND"

    asyncio.run(body())


def test_changed_files_are_taken_up_and_those_with_mistakes_are_not(tmp_path: Path) -> None:
    async def body() -> None:
        settings = crm(tmp_path)
        async with gate_with(tmp_path, {}) as gate:
            watcher = FileWatcher(settle_seconds=0)
            graphs = await load_graphs(watcher, gate, {"crm": settings})
            extra = tmp_path / "crm/queries/more.gq"
            extra.write_text(TASKS_OF.replace("tasks_of", "more_of"), encoding="utf-8")
            await watcher.look()
            assert await queries(gate) == ["add_task", "close_task", "more_of", "tasks_of"]
            extra.write_text("query more_of() { match { $x: Nothing } return { $x } }", encoding="utf-8")
            await watcher.look()
            assert await queries(gate) == ["add_task", "close_task", "more_of", "tasks_of"]
            assert "older files are in force" in graph_checks(watcher, graphs)["graph_files"]
            extra.unlink()
            schema = tmp_path / "crm/schema.pg"
            schema.write_text(SCHEMA.replace("name: String?", "name: String?  age: I32?"), encoding="utf-8")
            await watcher.look()
            assert watcher.problem("graph crm") is None
            assert await queries(gate) == ["add_task", "close_task", "tasks_of"]
            assert "age" in (await call(gate, "graph.schema_get", graph_id="crm"))["schema"]

    asyncio.run(body())


def test_queries_are_named_with_their_files_and_every_mistake_is_told(tmp_path: Path) -> None:
    settings = crm(tmp_path)
    file = str(tmp_path / "crm/queries/tasks.gq")
    named = msgspec.structs.replace(
        settings,
        queries={"tasks_of": QueryFileSettings(file=file, mcp=QueryToolSettings(expose=False, tool_name="find"))},
    )
    found: Any = declared_graph("crm", named)["queries"]
    assert [(item["name"], item["expose"], item["tool_name"]) for item in found] == [("tasks_of", False, "find")]
    wrong = msgspec.structs.replace(
        settings, queries={"other": QueryFileSettings(file=file), "gone": QueryFileSettings(file="gone.gq")}
    )
    with pytest.raises(Rejected) as caught:
        declared_graph("crm", wrong)
    problems = caught.value.details["problems"]
    assert isinstance(problems, list)
    assert len(problems) == 2
    (tmp_path / "crm/queries/twice.gq").write_text(TASKS_OF, encoding="utf-8")
    with pytest.raises(Rejected, match="is declared in"):
        declared_graph("crm", settings)


PERMITS = """@id("readers")
permit (principal, action in Action::"graph:invoke_query", resource == StoredQuery::"crm/tasks_of");
@id("owner") permit (principal, action, resource) when { principal.kind == "local" };
"""


AGENT = Principal(id="key:agent", tenant="default", kind="agent", scopes=frozenset({"*"}))


async def as_agent(gate: Gate, operation: str, **arguments: Any) -> str:
    """What an agent with every scope gets: `ok`, or the code of the refusal."""
    request = Request(operation=operation, arguments=arguments, principal=AGENT, surface="rest", request_id="test")
    outcome = await gate.call(request)
    return outcome.error.code if isinstance(outcome, RefusedCall) else "ok"


async def decisions(gate: Gate, graph: str = "crm") -> tuple[str, str, str]:
    run = {"graph_id": graph, "name": "tasks_of", "params": {"owner": "ada"}}
    close = {"graph_id": graph, "name": "close_task", "params": {"slug": "t1"}}
    return (
        await as_agent(gate, "graph.query_run", **run),
        await as_agent(gate, "graph.query_run", **close),
        await as_agent(gate, "graph.schema_get", graph_id=graph),
    )


def two_graphs(folder: Path, policy: str, **more: Any) -> dict[str, GraphSettings]:
    (folder / "crm.cedar").write_text(policy, encoding="utf-8")
    written_graph(folder, "hr")
    hr = GraphSettings(schema=str(folder / "hr/schema.pg"), queries=(str(folder / "hr/queries"),))
    return {"crm": crm(folder, policy=(str(folder / "crm.cedar"),), **more), "hr": hr}


def test_policies_of_a_graph_decide_about_it_and_scopes_about_everything_else(tmp_path: Path) -> None:
    async def body() -> None:
        async with gate_with(tmp_path, two_graphs(tmp_path, PERMITS)) as gate:
            assert await decisions(gate) == ("ok", "QUERY_NOT_FOUND", "POLICY_DENIED")
            assert await decisions(gate, "hr") == ("ok", "ok", "ok")
            assert await as_agent(gate, "graph.list") == "ok"
            assert await as_agent(gate, "workflow.list") == "ok"
            assert await as_agent(gate, "graph.delete", graph_id="crm") == "POLICY_DENIED"
            listed = {item.name for item in await gate.visible(AGENT, Standpoint(surface="mcp"))}
            assert {"query:crm/tasks_of", "query:hr/close_task", "graph.schema_get"} <= listed
            assert "query:crm/close_task" not in listed

    asyncio.run(body())


def test_policies_of_a_graph_stand_beside_those_of_the_server(tmp_path: Path) -> None:
    forbids = '@id("no-changes") forbid (principal is Agent, action in Action::"graph:change", resource);\n'

    async def body() -> None:
        graphs = two_graphs(tmp_path, forbids)
        (tmp_path / "server.cedar").write_text('@id("all") permit (principal, action, resource);', encoding="utf-8")
        async with (
            Penstock.open(tmp_path / "penstock.db") as penstock,
            open_gate(penstock, graphs=graphs, policy_files=(str(tmp_path / "server.cedar"),)) as gate,
        ):
            assert await decisions(gate) == ("ok", "POLICY_DENIED", "ok")
            assert await decisions(gate, "hr") == ("ok", "ok", "ok")

    asyncio.run(body())


@asynccontextmanager
async def gate_on_stored(folder: Path, graphs: Mapping[str, GraphSettings]) -> AsyncIterator[Gate]:
    async with Penstock.open(folder / "penstock.db") as penstock, open_gate(penstock, stored_graphs=graphs) as gate:
        yield gate


def test_a_process_that_takes_graphs_as_they_are_stored_takes_their_policies(tmp_path: Path) -> None:
    async def body() -> None:
        graphs = two_graphs(tmp_path, PERMITS)
        async with gate_on_stored(tmp_path, graphs) as gate:  # no process brought it into force yet
            assert await as_agent(gate, "graph.schema_get", graph_id="crm") == "GRAPH_NOT_FOUND"
        async with gate_with(
            tmp_path, {name: msgspec.structs.replace(item, policy=()) for name, item in graphs.items()}
        ) as gate:
            assert await decisions(gate) == ("ok", "ok", "ok")
        (tmp_path / "crm/schema.pg").write_text(f"{SCHEMA}node Other {{ name: String }}", encoding="utf-8")
        async with gate_on_stored(tmp_path, graphs) as gate:
            assert await decisions(gate) == ("ok", "QUERY_NOT_FOUND", "POLICY_DENIED")
            assert await decisions(gate, "hr") == ("ok", "ok", "ok")
            assert (await call(gate, "graph.schema_get", graph_id="hr"))["schema"] == SCHEMA
        async with gate_on_stored(tmp_path, {"crm": msgspec.structs.replace(graphs["crm"], policy=())}) as gate:
            assert "Other" not in (await call(gate, "graph.schema_get", graph_id="crm"))["schema"]
        broken = two_graphs(tmp_path, "permit (principal, action")
        with pytest.raises(Rejected, match="not a Cedar policy") as caught:
            async with gate_on_stored(tmp_path, broken):
                pass
        assert caught.value.code == "POLICY_INVALID"
        (tmp_path / "crm/schema.pg").write_text(SCHEMA, encoding="utf-8")
        quarantined = two_graphs(tmp_path, "permit (principal, action", on_broken="quarantine")
        async with gate_with(tmp_path, quarantined):
            pass
        async with gate_on_stored(tmp_path, quarantined) as gate:
            assert await as_agent(gate, "graph.schema_get", graph_id="crm") == "GRAPH_QUARANTINED"

    asyncio.run(body())


@pytest.mark.parametrize(
    ("policy", "wrong"),
    [
        ("permit (principal, action", "not a Cedar policy"),
        ('@id("x") permit (principal, action, resource == Graph::"hr");', "not about this graph"),
        ('@id("x") permit (principal, action, resource is Workflow);', "not about this graph"),
        ('@id("x") permit (principal, action, resource == StoredQuery::"crm/off");', "no stored query crm/off"),
        ('@id("x") permit (principal, action == Action::"query:crm/tasks_off", resource);', "no stored query"),
        ('@id("x") forbid (principal, action, resource);', "no policy permits anything"),
        ('@id("x") permit (principal, action, resource) when { context.nothing };', "nothing"),
    ],
)
def test_a_policy_with_a_mistake_stops_the_start_or_quarantines_its_graph(
    tmp_path: Path, policy: str, wrong: str
) -> None:
    async def body() -> None:
        with pytest.raises(Rejected, match=wrong) as caught:
            async with gate_with(tmp_path, two_graphs(tmp_path, policy)):
                pass
        assert caught.value.code == "POLICY_INVALID"
        async with gate_with(tmp_path, two_graphs(tmp_path, policy, on_broken="quarantine")) as gate:
            assert wrong in (await gate.services.checks())["graphs"]
            assert await as_agent(gate, "graph.schema_get", graph_id="crm") in ("GRAPH_NOT_FOUND", "GRAPH_QUARANTINED")
            assert await decisions(gate, "hr") == ("ok", "ok", "ok")

    asyncio.run(body())


def test_changed_policies_of_a_graph_are_taken_up_and_those_with_mistakes_are_not(tmp_path: Path) -> None:
    async def body() -> None:
        graphs, file = two_graphs(tmp_path, PERMITS), tmp_path / "crm.cedar"
        async with gate_with(tmp_path, {}) as gate:
            watcher = FileWatcher(settle_seconds=0)
            loaded = await load_graphs(watcher, gate, graphs)
            assert (await decisions(gate))[0] == "ok"
            file.write_text("permit (", encoding="utf-8")
            extra = tmp_path / "crm/queries/more.gq"
            extra.write_text(TASKS_OF.replace("tasks_of", "more_of"), encoding="utf-8")
            await watcher.look()
            # Neither the policies nor the queries of a change with a mistake are used.
            assert "older files are in force" in graph_checks(watcher, loaded)["graph_files"]
            assert await decisions(gate) == ("ok", "QUERY_NOT_FOUND", "POLICY_DENIED")
            assert await queries(gate) == ["add_task", "close_task", "tasks_of"]
            file.write_text(PERMITS.replace("tasks_of", "more_of"), encoding="utf-8")
            await watcher.look()
            assert graph_checks(watcher, loaded)["graph_files"] == "ok"
            assert (await decisions(gate))[0] == "QUERY_NOT_FOUND"
            more = {"graph_id": "crm", "name": "more_of", "params": {"owner": "ada"}}
            assert await as_agent(gate, "graph.query_run", **more) == "ok"

    asyncio.run(body())
