"""What a host does with tenants: cases as those in `hosts`, each given a host that is ready to work."""

from __future__ import annotations

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.build.workflow import build_workflow
from penstock.engine import Accepted, Refused, inputs
from penstock.runtime.ports.runs import RunQuery
from tests.conformance.hosts import Bench, Case, native, step

__all__ = ["TENANT_CASES"]

CALLS_CHILD: JsonObject = {"id": "sub", "type": "subworkflow", "workflow": "child", "input": {}}
END: JsonObject = {"id": "e", "type": "end"}


async def begin(bench: Bench, document: JsonObject, *, run_id: str, tenant: str, given: JsonValue = None) -> None:
    """Register and start in a tenant; must be accepted."""
    workflow = build_workflow(document)
    await bench.host.register(workflow, tenant=tenant, created_by="ada")
    start = inputs.StartRun(at=bench.now(), run_id=run_id, input={} if given is None else given)
    decision = await bench.host.start(start, workflow_hash=workflow.hash, tenant=tenant)
    assert isinstance(decision, Accepted), decision


def says(text: str, *, name: str = "child") -> JsonObject:
    """A workflow that gives a text."""
    return native({"id": "e", "type": "end", "output": text}, name=name)


async def a_run_and_its_definition_are_in_a_tenant(bench: Bench) -> None:
    await begin(bench, says("hello"), run_id="r", tenant="acme")
    state = await bench.ended()
    assert state.tenant == "acme"
    row = await bench.host.row("r")
    assert row is not None
    assert row.tenant == "acme"
    for tenant, wanted in (("acme", 1), ("default", 0), (None, 1)):
        assert len((await bench.host.list_runs(RunQuery(tenant=tenant))).rows) == wanted
    assert await bench.host.workflow_named("child") is None
    assert await bench.host.workflow_named("child", tenant="acme") is not None
    kept = await bench.definitions.find_named("child", tenant="acme")
    assert kept is not None
    assert kept.created_by == "ada"


async def a_definition_is_found_by_who_put_it_and_the_newest_by_its_name(bench: Bench) -> None:
    old, new = build_workflow(says("old")), build_workflow(says("new"))
    for workflow in (old, new, new):
        await bench.host.register(workflow, tenant="acme")
    newest = await bench.host.workflow_named("child", tenant="acme")
    assert newest is not None
    assert newest.hash == new.hash
    for workflow in (old, new):
        for tenant, is_found in (("acme", True), ("default", False), (None, True)):
            found = await bench.host.workflow(workflow.hash, tenant=tenant)
            assert (found is not None) is is_found
    page = await bench.definitions.list_versions("child", tenant="acme", limit=10)
    assert [row.hash for row in page.rows] == [new.hash, old.hash]


async def a_run_of_nobody_in_particular_tells_nothing_of_tenants(bench: Bench) -> None:
    await bench.start(says("hello"))
    state = await bench.ended()
    assert state.tenant == "default"
    assert "tenant" not in (await bench.host.history("r"))[0].payload


async def a_child_is_found_and_runs_in_the_tenant_of_its_parent(bench: Bench) -> None:
    await bench.host.register(build_workflow(says("ours")))
    await bench.host.register(build_workflow(says("theirs")), tenant="acme")
    parent = native(CALLS_CHILD, {"id": "e", "type": "end", "output": "${ .sub }"}, name="parent")
    await begin(bench, parent, run_id="in acme", tenant="acme")
    await bench.start(parent, run_id="in default")
    assert (await bench.ended("in acme")).result == "theirs"
    assert (await bench.ended("in default")).result == "ours"
    children = (await bench.host.list_runs(RunQuery(parent_run_id="in acme"))).rows
    assert [row.tenant for row in children] == ["acme"]


async def a_child_of_another_tenant_is_not_found(bench: Bench) -> None:
    await bench.host.register(build_workflow(says("ours")))
    await begin(bench, native(CALLS_CHILD, END, name="parent"), run_id="r", tenant="acme")
    state = await bench.ended()
    assert state.failure is not None
    assert state.failure.code == "WORKFLOW_NOT_FOUND"


async def a_pinned_version_of_another_tenant_is_not_known(bench: Bench) -> None:
    ours = build_workflow(says("ours"))
    await bench.host.register(ours)
    await bench.host.register(build_workflow(says("theirs")), tenant="acme")
    pinned: JsonObject = {**CALLS_CHILD, "version_pin": ours.hash}
    await begin(bench, native(pinned, END, name="parent"), run_id="r", tenant="acme")
    state = await bench.ended()
    assert state.failure is not None
    assert state.failure.code == "VERSION_PIN_MISMATCH"


async def a_pinned_version_of_the_tenant_is_used(bench: Bench) -> None:
    before = build_workflow(says("before"))
    for document in (says("before"), says("now")):
        await bench.host.register(build_workflow(document), tenant="acme")
    pinned: JsonObject = {**CALLS_CHILD, "version_pin": before.hash}
    parent = native(pinned, {"id": "e", "type": "end", "output": "${ .sub }"}, name="parent")
    await begin(bench, parent, run_id="r", tenant="acme")
    assert (await bench.ended()).result == "before"


async def a_deleted_workflow_starts_no_child_by_name(bench: Bench) -> None:
    await bench.host.register(build_workflow(says("ours")))
    assert await bench.definitions.delete("child")
    assert await bench.host.workflow_named("child") is None
    await bench.start(native(CALLS_CHILD, END, name="parent"))
    state = await bench.ended()
    assert state.failure is not None
    assert state.failure.code == "WORKFLOW_NOT_FOUND"


async def a_run_of_a_deleted_workflow_goes_on(bench: Bench) -> None:
    waits = native({"id": "w", "type": "wait", "signal": "go"}, step("a"), END)
    await bench.start(waits)
    await bench.status("waiting_signal")
    await bench.definitions.delete("case")
    await bench.host.send("r", inputs.SendSignal(at=bench.now(), name="go"))
    assert (await bench.ended()).status == "completed"


async def signals_reach_runs_of_the_same_tenant_only(bench: Bench) -> None:
    waits = native(
        {"id": "w", "type": "wait", "signal": "go"}, {"id": "e", "type": "end", "output": "${ .w }"}, name="w"
    )
    for tenant in ("acme", "other"):
        await begin(bench, waits, run_id=f"{tenant}~.listener", tenant=tenant)
    for number, target in enumerate(("acme~.listener", "acme~.nobody", "other~.listener")):
        emit: JsonObject = {"id": "say", "type": "emit", "run": target, "signal": "go", "payload": {"n": 1}}
        await begin(bench, native(emit, END, name="speaker"), run_id=f"speaker {number}", tenant="acme")
    assert (await bench.ended("acme~.listener")).result == {"n": 1}
    failures = [(await bench.ended(f"speaker {number}")).failure for number in range(3)]
    assert failures[0] is None
    assert [failure and failure.code for failure in failures[1:]] == ["EXECUTION_NOT_FOUND"] * 2
    assert not (await bench.status("waiting_signal", "other~.listener")).signals


async def a_run_is_called_in_its_tenant_as_callers_call_it(bench: Bench) -> None:
    waits = native({"id": "w", "type": "wait", "signal": "go"}, END, name="w")
    await begin(bench, waits, run_id="acme~.order-7", tenant="acme")
    emit: JsonObject = {"id": "say", "type": "emit", "run": "order-7", "signal": "go"}
    await begin(bench, native(emit, END, name="speaker"), run_id="speaker", tenant="acme")
    assert (await bench.ended("acme~.order-7")).status == "completed"
    assert (await bench.ended("speaker")).status == "completed"


async def a_run_of_another_tenant_is_unknown(bench: Bench) -> None:
    await begin(bench, native({"id": "w", "type": "wait", "signal": "go"}, END), run_id="r", tenant="acme")
    cancel = inputs.CancelRun(at=bench.now())
    unknown = await bench.host.send("nobody", cancel, tenant="other")
    foreign = await bench.host.send("r", cancel, tenant="other")
    assert isinstance(unknown, Refused)
    assert isinstance(foreign, Refused)
    assert foreign.message.replace("run r", "run nobody") == unknown.message
    assert foreign.code == unknown.code
    assert isinstance(await bench.host.send("r", cancel, tenant="acme"), Accepted)


async def a_run_that_continues_stays_in_its_tenant(bench: Bench) -> None:
    again: JsonObject = {"id": "again", "type": "continue_as_new", "input": {"n": 1}}
    choose: JsonObject = {
        "id": "choose",
        "type": "switch",
        "cases": [{"when": ".input.n == 1", "next": "e"}],
        "default": "w",
    }
    document = native(choose, {"id": "w", "type": "wait", "for": "1ms"}, again, END)
    await begin(bench, document, run_id="r", tenant="acme", given={"n": 0})
    assert (await bench.ended("r~2")).tenant == "acme"
    row = await bench.host.row("r~2")
    assert row is not None
    assert row.tenant == "acme"


async def work_is_told_whose_it_is(bench: Bench) -> None:
    await begin(bench, native(step("a"), END), run_id="in acme", tenant="acme")
    await bench.start(native(step("a"), END), run_id="in default")
    for run_id in ("in acme", "in default"):
        await bench.ended(run_id)
    assert sorted(bench.performer.keys) == ["acme: acme/in acme/a/1", "default: in default/a/1"]


TENANT_CASES: tuple[Case, ...] = (
    a_definition_is_found_by_who_put_it_and_the_newest_by_its_name,
    a_run_and_its_definition_are_in_a_tenant,
    a_run_of_nobody_in_particular_tells_nothing_of_tenants,
    a_child_is_found_and_runs_in_the_tenant_of_its_parent,
    a_child_of_another_tenant_is_not_found,
    a_pinned_version_of_another_tenant_is_not_known,
    a_pinned_version_of_the_tenant_is_used,
    a_deleted_workflow_starts_no_child_by_name,
    a_run_of_a_deleted_workflow_goes_on,
    signals_reach_runs_of_the_same_tenant_only,
    a_run_is_called_in_its_tenant_as_callers_call_it,
    a_run_of_another_tenant_is_unknown,
    a_run_that_continues_stays_in_its_tenant,
    work_is_told_whose_it_is,
)
