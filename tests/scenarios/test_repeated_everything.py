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
from penstock.operations.gate.pipeline import AnsweredCall, RefusedCall
from tests.fixtures.oauth_server import serving_oauth
from tests.scenarios.keyed_operations import ARRANGEMENTS, Desk, keyed_operations, open_desk
from tests.scenarios.test_repeated_calls import DyingWriter
from tests.waiting import SECONDS_MAX

COMMITS_MAX: Final = 8
IN_FLIGHT: Final = "IDEMPOTENCY_IN_FLIGHT"
FOLLOWS_A_RUN: Final = frozenset({"execution.update", "upstream.call", "tool.execute", "control.workflow_start"})
"""These answer with what became of a run. A repetition finds the run, once the claim of the first call timed out."""
CHANGES_A_FILE: Final = frozenset({"audit.rotate_key"})
"""This changes a file beside the store, after its first commit. A repetition cannot know that, and does it again."""
WAITS: Final = FOLLOWS_A_RUN | CHANGES_A_FILE


@dataclass(frozen=True)
class Killed:
    """A call whose process was killed before it answered."""

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


async def undisturbed(desk: Desk, operation: str) -> Any:
    """The shape of the answer to a call that nothing disturbs."""
    outcome = await desk.outcome(operation, await ARRANGEMENTS[operation](desk), desk.name("key"))
    assert isinstance(outcome, AnsweredCall), (operation, outcome)
    return shape(told(outcome.reply))


async def kill(desk: Desk, operation: str, lives: int) -> Killed | None:
    """Kill a call after so many commits; None if it has fewer, and so was answered."""
    call = Killed(operation, await ARRANGEMENTS[operation](desk), desk.name("key"))
    await desk.gate.flush()

    died = asyncio.Event()

    async def victim() -> None:
        DyingWriter(desk.store, lives, died)
        await desk.outcome(operation, call.arguments, call.key)

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
    if isinstance(outcome, RefusedCall) and outcome.error.code == IN_FLIGHT and call.operation in WAITS:
        desk.clock.ahead_ms += limits.IDEMPOTENCY_IN_FLIGHT_MS + 1
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
def test_every_call_with_a_key_is_answered_as_the_first_time_after_a_kill(tmp_path: Path, group: str) -> None:
    async def test() -> None:
        profile = group == "agent profile"
        async with serving_oauth() as oauth:
            async with open_desk(tmp_path, oauth, profile=profile) as desk:
                names = [item.name for item in keyed_operations(desk.gate) if GROUPS[group](item.name)]
                assert set(names) <= ARRANGEMENTS.keys(), "say how an operation is called"
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
                left = [call.operation for call in killed]
                async with open_desk(tmp_path, oauth, profile=profile) as desk:
                    desk.people = people
                    for call in killed:
                        if (problem := await repeat(desk, call, expected[call.operation])) is not None:
                            wrong.append(f"{call.operation}, killed after commit {lives}, is {problem}")
            assert not wrong, "\n".join(wrong)

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_every_operation_with_a_key_is_in_one_group() -> None:
    for name in ARRANGEMENTS:
        assert sum(holds(name) for holds in GROUPS.values()) == 1, name
