"""`penstock runs ...`: each command in a process of its own, on the file that others wrote."""

import asyncio
import json
import os
import pwd
import signal
from typing import Any

import pytest

from penstock import Penstock
from tests.live.cli.processes import APPROVE, GATED, GREET, REFUSED, SIGNALLED, STEPS, Shop, read_until
from tests.waiting import SECONDS_MAX

HANDLE_KEYS = {
    "execution_id",
    "workflow_id",
    "workflow_version",
    "definition_hash",
    "status",
    "sequence",
    "url",
    "stream_url",
}
ROW_KEYS = HANDLE_KEYS - {"url", "stream_url"} | {
    *("created_at", "updated_at", "parent_id", "labels", "started_by", "started_by_name"),
}
RECORD_KEYS = {"seq", "kind", "name", "at", "payload"}
ONCE = GATED.replace('gate: "${ .input.gate }"}}', 'gate: "${ .input.gate }"}, effects: at_most_once}')
ME = f"os:{pwd.getpwuid(os.getuid()).pw_name}"
NO_WORKER = (
    "No worker is running for penstock.db. To continue this run here:\n"
    "  penstock runs watch r1 --perform --db penstock.db"
)


def waiting(shop: Shop, run_id: str = "r1", *more: str) -> None:
    shop.write("approve.yaml", APPROVE)
    finished = shop.run("run", "approve.yaml", "--input", '{"name": "you"}', "--run-id", run_id, "--detach", *more)
    assert finished.returncode == 3, finished.stdout + finished.stderr


def history(shop: Shop, run_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = shop.json("runs", "history", run_id)["items"]
    return found


def finish(shop: Shop, run_id: str) -> str:
    finished = shop.run("runs", "watch", run_id, "--perform", "--steps", str(STEPS))
    return finished.stdout


def test_runs_are_listed_newest_first_with_filters_and_a_cursor(shop: Shop) -> None:
    waiting(shop, "a1", "--label", "team=red")
    waiting(shop, "a2", "--label", "team=blue")
    shop.write("signalled.yaml", SIGNALLED)
    assert shop.run("run", "signalled.yaml", "--run-id", "s1", "--detach").returncode == 3

    def ids(*filters: str) -> list[str]:
        return [row["execution_id"] for row in shop.json("runs", "list", *filters)["items"]]

    everything = shop.json("runs", "list")
    assert set(everything) == {"items", "next_cursor"}
    assert all(set(row) == ROW_KEYS for row in everything["items"])
    assert ids() == ["s1", "a2", "a1"]
    assert ids("--workflow", "approve") == ["a2", "a1"]
    assert ids("--status", "waiting_signal") == ["s1"]
    assert ids("--status", "waiting_signal", "--status", "waiting_input") == ["s1", "a2", "a1"]
    assert ids("--label", "team=red") == ["a1"]
    starter = shop.json("runs", "list")["items"][0]["started_by"]
    assert ids("--label", "team=red", "--started-by", starter) == ["a1"]
    assert ids("--started-by", f"{starter}x") == []
    assert ids("--text", "a") == ["a2", "a1"]
    assert ids("--since", "1h") == ["s1", "a2", "a1"]
    assert ids("--since", "2999-01-01") == []
    assert ids("--parent", "a1") == []
    page = shop.json("runs", "list", "--limit", "2")
    assert [row["execution_id"] for row in page["items"]] == ["s1", "a2"]
    assert ids("--limit", "2", "--cursor", page["next_cursor"]) == ["a1"]
    assert ids("--limit", "2", "--all") == ["s1", "a2", "a1"]
    table = shop.run("runs", "list").stdout.splitlines()
    assert table[0].split() == ["RUN", "WORKFLOW", "STATUS", "STARTED", "RECORDS", "LABELS"]
    assert table[3].split()[:4] == ["a1", "approve", "0.0.0", "waiting_input"]
    assert table[3].endswith("team=red")


def test_a_waiting_run_is_shown_with_its_question_and_how_to_answer(shop: Shop) -> None:
    waiting(shop)
    told = shop.json("runs", "show", "r1")
    assert told.keys() >= HANDLE_KEYS
    assert (told["status"], told["input"]) == ("waiting_input", {"name": "you"})
    assert {name: len(found) for name, found in told["waiting_for"].items() if found} == {"questions": 1}
    [question] = told["waiting_for"]["questions"]
    assert (question["node_id"], question["interrupt_id"], question["prompt"]) == ("ask", "ask:1", "Greet you?")
    text = shop.run("runs", "show", "r1").stdout
    assert 'ask waits for a person to answer "Greet you?" since' in text
    assert "answer: penstock runs answer r1 --node ask" in text
    assert '"required": ["approve"]' in text


def test_a_pending_activity_is_shown_with_everything_that_doing_it_needs(shop: Shop) -> None:
    waiting(shop)
    assert set(shop.json("runs", "answer", "r1", '{"approve": true}')) == HANDLE_KEYS
    (activity,) = shop.json("runs", "show", "r1")["waiting_for"]["activities"]
    assert (activity["node_id"], activity["type"], activity["attempt"]) == ("hello", "step", 1)
    assert activity["arguments"] == {"name": "you"}
    assert activity["idempotency_key"] == "r1/hello/1"
    assert (activity["at_most_once"], activity["outcome_unknown"], activity["deadline"]) == (True, False, None)
    text = shop.run("runs", "show", "r1").stdout
    assert "activity    hello (step), attempt 1" in text
    assert "idempotency key: r1/hello/1" in text


@pytest.mark.parametrize(("word", "verb"), [("true", "approved"), ("false", "declined")])
def test_what_was_decided_is_said_after_the_answer_and_shown_with_the_run(shop: Shop, word: str, verb: str) -> None:
    waiting(shop)
    said = shop.run("runs", "answer", "r1", f"approve={word}").stdout
    assert said.startswith(f"{verb} ask; the run is now ")
    shown = shop.run("runs", "show", "r1").stdout
    name = shop.json("runs", "list")["items"][0]["started_by"].partition(":")[2]
    assert f'decided     {name} {verb} "Greet you?"' in shown


def test_a_run_is_found_by_the_beginning_of_its_id(shop: Shop) -> None:
    waiting(shop, "abc-1")
    waiting(shop, "abd-1")
    assert shop.json("runs", "show", "abc")["execution_id"] == "abc-1"
    assert shop.json("runs", "pause", "abc")["execution_id"] == "abc-1"
    several = shop.run("runs", "show", "ab")
    assert several.returncode == 2
    assert "several runs begin with ab: " in several.stderr
    unknown = shop.json("runs", "show", "zzz", code=4)["error"]
    assert (unknown["code"], "there is no run zzz" in unknown["message"]) == ("EXECUTION_NOT_FOUND", True)


def test_looking_does_not_make_a_database(shop: Shop) -> None:
    for command in (("list",), ("show", "r1"), ("cancel", "r1"), ("answer", "r1", "ok=true"), ("delete", "r1")):
        finished = shop.run("runs", *command)
        assert finished.returncode == 2
        assert "there is no database penstock.db" in finished.stderr
    assert list(shop.folder.iterdir()) == []


def test_an_answer_that_does_not_fit_is_refused_and_the_run_still_waits(shop: Shop) -> None:
    waiting(shop)
    refused = shop.run("runs", "answer", "r1", "approve=perhaps")
    assert refused.returncode == 5
    assert "the answer to ask does not fit: /approve must be boolean" in refused.stderr
    assert shop.json("runs", "answer", "r1", "approve=perhaps", code=5)["error"]["code"] == "ANSWER_INVALID"
    nothing = shop.run("runs", "answer", "r1")
    assert nothing.returncode == 2
    assert "give an answer (JSON or KEY=VALUE)" in nothing.stderr
    both = shop.run("runs", "answer", "r1", "--decline", "approve=true")
    assert (both.returncode, "not both" in both.stderr) == (2, True)
    elsewhere = shop.json("runs", "answer", "r1", "--node", "hello", "approve=true", code=6)["error"]
    assert elsewhere["code"] == "NO_OPEN_QUESTION"
    assert shop.json("runs", "show", "r1")["status"] == "waiting_input"


def test_a_question_is_declined_as_the_document_says(shop: Shop) -> None:
    waiting(shop)
    declined = shop.run("runs", "answer", "r1", "--decline")
    assert (declined.returncode, "declined ask" in declined.stdout) == (0, True), declined
    [given] = [item for item in history(shop, "r1") if item["name"] == "ResumeInterrupt"]
    assert given["payload"]["answer"] == {"approve": False}


def test_an_answer_goes_on_when_somebody_performs_and_says_so_when_nobody_does(shop: Shop) -> None:
    waiting(shop)
    answered = shop.run("runs", "answer", "r1", "approve=true", "times=2", "--by", "ada")
    assert (answered.returncode, answered.stdout) == (0, "approved ask; the run is now waiting_activity\n")
    assert answered.stderr.strip() == NO_WORKER
    again = shop.json("runs", "answer", "r1", "approve=true", code=6)["error"]
    assert (again["code"], again["details"]["answered_by"]) == ("ALREADY_ANSWERED", ME)
    assert '"said": "Hello you"' in finish(shop, "r1")
    rows = history(shop, "r1")
    assert all(set(row) == RECORD_KEYS for row in rows)
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    (answer,) = [row["payload"] for row in rows if row["name"] == "ResumeInterrupt"]
    assert (answer["answer"], answer["answeredBy"]) == ({"approve": True, "times": 2}, ME)
    assert answer["note"] == "ada"
    assert f'answered by {ME} (note: ada): {{"approve": true' in shop.run("runs", "history", "r1").stdout
    assert shop.json("runs", "query", "r1", ".hello.text") == {"value": "Hello you"}
    assert json.loads(shop.run("runs", "query", "r1", "[.input.name, .ask.times]").stdout) == ["you", 2]
    assert shop.run("runs", "query", "r1", "nonsense(").returncode == 5


def test_the_history_is_for_people_or_complete(shop: Shop) -> None:
    waiting(shop)
    people = shop.run("runs", "history", "r1").stdout
    assert "◌ ask      waiting for a person: Greet you?" in people
    complete = shop.run("runs", "history", "r1", "--all").stdout
    names = [line.split()[2 + ("!" in line)] for line in complete.splitlines()]
    assert names[0] == "ExecutionStarted"
    assert names[-1] == "InterruptRaised"
    assert len(shop.json("runs", "history", "r1", "--after", "4")["items"]) == len(names) - 4


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
    assert shop.run("runs", "pause", "r1").returncode == 6
    assert shop.run("runs", "resume", "r1").stdout == "resumed r1; the run is now waiting_input\n"
    cancelled = shop.json("runs", "cancel", "r1", "--reason", "no longer needed")
    assert cancelled["status"] == "cancelled"
    told = shop.json("runs", "show", "r1")
    assert told["error"] == {"code": "CANCELLED", "message": "no longer needed", "node_id": "ask", "details": None}
    assert shop.json("runs", "cancel", "r1", code=6)["error"]["code"] == "CANCEL_NOT_ALLOWED"
    assert shop.run("runs", "watch", "r1").returncode == 1


def test_the_outcome_of_an_activity_can_be_reported(shop: Shop) -> None:
    waiting(shop)
    shop.json("runs", "answer", "r1", "approve=true")
    both = shop.run("runs", "submit", "r1", "hello", "{}", "--error", "x")
    assert (both.returncode, "a result or an --error, not both" in both.stderr) == (2, True)
    assert shop.json("runs", "submit", "r1", "ask", "{}", code=6)["error"]["code"] == "ACTIVITY_SUBMIT_NODE_MISMATCH"
    assert shop.json("runs", "submit", "r1", "hello", '{"text": "by hand"}')["status"] == "completed"
    assert shop.json("runs", "show", "r1")["output"] == {"said": "by hand"}


def test_an_activity_is_leased_and_handed_in_by_its_holder(shop: Shop) -> None:
    shop.write("approve.yaml", APPROVE)

    async def start() -> None:
        async with Penstock.open(shop.folder / "penstock.db", workflows=[shop.folder / "approve.yaml"]) as penstock:
            run = await penstock.start("approve", {"name": "you"}, run_id="r1", mode="host_mediated")
            await run.answer({"approve": True})

    asyncio.run(start())
    leased = shop.json("runs", "lease", "r1", "hello", "--holder", "ada", "--seconds", "60")
    assert leased["leased_to"] == f"{ME}/ada"
    [activity] = shop.json("runs", "show", "r1")["waiting_for"]["activities"]
    assert activity == leased
    assert f"leased by {ME}/ada until {leased['leased_until']}" in shop.run("runs", "show", "r1").stdout
    refused = shop.json("runs", "lease", "r1", "hello", "--holder", "bob", code=6)["error"]
    assert refused["code"] == "ACTIVITY_LEASED"
    lost = shop.json("runs", "submit", "r1", "hello", "{}", "--holder", "bob", code=6)["error"]
    assert lost["code"] == "ACTIVITY_LEASE_LOST"
    late = shop.json("runs", "submit", "r1", "hello", "{}", "--attempt", "2", code=6)["error"]
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
    seq = shop.json("runs", "show", "r1")["sequence"]
    shop.json("runs", "answer", "r1", "approve=false")
    forked = shop.json("runs", "fork", "r1", "--at", str(seq), "--run-id", "r2")
    assert (forked["execution_id"], forked["status"]) == ("r2", "waiting_input")
    assert shop.json("runs", "show", "r2")["forked_from"] == "r1"
    shop.json("runs", "answer", "r2", "approve=true")
    assert '"said": "Hello you"' in finish(shop, "r2")
    assert shop.json("runs", "show", "r1")["output"] == {"said": "nothing"}
    assert shop.json("runs", "fork", "r1", "--at", "999", code=5)["error"]["code"] == "FORK_POINT_INVALID"


def test_a_failed_run_is_retried_from_just_before_its_failure(shop: Shop) -> None:
    shop.write("refused.yaml", REFUSED)
    marker = shop.folder / "marker"
    given = json.dumps({"marker": str(marker)})
    command = ("run", "refused.yaml", "--steps", str(STEPS), "--input", given, "--run-id", "r1")
    assert shop.run(*command).returncode == 1
    marker.touch()
    retried = shop.json("runs", "retry", "r1", "--run-id", "r2")
    assert (retried["execution_id"], retried["status"]) == ("r2", "waiting_activity")
    assert '"marker": "found"' in finish(shop, "r2")
    assert shop.json("runs", "show", "r1")["status"] == "failed"
    names = [row["name"] for row in history(shop, "r2")]
    # What was done before the failure was carried over: only the failed step was performed again.
    assert names.count("ActivityCompleted") == 2
    assert shop.json("runs", "retry", "r2", code=6)["error"]["code"] == "RETRY_NOT_ALLOWED"


def test_an_activity_in_doubt_waits_for_a_decision_to_retry(shop: Shop) -> None:
    shop.write(
        "gated.yaml", GATED.replace('gate: "${ .input.gate }"}}', 'gate: "${ .input.gate }"}, effects: at_most_once}')
    )
    gate = shop.gate()
    command = ("run", "gated.yaml", "--steps", str(STEPS), "--input", json.dumps({"gate": str(gate.path)}))
    with shop.start(*command, "--run-id", "r1") as process, gate.reached():
        process.kill()
        process.wait(timeout=SECONDS_MAX)
    with shop.start("server", "worker", "--steps", str(STEPS)) as worker:
        read_until(worker, "activity_in_doubt")
        told = shop.json("runs", "show", "r1")
        assert told["status"] == "waiting_decision"
        [activity] = told["waiting_for"]["activities"]
        assert (activity["node_id"], activity["attempt"], activity["outcome_unknown"]) == ("work", 1, True)
        assert "work waits for a decision: its outcome is unknown" in shop.run("runs", "show", "r1").stdout
        assert shop.json("runs", "retry", "r1", "--by", "ada")["execution_id"] == "r1"
        [retried] = [row["payload"] for row in history(shop, "r1") if row["name"] == "ActivityRetried"]
        assert (retried["decidedBy"], retried["note"]) == (ME, "ada")
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
        assert shop.json("runs", "cancel", "r1")["execution_id"] == "r1"
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
    with (
        shop.start("server", "worker", "--steps", str(STEPS), "-v") as one,
        shop.start("server", "worker", "--steps", str(STEPS)),
    ):
        with gate.reached():
            assert shop.json("runs", "signal", "r1", "hello")["execution_id"] == "r1"
            assert shop.json("runs", "show", "r1")["status"] == "waiting_activity"
        assert shop.run("runs", "watch", "r1").returncode == 0
        assert one.poll() is None
    assert gate.ledger() == ["r1/work/1 1"]


def test_greetings_are_listed_after_they_ended(shop: Shop) -> None:
    shop.write("greet.yaml", GREET)
    shop.json("run", "greet.yaml", "--steps", str(STEPS), "--input", '{"name": "you"}', "--run-id", "r1")
    (row,) = shop.json("runs", "list", "--status", "completed")["items"]
    assert (row["execution_id"], row["workflow_version"]) == ("r1", "1.2.0")
    shown = shop.run("runs", "show", "r1").stdout
    assert 'result      {"said": "Hello you"}' in shown


def test_a_run_is_changed_as_the_user_of_the_machine_whatever_the_command_claims(shop: Shop) -> None:
    waiting(shop)
    environment = {"USER": "ceo", "LOGNAME": "ceo", "USERNAME": "ceo"}
    changes = (
        ("pause", "r1", "--reason", "lunch"),
        ("resume", "r1"),
        ("answer", "r1", "approve=true", "--by", "ceo"),
        ("submit", "r1", "hello", '{"text": "hello"}'),
        ("fork", "r1", "--at", "4", "--run-id", "r2"),
        ("signal", "r2", "go", "--by", "ceo"),
        ("cancel", "r2"),
        ("delete", "r2"),
    )
    for change in changes:
        finished = Shop(shop.folder, environment).run("runs", *change)
        assert finished.returncode == 0, finished.stdout + finished.stderr
    operations = {"submit": "submit_activity"}
    wanted = [f"execution.{operations.get(change[0], change[0])}" for change in changes]
    trail = [entry for entry in shop.json("audit", "list", "--limit", "100")["items"] if entry["operation"] in wanted]
    assert [entry["operation"] for entry in reversed(trail)] == wanted
    assert {(entry["principal"], entry["surface"]) for entry in trail} == {(ME, "cli")}
    outcomes = {entry["operation"]: entry["outcome"] for entry in trail}
    assert outcomes == {**dict.fromkeys(wanted, "allowed"), "execution.answer": "approved"}
    [answer] = [row["payload"] for row in history(shop, "r1") if row["name"] == "ResumeInterrupt"]
    assert (answer["answeredBy"], answer["note"]) == (ME, "ceo")


def test_the_words_of_the_wire_lead_to_runs(shop: Shop) -> None:
    waiting(shop)
    assert shop.json("execution", "status", "r1") == shop.json("runs", "show", "r1")
    assert shop.json("execution", "list") == shop.json("runs", "list")
    assert "is now `penstock runs show`" in shop.run("execution", "status", "r1").stderr
