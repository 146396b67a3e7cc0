"""Separation of duties counts people: nobody approves what they asked for with another key, or counts twice."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.scopes import scope_allows
from penstock.engine.approvers import Identity, is_same_person
from penstock.governance.holds import Approval
from penstock.governance.principals import Principal
from penstock.operations.catalogue.capability import Reply
from penstock.operations.gate.authentication import principal_of
from penstock.operations.gate.context import HoldChoices
from penstock.operations.gate.pipeline import RefusedCall
from penstock.runtime.tables.api_keys import read_key
from tests.scenarios.office import APPROVE, Office, in_office, open_office, staff
from tests.waiting import SECONDS_MAX

SEPARATE = HoldChoices(approval=Approval(groups=("approvers",), not_requester=True))
TWO = HoldChoices(approval=Approval(groups=("approvers",), count=2))
MANAGE = ("*",)


async def holder(office: Office, made: dict[str, Any]) -> Principal:
    """Whom a key that was just made stands for."""
    key = await read_key(office.gate.services.platform, made["key"]["id"])
    assert key is not None
    return principal_of(key)


async def rotated(office: Office, who: Principal, by: Principal | None = None, **more: Any) -> Principal:
    """The holder of the key that replaces another."""
    return await holder(office, await office.call(by or who, "key.rotate", key_id=who.key_id, **more))


async def approve(office: Office, who: Principal, draft_id: str) -> str:
    """The code of the refusal, or the status of the draft after an approval."""
    outcome = await office.outcome(who, "draft.approve", draft_id=draft_id)
    if isinstance(outcome, RefusedCall):
        return outcome.error.code
    assert isinstance(outcome.reply, Reply)
    return str(outcome.reply.value.status)


def test_the_maker_of_an_agents_key_does_not_approve_its_calls_after_rotating_their_own_key(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        boss = await office.hire("boss", "person", *MANAGE)
        await office.hire("helper", "agent", "*", maker=boss)
        draft_id = await office.propose("helper")
        for _ in range(3):
            boss = await rotated(office, boss)
            assert await approve(office, boss, draft_id) == "APPROVER_REQUIRED"
        again = await holder(
            office, await office.call(boss, "key.create", name="again", kind="person", scopes=[*APPROVE])
        )
        assert await approve(office, again, draft_id) == "APPROVER_REQUIRED"
        assert await approve(office, office.people["ada"], draft_id) == "executed"

    in_office(tmp_path, test, SEPARATE)


def test_an_agent_whose_key_is_rotated_keeps_its_maker(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        boss = await office.hire("boss", "person", *MANAGE)
        helper = await office.hire("helper", "agent", "*", maker=boss)
        office.people["helper"] = await rotated(office, helper, by=office.owner)
        draft_id = await office.propose("helper")
        assert await approve(office, boss, draft_id) == "APPROVER_REQUIRED"
        assert await approve(office, office.people["ada"], draft_id) == "executed"

    in_office(tmp_path, test, SEPARATE)


def test_one_person_with_two_keys_counts_once(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        boss = await office.hire("boss", "person", *MANAGE)
        draft_id = await office.propose("robot")
        assert await approve(office, boss, draft_id) == "waiting"
        second = await holder(
            office, await office.call(boss, "key.create", name="second", kind="person", scopes=[*APPROVE])
        )
        third = await holder(
            office, await office.call(boss, "key.create", name="third", kind="person", scopes=[*APPROVE])
        )
        for other in (second, third, await rotated(office, boss)):
            assert await approve(office, other, draft_id) == "ALREADY_VOTED"
        assert await approve(office, office.people["ada"], draft_id) == "executed"

    in_office(tmp_path, test, TWO)


def test_two_keys_that_one_key_made_are_one_person(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        boss = await office.hire("boss", "person", *MANAGE)
        made = [
            await holder(office, await office.call(boss, "key.create", name=name, kind="person", scopes=[*APPROVE]))
            for name in ("second", "third")
        ]
        draft_id = await office.propose("robot")
        assert await approve(office, made[0], draft_id) == "waiting"
        assert await approve(office, made[1], draft_id) == "ALREADY_VOTED"

    in_office(tmp_path, test, TWO)


def test_a_key_of_a_key_does_not_answer_for_whoever_started_the_run(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        boss = await office.hire("boss", "person", *MANAGE)
        first = await holder(
            office, await office.call(boss, "key.create", name="first", kind="person", scopes=["key:*", *APPROVE])
        )
        second = await holder(
            office, await office.call(first, "key.create", name="second", kind="person", scopes=[*APPROVE])
        )
        held = await office.call(boss, "workflow:erase_customer", customer="C-7", request={"surface": "mcp"})
        draft_id = held["held"]["draft_id"]
        for who in (boss, first, second):
            assert await approve(office, who, draft_id) == "APPROVER_REQUIRED"

    in_office(tmp_path, test, SEPARATE)


def test_people_whose_keys_one_admin_made_for_them_count_as_two(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        boss = await office.hire("boss", "person", *MANAGE)
        made = [
            await holder(
                office,
                await office.call(
                    boss, "key.create", name=name, kind="person", scopes=[*APPROVE], subject=f"person:{name}"
                ),
            )
            for name in ("anna", "ben")
        ]
        draft_id = await office.propose("robot")
        assert await approve(office, made[0], draft_id) == "waiting"
        # Whoever made a key knows its secret.
        assert await approve(office, boss, draft_id) == "ALREADY_VOTED"
        assert await approve(office, made[1], draft_id) == "executed"

    in_office(tmp_path, test, TWO)


def test_only_people_approve(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        pipeline = await office.hire("pipeline", "service", *MANAGE)
        draft_id = await office.propose("robot")
        for operation, more in (
            ("draft.approve", {}),
            ("draft.reject", {}),
            ("draft.commit", {"digest": (await office.call("ada", "draft.get", draft_id=draft_id))["digest"]}),
        ):
            refused = await office.refusal(pipeline, operation, draft_id=draft_id, **more)
            assert refused.code == "PERSON_REQUIRED", operation
        answer = {"execution_id": draft_id, "answer": {"approved": True}}
        for request in ({}, {"surface": "mcp", "from_person": True}, {"surface": "console", "from_person": True}):
            refused = await office.refusal(pipeline, "execution.answer", **answer, request=request)
            assert refused.code == "PERSON_REQUIRED"
        assert not (await office.call(pipeline, "draft.get", draft_id=draft_id))["decidable"]
        assert await approve(office, office.people["ada"], draft_id) == "executed"

    in_office(tmp_path, test)


# --- whatever people do with their keys -------------------------------------------------------------------------------

Move = tuple[Literal["create", "rotate", "give"], int, int]
"""What is done with which of the keys, and to which other one, or for whom."""
NAMES = ("anna", "ben", "cleo")
PLAIN = ("key:write", "workflow:*", "execution:*", "draft:*", "approve:approvers")


def moves(*kinds: str) -> st.SearchStrategy[list[Move]]:
    """What people do one after the other."""
    one = st.tuples(st.sampled_from(kinds), st.integers(0, 20), st.integers(0, 20))
    return st.lists(one, max_size=10)  # type: ignore[arg-type]


def identity(who: Principal) -> Identity:
    return Identity(principal=who.id, subject=who.subject, owner=who.owner, lineage=who.lineage)


@dataclass(slots=True)
class Held:
    """A key, and the subjects who have seen its secret, or one from which it was made."""

    who: Principal
    seen_by: set[str]
    ended: bool = False


@dataclass(slots=True)
class World:
    """An office, and what became of the keys of three people."""

    office: Office
    keys: list[Held] = field(default_factory=list)

    @property
    def usable(self) -> list[Held]:
        return [item for item in self.keys if not item.ended]

    async def open(self, *scopes: str) -> None:
        await staff(self.office)
        for name in NAMES:
            own = await self.office.hire(name, "person", *scopes, subject=f"person:{name}")
            self.keys.append(Held(own, {own.subject_id}))

    async def move(self, move: Move) -> None:
        """Let the holder of a key do something with it. What is not theirs to replace is refused."""
        what, first, second = move
        usable = self.usable
        actor, other = usable[first % len(usable)], usable[second % len(usable)]
        wanted: dict[str, Any] = {"name": "more", "kind": "person", "scopes": sorted(actor.who.scopes)}
        if what == "give":
            wanted["subject"] = f"person:{NAMES[second % len(NAMES)]}"
        arguments = {"key_id": other.who.key_id} if what == "rotate" else wanted
        outcome = await self.office.outcome(actor.who, f"key.{'rotate' if what == 'rotate' else 'create'}", **arguments)
        may = scope_allows(actor.who.scopes, "key:subject") or actor.who.subject_id == other.who.subject_id
        assert isinstance(outcome, RefusedCall) == (what == "rotate" and not may)
        if isinstance(outcome, RefusedCall):
            assert outcome.error.code == "KEY_BEYOND_YOURS"
            return
        assert isinstance(outcome.reply, Reply)
        made = await holder(self.office, msgspec.to_builtins(outcome.reply.value))
        seen = {made.subject_id, *actor.seen_by, *(other.seen_by if what == "rotate" else ())}
        other.ended = other.ended or what == "rotate"
        self.keys.append(Held(made, seen))


def in_world(test: Callable[[World], Awaitable[None]], holds: HoldChoices | None = None) -> None:
    """Run a test in an office of its own."""

    async def body(folder: Path) -> None:
        async with open_office(folder, holds) as office:
            await test(World(office))

    with tempfile.TemporaryDirectory() as name:
        asyncio.run(asyncio.wait_for(body(Path(name)), SECONDS_MAX))


@settings(max_examples=25, deadline=None)
@given(moves("create", "rotate"), st.integers(0, 20))
def test_no_sequence_of_keys_lets_one_person_decide_their_own_request_or_count_twice(
    done: list[Move], requester: int
) -> None:
    async def test(world: World) -> None:
        await world.open(*PLAIN)
        for move in done:
            await world.move(move)
        usable, office = world.usable, world.office
        for one in world.keys:
            for other in world.keys:
                same = one.who.subject_id == other.who.subject_id
                assert is_same_person(identity(one.who), identity(other.who)) is same
        maker = usable[requester % len(usable)].who
        wanted = {"name": "agent", "kind": "agent", "scopes": ["workflow:*"]}
        agent = await holder(office, await office.call(maker, "key.create", **wanted))
        held = await office.call(agent, "workflow:erase_customer", customer="C-7")
        voted: set[str] = set()
        for key in usable:
            told = await approve(office, key.who, held["held"]["draft_id"])
            if key.who.subject_id == maker.subject_id:
                assert told in ("APPROVER_REQUIRED", "DRAFT_FINAL")
            elif key.who.subject_id in voted:
                assert told in ("ALREADY_VOTED", "DRAFT_FINAL")
            else:
                voted.add(key.who.subject_id)
                assert told == ("waiting" if len(voted) == 1 else "executed")

    approval = Approval(groups=("approvers",), count=2, not_requester=True)
    in_world(test, HoldChoices(approval=approval))


@settings(max_examples=25, deadline=None)
@given(moves("create", "rotate", "give"))
def test_whoever_has_seen_the_secret_of_a_key_is_never_somebody_else_than_its_holder(done: list[Move]) -> None:
    async def test(world: World) -> None:
        await world.open("*")
        for move in done:
            await world.move(move)
        for one in world.keys:
            for other in world.keys:
                if one.who.subject_id in other.seen_by:
                    assert is_same_person(identity(one.who), identity(other.who)), (one, other)

    in_world(test)
