"""Sessions of the console as operations: who sees them, who ends them, and how many there are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from penstock.base import limits
from tests.unit.console.sessions.browsing import NOW, Browser, Process, Provider, a_process
from tests.unit.operations.conftest import Caller

pytestmark = pytest.mark.anyio


@pytest.fixture
async def process(tmp_path: Path) -> AsyncIterator[Process]:
    async with a_process(tmp_path, Provider()) as running:
        yield running


async def somebody(process: Process, *scopes: str) -> tuple[Caller, Browser]:
    made = await process.owner.call("key.create", name="ada", kind="person", scopes=list(scopes))
    browser = Browser(process)
    await browser.sign_in(made["secret"])
    return process.owner.with_key(made["secret"]), browser


async def test_everybody_lists_their_own_and_those_of_others_need_a_scope(process: Process) -> None:
    ada, _ = await somebody(process, "execution:read")
    clerk, _ = await somebody(process, "key:read")
    [own] = (await ada.call("console_session.list"))["items"]
    me = await ada.principal()
    assert own == {
        "id": own["id"],
        "principal": me.id,
        "name": "ada",
        "signed_in_with": "key",
        "issuer": None,
        "key_id": me.key_id,
        "browser": "Firefox on Linux",
        "remote": "192.0.2.7",
        "began_at": "2025-10-09T08:53:20.000Z",
        "last_used_at": "2025-10-09T08:53:20.000Z",
        "ends_at": "2025-10-09T20:53:20.000Z",
    }
    refused = await ada.refusal("console_session.list", everybody=True)
    assert (refused.code, refused.details) == ("SCOPE_REQUIRED", {"scope": "key:read", "scopes": ["key:read"]})
    listed = (await clerk.call("console_session.list", everybody=True))["items"]
    assert {item["principal"] for item in listed} == {me.id, (await clerk.principal()).id}
    first = await clerk.call("console_session.list", everybody=True, limit=1)
    rest = await clerk.call("console_session.list", everybody=True, cursor=first["next_cursor"])
    assert [item["id"] for item in first["items"] + rest["items"]] == [item["id"] for item in listed]


async def test_who_may_not_end_a_session_does_not_learn_that_it_exists(process: Process) -> None:
    ada, browser = await somebody(process, "execution:read")
    clerk, _ = await somebody(process, "key:read")
    admin, _ = await somebody(process, "key:write")
    [own] = (await ada.call("console_session.list"))["items"]
    for session_id in (own["id"], own["id"][:-1] + "x"):
        refused = await clerk.refusal("console_session.end", console_session_id=session_id)
        assert (refused.code, session_id in refused.message) == ("CONSOLE_SESSION_NOT_FOUND", True)
    assert await browser.is_in()
    ended = await admin.call("console_session.end", console_session_id=own["id"])
    assert ended == {"id": own["id"], "deleted": True}
    assert not await browser.is_in()
    record = (await process.audited("console_session.end"))[0]
    assert (record["principal"], record["subject"]) == ((await admin.principal()).id, own["id"])
    assert record["details"] == {"reason": "ended", "session_of": (await ada.principal()).id}


async def test_who_signs_in_again_and_again_keeps_the_sessions_that_were_used_last(process: Process) -> None:
    made = await process.owner.call("key.create", name="ada", kind="person", scopes=["execution:read"])
    ada = process.owner.with_key(made["secret"])
    first = Browser(process)
    await first.sign_in(made["secret"])
    clock = process.gate.services.clock
    clock.advance(1)  # type: ignore[attr-defined]  # tests move it
    for _ in range(limits.CONSOLE_SESSIONS_PER_PRINCIPAL_MAX):
        await Browser(process).sign_in(made["secret"])
    listed = (await ada.call("console_session.list", limit=limits.PAGE_LIMIT_MAX))["items"]
    assert len(listed) == limits.CONSOLE_SESSIONS_PER_PRINCIPAL_MAX
    assert clock.now_ms() == NOW + 1
    assert not await first.is_in()


@pytest.mark.parametrize("name", ["begin", "renew", "close", "forget"])
async def test_what_the_console_does_itself_nobody_else_can_call(process: Process, name: str) -> None:
    arguments = {"session_id": "x", "reason": "mine"}
    assert (await process.owner.refusal(f"console_session.{name}", **arguments)).code == "OPERATION_NOT_FOUND"
