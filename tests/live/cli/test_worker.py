"""`penstock server worker`: performs until it is told to stop, and stops with manners."""

import asyncio
import json
import os
import pwd
import signal

from msgspec.structs import replace

from penstock.app.penstock import Penstock
from penstock.base.json import JsonObject
from penstock.runtime.tables.schedules import list_schedules, put_schedule
from tests.live.cli.processes import GATED, GREET, STEPS, Shop, read_until
from tests.waiting import SECONDS_MAX


def gated(shop: Shop, run_id: str) -> None:
    shop.write("gated.yaml", GATED)
    given = json.dumps({"gate": str(shop.folder / "gate")})
    assert shop.run("run", "gated.yaml", "--input", given, "--run-id", run_id, "--detach").returncode == 3


def test_a_worker_performs_detached_runs_and_logs_what_happens(shop: Shop) -> None:
    shop.write("greet.yaml", GREET)
    assert shop.run("run", "greet.yaml", "--input", '{"name": "x"}', "--run-id", "r1", "--detach").returncode == 3
    with shop.start("server", "worker", "--steps", str(STEPS)) as worker:
        banner = read_until(worker, "penstock server worker")
        assert f"penstock.db · uvloop · steps from {STEPS} · Ctrl-C stops it" in banner
        read_until(worker, "info run_completed run_id=r1 workflow=greet")
        # A run that is started later is found, too.
        given = ("--input", '{"name": "y"}', "--run-id", "r2", "--detach")
        detached = shop.run("run", "greet.yaml", *given)
        assert "no worker is running" not in detached.stdout
        read_until(worker, "info run_completed run_id=r2 workflow=greet")
        worker.send_signal(signal.SIGINT)
        output, _ = worker.communicate(timeout=SECONDS_MAX)
    assert worker.returncode == 0
    assert "worker_stopped left_for_the_next_worker=0" in output
    assert "Traceback" not in output


def test_a_stopped_worker_lets_its_activities_finish_and_begins_nothing_new(shop: Shop) -> None:
    gate = shop.gate()
    # The step after the gate is at-most-once: that nobody began it must not be in doubt later.
    text = GATED.replace(
        "  - {id: done,",
        '  - {id: after, type: step, handler: "steps:greet", with: {name: me}, effects: at_most_once}\n  - {id: done,',
    )
    shop.write("gated.yaml", text)
    given = json.dumps({"gate": str(gate.path)})
    assert shop.run("run", "gated.yaml", "--input", given, "--run-id", "r1", "--detach").returncode == 3
    with shop.start("server", "worker", "--steps", str(STEPS), "--grace", "60") as worker:
        with gate.reached():
            worker.send_signal(signal.SIGTERM)
            read_until(worker, "worker_stopping")
        output, _ = worker.communicate(timeout=SECONDS_MAX)
    assert worker.returncode == 0, output
    assert gate.ledger() == ["r1/work/1 1"]
    told = shop.json("runs", "show", "r1")
    assert (told["status"], [item["node_id"] for item in told["waiting_for"]["activities"]]) == (
        "waiting_activity",
        ["after"],
    )
    finished = shop.run("runs", "watch", "r1", "--perform", "--steps", str(STEPS))
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_what_does_not_finish_within_the_grace_time_is_left_for_the_next_worker(shop: Shop) -> None:
    gate = shop.gate()
    gated(shop, "r1")
    with shop.start("server", "worker", "--steps", str(STEPS), "--grace", "0", "--json") as worker, gate.reached():
        worker.send_signal(signal.SIGTERM)
        output, _ = worker.communicate(timeout=SECONDS_MAX)
    assert worker.returncode == 0, output
    lines = [json.loads(line) for line in output.splitlines()]
    assert all({"time", "level", "event"} <= set(line) for line in lines)
    assert lines[0]["event"] == "worker_started"
    assert lines[-1]["event"] == "worker_stopped"
    assert lines[-1]["left_for_the_next_worker"] == 1
    with shop.start("server", "worker", "--steps", str(STEPS)) as worker:
        with gate.reached():
            pass
        read_until(worker, "run_completed run_id=r1")


def test_a_worker_makes_workflows_known_and_says_which_are_missing(shop: Shop) -> None:
    (shop.folder / "flows").mkdir()
    (shop.folder / "flows" / "greet.yaml").write_text(GREET)
    with shop.start("server", "worker", "--workflows", "flows", "--json") as worker:
        started = read_until(worker, "worker_started").splitlines()[-1]
        assert json.loads(started)["database"] == "penstock.db"
        known = json.loads(read_until(worker, "workflow_known"))
        assert (known["workflow"], known["version"]) == ("greet", "1.2.0")
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=SECONDS_MAX)
    missing = shop.run("server", "worker", "--workflows", "nowhere.yaml")
    assert (missing.returncode, "nowhere.yaml: No such file" in missing.stderr) == (2, True)


def test_what_a_worker_loads_and_starts_by_the_clock_passes_its_gate(shop: Shop) -> None:
    (shop.folder / "flows").mkdir()
    timed: JsonObject = {"penstock": "v1", "name": "timed", "nodes": [{"id": "done", "type": "end", "output": 1}]}
    timed["triggers"] = [{"id": "often", "schedule": {"cron": "* * * * *", "catch_up": "1h"}}]
    (shop.folder / "flows" / "timed.json").write_text(json.dumps(timed))

    async def overdue() -> None:
        async with Penstock.open(shop.folder / "penstock.db", workflows=[timed], perform=False) as penstock:
            (row,) = await list_schedules(penstock.store.database)
            await put_schedule(penstock.store.database, replace(row, next_at=penstock.host.clock.now_ms() - 1_000))

    asyncio.run(overdue())
    (shop.folder / "flows" / "timed.json").write_text(json.dumps({**timed, "title": "Changed"}))
    with shop.start("server", "worker", "--workflows", "flows") as worker:
        read_until(worker, 'run_completed run_id="often@')
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=SECONDS_MAX)
    records = shop.json("audit", "list", "--json")["items"]
    told = {(item["principal"], item["operation"], item["outcome"]) for item in records}
    assert (f"os:{pwd.getpwuid(os.getuid()).pw_name}", "workflow.update", "allowed") in told
    assert ("schedule:often", "schedule.start", "allowed") in told
