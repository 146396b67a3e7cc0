"""On whose behalf a run is: told at its start, kept by what it starts, and never believed from elsewhere."""

from __future__ import annotations

from penstock.base.json import JsonObject
from penstock.definitions.build.workflow import build_workflow
from penstock.engine import inputs
from penstock.engine.folding.evolve import fold
from penstock.engine.fork import fork
from penstock.engine.inputs import Initiator
from penstock.engine.records import Record
from penstock.engine.replay import Replayed, replay
from penstock.engine.walk.starting import successor_start
from penstock.runtime.control_plane.hosts import _owned
from penstock.runtime.host.memory import MemoryHost

ASKS: JsonObject = {
    "penstock": "v1",
    "name": "asks",
    "nodes": [{"id": "nap", "type": "wait", "duration": "1h"}, {"id": "end", "type": "end"}],
}
AGAIN: JsonObject = {
    "penstock": "v1",
    "name": "again",
    "nodes": [{"id": "nap", "type": "wait", "duration": "1s"}, {"id": "more", "type": "continue_as_new"}],
}
NOW = 1_760_000_000_000


def begun(document: JsonObject, by: str | None) -> list[Record]:
    host = MemoryHost(clock=lambda: NOW)
    host.start(build_workflow(document), inputs.StartRun(at=NOW, run_id="r", input={}, started_by=by))
    return host.runs["r"].records


def test_who_started_a_run_is_in_its_history_and_replayed() -> None:
    records = begun(ASKS, "ada")
    assert fold(records).started_by == "ada"
    replayed = replay(build_workflow(ASKS), records)
    assert isinstance(replayed, Replayed)
    assert replayed.state.started_by == "ada"
    assert "startedBy" not in begun(ASKS, None)[0].payload


def test_a_run_that_continues_another_is_on_behalf_of_the_same_principal() -> None:
    host = MemoryHost(clock=lambda: NOW)
    host.start(build_workflow(AGAIN), inputs.StartRun(at=NOW, run_id="r", input={}, started_by="ada"))
    host.send("r", inputs.FireTimer(at=NOW + 1_000, kind="wait", node_id="nap", visit=1))
    ended = host.runs["r"].state
    assert ended.continuation is not None
    assert successor_start(build_workflow(AGAIN), ended, at=1).started_by == "ada"


def test_a_fork_is_on_behalf_of_whoever_forks() -> None:
    records = begun(ASKS, "ada")
    assert fold(fork(records, at_seq=1, run_id="f", by=Initiator(principal="bob"))).started_by == "bob"
    assert fold(fork(records, at_seq=1, run_id="f")).started_by == "ada"


def test_a_history_from_elsewhere_is_on_behalf_of_whoever_brings_it() -> None:
    first = begun(ASKS, "ada")[0]
    assert _owned(first, "globex", Initiator(principal="bob")).payload["startedBy"] == "bob"
    assert "startedBy" not in _owned(first, "globex", None).payload
