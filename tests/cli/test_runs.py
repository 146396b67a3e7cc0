"""`penstock runs ...`: each command in a process of its own, on the file that others wrote."""

import asyncio
import json
import signal

from penstock import Penstock
from tests.cli.processes import APPROVE, GATED, GREET, REFUSED, SECONDS_MAX, SIGNALLED, STEPS, Shop, read_until

CHANGE_KEYS = {"ok", "run_id", "status", "performed"}
ROW_KEYS = {
    "run_id",
    "workflow",
    "version",
    "hash",
    "status",
    "created_at",
    "updated_at",
    "records",
    "parent",
    "labels",
}
SHOW_KEYS = {
    "ok",
    "run_id",
    "workflow",
    "version",
    "hash",
    "status",
    "result",
    "error",
    "waiting_for",
    "records",
    "elapsed_ms",
    "continued_as",
    "should_continue",
    "input",
    "state",
    "last_of_chain",
    "labels",
    "parent",
    "children",
    "activities",
    "started_at",
    "updated_at",
    "deadline",
    "mode",
    "performed_by",
}
HISTORY_KEYS = {"executionId", "seq", "kind", "name", "payload", "createdAt", "recordSchemaVersion"}
ONCE = GATED.replace('gate: "${ .input.gate }"}}', 'gate: "${ .input.gate }"}, effects: at_most_once}')
NOBODY = "note: nobody performs the work in penstock.db now; start  penstock worker --db penstock.db"


def waiting(shop: Shop, run_id: str = "r1", *more: str) -> None:
    shop.write("approve.yaml", APPROVE)
    finished = shop.run("run", "approve.yaml", "--input", '{"name": "you"}', "--run-id", run_id, "--detach", *more)
    assert finished.returncode == 3, finished.stdout + finished.stderr


def finish(shop: Shop, run_id: str) -> str:
    finished = shop.run("runs", "watch", run_id, "--perform", "--steps", str(STEPS))
    return finished.stdout


def test_runs_are_listed_newest_first_with_filters_and_a_cursor(shop: Shop) -> None:
    waiting(shop, "a1", "--label", "team=red")
    waiting(shop, "a2", "--label", "team=blue")
    shop.write("signalled.yaml", SIGNALLED)
    assert shop.run("run", "signalled.yaml", "--run-id", "s1", "--detach").returncode == 3

    def ids(*filters: str) -> list[str]:
        return [row["run_id"] for row in shop.json("runs", "list", *filters)["runs"]]

    everything = shop.json("runs", "list")
    assert set(everything) == {"runs", "next_cursor"}
    assert all(set(row) == ROW_KEYS for row in everything["runs"])
    assert ids() == ["s1", "a2", "a1"]
    assert ids("--workflow", "approve") == ["a2", "a1"]
    assert ids("--status", "waiting_signal") == ["s1"]
    assert ids("--status", "waiting_signal", "--status", "waiting_input") == ["s1", "a2", "a1"]
    assert ids("--label", "team=red") == ["a1"]
    assert ids("--text", "a") == ["a2", "a1"]
    assert ids("--since", "1h") == ["s1", "a2", "a1"]
    assert ids("--since", "2999-01-01") == []
    assert ids("--parent", "a1") == []
    page = shop.json("runs", "list", "--limit", "2")
    assert [row["run_id"] for row in page["runs"]] == ["s1", "a2"]
    assert ids("--limit", "2", "--cursor", page["next_cursor"]) == ["a1"]
    table = shop.run("runs", "list").stdout.splitlines()
    assert table[0].split() == ["RUN", "WORKFLOW", "STATUS", "STARTED", "RECORDS", "LABELS"]
    assert table[3].split()[:4] == ["a1", "approve", "0.0.0", "waiting_input"]
    assert table[3].endswith("team=red")


def test_a_waiting_run_is_shown_with_its_question_and_how_to_answer(shop: Shop) -> None:
    waiting(shop)
    told = shop.json("runs", "show", "r1")
    assert set(told) == SHOW_KEYS
    assert (told["status"], told["input"], told["activities"], told["performed_by"]) == (
        "waiting_input",
        {"name": "you"},
        [],
        [],
    )
    (wait,) = told["waiting_for"]
    assert set(wait) == {"for", "node", "visit", "since", "until", "prompt", "schema", "approvers", "interrupt_id"}
    text = shop.run("runs", "show", "r1").stdout
    assert 'ask waits for a person to answer "Greet you?" since' in text
    assert "answer: penstock runs answer r1 --node ask --db penstock.db" in text
    assert '"required": ["approve"]' in text


def test_a_pending_activity_is_shown_with_everything_that_doing_it_needs(shop: Shop) -> None:
    waiting(shop)
    assert set(shop.json("runs", "answer", "r1", '{"approve": true}')) == CHANGE_KEYS
    (activity,) = shop.json("runs", "show", "r1")["activities"]
    assert (activity["node"], activity["type"], activity["attempt"]) == ("hello", "step", 1)
    assert activity["arguments"] == {"name": "you"}
    assert activity["idempotency_key"] == "r1/hello/1"
    assert (activity["at_most_once"], activity["outcome_unknown"], activity["deadline"]) == (True, False, None)
    text = shop.run("runs", "show", "r1").stdout
    assert "activity    hello (step), attempt 1" in text
    assert "idempotency key: r1/hello/1" in text


def test_a_run_is_found_by_the_beginning_of_its_id(shop: Shop) -> None:
    waiting(shop, "abc-1")
    waiting(shop, "abd-1")
    assert shop.json("runs", "show", "abc")["run_id"] == "abc-1"
    several = shop.run("runs", "show", "ab")
    assert several.returncode == 2
    assert "several runs begin with ab: " in several.stderr
    unknown = shop.json("runs", "show", "zzz", code=2)
    assert unknown == {"ok": False, "error": {"code": "USAGE", "message": unknown["error"]["message"], "hint": None}}
    assert "there is no run zzz" in unknown["error"]["message"]


def test_looking_does_not_make_a_database(shop: Shop) -> None:
    finished = shop.run("runs", "list")
    assert finished.returncode == 2
    assert "there is no database penstock.db" in finished.stderr
    assert list(shop.folder.iterdir()) == []


def test_an_answer_that_does_not_fit_is_refused_and_the_run_still_waits(shop: Shop) -> None:
    waiting(shop)
    refused = shop.run("runs", "answer", "r1", "approve=perhaps")
    assert refused.returncode == 2
    assert "the answer to ask does not fit: /approve must be boolean" in refused.stderr
    assert shop.json("runs", "answer", "r1", "approve=perhaps", code=2)["error"]["code"] == "INVALID_RESUME_PAYLOAD"
    nothing = shop.run("runs", "answer", "r1")
    assert nothing.returncode == 2
    assert "give an answer (JSON or KEY=VALUE)" in nothing.stderr
    both = shop.run("runs", "answer", "r1", "--decline", "approve=true")
    assert (both.returncode, "not both" in both.stderr) == (2, True)
    elsewhere = shop.run("runs", "answer", "r1", "--node", "hello", "approve=true")
    assert "run r1 asks nothing at hello; it asks at ask" in elsewhere.stderr
    assert shop.json("runs", "show", "r1")["status"] == "waiting_input"


def test_a_question_is_declined_as_the_document_says(shop: Shop) -> None:
    waiting(shop)
    declined = shop.run("runs", "answer", "r1", "--decline")
    assert (declined.returncode, "answered ask" in declined.stdout) == (0, True), declined
    lines = shop.run("runs", "history", "r1", "--json").stdout.splitlines()
    [given] = [item for item in map(json.loads, lines) if item["name"] == "ResumeInterrupt"]
    assert given["payload"]["answer"] == {"approve": False}


def test_an_answer_goes_on_when_somebody_performs_and_says_so_when_nobody_does(shop: Shop) -> None:
    waiting(shop)
    answered = shop.run("runs", "answer", "r1", "approve=true", "times=2", "--by", "ada")
    assert (answered.returncode, answered.stdout) == (0, "answered ask; the run is now waiting_activity\n")
    assert answered.stderr.strip() == NOBODY
    again = shop.run("runs", "answer", "r1", "approve=true")
    assert (again.returncode, "run r1 asks nothing" in again.stderr) == (2, True)
    assert '"said": "Hello you"' in finish(shop, "r1")
    rows = [json.loads(line) for line in shop.run("runs", "history", "r1", "--json").stdout.splitlines()]
    assert all(set(row) == HISTORY_KEYS for row in rows)
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    (answer,) = [row["payload"] for row in rows if row["name"] == "ResumeInterrupt"]
    assert (answer["answer"], answer["answeredBy"]) == ({"approve": True, "times": 2}, "ada")
    assert shop.json("runs", "query", "r1", ".hello.text") == {"run_id": "r1", "value": "Hello you"}
    assert json.loads(shop.run("runs", "query", "r1", "[.input.name, .ask.times]").stdout) == ["you", 2]
    assert shop.run("runs", "query", "r1", "nonsense(").returncode == 2


def test_the_history_is_for_people_or_complete(shop: Shop) -> None:
    waiting(shop)
    people = shop.run("runs", "history", "r1").stdout
    assert "◌ ask      waiting for a person: Greet you?" in people
    complete = shop.run("runs", "history", "r1", "--all").stdout
    names = [line.split()[2 + ("!" in line)] for line in complete.splitlines()]
    assert names[0] == "ExecutionStarted"
    assert names[-1] == "InterruptRaised"
    assert len(shop.run("runs", "history", "r1", "--json", "--after", "4").stdout.splitlines()) == len(names) - 4


def test_a_history_can_be_followed_to_the_end(shop: Shop) -> None:
    shop.write("signalled.yaml", SIGNALLED)
    assert shop.run("run", "signalled.yaml", "--run-id", "r1", "--detach").returncode == 3
    with shop.start("runs", "history", "r1", "--follow", "--json") as following:
        read_until(following, "SignalWaitStarted")
        assert shop.json("runs", "signal", "r1", "go_ahead", '{"a": 1}', "--id", "s1")["status"] == "completed"
        output, _ = following.communicate(timeout=SECONDS_MAX)
    assert following.returncode == 0
    assert json.loads(output.splitlines()[-1])["payload"]["result"] == {"got": {"a": 1}}


def test_a_run_is_paused_resumed_and_cancelled(shop: Shop) -> None:
    waiting(shop)
    assert shop.json("runs", "pause", "r1", "--reason", "lunch")["status"] == "paused"
    assert shop.run("runs", "pause", "r1").returncode == 2
    assert shop.run("runs", "resume", "r1").stdout == "resumed r1; the run is now waiting_input\n"
    cancelled = shop.json("runs", "cancel", "r1", "--reason", "no longer needed")
    assert (cancelled["status"], cancelled["performed"]) == ("cancelled", True)
    told = shop.json("runs", "show", "r1")
    assert told["error"] == {"code": "CANCELLED", "message": "no longer needed", "node": "ask"}
    assert shop.json("runs", "cancel", "r1", code=2)["error"]["code"] == "CANCEL_NOT_ALLOWED"
    assert shop.run("runs", "watch", "r1").returncode == 1


def test_the_outcome_of_an_activity_can_be_reported(shop: Shop) -> None:
    waiting(shop)
    shop.json("runs", "answer", "r1", "approve=true")
    both = shop.run("runs", "submit", "r1", "hello", "{}", "--error", "x")
    assert (both.returncode, "a result or an --error, not both" in both.stderr) == (2, True)
    assert shop.json("runs", "submit", "r1", "ask", "{}", code=2)["error"]["code"] == "ACTIVITY_SUBMIT_NODE_MISMATCH"
    assert shop.json("runs", "submit", "r1", "hello", '{"text": "by hand"}')["status"] == "completed"
    assert shop.json("runs", "show", "r1")["result"] == {"said": "by hand"}


def test_an_activity_is_leased_and_handed_in_by_its_holder(shop: Shop) -> None:
    shop.write("approve.yaml", APPROVE)

    async def start() -> None:
        async with Penstock.open(shop.folder / "penstock.db", workflows=[shop.folder / "approve.yaml"]) as penstock:
            run = await penstock.start("approve", {"name": "you"}, run_id="r1", mode="host_mediated")
            await run.answer({"approve": True})

    asyncio.run(start())
    leased = shop.json("runs", "lease", "r1", "hello", "--holder", "ada", "--seconds", "60")
    assert set(leased) == CHANGE_KEYS | {"lease"}
    [activity] = shop.json("runs", "show", "r1")["activities"]
    assert activity["lease"] == leased["lease"]
    assert f"leased by ada until {leased['lease']['until']}" in shop.run("runs", "show", "r1").stdout
    refused = shop.json("runs", "lease", "r1", "hello", "--holder", "bob", code=2)["error"]
    assert refused["code"] == "ACTIVITY_LEASED"
    lost = shop.json("runs", "submit", "r1", "hello", "{}", "--holder", "bob", code=2)["error"]
    assert lost["code"] == "ACTIVITY_LEASE_LOST"
    late = shop.json("runs", "submit", "r1", "hello", "{}", "--attempt", "2", code=2)["error"]
    assert late["code"] == "ACTIVITY_SUBMIT_NOT_AWAITING"
    handed_in = shop.json("runs", "submit", "r1", "hello", '{"text": "by ada"}', "--holder", "ada", "--attempt", "1")
    assert handed_in["status"] == "completed"


def test_a_failed_activity_can_be_reported_too(shop: Shop) -> None:
    waiting(shop)
    shop.json("runs", "answer", "r1", "approve=true")
    reported = shop.json("runs", "submit", "r1", "hello", "--error", "no voice", "--code", "HOARSE")
    assert reported["status"] == "failed"
    assert shop.json("runs", "show", "r1")["error"]["code"] == "HOARSE"


def test_a_run_forks_at_a_record(shop: Shop) -> None:
    waiting(shop)
    seq = shop.json("runs", "show", "r1")["records"]
    shop.json("runs", "answer", "r1", "approve=false")
    forked = shop.json("runs", "fork", "r1", "--at", str(seq), "--run-id", "r2")
    assert forked == {
        "ok": True,
        "run_id": "r2",
        "status": "waiting_input",
        "performed": True,
        "forked_from": "r1",
        "at": seq,
    }
    shop.json("runs", "answer", "r2", "approve=true")
    assert '"said": "Hello you"' in finish(shop, "r2")
    assert shop.json("runs", "show", "r1")["result"] == {"said": "nothing"}
    assert shop.json("runs", "fork", "r1", "--at", "999", code=2)["error"]["code"] == "FORK_POINT_INVALID"


def test_a_failed_run_is_retried_from_just_before_its_failure(shop: Shop) -> None:
    shop.write("refused.yaml", REFUSED)
    marker = shop.folder / "marker"
    given = json.dumps({"marker": str(marker)})
    command = ("run", "refused.yaml", "--steps", str(STEPS), "--input", given, "--run-id", "r1")
    assert shop.run(*command).returncode == 1
    marker.touch()
    retried = shop.json("runs", "retry", "r1", "--run-id", "r2")
    assert set(retried) == CHANGE_KEYS | {"forked_from", "at"}
    assert (retried["run_id"], retried["status"], retried["performed"]) == ("r2", "waiting_activity", False)
    assert '"marker": "found"' in finish(shop, "r2")
    assert shop.json("runs", "show", "r1")["status"] == "failed"
    names = [json.loads(line)["name"] for line in shop.run("runs", "history", "r2", "--json").stdout.splitlines()]
    # What was done before the failure was carried over: only the failed step was performed again.
    assert names.count("ActivityCompleted") == 2
    assert shop.json("runs", "retry", "r2", code=2)["error"]["code"] == "RETRY_NOT_ALLOWED"


def test_an_activity_in_doubt_waits_for_a_decision_to_retry(shop: Shop) -> None:
    shop.write(
        "gated.yaml", GATED.replace('gate: "${ .input.gate }"}}', 'gate: "${ .input.gate }"}, effects: at_most_once}')
    )
    gate = shop.gate()
    command = ("run", "gated.yaml", "--steps", str(STEPS), "--input", json.dumps({"gate": str(gate.path)}))
    with shop.start(*command, "--run-id", "r1") as process, gate.reached():
        process.kill()
        process.wait(timeout=SECONDS_MAX)
    with shop.start("worker", "--steps", str(STEPS)) as worker:
        read_until(worker, "activity_in_doubt")
        told = shop.json("runs", "show", "r1")
        assert told["status"] == "waiting_decision"
        (wait,) = told["waiting_for"]
        assert (wait["for"], wait["node"], wait["attempt"]) == ("decision", "work", 1)
        assert told["activities"][0]["outcome_unknown"] is True
        assert shop.json("runs", "retry", "r1", "--by", "ada")["performed"] is True
        with gate.reached():
            pass
        assert shop.run("runs", "watch", "r1").returncode == 0
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=SECONDS_MAX)
    assert gate.ledger() == ["r1/work/1 2"]


def test_a_cancellation_reaches_a_run_that_another_process_is_working_on(shop: Shop) -> None:
    shop.write("gated.yaml", GATED)
    gate = shop.gate()
    given = json.dumps({"gate": str(gate.path)})
    command = ("run", "gated.yaml", "--steps", str(STEPS), "--input", given, "--run-id", "r1")
    with shop.start(*command) as process, gate.reached():
        assert shop.json("runs", "cancel", "r1")["performed"] is True
        output, _ = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 1, output
    assert "cancelled after " in output


def test_a_run_that_is_paused_at_work_finishes_that_work_and_goes_on_later(shop: Shop) -> None:
    shop.write("gated.yaml", GATED)
    gate = shop.gate()
    given = json.dumps({"gate": str(gate.path)})
    with shop.start("run", "gated.yaml", "--steps", str(STEPS), "--input", given, "--run-id", "r1") as process:
        with gate.reached():
            assert shop.json("runs", "pause", "r1")["status"] == "paused"
        output, _ = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 3, output
    assert "resume it   penstock runs resume r1 --db penstock.db" in output
    assert gate.ledger() == ["r1/work/1 1"]
    assert shop.json("runs", "resume", "r1")["status"] == "completed"


def test_a_signal_to_a_run_at_work_does_not_begin_its_work_twice(shop: Shop) -> None:
    shop.write(
        "gated.yaml", GATED.replace('gate: "${ .input.gate }"}}', 'gate: "${ .input.gate }"}, effects: at_most_once}')
    )
    gate = shop.gate()
    given = json.dumps({"gate": str(gate.path)})
    assert shop.run("run", "gated.yaml", "--input", given, "--run-id", "r1", "--detach").returncode == 3
    with shop.start("worker", "--steps", str(STEPS), "-v") as one, shop.start("worker", "--steps", str(STEPS)):
        with gate.reached():
            assert shop.json("runs", "signal", "r1", "hello")["performed"] is True
            assert shop.json("runs", "show", "r1")["status"] == "waiting_activity"
        assert shop.run("runs", "watch", "r1").returncode == 0
        assert one.poll() is None
    assert gate.ledger() == ["r1/work/1 1"]


def test_greetings_are_listed_after_they_ended(shop: Shop) -> None:
    shop.write("greet.yaml", GREET)
    shop.json("run", "greet.yaml", "--steps", str(STEPS), "--input", '{"name": "you"}', "--run-id", "r1")
    (row,) = shop.json("runs", "list", "--status", "completed")["runs"]
    assert (row["run_id"], row["version"]) == ("r1", "1.2.0")
    shown = shop.run("runs", "show", "r1").stdout
    assert 'result      {"said": "Hello you"}' in shown
