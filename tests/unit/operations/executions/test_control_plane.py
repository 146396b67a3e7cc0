"""The published control-plane functions through the gate."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.base.errors import Conflict, NotFound, Rejected
from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.documents import ASK, DOUBLE, PARENT, WAIT, workflow
from tests.unit.operations.running import run

FAILS = workflow(
    "fails",
    {"id": "look", "type": "switch", "cases": [{"when": ".input.ok", "next": "done"}], "default": "stop"},
    {"id": "stop", "type": "fail", "code": "NO_STOCK", "message": "sold out"},
    {"id": "done", "type": "end"},
)


def test_a_start_that_dies_after_it_stored_the_definition_is_repeated_at_once(
    open_caller: OpenGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = {**ASK, "name": "new_one"}

    async def test(caller: Caller) -> None:
        async def dies(*given: Any, **more: Any) -> Any:
            raise RuntimeError("the power fails")

        monkeypatch.setattr(type(caller.penstock.host), "start", dies)
        start = {"definition": document, "input": {}, "idempotency_key": "k"}
        assert (await caller.refusal("control.workflow_start", **start)).code == "INTERNAL_ERROR"
        monkeypatch.undo()
        stored = await caller.call("workflow.get", workflow_id="new_one")
        first = await caller.call("control.workflow_start", **start)
        again = await caller.call("control.workflow_start", **start)
        assert first == again
        runs = await caller.call("workflow.executions", workflow_id="new_one")
        assert [item["execution_id"] for item in runs["items"]] == [first["execution_id"]]
        records = (await caller.call("audit.list", operation="control.workflow_start"))["items"]
        told = [(item["outcome"], item["details"].get("stored"), item["details"].get("replayed")) for item in records]
        assert told == [
            ("allowed", None, True),
            ("allowed", None, None),
            ("failed", None, None),
            ("allowed", stored["hash"], None),
        ]
        assert (await caller.call("audit.verify"))["intact"]

    run(open_caller, test)


def test_a_start_with_an_unfit_input_stores_no_definition(open_caller: OpenGate) -> None:
    document = {**DOUBLE, "name": "new_one"}

    async def test(caller: Caller) -> None:
        refused = await caller.refusal("control.workflow_start", definition=document, input={"number": "x"})
        assert refused.code == "VALIDATION_ERROR"
        assert (await caller.refusal("workflow.get", workflow_id="new_one")).code == "WORKFLOW_NOT_FOUND"

    run(open_caller, test)


def test_a_run_is_started_answered_and_listed_in_the_published_words(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        started = await caller.call("control.workflow_start", definition=ASK, input={}, execution_id="x")
        assert (started["execution_id"], started["status"], started["prompt"]) == ("x", "interrupted", "May I?")
        seen = await caller.call("control.workflow_status", execution_id="x")
        assert (seen["phase"], seen["current_node_id"]) == ("interrupted", "question")
        done = await caller.call("control.workflow_resume", execution_id="x", resume_payload={"ok": True})
        assert (done["status"], done["result"]) == ("completed", {"ok": True})
        listed = await caller.call("control.workflow_list", phase="completed", definition_name="ask", limit=5)
        assert [item["execution_id"] for item in listed["executions"]] == ["x"]
        # It is the same run that the other operations know.
        assert (await caller.call("execution.status", execution_id="x"))["output"] == {"ok": True}

    run(open_caller, test)


def test_activities_and_signals_go_in_and_children_are_followed(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        mode = {"activity_execution_mode": "host_mediated"}
        held = await caller.call(
            "control.workflow_start", definition=DOUBLE, input={"number": 1}, execution_id="a", **mode
        )
        assert held["status"] == "awaiting_activity"
        outcome = {"ok": True, "result": 2}
        done = await caller.call("control.workflow_submit_activity", execution_id="a", node_id="twice", outcome=outcome)
        assert (done["status"], done["result"]) == ("completed", 2)
        await caller.call("control.workflow_start", definition=WAIT, input={}, execution_id="w")
        heard = await caller.call("control.workflow_signal", execution_id="w", signal_name="go", payload=None)
        assert (heard["status"], heard["signal_name"]) == ("awaiting_signal", "end")
        stopped = await caller.call("control.workflow_cancel", execution_id="w", reason="enough")
        assert (stopped["status"], stopped["reason"]) == ("cancelled", "enough")
        parent = await caller.call("control.workflow_start", definition=PARENT, input={}, execution_id="p")
        assert (parent["status"], parent["child_execution_id"]) == ("running", "p:sub:child")

    run(open_caller, test)


@pytest.mark.parametrize(
    ("function", "arguments", "kind", "code"),
    [
        ("start", {}, Rejected, "VALIDATION_ERROR"),
        ("start", {"definition": {"penstock": "v1"}, "input": {}}, Rejected, "VALIDATION_ERROR"),
        ("start", {"definition": DOUBLE, "input": {}}, Rejected, "VALIDATION_ERROR"),
        ("start", {"definition": ASK, "input": {}, "execution_id": "a~1"}, Rejected, "VALIDATION_ERROR"),
        ("status", {}, Rejected, "VALIDATION_ERROR"),
        ("status", {"execution_id": "nothing"}, NotFound, "EXECUTION_NOT_FOUND"),
        ("status", {"execution_id": 7}, Rejected, "VALIDATION_ERROR"),
        ("status", {"execution_id": "x", "lease": {}}, Rejected, "VALIDATION_ERROR"),
        ("resume", {"execution_id": "x", "resume_payload": 1}, Rejected, "INVALID_RESUME_PAYLOAD"),
        ("submit_activity", {"execution_id": "x"}, Rejected, "SUBMIT_VALIDATION_ERROR"),
        ("signal", {"execution_id": "x"}, Rejected, "SIGNAL_VALIDATION_ERROR"),
        ("cancel", {}, Rejected, "CANCEL_VALIDATION_ERROR"),
        ("list", {"limit": "many"}, Rejected, "VALIDATION_ERROR"),
        ("list", {"cursor": "x"}, Rejected, "VALIDATION_ERROR"),
        ("start", {"definition": ASK, "input": {}, "execution_id": "x"}, Conflict, "DUPLICATE_EXECUTION_ID"),
        ("start", {"definition": FAILS, "input": {}}, Conflict, "ENGINE_FAILURE"),
    ],
)
def test_a_refusal_has_its_published_code_and_the_published_error(
    open_caller: OpenGate, function: str, arguments: dict[str, Any], kind: type[Exception], code: str
) -> None:
    async def test(caller: Caller) -> None:
        await caller.call("control.workflow_start", definition=ASK, input={}, execution_id="x")
        error = await caller.refusal(f"control.workflow_{function}", **arguments)
        assert isinstance(error, kind)
        published: Any = error.details["error"]
        assert (error.code, published["code"], published["message"]) == (code, code, error.message)

    run(open_caller, test)


def test_a_failed_run_is_named_in_its_error(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        error = await caller.refusal("control.workflow_start", definition=FAILS, input={}, execution_id="f")
        published: Any = error.details["error"]
        assert published["details"]["execution_id"] == "f"
        assert (published["details"]["cause_code"], published["details"]["node_id"]) == ("NO_STOCK", "stop")

    run(open_caller, test)


def test_an_id_that_may_exist_and_a_repeated_key_go_on_with_the_run(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        start: dict[str, Any] = {"definition": ASK, "input": {}}
        for _ in range(2):
            again = await caller.call(
                "control.workflow_start", execution_id="x", allow_existing_execution_id=True, **start
            )
            assert again["status"] == "interrupted"
        first = await caller.reply("control.workflow_start", idempotency_key="k", **start)
        second = await caller.reply("control.workflow_start", idempotency_key="k", **start)
        assert first.value["execution_id"] == second.value["execution_id"]

    run(open_caller, test)


def test_the_control_plane_sees_the_runs_of_its_tenant_only(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        acme = await caller.new_caller("*", tenant="acme")
        await caller.call("control.workflow_start", definition=ASK, input={}, execution_id="x")
        theirs = await acme.call("control.workflow_start", definition=ASK, input={}, execution_id="y")
        assert theirs["execution_id"] == "y"
        for name in ("y", "acme~.y"):
            assert (await caller.refusal("control.workflow_status", execution_id=name)).code == "EXECUTION_NOT_FOUND"
            assert (await caller.refusal("control.workflow_cancel", execution_id=name)).code == "EXECUTION_NOT_FOUND"
        assert (await acme.refusal("control.workflow_status", execution_id="x")).code == "EXECUTION_NOT_FOUND"
        for one, name in ((caller, "x"), (acme, "y")):
            listed = await one.call("control.workflow_list")
            assert [item["execution_id"] for item in listed["executions"]] == [name]
        reader = await caller.new_caller("execution:*", "workflow:run")
        refused = await reader.refusal("control.workflow_start", definition=ASK, input={})
        assert refused.code == "SCOPE_REQUIRED"

    run(open_caller, test)


@pytest.mark.parametrize("mode", ["host-mediated", "hostmediated", "HOST_MEDIATED", "", 7, ["host_mediated"]])
@pytest.mark.parametrize("function", ["start", "resume", "submit_activity", "signal"])
def test_a_mistyped_mode_is_refused_before_anything_is_done(open_caller: OpenGate, function: str, mode: Any) -> None:
    async def test(caller: Caller) -> None:
        given = {"definition": ASK, "input": {}, "execution_id": "m", "activity_execution_mode": mode}
        error = await caller.refusal(f"control.workflow_{function}", **given)
        assert error.code == "VALIDATION_ERROR"
        assert "activity_execution_mode must be in_process or host_mediated" in error.message
        assert ("did you mean `host_mediated`?" in error.message) == (
            mode in ("host-mediated", "hostmediated", "HOST_MEDIATED")
        )
        assert (await caller.refusal("execution.status", execution_id="m")).code == "EXECUTION_NOT_FOUND"

    run(open_caller, test)
