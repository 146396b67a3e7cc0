"""Nobody can do, give, take or change what their key does not allow, by whatever detour."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from penstock.app.gate import local_owner
from penstock.operations.catalogue.capability import Reply
from penstock.operations.gate.pipeline import AnsweredCall
from tests.surroundings import open_store
from tests.unit.operations.conftest import Caller
from tests.waiting import SECONDS_MAX

GREET = {
    "penstock": "v1",
    "name": "greet",
    "secrets": ["HOOK_KEY"],
    "nodes": [{"id": "done", "type": "end", "output": "hello"}],
}
NIGHTLY = [{"id": "nightly", "schedule": {"cron": "0 3 * * *"}}]
HOOK = [{"id": "hook", "webhook": {"path": "/hooks/orders", "secret": "${secret:HOOK_KEY}"}}]


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Caller]:
    """A gate on a new file, as its owner."""
    async with open_store(folder) as (penstock, gate):
        yield Caller(gate, local_owner(), penstock)


def run(folder: Path, test: Callable[[Caller], Awaitable[None]]) -> None:
    async def body() -> None:
        async with opened(folder) as owner:
            await test(owner)

    asyncio.run(asyncio.wait_for(body(), SECONDS_MAX))


async def made(owner: Caller, *scopes: str, **more: Any) -> tuple[Caller, str]:
    """Somebody with a new key, and its id."""
    answer = await owner.call("key.create", name="somebody", scopes=list(scopes), **more)
    return owner.with_key(answer["secret"]), answer["key"]["id"]


# --- schedules -----------------------------------------------------------------------------------


def test_who_may_not_run_workflows_cannot_change_what_a_schedule_runs(tmp_path: Path) -> None:
    async def test(owner: Caller) -> None:
        await owner.call("workflow.create", document=GREET)
        made_by_owner = await owner.call("schedule.create", workflow_id="greet", cron="0 3 * * *", paused=True)
        name = made_by_owner["schedule_id"]
        planner = await owner.new_caller("schedule:*")
        for operation, given in (
            ("schedule.update", {"input": {"amount": 1_000_000}}),
            ("schedule.update", {"cron": "* * * * *"}),
            ("schedule.resume", {}),
            ("schedule.run_now", {}),
        ):
            refused = await planner.refusal(operation, schedule_id=name, **given)
            assert (refused.code, refused.details.get("scope")) == ("SCOPE_REQUIRED", "workflow:run")
        assert await owner.call("schedule.get", schedule_id=name) == made_by_owner
        assert (await planner.call("schedule.pause", schedule_id=name))["paused"]
        runner = await owner.new_caller("schedule:*", "workflow:run")
        await runner.call("schedule.update", schedule_id=name, cron="0 4 * * *")
        assert not (await runner.call("schedule.resume", schedule_id=name))["paused"]

    run(tmp_path, test)


def test_who_may_not_run_workflows_cannot_store_one_that_starts_by_itself(tmp_path: Path) -> None:
    async def test(owner: Caller) -> None:
        author = await owner.new_caller("workflow:write", "workflow:read")
        await author.call("workflow.create", document=GREET)
        for triggers in (NIGHTLY, HOOK):
            document = {**GREET, "triggers": triggers}
            for operation, given in (
                ("workflow.create", {"document": {**document, "name": "other"}}),
                ("workflow.update", {"workflow_id": "greet", "document": document}),
                ("workflow.import", {"workflows": [document], "overwrite": True}),
            ):
                refused = await author.refusal(operation, **given)
                assert (refused.code, refused.details.get("scope")) == ("SCOPE_REQUIRED", "workflow:run")
        assert (await owner.call("schedule.list", workflow_id="greet"))["items"] == []
        # What the owner lets start by itself cannot be changed by the author either.
        await owner.call("workflow.update", workflow_id="greet", document={**GREET, "triggers": NIGHTLY})
        evil = {"id": "done", "type": "end", "output": "something else"}
        refused = await author.refusal("task.update", workflow_id="greet", task_id="done", task=evil)
        assert refused.code == "SCOPE_REQUIRED"
        runner = await owner.new_caller("workflow:write", "workflow:run")
        await runner.call("workflow.create", document={**GREET, "name": "mine", "triggers": HOOK})

    run(tmp_path, test)


# --- keys ----------------------------------------------------------------------------------------


def test_a_key_can_neither_revoke_nor_replace_a_key_that_may_do_more(tmp_path: Path) -> None:
    async def test(owner: Caller) -> None:
        admin, admin_id = await made(owner, "key:*")
        _, runner_id = await made(owner, "workflow:run")
        _, owner_id = await made(owner, "*")
        for operation in ("key.revoke", "key.rotate"):
            for key_id in (runner_id, owner_id):
                refused = await admin.refusal(operation, key_id=key_id)
                assert refused.code == "SCOPE_REQUIRED"
        statuses = {item["id"]: item["status"] for item in (await owner.call("key.list"))["items"]}
        assert (statuses[runner_id], statuses[owner_id]) == ("active", "active")
        _, peer_id = await made(admin, "key:read")
        assert (await admin.call("key.revoke", key_id=peer_id))["status"] == "revoked"
        assert (await admin.call("key.revoke", key_id=admin_id))["status"] == "revoked"

    run(tmp_path, test)


def test_a_key_cannot_make_one_that_has_more_scopes_tools_or_time(tmp_path: Path) -> None:
    async def test(owner: Caller) -> None:
        maker, _ = await made(owner, "key:write", "workflow:read", expires_in="1h", toolset="workflows, key.create")
        refused = await maker.refusal("key.create", name="more", scopes=["workflow:*"])
        assert refused.code == "SCOPE_REQUIRED"
        for more in ({"expires_in": "2h"}, {"toolset": "all"}, {"toolset": "workflows,operations"}):
            refused = await maker.refusal("key.create", name="more", scopes=["workflow:read"], **more)
            assert refused.code == "KEY_BEYOND_YOURS", more
        like = (await maker.call("key.create", name="like", scopes=["workflow:read"]))["key"]
        less = await maker.call(
            "key.create", name="less", scopes=["workflow:read"], expires_in="30m", toolset="workflows"
        )
        own = next(item for item in (await owner.call("key.list"))["items"] if item["name"] == "somebody")
        assert (like["expires_at"], like["toolset"]) == (own["expires_at"], own["toolset"])
        assert less["key"]["expires_at"] < own["expires_at"]
        _, lasting = await made(owner, "workflow:read")
        assert (await maker.refusal("key.rotate", key_id=lasting)).code == "KEY_BEYOND_YOURS"
        rotated = await maker.call("key.rotate", key_id=own["id"])  # its own, as it is
        assert rotated["key"]["expires_at"] == own["expires_at"]

    run(tmp_path, test)


def test_of_many_rotations_at_once_one_makes_a_key(tmp_path: Path) -> None:
    async def test(owner: Caller) -> None:
        for overlap in ("0s", "1h"):
            _, key_id = await made(owner, "workflow:read")
            calls = (owner.outcome("key.rotate", key_id=key_id, overlap=overlap) for _ in range(8))
            outcomes = await asyncio.gather(*calls)
            answered = [found for found in outcomes if isinstance(found, AnsweredCall)]
            refused = {found.error.code for found in outcomes if not isinstance(found, AnsweredCall)}
            assert (len(answered), refused) == (1, {"KEY_NOT_ACTIVE"})
            successors = [item for item in (await owner.call("key.list"))["items"] if item["replaces"] == key_id]
            assert len(successors) == 1
            reply = answered[0].reply
            assert isinstance(reply, Reply)
            await owner.with_key(reply.value.secret).call("workflow.list")

    run(tmp_path, test)
