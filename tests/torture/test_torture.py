"""A short torture in every test run; `scripts/torture` and `scripts/two-processes` are the long ones."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from penstock.base.clock import ManualClock
from penstock.base.json import JsonObject
from penstock.definitions.build.workflow import build_workflow
from penstock.engine import inputs
from penstock.runtime.host.embedded import EmbeddedHost
from penstock.runtime.stores.sqlite.temporary import TemporaryDatabase
from penstock.runtime.tables.runs.store import RunStore
from tests.opened_database import run_on
from tests.torture import killing, pair, torture
from tests.torture.worker import Victim, read_lines
from tests.torture.workflows import WORKFLOWS
from tests.waiting import SECONDS_MAX


def test_nothing_is_lost_when_the_process_is_killed_again_and_again(capsys: pytest.CaptureFixture[str]) -> None:
    code = torture.main(["--quick"])
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert code == 0, report
    assert report["kills"] > 0
    assert report["hang_ups"] > 0
    assert report["clock_jumps"] > 0
    assert (report["runs"], report["suspended_runs"]) == (120, 40)
    assert (report["suspended_doubled"], report["abandoned_runs"]) == (0, 0)
    assert report["audited_changes"] > 0
    assert (report["acknowledged_without_audit"], report["audit_without_change"]) == (0, 0)


def test_an_agent_that_is_killed_repeats_no_turn_and_no_call() -> None:
    # In a process of its own, because it forks: a fork of a process with threads may wait for a lock forever.
    command = [sys.executable, "-m", "tests.torture.agents", "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS_MAX)
    report = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, report["ok"]) == (0, True), (report, done.stderr)
    assert report["kills"] == report["points"] > 3
    assert (report["turns_paid_twice"], report["tools_called_twice"], report["other_conversations"]) == (0, 0, 0)


def test_a_called_tool_and_a_single_task_that_are_killed_go_on_and_nothing_is_called_twice() -> None:
    command = [sys.executable, "-m", "tests.torture.single_calls", "--quick"]  # it forks, too
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS_MAX)
    report = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, report["ok"]) == (0, True), (report, done.stderr)
    assert report["kills"] == report["points"] > 3
    assert (report["called_twice"], report["other_ends"]) == (0, 0)


def test_two_processes_share_a_file_and_one_takes_over_from_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    # How soon it takes over is what `scripts/two-processes` measures: here other tests have the processors.
    code = pair.main(["--seconds", "5", "--takeover-within", str(SECONDS_MAX)])
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert code == 0, report
    assert report["taken_over"] > 0


def test_an_activity_that_overlaps_itself_is_counted() -> None:
    twice: list[JsonObject] = [
        {"effect": "r/a/1/1", "process": 1, "from": 1.0, "to": 2.0},
        {"effect": "r/a/1/1", "process": 2, "from": 1.5, "to": 2.5},
        {"effect": "r/b/1/1", "process": 2, "from": 1.5, "to": 2.5},
    ]
    assert pair.overlaps(twice) == 1


def test_a_lost_effect_and_a_doubled_charge_are_counted() -> None:
    count = torture.Count()
    torture.examine_ledger([{"key": "r/charge/1"}, {"key": "r/charge/1"}], {}, count)
    assert count.doubled_effects == 1
    assert not count.ok


@pytest.mark.parametrize("kind", killing.KINDS)
def test_a_process_can_be_killed_while_it_writes_to_the_store(kind: killing.Inside, tmp_path: Path) -> None:
    impossible = killing.impossible()
    if impossible is not None:
        pytest.skip(impossible)
    writing = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "for one in ('PRAGMA journal_mode = WAL', 'PRAGMA synchronous = FULL', 'CREATE TABLE t (x)'): c.execute(one)\n"
        "while True: c.execute('INSERT INTO t VALUES (1)')\n"
    )
    path = tmp_path / "some.db"
    ended = killing.run_and_kill([sys.executable, "-c", writing, str(path)], kind, 5, after_seconds=0.5, seed=1)
    assert ended is killing.Ended.KILLED_INSIDE
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_run_that_nobody_carries_on_is_found(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text('[{"run_id": "r"}]')

    async def look(store: RunStore) -> None:
        host = EmbeddedHost(store=store, clock=ManualClock(1), worker_id="w")
        workflow = build_workflow(WORKFLOWS["order"])
        await host.register(workflow)
        given = inputs.StartRun(at=1, run_id="r", input={"n": 1})
        await host.start(given, workflow_hash=workflow.hash)  # and no driver that performs its first step
        victim = Victim(tmp_path, 1)
        await victim._look_for_abandoned(host)
        await victim._look_for_abandoned(host)
        assert read_lines(tmp_path / "notes.jsonl") == []
        (seq, since) = victim.suspects["r"]
        victim.suspects["r"] = (seq, since - 60)
        await victim._look_for_abandoned(host)

    run_on(RunStore(TemporaryDatabase()), look)
    assert read_lines(tmp_path / "notes.jsonl") == [{"kind": "abandoned", "name": "r"}]


def test_an_abandoned_run_and_a_doubled_charge_of_a_suspended_process_are_not_ok() -> None:
    assert torture.Count(runs=1).ok
    assert not torture.Count(runs=1, abandoned_runs=1).ok
    assert not torture.Count(runs=1, suspended_doubled=1).ok
