"""The scopes of a workflow bind every way to start it: one table, each with a key that has the scope and without."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest

from penstock.base.errors import PenstockError
from penstock.operations.gate.pipeline import AnsweredCall, RefusedCall
from tests.unit.operations.conftest import Caller, OpenGate

pytestmark = pytest.mark.anyio
SCOPE = "shop:refund"
RIGHTS = ("workflow:*", "execution:*", "schedule:*")
BLIND = ("workflow:run", "workflow:write", "execution:*", "schedule:*")


def document(name: str, *nodes: dict[str, Any], scopes: list[str] | None = None, **more: Any) -> dict[str, Any]:
    """A workflow that ends at once, after what is given."""
    found = {"penstock": "v1", "name": name, "nodes": [*nodes, {"id": "done", "type": "end", "output": "done"}], **more}
    return {**found, "governance": {"scopes": scopes}} if scopes else found


REFUND = document(
    "refund",
    scopes=[SCOPE],
    expose={"tool": True, "prompt": {"run": True}, "resource": {"uri": "shop://refund"}},
)
PARENT = document("parent", {"id": "child", "type": "subworkflow", "workflow": "refund"}, expose={"tool": True})
GRANDPARENT = document("grandparent", {"id": "child", "type": "subworkflow", "workflow": "parent"})
EACH = document(
    "each",
    {
        "id": "all",
        "type": "for_each",
        "items": "${ [1] }",
        "nodes": [{"id": "child", "type": "subworkflow", "workflow": "refund"}],
    },
)
CRON = {"schedule": {"cron": "0 3 * * *"}}


class Shop:
    """A store with workflows that need a scope, runs of them and schedules, made by the owner."""

    def __init__(self, owner: Caller) -> None:
        self.owner = owner
        self.old = ""

    async def open(self) -> Shop:
        """Store everything."""
        before = await self.owner.call("workflow.create", document=document("refund"))
        self.old = before["hash"]
        await self.owner.call("workflow.update", workflow_id="refund", document=REFUND)
        for other in (PARENT, GRANDPARENT, EACH):
            await self.owner.call("workflow.create", document=other)
        await self.owner.call("workflow.execute", workflow_id="refund", execution_id="known", sync=True)
        for schedule_id in ("changed", "resumed", "run"):
            await self.owner.call(
                "schedule.create",
                schedule_id=schedule_id,
                workflow_id="refund",
                cron="0 3 * * *",
                paused=schedule_id == "resumed",
            )
        return self


Way: TypeAlias = Callable[[Shop, Caller], Awaitable[Any]]


def operation(name: str, **arguments: Any) -> Way:
    """A call of an operation."""

    async def call(shop: Shop, caller: Caller) -> Any:
        return await caller.outcome(name, **arguments)

    return call


async def older_version(shop: Shop, caller: Caller) -> Any:
    return await caller.outcome("workflow.execute", workflow_id="refund", hash=shop.old)


DENIED: dict[str, Way] = {
    "execute": operation("workflow.execute", workflow_id="refund"),
    "execute and wait": operation("workflow.execute", workflow_id="refund", sync=True),
    "execute an older version": older_version,
    "execute what was executed": operation("workflow.execute", workflow_id="refund", execution_id="known"),
    "control plane": operation("control.workflow_start", definition=REFUND, input={}),
    "control plane, without the scopes": operation("control.workflow_start", definition=document("refund"), input={}),
    "control plane, as a child": operation("control.workflow_start", definition={**PARENT, "name": "p2"}, input={}),
    "schedule": operation("schedule.create", workflow_id="refund", cron="0 3 * * *"),
    "change a schedule": operation("schedule.update", schedule_id="changed", cron="0 4 * * *"),
    "resume a schedule": operation("schedule.resume", schedule_id="resumed"),
    "run a schedule": operation("schedule.run_now", schedule_id="run"),
    "fork": operation("execution.fork", execution_id="known", at_sequence=1),
    "as a child": operation("workflow.execute", workflow_id="parent"),
    "as a child of a child": operation("workflow.execute", workflow_id="grandparent"),
    "as a child for each item": operation("workflow.execute", workflow_id="each"),
}
UNKNOWN: dict[str, Way] = {
    "tool": operation("workflow:refund"),
    "tool of a parent": operation("workflow:parent"),
    "prompt": operation("prompt:refund"),
    "resource": operation("resource:refund"),
}
STORED: dict[str, Way] = {
    "store a trigger": operation(
        "workflow.create", document={**REFUND, "name": "night", "expose": {}, "triggers": [CRON]}
    ),
    "store a trigger of a parent": operation(
        "workflow.create", document={**PARENT, "name": "night", "expose": {}, "triggers": [CRON]}
    ),
    "take the scope out": operation("workflow.update", workflow_id="refund", document=document("refund")),
    "import it without the scope": operation("workflow.import", workflows=[document("refund")], overwrite=True),
}


async def with_and_without(open_caller: OpenGate, way: Way, *rights: str) -> tuple[Any, Any]:
    """What comes of a way to start with the scope, and without it; nothing is started without."""
    async with open_caller() as owner:
        shop = await Shop(owner).open()
        without = await way(shop, await owner.new_caller(*rights))
        runs = (await owner.call("execution.list"))["items"]
        assert [run["execution_id"] for run in runs] == ["known"], runs
        return await way(shop, await owner.new_caller(*rights, SCOPE)), without


def refusal(outcome: Any) -> PenstockError:
    assert isinstance(outcome, RefusedCall), outcome
    return outcome.error


@pytest.mark.parametrize("way", [*DENIED, *STORED])
async def test_whoever_may_read_workflows_hears_which_scope_is_missing(open_caller: OpenGate, way: str) -> None:
    allowed, denied = await with_and_without(open_caller, {**DENIED, **STORED}[way], *RIGHTS)
    assert isinstance(allowed, AnsweredCall), allowed
    assert refusal(denied).code == "SCOPE_REQUIRED"
    assert SCOPE in refusal(denied).message


@pytest.mark.parametrize("way", list(DENIED))
async def test_for_whoever_may_not_read_workflows_it_does_not_exist(open_caller: OpenGate, way: str) -> None:
    allowed, denied = await with_and_without(open_caller, DENIED[way], *BLIND)
    assert isinstance(allowed, AnsweredCall), allowed
    assert refusal(denied).code == "WORKFLOW_NOT_FOUND"
    assert SCOPE not in str(refusal(denied))


@pytest.mark.parametrize("rights", [RIGHTS, BLIND], ids=["reads workflows", "reads none"])
@pytest.mark.parametrize("way", list(UNKNOWN))
async def test_what_is_offered_does_not_exist_for_whoever_may_not_start_it(
    open_caller: OpenGate, way: str, rights: tuple[str, ...]
) -> None:
    allowed, denied = await with_and_without(open_caller, UNKNOWN[way], *rights)
    assert isinstance(allowed, AnsweredCall), allowed
    assert refusal(denied).code == "OPERATION_NOT_FOUND"


async def test_an_unknown_workflow_and_one_that_is_hidden_look_alike(open_caller: OpenGate) -> None:
    async with open_caller() as owner:
        await Shop(owner).open()
        blind = await owner.new_caller(*BLIND)
        hidden = await blind.refusal("workflow.execute", workflow_id="refund")
        unknown = await blind.refusal("workflow.execute", workflow_id="refunds")
        assert (hidden.code, hidden.hint, hidden.details) == (unknown.code, unknown.hint, unknown.details)
        assert hidden.message == unknown.message.replace("refunds", "refund")


async def test_to_try_an_activity_again_needs_what_a_start_needs(open_caller: OpenGate) -> None:
    async with open_caller() as owner:
        await Shop(owner).open()
        without, holder = await owner.new_caller(*RIGHTS), await owner.new_caller(*RIGHTS, SCOPE)
        denied = await without.refusal("execution.retry", execution_id="known", node_id="done")
        assert (denied.code, denied.details) == ("SCOPE_REQUIRED", {"scope": SCOPE, "scopes": ["workflow:run", SCOPE]})
        # There is nothing to be tried again, which only whoever may do so is told.
        assert (await holder.refusal("execution.retry", execution_id="known", node_id="done")).code == "RUN_ENDED"


async def test_reading_needs_none_of_the_scopes_of_a_workflow(open_caller: OpenGate) -> None:
    async with open_caller() as owner:
        await Shop(owner).open()
        reader = await owner.new_caller("workflow:read", "execution:read")
        assert (await reader.call("workflow.get", workflow_id="refund"))["document"]["governance"]["scopes"] == [SCOPE]
        assert (await reader.call("execution.status", execution_id="known"))["status"] == "completed"


async def test_a_child_that_needs_more_later_hides_the_tools_of_its_parents(open_caller: OpenGate) -> None:
    async with open_caller() as owner:
        await owner.call("workflow.create", document=document("refund"))
        await owner.call("workflow.create", document=PARENT)
        caller = await owner.new_caller(*RIGHTS)
        await caller.call("workflow:parent")
        await owner.call("workflow.update", workflow_id="refund", document={**REFUND, "expose": {}})
        assert (await caller.refusal("workflow:parent")).code == "OPERATION_NOT_FOUND"
