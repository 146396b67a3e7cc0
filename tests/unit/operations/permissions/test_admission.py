"""The rate that a document asks for binds every way to start it."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.operations.gate.pipeline import AnsweredCall
from tests.unit.operations.conftest import Caller, OpenGate

pytestmark = pytest.mark.anyio
HOURLY = {"rate": {"limit": 1, "per": "1h"}}


def document(name: str, *nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    done = {"id": "done", "type": "end", "output": "done"}
    return {"penstock": "v1", "name": name, "nodes": [*nodes, done], **more}


REFUND = document(
    "refund",
    governance=HOURLY,
    expose={"tool": True, "prompt": {"run": True}, "resource": {"uri": "shop://refund"}},
)
PARENT = document("parent", {"id": "child", "type": "subworkflow", "workflow": "refund"}, expose={"tool": True})
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "execute": ("workflow.execute", {"workflow_id": "refund"}),
    "tool": ("workflow:refund", {}),
    "prompt": ("prompt:refund", {}),
    "resource": ("resource:refund", {}),
    "control plane": ("control.workflow_start", {"definition": REFUND, "input": {}}),
    "run a schedule": ("schedule.run_now", {"schedule_id": "nightly"}),
    "fork": ("execution.fork", {"execution_id": "known", "at_sequence": 1}),
    "as a child": ("workflow.execute", {"workflow_id": "parent"}),
    "as a child, as a tool": ("workflow:parent", {}),
}


async def opened(owner: Caller) -> None:
    """Store the workflows, run one of them before it has a rate, and let a schedule start it."""
    await owner.call("workflow.create", document=document("refund"))
    await owner.call("workflow.execute", workflow_id="refund", execution_id="known", sync=True)
    await owner.call("workflow.update", workflow_id="refund", document=REFUND)
    await owner.call("workflow.create", document=PARENT)
    await owner.call("schedule.create", schedule_id="nightly", workflow_id="refund", cron="0 3 * * *")


@pytest.mark.parametrize("way", WAYS)
async def test_a_rate_binds_every_way_to_start_a_workflow(open_caller: OpenGate, way: str) -> None:
    operation, arguments = WAYS[way]
    async with open_caller() as owner:
        await opened(owner)
        assert isinstance(await owner.outcome(operation, **arguments), AnsweredCall)
        before = await started(owner)
        for other, given in [(operation, arguments), *WAYS.values()]:
            error = await owner.refusal(other, **given)
            assert error.code == "RATE_LIMITED", other
            assert error.details["limit"] == "workflow"
            assert 3_500 < error.details["retry_after_seconds"] <= 3_600  # type: ignore[operator]
        assert await started(owner) == before


async def started(owner: Caller) -> set[str]:
    """The runs, without the children of others, which start a little later."""
    runs = (await owner.call("execution.list"))["items"]
    return {run["execution_id"] for run in runs if ":sub:" not in run["execution_id"]}


async def test_a_document_without_the_rate_does_not_help(open_caller: OpenGate) -> None:
    async with open_caller() as owner:
        await opened(owner)
        await owner.call("workflow.execute", workflow_id="refund")
        error = await owner.refusal("control.workflow_start", definition=document("refund"), input={})
        assert error.code == "RATE_LIMITED"


async def test_the_clock_starts_no_more_than_the_rate_and_says_so(open_caller: OpenGate) -> None:
    async with open_caller() as owner:
        await opened(owner)
        await owner.call("workflow.execute", workflow_id="refund")
        scheduler = owner.gate.services.scheduler
        row = await scheduler.find("nightly")
        assert row is not None
        assert scheduler.fire is not None
        outcome = await scheduler.fire(row, "tonight")
        assert getattr(outcome, "code", None) == "RATE_LIMITED"


async def test_a_start_that_is_repeated_counts_once(open_caller: OpenGate) -> None:
    async with open_caller() as owner:
        await opened(owner)
        first = await owner.reply("workflow.execute", workflow_id="refund", execution_id="one", idempotency_key="one")
        again = await owner.reply("workflow.execute", workflow_id="refund", execution_id="one", idempotency_key="one")
        assert first.value.execution_id == again.value["execution_id"]
        same = {"workflow_id": "refund", "execution_id": "one"}
        assert isinstance(await owner.outcome("workflow.execute", **same), AnsweredCall)


async def test_an_older_version_has_the_rate_of_the_newest(open_caller: OpenGate) -> None:
    async with open_caller() as owner:
        old = await owner.call("workflow.create", document=document("refund"))
        await owner.call("workflow.update", workflow_id="refund", document=REFUND)
        await owner.call("workflow.execute", workflow_id="refund", hash=old["hash"])
        error = await owner.refusal("workflow.execute", workflow_id="refund", hash=old["hash"])
        assert error.code == "RATE_LIMITED"
