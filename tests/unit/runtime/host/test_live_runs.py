"""Runs in memory are bounded by what they take, not only by how many they are."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from penstock.base import limits
from penstock.base.clock import ManualClock
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.build.workflow import build_workflow
from penstock.engine import inputs
from penstock.engine.folding.evolve import fold
from penstock.engine.outcomes import Accepted
from penstock.engine.state import RunState
from penstock.runtime.host.embedded import EmbeddedHost
from penstock.runtime.host.live_runs import EndedRuns, MemoryUse, memory_of
from penstock.runtime.ports.runs import StoredRun
from penstock.runtime.stores.sqlite.temporary import TemporaryDatabase
from penstock.runtime.tables.runs.store import RunStore
from tests.opened_database import run_on

WAITING: JsonObject = {
    "penstock": "v1",
    "name": "waiting",
    "nodes": [
        {"id": "wait", "type": "wait", "signal": "go"},
        {"id": "done", "type": "end", "output": "${ .input | length }"},
    ],
}


ENDING: JsonObject = {
    "penstock": "v1",
    "name": "ending",
    "nodes": [{"id": "done", "type": "end", "output": "${ .input }"}],
}


class CountingStore(RunStore):
    """Counts how often a history is read."""

    loads = 0

    async def load(self, run_id: str) -> StoredRun | None:
        self.loads += 1
        return await super().load(run_id)


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [
        ("x" * 100_000, 100_000, 150_000),
        ([[] for _ in range(10_000)], 640_000, 2_000_000),
        ([{"a": 1} for _ in range(10_000)], 2_400_000, 5_000_000),
        (None, 0, 20_000),
    ],
)
def test_structure_counts_as_well_as_bytes(value: JsonValue, least: int, most: int) -> None:
    assert least <= memory_of(RunState(run_id="r", input=value)) <= most


def test_the_total_follows_what_runs_take() -> None:
    memory = MemoryUse()
    state = RunState(run_id="a", history_bytes=100)
    memory.note(state)
    small = memory.total
    state.history_bytes, state.values = 2_000_000, "x" * 2_000_000
    memory.note(state)
    assert 2_000_000 <= memory.total < 3_000_000
    memory.note(RunState(run_id="b", history_bytes=100))
    memory.drop("a")
    memory.drop("a")
    assert memory.total == small
    memory.drop("b")
    assert memory.total == 0


def test_runs_that_take_much_are_forgotten_and_go_on_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LIVE_RUNS_BYTES_MAX", 5_000_000)

    async def body(store: RunStore) -> None:
        host = EmbeddedHost(store=store, clock=ManualClock(), worker_id="w", performs=False)
        workflow = build_workflow(WAITING)
        await host.register(workflow)
        for number in range(20):
            given = inputs.StartRun(at=1, run_id=f"r{number}", input=[[] for _ in range(20_000)])
            assert isinstance(await host.start(given, workflow_hash=workflow.hash), Accepted)
            assert len(host.live_runs()) <= 4
        decision = await host.send("r0", inputs.SendSignal(at=2, name="go"))
        assert isinstance(decision, Accepted)
        assert decision.state.result == 20_000

    run_on(RunStore(TemporaryDatabase()), body)


def test_how_a_run_ended_is_read_from_memory_until_it_is_deleted_or_made_again() -> None:
    async def body(store: CountingStore) -> None:
        clock = ManualClock()
        host = EmbeddedHost(store=store, clock=clock, worker_id="w", performs=False)
        workflow = build_workflow(ENDING)
        await host.register(workflow)

        async def ended(at: int, value: JsonValue) -> None:
            given = inputs.StartRun(at=at, run_id="r", input=value)
            assert isinstance(await host.start(given, workflow_hash=workflow.hash), Accepted)

        await ended(1, "first")
        state = await host.read("r")
        assert (state and state.result, store.loads) == ("first", 0)
        assert await store.delete_runs(["r"]) == 1
        assert await host.read("r") is None
        # Another process makes a run with the same id and a history of the same length.
        other = EmbeddedHost(store=store, clock=clock, worker_id="v", performs=False)
        await ended(2, "second")
        assert await store.delete_runs(["r"]) == 1
        given = inputs.StartRun(at=3, run_id="r", input="third")
        assert isinstance(await other.start(given, workflow_hash=workflow.hash), Accepted)
        state = await host.read("r")
        assert state is not None
        assert state.result == "third"

    run_on(CountingStore(TemporaryDatabase()), body)


def test_a_state_in_memory_is_told_only_for_the_row_that_it_belongs_to() -> None:
    async def body(store: CountingStore) -> None:
        clock = ManualClock()
        host = EmbeddedHost(store=store, clock=clock, worker_id="w", performs=False)
        workflow = build_workflow(WAITING)
        await host.register(workflow)
        given = inputs.StartRun(at=1, run_id="r", input="first")
        assert isinstance(await host.start(given, workflow_hash=workflow.hash), Accepted)
        before = await store.row("r")
        assert before is not None
        state = host.known_state(before)
        assert state is not None
        assert (state.input, state.seq, store.loads) == ("first", before.seq, 0)
        assert state == fold(await store.history("r"))
        assert host.known_state(replace(before, created_at=2)) is None  # made again by another process
        assert isinstance(await host.send("r", inputs.SendSignal(at=2, name="go", signal_id="s")), Accepted)
        after = await store.row("r")
        assert after is not None
        ended = host.known_state(after)
        assert ended is not None
        assert ended.terminal
        assert (host.known_state(before), state.terminal) == (None, False)

    run_on(CountingStore(TemporaryDatabase()), body)


def test_few_and_small_runs_are_kept_when_they_have_ended() -> None:
    ended = EndedRuns()
    for number in range(limits.ENDED_RUNS_MAX + 5):
        ended.keep(RunState(run_id=f"r{number}", history_bytes=100))
    assert len(ended) == limits.ENDED_RUNS_MAX
    assert "r0" not in ended
    ended.keep(RunState(run_id="large", history_bytes=limits.ENDED_RUN_BYTES_MAX + 1))
    assert "large" not in ended
