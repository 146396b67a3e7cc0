"""A call with an idempotency key that is repeated after a crash: one thing exists, and the first answer comes again.

Every operation that creates or deletes something is killed after each of its commits in turn, as a process dies, and
repeated by the next process on the same file.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from http.client import HTTPException
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.app.gate import local_owner, open_gate
from penstock.app.penstock import Penstock
from penstock.app.retention import forget_old_calls
from penstock.base import limits
from penstock.base.clock import ManualClock
from penstock.base.errors import Conflict
from penstock.operations.catalogue.capability import Reply
from penstock.operations.gate.context import Credentials, Request
from penstock.operations.gate.pipeline import AnsweredCall, Gate
from penstock.runtime.ports.platform import AuditQuery, IdempotencyClaim
from penstock.runtime.tables.audit.records import list_audit
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.platform_stores import claimed
from tests.live.rest.servers import serving
from tests.opened_database import sqlite_of
from tests.waiting import SECONDS_MAX, until

GREET = {"penstock": "v1", "name": "greet", "nodes": [{"id": "done", "type": "end", "output": "hello"}]}
NAP = {
    "penstock": "v1",
    "name": "nap",
    "nodes": [{"id": "nap", "type": "wait", "duration": "1s"}, {"id": "done", "type": "end"}],
}
ENDPOINT = {"url": "https://example.com/events"}
COMMITS_MAX = 20


KILLED_AFTER_PUT_KEY = """
import os, runpy, signal, sys
from penstock.operations.keys import operations

put_key = operations.put_key

async def put_key_and_die(database, key, **more):
    await put_key(database, key, **more)
    if key.name == "doomed":
        os.kill(os.getpid(), signal.SIGKILL)

operations.put_key = put_key_and_die
sys.argv = ["penstock", *sys.argv[1:]]
runpy.run_module("penstock", run_name="__main__")
"""

KILLED_BEFORE_IT_WAITS = """
import os, runpy, signal, sys
from penstock.base import limits
from penstock.operations.executions import execute

start = execute.started_run

async def start_and_die(*given, **more):
    await start(*given, **more)
    os.kill(os.getpid(), signal.SIGKILL)

limits.IDEMPOTENCY_IN_FLIGHT_MS = 4_000
execute.started_run = start_and_die
sys.argv = ["penstock", *sys.argv[1:]]
runpy.run_module("penstock", run_name="__main__")
"""


class KilledError(BaseException):
    """The process is gone: nothing of ours may catch this."""


DYING: ContextVar[object] = ContextVar("dying", default=None)
"""Set for the call that dies, and for every task that it begins."""


@dataclass
class DyingWriter:
    """The writer of a store, whose process dies once so many commits of a call are done."""

    store: RunStore
    lives: int
    died: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        DYING.set(self)
        for name in ("submit", "submit_with_others"):
            setattr(sqlite_of(self.store).writer, name, self._dying(getattr(sqlite_of(self.store).writer, name)))

    def _dying(self, submit: Callable[..., asyncio.Future[Any]]) -> Callable[..., asyncio.Future[Any]]:
        def submitted(*arguments: Any, **more: Any) -> asyncio.Future[Any]:
            if DYING.get() is not self:
                return submit(*arguments, **more)
            ends: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            if self.lives <= 0:
                ends.set_exception(KilledError())
                return ends
            submit(*arguments, **more).add_done_callback(lambda done: self._end(done, ends))
            return ends

        return submitted

    def _end(self, done: asyncio.Future[Any], ends: asyncio.Future[Any]) -> None:
        self.lives -= 1
        if self.lives <= 0:
            self.died.set()
            ends.set_exception(KilledError())
        elif (error := done.exception()) is not None:
            ends.set_exception(error)
        else:
            ends.set_result(done.result())


async def outcome(gate: Gate, operation: str, arguments: dict[str, Any], key: str | None = None, **who: Any) -> Any:
    shown = Credentials(**who)
    principal = await gate.authenticate(shown, surface="sdk", request_id="test") if who else local_owner()
    return await gate.call(
        Request(
            operation=operation,
            arguments=arguments,
            principal=principal,
            surface="sdk",
            request_id="test",
            idempotency_key=key,
        )
    )


async def call(gate: Gate, operation: str, key: str | None = None, **arguments: Any) -> Any:
    found = await outcome(gate, operation, arguments, key)
    assert isinstance(found, AnsweredCall), found
    assert isinstance(found.reply, Reply)
    return msgspec.to_builtins(found.reply.value)


@dataclass(frozen=True, kw_only=True)
class Case:
    """An operation, what it needs before, and a list of what it changes."""

    operation: str
    arguments: dict[str, Any]
    listing: str
    prepare: tuple[tuple[str, dict[str, Any]], ...] = ()
    given: dict[str, Any] = field(default_factory=dict)
    more: int = 1
    """How many more things there are afterwards."""
    name: str = ""


RUN = ("workflow.execute", {"workflow_id": "greet", "execution_id": "run", "sync": True})
STORED = ("workflow.create", {"document": GREET})
KEY = ("key.create", {"name": "old", "scopes": ["workflow:read"]})
NIGHTLY = {"workflow_id": "greet", "cron": "0 3 * * *"}
CASES = [
    Case(operation="key.create", arguments={"name": "new", "scopes": ["workflow:read"]}, listing="key.list"),
    Case(operation="key.rotate", arguments={"key_id": "{key}"}, listing="key.list", prepare=(KEY,)),
    Case(operation="webhook.create", arguments=ENDPOINT, listing="webhook.list"),
    Case(
        operation="webhook.delete",
        arguments={"endpoint_id": "{webhook}"},
        listing="webhook.list",
        prepare=(("webhook.create", ENDPOINT),),
        more=-1,
    ),
    Case(operation="schema.create", arguments={"id": "order", "schema": {}}, listing="schema.list"),
    Case(operation="model.create", arguments={"id": "fast", "provider": "openai", "model": "b"}, listing="model.list"),
    Case(operation="tool.create", arguments={"id": "look", "kind": "step", "name": "look"}, listing="tool.list"),
    Case(operation="agent.create", arguments={"id": "helper"}, listing="agent.list"),
    Case(
        operation="agent.delete",
        arguments={"agent_id": "helper"},
        listing="agent.list",
        prepare=(("agent.create", {"id": "helper"}),),
        more=-1,
    ),
    Case(operation="workflow.create", arguments={"document": GREET}, listing="workflow.list"),
    Case(
        operation="workflow.delete",
        arguments={"workflow_id": "greet"},
        listing="workflow.list",
        prepare=(STORED,),
        more=-1,
    ),
    Case(
        operation="task.create",
        arguments={"workflow_id": "nap", "after": "nap", "task": {"id": "more", "type": "wait", "duration": "1s"}},
        listing="task.list",
        given={"workflow_id": "nap"},
        prepare=(("workflow.create", {"document": NAP}),),
    ),
    Case(operation="schedule.create", arguments=NIGHTLY, listing="schedule.list", prepare=(STORED,)),
    Case(
        operation="schedule.create",
        arguments={**NIGHTLY, "schedule_id": "nightly"},
        listing="schedule.list",
        prepare=(STORED,),
        name="schedule.create with a chosen id",
    ),
    Case(
        operation="schedule.delete",
        arguments={"schedule_id": "nightly"},
        listing="schedule.list",
        prepare=(STORED, ("schedule.create", {**NIGHTLY, "schedule_id": "nightly"})),
        more=-1,
    ),
    Case(operation="workflow.execute", arguments={"workflow_id": "greet"}, listing="execution.list", prepare=(STORED,)),
    Case(
        operation="execution.fork",
        arguments={"execution_id": "run", "at_sequence": 1},
        listing="execution.list",
        prepare=(STORED, RUN),
    ),
    Case(
        operation="execution.delete",
        arguments={"execution_id": "run"},
        listing="execution.list",
        prepare=(STORED, RUN),
        more=-1,
    ),
]


async def prepared(gate: Gate, case: Case) -> dict[str, Any]:
    """The arguments of a case, after what has to be there before."""
    ids: dict[str, str] = {}
    for operation, arguments in case.prepare:
        made = await call(gate, operation, **arguments)
        for kind in ("key", "webhook"):
            if kind in made:
                ids[kind] = made[kind]["id"]
    return {name: value.format(**ids) if isinstance(value, str) else value for name, value in case.arguments.items()}


async def listed(gate: Gate, case: Case) -> Any:
    """What there is, by id."""
    found = await call(gate, case.listing, **case.given)
    return {str(item.get("id") or item.get("schedule_id") or item.get("execution_id")) for item in found["items"]}


async def written(gate: Gate, case: Case) -> int:
    """How many records there are of calls of an operation that changed something."""
    query = AuditQuery(tenant="default", operation=case.operation, outcome="allowed")
    return len((await list_audit(gate.services.platform, query)).records)


async def killed(gate: Gate, store: RunStore, case: Case, arguments: dict[str, Any], lives: int) -> bool:
    """Whether a call was killed after so many commits; False when it has fewer."""

    async def victim() -> None:
        DyingWriter(store, lives)
        await outcome(gate, case.operation, arguments, "the-key")

    task = asyncio.create_task(victim())
    await asyncio.wait([task], timeout=SECONDS_MAX)
    return isinstance(task.exception(), KilledError)


async def killed_after(folder: Path, case: Case, lives: int) -> bool:
    """Kill a call after so many commits, and repeat it; False when it has no so many commits."""
    path = folder / f"{lives}.db"
    async with Penstock.open(path) as penstock, open_gate(penstock) as gate:
        arguments = await prepared(gate, case)
        before = await listed(gate, case)
        store = penstock.store
        assert isinstance(store, RunStore)
        if not await killed(gate, store, case, arguments, lives):
            return False
        done = await listed(gate, case)
        assert await written(gate, case) == (done != before), "a change without its audit record, or the other way"
    async with Penstock.open(path) as penstock, open_gate(penstock) as gate:
        later = ManualClock(gate.services.clock.now_ms() + limits.IDEMPOTENCY_IN_FLIGHT_MS + 1)
        gate.services = replace(gate.services, clock=later)
        answer = await call(gate, case.operation, "the-key", **arguments)
        after = await listed(gate, case)
        assert len(after) == len(before) + case.more, (lives, before, done, after)
        assert done in (before, after), "the repeated call made another one"
        assert await call(gate, case.operation, "the-key", **arguments) == answer
        assert await listed(gate, case) == after
        if "secret" in answer and case.operation.startswith("key."):
            let_in = await outcome(gate, "workflow.list", {}, bearer=answer["secret"])
            assert isinstance(let_in, AnsweredCall), let_in
    return True


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name or case.operation)
def test_a_call_that_is_killed_after_any_commit_happens_once_when_it_is_repeated(tmp_path: Path, case: Case) -> None:
    async def test() -> None:
        lives = 0
        while await killed_after(tmp_path, case, lives + 1):
            lives += 1
            assert lives < COMMITS_MAX
        assert 1 <= lives <= 2, "a change, and its answer if that is not known before"

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_a_repeated_call_gets_the_secret_again_and_no_file_holds_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with Penstock.open(tmp_path / "penstock.db") as penstock, open_gate(penstock) as gate:
            arguments = {"name": "new", "scopes": ["workflow:read"]}
            key = await call(gate, "key.create", "a", **arguments)
            webhook = await call(gate, "webhook.create", "a", **ENDPOINT)
            assert await call(gate, "key.create", "a", **arguments) == key
            assert await call(gate, "webhook.create", "a", **ENDPOINT) == webhook
            rotated = await call(gate, "key.rotate", "a", key_id=key["key"]["id"])
            assert await call(gate, "key.rotate", "a", key_id=key["key"]["id"]) == rotated
            secrets.extend([key["secret"][-43:], rotated["secret"][-43:], webhook["secret"]])

    secrets: list[str] = []
    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))
    for file in tmp_path.iterdir():
        assert not [secret for secret in secrets if secret.encode() in file.read_bytes()], file


def test_a_call_that_lost_its_claim_changes_nothing(tmp_path: Path) -> None:
    """It took so long that another one with the key was made; both would otherwise make a key."""

    async def test() -> None:
        async with Penstock.open(tmp_path / "penstock.db") as penstock, open_gate(penstock) as gate:
            platform, clock = gate.services.platform, gate.services.clock
            write = platform.write
            arguments = {"name": "new", "scopes": ["workflow:read"]}
            answers: list[Any] = []

            async def slow(*given: Any, **more: Any) -> Any:
                platform.write = write  # type: ignore[method-assign]  # the first call only
                later = ManualClock(clock.now_ms() + limits.IDEMPOTENCY_IN_FLIGHT_MS + 1)
                gate.services = replace(gate.services, clock=later)
                answers.append(await call(gate, "key.create", "a", **arguments))
                return await write(*given, **more)

            platform.write = slow  # type: ignore[method-assign]  # as slow as a stalled disk
            refused = await outcome(gate, "key.create", arguments, "a")
            assert isinstance(refused.error, Conflict)
            assert refused.error.code == "IDEMPOTENCY_IN_FLIGHT"
            assert len((await call(gate, "key.list"))["items"]) == 1
            assert await call(gate, "key.create", "a", **arguments) == answers[0]

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_a_server_that_is_killed_after_it_made_a_key_gives_the_same_answer(tmp_path: Path) -> None:
    """A real process, killed by the kernel between the commit and the answer."""
    with serving(tmp_path, script=KILLED_AFTER_PUT_KEY) as server:
        body = {"name": "doomed", "scopes": ["workflow:read"]}
        with pytest.raises((OSError, HTTPException)):
            server.request("POST", "keys", body, headers={"Idempotency-Key": "k"})
        assert server.running.wait(SECONDS_MAX) == -signal.SIGKILL
        server.script = None
        server.start()
        answers = [server.request("POST", "keys", body, headers={"Idempotency-Key": "k"}) for _ in range(2)]
        assert [answer.status for answer in answers] == [201, 201]
        assert answers[0].body == answers[1].body
        assert [item["name"] for item in server.call("GET", "keys")["items"]] == ["doomed", "owner"]
        server.key = answers[0].json()["secret"]
        assert server.request("GET", "workflows").status == 200


async def until_listed(gate: Gate, case: Case, wanted: set[str]) -> None:
    async def is_so() -> bool:
        return bool(await listed(gate, case) == wanted)

    await until(is_so)


def test_the_schedules_of_a_workflow_follow_it_after_a_crash_that_came_in_between(tmp_path: Path) -> None:
    document = {**GREET, "triggers": [{"id": "nightly", "schedule": {"cron": "0 3 * * *"}}]}
    case = Case(operation="workflow.create", arguments={}, listing="schedule.list")

    async def test() -> None:
        path = tmp_path / "penstock.db"
        async with Penstock.open(path) as penstock, open_gate(penstock) as gate:
            assert isinstance(penstock.store, RunStore)
            assert await killed(gate, penstock.store, case, {"document": document}, lives=1)
            assert await listed(gate, case) == set()
        async with Penstock.open(path) as penstock, open_gate(penstock) as gate:
            await call(gate, "workflow.create", "the-key", document=document)
            await until_listed(gate, case, {"nightly"})
            assert isinstance(penstock.store, RunStore)
            deletion = replace(case, operation="workflow.delete")
            assert await killed(gate, penstock.store, deletion, {"workflow_id": "greet"}, lives=1)
            assert await listed(gate, case) == {"nightly"}
        async with Penstock.open(path) as penstock, open_gate(penstock) as gate:
            await until_listed(gate, case, set())

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_expired_answers_are_deleted_as_fast_as_they_come(tmp_path: Path) -> None:
    many = 5_000

    async def test() -> None:
        async with Penstock.open(tmp_path / "penstock.db") as penstock, open_gate(penstock) as gate:
            platform, now = gate.services.platform, gate.services.clock.now_ms()
            later = now + 86_400_000  # the gate forgets by itself what has expired by its clock
            claims: list[Awaitable[Any]] = [
                claimed(
                    platform,
                    IdempotencyClaim(
                        tenant="default",
                        principal="key:a",
                        operation="workflow.execute",
                        key=str(number),
                        digest="d",
                        now=now,
                        in_flight_until=later,
                        keep_until=later,
                    ),
                )
                for number in range(many)
            ]
            await asyncio.gather(*claims)
            assert await forget_old_calls(platform, later + 1) == 0, "they say that a process died during the call"
            long_after = later + 1 + limits.IDEMPOTENCY_UNANSWERED_MS
            assert await forget_old_calls(platform, long_after) == many
            assert await forget_old_calls(platform, long_after) == 0

    asyncio.run(asyncio.wait_for(test(), SECONDS_MAX))


def test_a_server_that_is_killed_while_a_call_waits_for_its_run_gives_its_answer_to_the_repetition(
    tmp_path: Path,
) -> None:
    """The repetition comes while the claim of the first call lasts. It waits, and finds the run."""
    with serving(tmp_path, script=KILLED_BEFORE_IT_WAITS) as server:
        server.call("POST", "workflows", {"document": GREET})
        body, once = {"input": {}, "sync": True}, {"Idempotency-Key": "k"}
        with pytest.raises((OSError, HTTPException)):
            server.request("POST", "workflows/greet/executions", body, headers=once)
        assert server.running.wait(SECONDS_MAX) == -signal.SIGKILL
        server.script = None
        server.start()
        answers = [server.request("POST", "workflows/greet/executions", body, headers=once) for _ in range(2)]
        assert [(answer.status, answer.json()["output"]) for answer in answers] == [(200, "hello")] * 2
        assert answers[0].body == answers[1].body
        assert len(server.call("GET", "executions?workflow_id=greet")["items"]) == 1
