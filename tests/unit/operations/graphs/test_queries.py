"""Stored queries: checked when they are stored, tools from then on, refused when they do not fit any more."""

from __future__ import annotations

from tests.fixtures.graph_data import CLOSE_TASK, SCHEMA, TASKS_OF
from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.graphs.crm import with_crm


def test_a_query_with_mistakes_is_not_stored_and_all_of_them_are_told(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        wrong = "query bad($a: String) { match { $u: Usr { handle: $a } $u.nme = 5 } return { $x.handle } }"
        refused = await caller.refusal("graph.queries_put", graph_id="crm", name="bad", source=wrong)
        assert refused.code == "QUERY_INVALID"
        found = refused.details["findings"]
        assert isinstance(found, list)
        assert {item["code"] for item in found if isinstance(item, dict)} >= {"T1", "T6"}
        other = await caller.refusal("graph.queries_put", graph_id="crm", name="other", source=TASKS_OF)
        assert "there is no query other" in other.message

    with_crm(open_caller, test)


def test_names_of_tools_are_taken_once_and_never_those_of_built_in_tools(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        put = {"graph_id": "crm", "name": "again", "source": CLOSE_TASK.replace("close_task", "again")}
        for tool_name in ("tasks_of", "schema_get", "read", "query_run"):
            refused = await caller.refusal("graph.queries_put", **put, tool_name=tool_name)
            assert refused.code == "QUERY_INVALID", tool_name
        made = await caller.call("graph.queries_put", **put, tool_name="close-again")
        assert (made["tool_name"], made["mutation"]) == ("close-again", True)

    with_crm(open_caller, test)


def test_a_query_that_is_not_exposed_can_be_run_and_is_in_no_list(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("graph.queries_put", graph_id="crm", name="tasks_of", source=TASKS_OF, expose=False)
        visible = {item.name for item in await caller.gate.visible(await caller.principal())}
        assert {"query:crm/close_task"} == {
            name for name in visible if name in ("query:crm/close_task", "query:crm/tasks_of")
        }
        listed = (await caller.call("graph.queries_list", graph_id="crm"))["queries"]
        assert [item["name"] for item in listed] == ["add_task", "close_task"]
        found = await caller.call("graph.query_run", graph_id="crm", name="tasks_of", params={"owner": "ada"})
        assert found["row_count"] == 2

    with_crm(open_caller, test)


def test_a_stored_mutation_needs_the_scope_of_changes_and_looks_unknown_without(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        reader = await caller.new_caller("graph:run")
        run = {"graph_id": "crm", "name": "close_task", "params": {"slug": "t1"}}
        assert (await reader.refusal("graph.query_run", **run)).code == "QUERY_NOT_FOUND"
        assert (await reader.refusal("graph.schema_get", graph_id="crm")).code == "SCOPE_REQUIRED"
        listed = (await reader.call("graph.queries_list", graph_id="crm"))["queries"]
        assert [item["name"] for item in listed] == ["tasks_of"]
        writer = await caller.new_caller("graph:run", "graph:write")
        assert (await writer.call("graph.query_run", **run))["affected_nodes"] == 1

    with_crm(open_caller, test)


def test_a_read_is_recorded_as_a_call_of_the_query(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        for _ in range(3):
            await caller.call("graph.query_run", graph_id="crm", name="tasks_of", params={"owner": "ada"})
        await caller.gate.flush()
        [record] = (await caller.call("audit.list", operation="query:crm/tasks_of"))["items"]
        assert (record["subject"], record["count"]) == ("crm/tasks_of", 3)
        await caller.call("graph.query_run", graph_id="crm", name="close_task", params={"slug": "t1"})
        [change] = (await caller.call("audit.list", operation="query:crm/close_task"))["items"]
        assert change["details"]["branch"] == "main"

    with_crm(open_caller, test)


def test_a_schema_that_queries_do_not_fit_is_refused_and_a_check_says_so_before(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        without = SCHEMA.replace("  size: I64?", "")
        refused = await caller.refusal("graph.schema_apply", graph_id="crm", schema=without)
        assert refused.code == "QUERY_INVALID"
        check = await caller.call("graph.queries_validate", graph_id="crm", source=TASKS_OF, schema=without)
        assert (check["valid"], check["problems"][0]["query"]) == (False, "tasks_of")
        assert (await caller.call("graph.queries_validate", graph_id="crm", source=TASKS_OF))["valid"]
        unreadable = await caller.call("graph.queries_validate", graph_id="crm", source="query (")
        assert not unreadable["valid"]

    with_crm(open_caller, test)


def test_a_deleted_query_is_gone_at_once_and_a_plan_says_how_one_is_run(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        asked = {"graph_id": "crm", "name": "tasks_of", "params": {"owner": "ada"}}
        plan = await caller.call("graph.queries_explain", **asked, run=True)
        assert (plan["rows"], plan["statement"].startswith("SELECT")) == (2, True)
        assert plan["steps"]
        await caller.call("graph.queries_delete", graph_id="crm", name="tasks_of")
        assert (await caller.refusal("graph.query_run", **asked)).code == "QUERY_NOT_FOUND"
        assert (await caller.refusal("graph.queries_get", graph_id="crm", name="tasks_of")).code == "QUERY_NOT_FOUND"

    with_crm(open_caller, test)


def test_rows_are_paged_and_arguments_are_checked_together(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        asked = {"graph_id": "crm", "name": "tasks_of", "params": {"owner": "ada"}}
        second = await caller.call("graph.query_run", **asked, limit=1, offset=1)
        assert ([row["slug"] for row in second["rows"]], second["more"]) == (["t2"], False)
        refused = await caller.refusal(
            "graph.query_run", graph_id="crm", name="tasks_of", params={"owner": 5, "x": 1}, limit=0, colour="red"
        )
        errors = refused.details["errors"]
        assert isinstance(errors, list)
        pointers = {item["pointer"] for item in errors if isinstance(item, dict)}
        assert pointers == {"/params/owner", "/params/x", "/limit", ""}
        written = await caller.refusal(
            "graph.query_run", graph_id="crm", name="close_task", params={"slug": "t1"}, snapshot="c_1"
        )
        assert written.code == "INVALID_ARGUMENTS"

    with_crm(open_caller, test)
