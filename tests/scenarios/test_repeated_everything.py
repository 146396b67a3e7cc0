"""Every operation with an idempotency key, killed after each of its commits, gives the first answer when repeated.

The operations come from the catalogue, so that a new one cannot be left out. The calls are killed in one process, as
`kill -9` does it, and repeated in the next process on the same file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from penstock.base import limits
from penstock.operations.catalogue.capability import Reply
from penstock.operations.drafts.making import make_held_call
from penstock.operations.gate.pipeline import AnsweredCall, RefusedCall
from tests.fixtures.oauth_server import serving_oauth
from tests.scenarios.keyed_operations import (
    ARRANGEMENTS,
    ARRANGEMENTS_WAITING,
    WAITING,
    Desk,
    can_wait,
    keyed_operations,
    open_desk,
)
from tests.scenarios.test_repeated_calls import DyingWriter
from tests.waiting import SECONDS_MAX, until

COMMITS_MAX: Final = 8
IN_FLIGHT_MS: Final = 1_000
"""How long the claim of a killed call lasts here. A repetition waits for its end."""
HELD_MIN: Final = 20
"""So many operations, and more, are held when an agent calls them."""


@dataclass(frozen=True)
class Killed:
    """A call whose process was killed before it answered."""

    name: str
    operation: str
    arguments: dict[str, Any]
    key: str


def shape(value: Any, name: str = "") -> Any:
    """What is alike in the answers to two calls of one kind: the members, and every status."""
    if isinstance(value, dict) and name != "reaches":  # the names in it are of what each call reaches
        return {member: shape(found, member) for member, found in value.items()}
    if isinstance(value, list):
        return [shape(found) for found in value[:1]]
    return value if name == "status" else None


def told(reply: Any) -> dict[str, Any]:
    assert isinstance(reply, Reply)
    return {"value": msgspec.to_builtins(reply.value), "status": reply.status, "etag": reply.etag}


async def arrange(desk: Desk, name: str) -> Killed:
    """Prepare a call, and say with what it is made."""
    operation = name.removesuffix(WAITING)
    arguments = await (ARRANGEMENTS_WAITING.get(name) or ARRANGEMENTS[operation])(desk)
    waits = {"sync": True} if name.endswith(WAITING) else {}
    return Killed(name, operation, {**arguments, **waits}, desk.name("key"))


async def undisturbed(desk: Desk, name: str) -> Any:
    """The shape of the answer to a call that nothing disturbs."""
    call = await arrange(desk, name)
    outcome = await desk.outcome(call.operation, call.arguments, call.key)
    assert isinstance(outcome, AnsweredCall), (name, outcome)
    return shape(told(outcome.reply))


async def kill(desk: Desk, name: str, lives: int) -> Killed | None:
    """Kill a call after so many commits; None if it has fewer, and so was answered."""
    call = await arrange(desk, name)
    await desk.gate.flush()

    died = asyncio.Event()

    async def victim() -> None:
        DyingWriter(desk.store, lives, died)
        await desk.outcome(call.operation, call.arguments, call.key)

    async with asyncio.timeout(SECONDS_MAX):
        task, death = asyncio.create_task(victim()), asyncio.create_task(died.wait())
        await asyncio.wait([task, death], return_when=asyncio.FIRST_COMPLETED)
        # What the call began may live on for a moment; it can store nothing any more.
        task.cancel()
        death.cancel()
        await asyncio.wait([task, death])
    return call if died.is_set() else None


async def repeat(desk: Desk, call: Killed, expected: Any) -> str | None:
    """Repeat a call; return what is wrong with the answer."""
    outcome = await desk.outcome(call.operation, call.arguments, call.key)
    if isinstance(outcome, RefusedCall):
        return f"refused: {outcome.error}"
    if (found := shape(told(outcome.reply))) != expected:
        return f"answered {found}, not {expected}"
    again = await desk.outcome(call.operation, call.arguments, call.key)
    if not isinstance(again, AnsweredCall) or told(again.reply) != told(outcome.reply):
        return f"answered {again} to the second repetition, and {outcome} to the first"
    return None


def is_of_profile(operation: str) -> bool:
    return operation.startswith(("app.", "transaction"))


def changes_others(operation: str) -> bool:
    """Whether an operation changes what becomes of calls of others, in the same file."""
    return operation.startswith(("policy.", "upstream.")) and operation != "upstream.call"


GROUPS: Final[dict[str, Callable[[str], bool]]] = {
    "built in": lambda name: not changes_others(name) and not is_of_profile(name),
    "policies and other servers": changes_others,
    "agent profile": is_of_profile,
}


@pytest.mark.parametrize("group", GROUPS)
def test_every_call_with_a_key_is_answered_as_the_first_time_after_a_kill(
    tmp_path: Path, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "IDEMPOTENCY_IN_FLIGHT_MS", IN_FLIGHT_MS)

    async def test() -> None:
        profile = group == "agent profile"
        async with serving_oauth() as oauth:
            async with open_desk(tmp_path, oauth, profile=profile) as desk:
                found = [item for item in keyed_operations(desk.gate) if GROUPS[group](item.name)]
                names = [item.name for item in found]
                assert set(names) <= ARRANGEMENTS.keys(), "say how an operation is called"
                names += [f"{item.name}{WAITING}" for item in found if can_wait(item)]
                expected = {name: await undisturbed(desk, name) for name in names}
            wrong: list[str] = []
            left, lives = names, 0
            while left:
                lives += 1
                assert lives < COMMITS_MAX, f"these do not end: {left}"
                async with open_desk(tmp_path, oauth, profile=profile) as desk:
                    people = await desk.staff()
                    calls = [await kill(desk, name, lives) for name in left]
                killed = [call for call in calls if call is not None]
                left = [call.name for call in killed]
                async with open_desk(tmp_path, oauth, profile=profile) as desk:
                    desk.people = people
                    for call in killed:
                        if (problem := await repeat(desk, call, expected[call.name])) is not None:
                            wrong.append(f"{call.name}, killed after commit {lives}, is {problem}")
            assert not wrong, "\n".join(wrong)

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_every_operation_with_a_key_is_in_one_group() -> None:
    for name in ARRANGEMENTS:
        assert sum(holds(name) for holds in GROUPS.values()) == 1, name


async def hold(desk: Desk, name: str) -> str | None:
    """Let an agent make a call; return the draft that holds it, or None if it is not held."""
    call = await arrange(desk, name)
    outcome = await desk.outcome(call.operation, call.arguments, None, "agent")
    if not isinstance(outcome, AnsweredCall) or not isinstance(outcome.reply, Reply):
        return None
    answer = msgspec.to_builtins(outcome.reply.value)
    held = answer.get("held") if isinstance(answer, dict) else None
    return None if held is None else str(held["draft_id"])


async def approve(desk: Desk, draft_id: str) -> None:
    await desk.outcome("draft.approve", {"draft_id": draft_id, "wait_seconds": 0}, None, "person")


async def settle(desk: Desk, draft_id: str) -> str:
    """How a held call stands once nothing happens by itself any more."""
    seen: list[str] = []

    async def is_settled() -> bool:
        seen.append((await desk.do("draft.get", draft_id=draft_id))["status"])
        return seen[-1] != "approved"

    await until(is_settled)
    return seen[-1]


async def die_in(desk: Desk, draft_id: str, lives: int) -> bool:
    """Approve a held call, and kill it after so many commits; False if it has fewer, and so was made."""
    ended = asyncio.Event()
    died = asyncio.Event()

    async def make_and_die(run_id: str) -> Any:
        DyingWriter(desk.store, lives, died)
        made = asyncio.create_task(make_held_call(desk.gate, run_id))
        await asyncio.wait([made, asyncio.ensure_future(died.wait())], return_when=asyncio.FIRST_COMPLETED)
        ended.set()
        if not died.is_set():
            return await made
        made.cancel()
        return await asyncio.Event().wait()

    desk.held_calls.attach(make_and_die)
    await approve(desk, draft_id)
    await ended.wait()
    return died.is_set()


def test_every_held_call_that_died_is_made_once_after_the_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No draft is left in doubt: a repetition of any call with a key finds what the first one did."""
    monkeypatch.setattr(limits, "IDEMPOTENCY_IN_FLIGHT_MS", IN_FLIGHT_MS)

    async def test() -> None:
        async with serving_oauth() as oauth:
            expected: dict[str, str] = {}
            async with open_desk(tmp_path, oauth) as desk:
                people = await desk.staff()
                names = [item.name for item in keyed_operations(desk.gate) if not changes_others(item.name)]
                for name in names:
                    if (draft_id := await hold(desk, name)) is not None:
                        await approve(desk, draft_id)
                        expected[name] = await settle(desk, draft_id)
            assert list(expected.values()).count("executed") > HELD_MIN, expected
            wrong: list[str] = []
            left, lives = [name for name, status in expected.items() if status == "executed"], 0
            while left:
                lives += 1
                assert lives < COMMITS_MAX, f"these do not end: {left}"
                killed: dict[str, str] = {}
                async with open_desk(tmp_path, oauth) as desk:
                    desk.people = people
                    for name in left:
                        draft_id = await hold(desk, name)
                        assert draft_id is not None, name
                        if await die_in(desk, draft_id, lives):
                            killed[name] = draft_id
                left = list(killed)
                async with open_desk(tmp_path, oauth) as desk:
                    desk.people = people
                    for name, draft_id in killed.items():
                        if (status := await settle(desk, draft_id)) != "executed":
                            run = await desk.do("execution.status", execution_id=draft_id)
                            wrong.append(f"{name}, killed after commit {lives}, is {status}: {run['error']}")
            assert not wrong, "\n".join(wrong)

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


@pytest.mark.parametrize("is_repeated", [True, False])
def test_a_rotation_of_the_audit_key_that_died_happens_once(tmp_path: Path, is_repeated: bool) -> None:
    """The statement is stored and the file of the key is not changed yet: the next process changes it."""

    async def test() -> None:
        async with serving_oauth() as oauth:
            async with open_desk(tmp_path, oauth) as desk:
                await desk.do("key.create", name="k", scopes=["workflow:read"])
                await desk.do("audit.checkpoint")
                await desk.staff()
                first = await desk.do("audit.key")
                call = await kill(desk, "audit.rotate_key", 1)
                assert call is not None
            async with open_desk(tmp_path, oauth) as desk:
                if is_repeated:
                    outcome = await desk.outcome(call.operation, call.arguments, call.key)
                    assert isinstance(outcome, AnsweredCall), outcome
                    assert told(outcome.reply)["value"] == await desk.do("audit.key")
                second = await desk.do("audit.key")
                assert second["public_key"] != first["public_key"]
                assert len(second["statements"]) == 1
                assert second["public_key"] in second["statements"][0]
                assert (await desk.do("audit.verify"))["intact"] is True
                await desk.do("audit.checkpoint")
                assert (await desk.do("audit.verify"))["intact"] is True

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))
    assert [file.name for file in tmp_path.glob("*.audit-key*")] == ["penstock.db.audit-key"]


DAILY: Final = (
    '@id("daily") @history("paid: sum of amount of workflow:pay by principal within 24h")'
    ' forbid (principal, action == Action::"workflow:pay", resource)'
    ' when { context.history.paid.greaterThan(decimal("100.0")) };'
)
PAY: Final[dict[str, Any]] = {
    "penstock": "v1",
    "name": "pay",
    "input": {"type": "object", "required": ["amount"], "properties": {"amount": {"type": "number"}}},
    "expose": {"tool": True},
    "nodes": [{"id": "done", "type": "end", "output": "${ .input.amount }"}],
}


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_call_that_died_is_finished_under_a_limit_and_counted_once(
    tmp_path: Path, is_lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repeated while its claim lasts, and after that: the limit has room for one payment, and it was made."""
    monkeypatch.setattr(limits, "IDEMPOTENCY_IN_FLIGHT_MS", 100 if is_lost else IN_FLIGHT_MS)

    async def test() -> None:
        async with serving_oauth() as oauth:
            async with open_desk(tmp_path, oauth) as desk:
                await desk.do("workflow.create", document=PAY)
                await desk.do("policy.put", policy_id="daily", text=DAILY)
                people = await desk.staff()
                died = asyncio.Event()

                async def victim() -> None:
                    DyingWriter(desk.store, 2, died)  # the payment is entered, and its run is started
                    await desk.outcome("workflow:pay", {"amount": 60}, "k", "person")

                task = asyncio.create_task(victim())
                await died.wait()
                await asyncio.wait([task])
            async with open_desk(tmp_path, oauth) as desk:
                desk.people = people
                desk.clock.ahead_ms = 100 if is_lost else 0
                again = await desk.outcome("workflow:pay", {"amount": 60}, "k", "person")
                assert isinstance(again, AnsweredCall), again
                assert told(again.reply)["value"]["output"] == 60
                assert len((await desk.do("execution.list", workflow_id="pay"))["items"]) == 1
                assert isinstance(await desk.outcome("workflow:pay", {"amount": 40}, None, "person"), AnsweredCall)
                refused = await desk.outcome("workflow:pay", {"amount": 1}, None, "person")
                assert isinstance(refused, RefusedCall)
                assert refused.error.code == "POLICY_DENIED"

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))
