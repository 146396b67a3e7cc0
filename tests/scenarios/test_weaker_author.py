"""What a run calls needs the scopes of its starter, and of the agent that wrote its version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.runtime.tables.api_keys import put_key, read_key
from tests.scenarios.office import Office, in_office
from tests.scenarios.test_authorship import accepted

MARKED = {"penstock.author": "agent", "penstock.trust": "untrusted"}
LISTS_KEYS: dict[str, Any] = {
    "penstock": "v1",
    "name": "lists_keys",
    "nodes": [
        {"id": "keys", "type": "tool_call", "server": "penstock", "tool": "key.list", "arguments": {}},
        {"id": "done", "type": "end"},
    ],
}
GUARDED: dict[str, Any] = {
    "penstock": "v1",
    "name": "guarded",
    "governance": {"scopes": ["customers:erase"]},
    "nodes": [{"id": "done", "type": "end"}],
}


def around(name: str, child: str, **more: Any) -> dict[str, Any]:
    """A document that runs another one as a child."""
    nodes = [{"id": "inner", "type": "subworkflow", "workflow": child}, {"id": "done", "type": "end"}]
    return {"penstock": "v1", "name": name, "nodes": nodes, **more}


async def started(office: Office, name: str) -> dict[str, Any]:
    done: dict[str, Any] = await office.call(office.owner, "workflow.execute", workflow_id=name, sync=True)
    return done


def test_a_tool_call_needs_the_scopes_of_starter_and_author(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.hire("narrow", "agent", "workflow:*", "draft:*")
        await accepted(office, await office.call("narrow", "workflow.create", document=LISTS_KEYS))
        failed = await started(office, "lists_keys")
        assert (failed["status"], failed["error"]["code"]) == ("failed", "SCOPE_REQUIRED"), failed
        # An author with the scope, and a person who answers for the version, may.
        wide = {**LISTS_KEYS, "name": "wide"}
        await accepted(office, await office.call("robot", "workflow.create", document=wide))
        assert (await started(office, "wide"))["status"] == "completed"
        await office.call(office.owner, "workflow.update", workflow_id="lists_keys", document=LISTS_KEYS)
        assert (await started(office, "lists_keys"))["status"] == "completed"

    in_office(tmp_path, test)


def test_children_of_what_an_agent_wrote_call_tools_with_no_more_scopes_than_it_has(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.hire("narrow", "agent", "workflow:*", "draft:*")
        await office.call(office.owner, "workflow.create", document=LISTS_KEYS)
        outer = around("outer", "lists_keys")
        await accepted(office, await office.call("narrow", "workflow.create", document=outer))
        failed = await started(office, "outer")
        assert (failed["status"], failed["error"]["code"]) == ("failed", "SCOPE_REQUIRED"), failed
        assert (await started(office, "lists_keys"))["status"] == "completed"

    in_office(tmp_path, test)


@pytest.mark.parametrize("depth", [0, 1])
def test_a_start_is_refused_if_the_author_lacks_a_scope_of_a_child(tmp_path: Path, depth: int) -> None:
    async def test(office: Office) -> None:
        await office.hire("narrow", "agent", "workflow:*", "draft:*")
        await office.call(office.owner, "workflow.create", document=GUARDED)
        outer = around("outer", "guarded")
        await accepted(office, await office.call("narrow", "workflow.create", document=outer))
        name = "outer"
        if depth:
            await office.call(office.owner, "workflow.create", document=around("above", "outer"))
            name = "above"
        refused = await office.refusal(office.owner, "workflow.execute", workflow_id=name)
        assert refused.code == "SCOPE_REQUIRED", refused
        assert "customers:erase" in refused.message
        assert office.people["narrow"].id in refused.message

    in_office(tmp_path, test)


def test_an_author_whose_key_was_narrowed_gives_no_more_than_it_has_now(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        reader = await office.hire("reader", "agent", "workflow:*", "draft:*", "key:read")
        nodes = [{**LISTS_KEYS["nodes"][0], "tool": "audit.list"}, LISTS_KEYS["nodes"][1]]
        records = {**LISTS_KEYS, "name": "lists_records", "nodes": nodes}
        await accepted(office, await office.call("reader", "workflow.create", document=records))
        await accepted(office, await office.call("reader", "workflow.create", document=LISTS_KEYS))
        assert (await started(office, "lists_keys"))["status"] == "completed"
        platform = office.gate.services.platform
        key = await read_key(platform, str(reader.key_id))
        assert key is not None
        # No operation changes the scopes of a key. A file that somebody repaired by hand may have others.
        await put_key(platform, msgspec.structs.replace(key, scopes=("workflow:*", "draft:*")))
        failed = await started(office, "lists_keys")
        assert (failed["status"], failed["error"]["code"]) == ("failed", "SCOPE_REQUIRED"), failed
        # A key that has more now gives no more than it had when the version was written.
        await put_key(platform, msgspec.structs.replace(key, scopes=("*",)))
        assert (await started(office, "lists_keys"))["status"] == "completed"
        failed = await started(office, "lists_records")
        assert (failed["status"], failed["error"]["code"]) == ("failed", "SCOPE_REQUIRED"), failed

    in_office(tmp_path, test)


def test_an_author_whose_key_was_revoked_gives_no_more_than_it_had(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.hire("reader", "agent", "workflow:*", "draft:*", "key:read")
        await accepted(office, await office.call("reader", "workflow.create", document=LISTS_KEYS))
        assert (await started(office, "lists_keys"))["status"] == "completed"
        await office.call(office.owner, "key.revoke", key_id=office.people["reader"].key_id)
        # A person accepted the version: it goes on, with the scopes that its author had.
        assert (await started(office, "lists_keys"))["status"] == "completed"

    in_office(tmp_path, test)


def test_runs_of_a_registered_agent_that_an_agent_wrote_are_marked(tmp_path: Path) -> None:
    entry = {"id": "spy", "model": "fast", "instructions": "obey"}

    async def test(office: Office) -> None:
        await accepted(office, await office.call("robot", "agent.create", **entry))
        ways = (("agent.execute", {"prompt": "hello"}), ("agent.message", {"message": "hello"}))
        for operation, arguments in ways:
            await office.call(office.owner, operation, agent_id="spy", **arguments)
        rows = [
            row
            for row in (await office.call(office.owner, "execution.list"))["items"]
            if row["workflow_id"].startswith("agent:")
        ]
        assert len(rows) == len(ways)
        for row in rows:
            assert MARKED.items() <= row["labels"].items(), row

    in_office(tmp_path, test)


def test_a_tool_that_a_workflow_calls_raises_its_risk(tmp_path: Path) -> None:
    node = {"id": "call", "type": "tool_call", "server": "penstock", "tool": "tool:refund", "arguments": {}}
    calls = {
        "penstock": "v1",
        "name": "calls",
        "governance": {"risk": "low"},
        "expose": {"tool": True},
        "nodes": [node, {"id": "done", "type": "end"}],
    }

    async def test(office: Office) -> None:
        entry = {"id": "refund", "kind": "step", "name": "shout", "governance": {"risk": "high"}}
        await office.call(office.owner, "tool.create", **entry)
        await office.call(office.owner, "workflow.create", document=calls)
        await office.call(office.owner, "workflow.create", document=around("outer", "calls", expose={"tool": True}))
        for name in ("calls", "outer"):
            for operation, arguments in ((f"workflow:{name}", {}), ("workflow.execute", {"workflow_id": name})):
                held = await office.call("robot", operation, **arguments)
                assert held["status"] == "waiting_approval", (operation, name, held)
        assert (await office.call(office.owner, "execution.list", workflow_id="calls"))["items"] == []

    in_office(tmp_path, test)
