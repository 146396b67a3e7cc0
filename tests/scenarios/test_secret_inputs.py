"""Secret input reaches the step that needs it, and nobody else: no file, stream, view or draft."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from penstock.app.penstock import Penstock
from penstock.base.errors import PenstockError
from penstock.definitions.validate import validate_document
from penstock.engine.records import changed
from penstock.engine.replay import Replayed, replay
from penstock.runtime.host.embedded import EmbeddedHost
from tests.live.mcp.broken_messages import META
from tests.live.rest.servers import LiveServer, serving
from tests.scenarios.test_secret_answers import (
    ANSWER,
    SCHEMA,
    SECRET,
    SHOWN,
    STEPS,
    USED,
    digest,
    showing,
    shows,
    use,
)
from tests.waiting import SECONDS_MAX, wait_until
from tests.zygote import run_command

WITH: dict[str, Any] = {
    "user": "${ .input.user }",
    "password": "${ .input.password }",
    "header": "Bearer ${ .input.password }",
    "given": "${ .input }",
}
WORKFLOW: dict[str, Any] = {
    "penstock": "v1",
    "name": "unlock",
    "input": SCHEMA,
    "expose": {"tool": True},
    "nodes": [
        {"id": "hold", "type": "wait", "signal": "go"},
        {"id": "use", "type": "step", "handler": "use", "with": WITH},
        {"id": "done", "type": "end", "output": {"used": "${ .use }", "given": "${ .input }"}},
    ],
}
DANGEROUS: dict[str, Any] = {
    **WORKFLOW,
    "name": "dangerous",
    "expose": {},
    "governance": {"risk": "high"},
    "nodes": WORKFLOW["nodes"][1:],
}
OUTPUT = {"used": USED, "given": SHOWN}
UNFIT = {**ANSWER, "password": "UNFIT-w0rd"}


def over_mcp(server: LiveServer, tool: str, arguments: dict[str, Any]) -> bytes:
    body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call"}
    params = {"name": tool, "arguments": arguments, "_meta": META}
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/call",
        "Mcp-Name": tool,
    }
    answer = server.request("POST", "/mcp?toolset=all", {**body, "params": params}, headers=headers)
    assert answer.status == 200, answer
    return answer.body


def test_input_over_every_surface_is_kept_for_the_step_alone_and_over_a_crash(tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text(STEPS, encoding="utf-8")
    with serving(tmp_path, "--steps", "steps.py", "--verbose") as server:
        server.call("POST", "workflows", {"document": WORKFLOW})
        body, key = {"input": ANSWER, "execution_id": "first"}, {"Idempotency-Key": "k-1"}
        started = server.request("POST", "workflows/unlock/executions", body, headers=key)
        again = server.request("POST", "workflows/unlock/executions", body, headers=key)
        assert (started.status, shows(started.body), again.body) == (202, False, started.body)
        # The same id and key, with another secret: the key tells them apart, without saying what differs.
        other = {**body, "input": {**ANSWER, "password": "an0ther-secret"}}
        reused = server.request("POST", "workflows/unlock/executions", other, headers=key)
        assert (reused.json()["code"], b"an0ther" in reused.body) == ("IDEMPOTENCY_KEY_REUSED", False)
        # Without a key the id decides, and nobody learns by trying whether a guess was right.
        for guess in (ANSWER, other["input"]):
            same = server.request("POST", "workflows/unlock/executions", {**body, "input": guess})
            assert (same.status, same.json()["execution_id"]) == (202, "first"), same
        for unfit in (server.request("POST", "workflows/unlock/executions", {"input": UNFIT}),):
            assert (unfit.status, b"UNFIT-w0rd" in unfit.body) == (422, False), unfit
        assert b"UNFIT-w0rd" not in over_mcp(server, "unlock", UNFIT)
        over_mcp(server, "penstock_workflow_execute", {"workflow_id": "unlock", "input": ANSWER})
        definition = {**WORKFLOW, "name": "sent_along"}
        server.call("POST", "control/workflow_start", {"definition": definition, "input": ANSWER})
        kept = server.request("POST", "schedules", {"workflow_id": "unlock", "cron": "0 3 * * *", "input": ANSWER})
        assert (kept.status, kept.json()["code"]) == (422, "SECRET_INPUT_NOT_KEPT")
        assert (showing(tmp_path), shows(kept.body)) == ([], False)
        server.kill()
        server.start("--steps", "steps.py", "--verbose")
        forked = server.call("POST", "executions/first/fork", {"at_sequence": 2})["execution_id"]
        for run in server.call("GET", "executions")["items"]:
            server.call("POST", f"executions/{run['execution_id']}/signals", {"name": "go"})
            stream = server.request("GET", f"executions/{run['execution_id']}/stream")
            end = server.call("GET", f"executions/{run['execution_id']}")
            assert end.get("output") == OUTPUT, end
            assert end["input"] == SHOWN
            assert not shows(stream.body)
        assert forked in {run["execution_id"] for run in server.call("GET", "executions")["items"]}
        for path in ("executions?limit=100", "executions/first/history?limit=200", "audit?limit=500", "metrics"):
            answer = server.request("GET", path)
            assert (path, answer.status, shows(answer.body)) == (path, 200, False)
        assert server.call("GET", f"executions?text={SECRET}")["items"] == []
        queried = server.call("POST", "executions/first/query", {"expression": ".input"})
        assert not shows(json.dumps(queried))
        told = run_command(
            ["backup", "saved.db", "--db", "penstock.db"], folder=tmp_path, environment={}, timeout_seconds=SECONDS_MAX
        )
        assert (told.returncode, (tmp_path / "saved.db").exists()) == (0, True), told
        assert server.stop() == 0
        assert not shows(json.dumps(server.rest_of_log()))
    assert showing(tmp_path) == []


@pytest.mark.parametrize("preset", ["careful", "strict"])
def test_a_held_call_keeps_its_secret_sealed_until_it_is_made(tmp_path: Path, preset: str) -> None:
    (tmp_path / "steps.py").write_text(STEPS, encoding="utf-8")
    with serving(tmp_path, "--steps", "steps.py", PENSTOCK_GOVERNANCE_PRESET=preset) as server:
        server.call("POST", "workflows", {"document": DANGEROUS})
        robot = server.call(
            "POST", "keys", {"name": "robot", "kind": "agent", "scopes": ["*"], "subject": "machine:robot"}
        )["secret"]
        arguments = {"workflow_id": "dangerous", "input": ANSWER}
        looked = server.request("POST", "preflights", {"operation": "workflow.execute", "arguments": arguments})
        assert (looked.status, looked.json()["arguments"]["input"]) == (200, SHOWN), looked
        held = server.request("POST", "workflows/dangerous/executions", {"input": ANSWER}, key=robot)
        assert (held.status, shows(held.body)) == (202, False), held
        draft_id = held.json()["held"]["draft_id"]
        draft = server.request("GET", f"drafts/{draft_id}")
        assert (draft.json()["arguments"]["input"], shows(draft.body)) == (SHOWN, False)
        # Another secret makes another call: the digest that is approved differs.
        other = {"input": {**ANSWER, "password": "an0ther-secret"}}
        second = server.request("POST", "workflows/dangerous/executions", other, key=robot)
        assert second.json()["held"]["digest"] != held.json()["held"]["digest"]
        scheduled = {"workflow_id": "dangerous", "cron": "0 3 * * *", "input": ANSWER}
        server.request("POST", "schedules", scheduled, key=robot)
        assert showing(tmp_path) == []
        person = server.call(
            "POST",
            "keys",
            {
                "name": "ada",
                "scopes": ["draft:*", "approve:approvers"],
                "kind": "person",
                "subject": "person:ada",
            },
        )
        made = server.call("POST", f"drafts/{draft_id}/approve", {}, key=person["secret"])
        assert made["status"] == "executed", made
        run = made["result"]["execution_id"]
        wait_until(lambda: server.call("GET", f"executions/{run}")["status"] == "completed")
        assert server.call("GET", f"executions/{run}")["output"] == OUTPUT
        history = server.request("GET", f"executions/{draft_id}/history?limit=200")
        assert (history.status, shows(history.body)) == (200, False)
    assert showing(tmp_path) == []


def test_a_history_with_secret_input_replays_and_an_older_one_stays_as_it_is(tmp_path: Path) -> None:
    async def work() -> None:
        async with Penstock.open(tmp_path / "penstock.db", steps=[use]) as penstock:
            await penstock.register(WORKFLOW)
            run = await penstock.start("unlock", ANSWER)
            await run.signal("go")
            assert await run.result(timeout_seconds=SECONDS_MAX) == OUTPUT
            workflow = await penstock.host.workflow_named("unlock")
            assert workflow is not None
            records = await run.history()
            replayed = replay(workflow, records)
            assert isinstance(replayed, Replayed), replayed
            first = records[0].payload
            assert (first["input"], set(first["secrets"])) == (SHOWN, {"/password", "/pin"})  # type: ignore[arg-type]
            # As a release before this one wrote it: the input as it was given.
            old = [changed(records[0], input=ANSWER, secrets=None), *records[1:2]]
            outcome = replay(workflow, old)
            assert isinstance(outcome, Replayed), outcome
            assert outcome.records[0].payload["input"] == ANSWER

    asyncio.run(work())


def test_parallel_branches_items_and_compensations_get_it_too(tmp_path: Path) -> None:
    gives = {"type": "step", "handler": "use", "with": WITH}
    document: dict[str, Any] = {
        **WORKFLOW,
        "nodes": [
            {
                "id": "both",
                "type": "parallel",
                "branches": [
                    {"name": "a", "nodes": [{"id": "left", **gives}]},
                    {"name": "b", "nodes": [{"id": "right", **gives}]},
                ],
            },
            {"id": "each", "type": "for_each", "items": "${ [1, 2] }", "nodes": [{"id": "one", **gives}]},
            {"id": "done", "type": "end", "output": {"left": "${ .left }", "each": "${ .each }"}},
        ],
    }

    async def work() -> Any:
        async with Penstock.open(tmp_path / "penstock.db", steps=[use]) as penstock:
            await penstock.register(document)
            run = await penstock.start("unlock", ANSWER)
            return await run.result(timeout_seconds=SECONDS_MAX)

    outcome = asyncio.run(work())
    assert outcome["left"] == USED
    assert json.dumps(outcome["each"]).count(digest(SECRET)) == 2
    assert showing(tmp_path) == []


def test_a_child_keeps_what_its_parent_computed_and_an_unfit_start_does_not_tell_it(tmp_path: Path) -> None:
    parent: dict[str, Any] = {
        "penstock": "v1",
        "name": "parent",
        "nodes": [
            {
                "id": "child",
                "type": "subworkflow",
                "workflow": "unlock",
                "input": {"user": "ada", "password": '${ .input.words | join("-") }'},
            },
            {"id": "done", "type": "end", "output": "${ .child }"},
        ],
    }
    child = {**WORKFLOW, "nodes": WORKFLOW["nodes"][1:]}

    async def work() -> None:
        async with Penstock.open(tmp_path / "penstock.db", steps=[use]) as penstock:
            await penstock.register(child)
            await penstock.register(parent)
            run = await penstock.start("parent", {"words": [*SECRET.split("-")]})
            ended: Any = await run.result(timeout_seconds=SECONDS_MAX)
            assert ended["used"]["password"] == digest(SECRET)
            assert ended["given"]["password"] == "***"
            assert isinstance(penstock.host, EmbeddedHost)
            with pytest.raises(PenstockError) as refused:
                await penstock.start("unlock", UNFIT)
            assert "UNFIT-w0rd" not in f"{refused.value} {refused.value.details}"

    asyncio.run(work())


@pytest.mark.parametrize(
    ("node", "allowed"),
    [
        ({"type": "step", "handler": "use", "with": {"a": "${ .input.password }"}}, True),
        ({"type": "step", "handler": "use", "with": "${ .input }"}, True),
        ({"type": "step", "handler": "use", "with": {"a": ["Bearer ${ .input.password } ${ .input.pin }"]}}, True),
        ({"type": "step", "handler": "use", "with": {"a": "${ .input.user | ascii_upcase }"}}, True),
        ({"type": "step", "handler": "use", "with": {"a": "${ .input.password | @base64 }"}}, False),
        ({"type": "step", "handler": "use", "idempotency_key": "${ .input.password }"}, False),
        ({"type": "set_state", "set": {"a": "${ .input.password }"}}, False),
        ({"type": "set_state", "set": {"a": "${ .input.user }"}}, True),
        ({"type": "subworkflow", "workflow": "other", "input": {"a": "${ .input.password }"}}, False),
        ({"type": "end", "output": "${ .input.password | length }"}, False),
        ({"type": "end", "output": "${ .input.password }"}, True),
        ({"type": "interrupt", "message": "Is it ${ .input.password }?", "answer": {}}, False),
        ({"type": "continue_as_new", "input": "${ .input }"}, False),
    ],
)
def test_a_use_that_could_only_see_a_mask_is_refused(node: dict[str, Any], allowed: bool) -> None:
    nodes = [{"id": "use", **node}, {"id": "done", "type": "end", "output": "${ .input }"}]
    document: dict[str, Any] = {"penstock": "v1", "name": "uses", "input": SCHEMA, "nodes": nodes}
    if node["type"] in ("end", "continue_as_new"):
        document["nodes"] = nodes[:1]
    codes = [item.code for item in validate_document(document) if item.code.startswith("SECRET_")]
    assert codes == ([] if allowed else ["SECRET_INPUT_NOT_ALLOWED"])
