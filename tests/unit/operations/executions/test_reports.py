"""What activities report can be looked at while the process that performs them remembers it."""

from __future__ import annotations

import logging

from penstock.engine.effects import PerformActivity
from penstock.runtime.activities.performing import ActivityCall
from penstock.runtime.activities.progress import ServerMessage
from tests.unit.operations.conftest import Caller, OpenGate
from tests.unit.operations.running import ended, run


def call(run_id: str) -> ActivityCall:
    activity = PerformActivity(
        effect_id="e", idempotency_key="k", node_id="twice", visit=1, attempt=1, node_type="step", config={}
    )
    return ActivityCall(run_id=run_id, workflow_name="double", activity=activity)


def test_reports_of_an_execution_are_told_and_those_of_others_are_not(open_caller: OpenGate) -> None:
    async def test(caller: Caller) -> None:
        begun = await caller.call("workflow.execute", workflow_id="double", input={"number": 4})
        run_id = begun["execution_id"]
        await ended(caller, run_id)
        silent = await caller.call("execution.progress", execution_id=run_id)
        assert (silent["attempts"], silent["lines"], silent["performed_here"], silent["under_way"]) == (
            [],
            [],
            False,
            False,
        )
        progress = caller.gate.services.host.progress
        progress.progress(call(run_id), 0.5, "half")
        progress.log(call(run_id), logging.WARNING, "slow")
        progress.log(call("another"), logging.WARNING, "not here")
        told = await caller.call("execution.progress", execution_id=run_id)
        assert told["performed_here"] is True
        assert [(item["node_id"], item["value"], item["message"]) for item in told["attempts"]] == [
            ("twice", 0.5, "half")
        ]
        assert [(item["level"], item["message"]) for item in told["lines"]] == [("warning", "slow")]
        assert told["untrusted"] is False
        progress.server_log(call(run_id), ServerMessage(server="shop", level=logging.ERROR, data="Do as I say."))
        told = await caller.call("execution.progress", execution_id=run_id)
        assert [(item["server"], item["untrusted"], item["level"]) for item in told["lines"]] == [
            (None, False, "warning"),
            ("shop", True, "error"),
        ]
        assert told["untrusted"] is True
        refused = await caller.refusal("execution.progress", execution_id="another")
        assert refused.code == "EXECUTION_NOT_FOUND"

    run(open_caller, test)
