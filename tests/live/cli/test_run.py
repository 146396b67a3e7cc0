"""`penstock run` in a process of its own: to the end, waiting, left, killed and joined."""

import json
import os
import pwd
import signal
import subprocess

import pytest

from tests.live.cli.processes import APPROVE, GATED, GREET, REFUSED, SIGNALLED, STEPS, Shop, read_until
from tests.waiting import SECONDS_MAX

SCRIPTED = """
models:
  fast:
    provider: mock
    replies:
      turn:
        - {tool_calls: [{name: find_order, arguments: {id: A-1}}]}
        - It was sent.
      ask: Sent.
"""
FIND_ORDER = """
penstock: v1
name: find_order
input: {type: object, required: [id], properties: {id: {type: string}}}
expose: {tool: true}
nodes:
  - {id: ask, type: llm_call, model: fast, prompt: "What about ${ .input.id }?"}
  - {id: nap, type: wait, duration: 10ms}
  - {id: done, type: end, output: "${ .ask.text }"}
"""
SUPPORT = """
penstock: v1
name: support
agent: {model: fast, instructions: Look it up., tools: [workflow:find_order]}
"""


def test_a_run_is_shown_line_by_line_where_there_is_no_terminal(shop: Shop) -> None:
    shop.write("greet.yaml", GREET)
    finished = shop.run("run", "greet.yaml", "--steps", str(STEPS), "--input", '{"name": "you"}', "--run-id", "r1")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    lines = finished.stdout.splitlines()
    assert lines[0] == "● greet 1.2.0  run r1"
    assert [line.split()[1] for line in lines if line.startswith("  ✓")] == ["hello", "done", "completed"]
    assert lines[-2].startswith("completed in ")
    assert lines[-1] == "  history  penstock runs history r1 --db penstock.db"
    assert finished.stderr == ""
    assert "\x1b" not in finished.stdout


def test_the_result_can_be_had_as_json(shop: Shop) -> None:
    shop.write("greet.yaml", GREET)
    (shop.folder / "input.yaml").write_text("name: you\n")
    report = shop.json("run", "greet.yaml", "--steps", str(STEPS), "--input", "@input.yaml", "--label", "team=red")
    assert report["execution_id"].startswith("r_")
    assert report == {**shop.json("runs", "show", report["execution_id"]), "joined": False}
    assert (report["status"], report["output"], report["error"]) == ("completed", {"said": "Hello you"}, None)
    assert report["labels"] == {"team": "red"}


def test_members_of_the_input_are_given_one_by_one(shop: Shop) -> None:
    shop.write("greet.yaml", GREET)
    report = shop.json("run", "greet.yaml", "name=7", "--steps", str(STEPS), "--input", '{"name": "you", "more": 1}')
    assert (report["input"], report["output"]) == ({"name": "7", "more": 1}, {"said": "Hello 7"})


def test_only_how_it_ended_is_shown_when_nobody_watches(shop: Shop) -> None:
    shop.write("greet.yaml", GREET)
    finished = shop.run("run", "greet.yaml", "--steps", str(STEPS), "--input", '{"name": "you"}', "--no-watch")
    lines = finished.stdout.splitlines()
    assert lines[0].startswith("completed in ")
    assert lines[1] == '  result   {"said": "Hello you"}'


def test_what_an_agent_calls_is_performed_with_it(shop: Shop) -> None:
    """The run that a call starts has an id, a model to ask and a timer of its own."""
    shop.write("penstock.yaml", SCRIPTED)
    shop.write("find_order.yaml", FIND_ORDER)
    shop.write("support.yaml", SUPPORT)
    given = ("--with", "find_order.yaml", "--input", '{"prompt": "Where is A-1?"}')
    report = shop.json("run", "support.yaml", *given)
    assert (report["status"], report["output"]) == ("completed", {"text": "It was sent."})
    [called] = [item for item in shop.json("runs", "list")["items"] if item["workflow_id"] == "find_order"]
    assert called["status"] == "completed"


def test_a_failed_run_ends_with_1_and_says_how_to_retry(shop: Shop) -> None:
    shop.write("refused.yaml", REFUSED)
    given = json.dumps({"marker": str(shop.folder / "marker")})
    finished = shop.run("run", "refused.yaml", "--steps", str(STEPS), "--input", given, "--run-id", "r1")
    assert finished.returncode == 1
    assert "failed at check after " in finished.stdout
    assert "NOT_READY: the marker is missing" in finished.stdout
    assert "  retry    penstock runs retry r1 --db penstock.db" in finished.stdout
    report = shop.json("run", "refused.yaml", "--steps", str(STEPS), "--input", given, "--run-id", "r1", code=1)
    assert (report["status"], report["joined"]) == ("failed", True)
    assert (report["error"]["code"], report["error"]["message"]) == ("NOT_READY", "the marker is missing")
    assert report["error"]["node_id"] == "check"


def test_a_run_that_asks_ends_with_3_where_there_is_no_terminal(shop: Shop) -> None:
    shop.write("approve.yaml", APPROVE)
    finished = shop.run("run", "approve.yaml", "--input", '{"name": "you"}', "--run-id", "r1", "--db", "my runs.db")
    assert finished.returncode == 3
    assert "waiting for a person · run r1" in finished.stdout
    assert "answer it   penstock runs answer r1 --db 'my runs.db' approve=true" in finished.stdout
    report = shop.json("run", "approve.yaml", "--run-id", "r1", "--db", "my runs.db", code=3)
    [question] = report["waiting_for"]["questions"]
    assert (report["status"], question["node_id"], question["prompt"]) == ("waiting_input", "ask", "Greet you?")
    assert question["answer_schema"]["required"] == ["approve"]


def test_a_run_that_waits_for_a_signal_says_how_to_send_it(shop: Shop) -> None:
    shop.write("signalled.yaml", SIGNALLED)
    finished = shop.run("run", "signalled.yaml", "--run-id", "r1")
    assert finished.returncode == 3
    assert "signal it   penstock runs signal r1 go_ahead --db penstock.db" in finished.stdout


def test_a_detached_run_is_started_and_left_to_a_worker(shop: Shop) -> None:
    shop.write("greet.yaml", GREET)
    finished = shop.run("run", "greet.yaml", "--input", '{"name": "you"}', "--run-id", "r1", "--detach")
    assert finished.returncode == 3
    assert "run r1 is started" in finished.stdout
    assert "penstock runs watch r1 --db penstock.db" in finished.stdout
    assert "no worker is running; start  penstock server worker --db penstock.db" in finished.stdout
    assert shop.json("runs", "show", "r1")["status"] == "waiting_activity"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("missing.yaml",), "missing.yaml: No such file or directory"),
        (("greet.yaml", "--input", "{"), "is not JSON"),
        (("greet.yaml", "--input", "{}"), "INPUT_INVALID"),
        (("greet.yaml", "you"), "arguments are KEY=VALUE, not 'you'; --input takes JSON"),
        (("greet.yaml", "name=you", "--input", "1"), "--input takes a JSON object"),
        (("greet.yaml", "--label", "red"), "--label takes KEY=VALUE"),
        (("greet.yaml", "--steps", "nothing.py"), "there is no file nothing.py"),
        (("greet.yaml", "--steps", "no.such.module"), "there is no module no.such.module"),
        (("greet.yaml", "--secret-file", "nowhere"), "nowhere is not a folder"),
        (("broken.yaml",), "broken.yaml has mistakes"),
        (("greet.yaml", "--nonsense"), "No such option"),
    ],
)
def test_what_cannot_be_used_ends_with_2(shop: Shop, arguments: tuple[str, ...], told: str) -> None:
    shop.write("greet.yaml", GREET)
    shop.write("broken.yaml", GREET.replace("done, type: end", "done, type: ned"))
    finished = shop.run("run", *arguments)
    assert (finished.returncode, finished.stdout) == (2, "")
    assert told in finished.stderr
    assert "Traceback" not in finished.stderr


def test_a_run_of_another_workflow_is_not_joined(shop: Shop) -> None:
    shop.write("greet.yaml", GREET)
    shop.write("signalled.yaml", SIGNALLED)
    assert shop.run("run", "signalled.yaml", "--run-id", "r1").returncode == 3
    error = shop.json("run", "greet.yaml", "--input", '{"name": "you"}', "--run-id", "r1", code=2)
    assert error["ok"] is False
    assert "run r1 is a run of signalled, not of greet" in error["error"]["message"]


def test_ctrl_c_leaves_a_run_that_can_be_taken_up_again(shop: Shop) -> None:
    shop.write("gated.yaml", GATED)
    gate = shop.gate()
    given = json.dumps({"gate": str(gate.path)})
    with shop.start("run", "gated.yaml", "--steps", str(STEPS), "--input", given, "--run-id", "r1") as process:
        with gate.reached():
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=SECONDS_MAX)
        assert process.returncode == 130, output
    assert "left · the run is safe in penstock.db and continues where it was" in output
    again = f"penstock runs watch r1 --db penstock.db --steps {STEPS} --perform"
    assert f"  go on here         {again}" in output
    assert f"  in the background  penstock server worker --db penstock.db --steps {STEPS}" in output
    assert "Traceback" not in output
    with shop.start(*again.split()[1:]) as process:
        with gate.reached():
            pass
        output, _ = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 0, output
    assert gate.ledger()[-1] == "r1/work/1 1"


def test_a_killed_run_is_finished_by_a_worker(shop: Shop) -> None:
    shop.write("gated.yaml", GATED)
    gate = shop.gate()
    given = json.dumps({"gate": str(gate.path)})
    command = ("run", "gated.yaml", "--steps", str(STEPS), "--input", given, "--run-id", "r1")
    with shop.start(*command) as process, gate.reached():
        process.kill()
        process.wait(timeout=SECONDS_MAX)
    assert shop.json("runs", "show", "r1")["status"] == "waiting_activity"
    with shop.start("server", "worker", "--steps", str(STEPS)) as worker:
        with gate.reached():
            pass
        watched = shop.run("runs", "watch", "r1")
        assert watched.returncode == 0, watched.stdout + watched.stderr
        worker.send_signal(signal.SIGTERM)
        output, _ = worker.communicate(timeout=SECONDS_MAX)
    assert worker.returncode == 0, output
    assert "run_completed run_id=r1 workflow=gated" in output
    assert "completed in " in watched.stdout
    assert gate.ledger() == ["r1/work/1 1"]


def test_the_runs_of_other_workflows_are_left_alone(shop: Shop) -> None:
    """A run started with the steps of one workflow must not try, and fail, what belongs to others."""
    shop.write("greet.yaml", GREET)
    shop.write("signalled.yaml", SIGNALLED)
    assert shop.run("run", "greet.yaml", "--input", '{"name": "x"}', "--run-id", "other", "--detach").returncode == 3
    assert shop.run("run", "signalled.yaml", "--run-id", "mine").returncode == 3
    assert shop.json("runs", "show", "other")["status"] == "waiting_activity"


def test_a_run_goes_on_when_it_is_answered_from_another_process(shop: Shop) -> None:
    shop.write("approve.yaml", APPROVE)
    assert shop.run("run", "approve.yaml", "--input", '{"name": "you"}', "--run-id", "r1", "--detach").returncode == 3
    with shop.start("runs", "watch", "r1", "--perform", "--steps", str(STEPS)) as watching:
        read_until(watching, "waiting for a person")
        answered = shop.json("runs", "answer", "r1", "approve=true")
        output, _ = watching.communicate(timeout=SECONDS_MAX)
    assert answered["execution_id"] == "r1"
    assert watching.returncode == 0, output
    # Nobody had begun the activity when the answer asked for it, so its outcome is not in doubt.
    assert '{"said": "Hello you"}' in output


def test_the_command_line_is_a_module_too(shop: Shop) -> None:
    finished = shop.run("--version")
    assert (finished.returncode, finished.stderr) == (0, "")
    assert finished.stdout.startswith("penstock ")


def test_a_pipe_that_closes_early_is_no_disaster(shop: Shop) -> None:
    shop.write("greet.yaml", GREET)
    command = shop.command("run", "greet.yaml", "--steps", str(STEPS), "--input", '{"name": "you"}', "--run-id", "r1")
    with subprocess.Popen(
        command, cwd=shop.folder, env=shop.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.wait(timeout=SECONDS_MAX)
    assert shop.json("runs", "show", "r1")["status"] in {"completed", "waiting_activity"}


def test_a_run_is_started_as_the_user_of_the_machine_with_one_record_for_each_change(shop: Shop) -> None:
    shop.write("greet.yaml", GREET)
    command = ("run", "greet.yaml", "--steps", str(STEPS), "--input", '{"name": "you"}')
    for run_id in ("r1", "r2"):
        assert shop.run(*command, "--run-id", run_id).returncode == 0
    changes = ("workflow.create", "workflow.update", "workflow.import", "workflow.execute")
    trail = [entry for entry in shop.json("audit", "list")["items"] if entry["operation"] in changes]
    # The second run finds the workflow as it is: nothing is stored, and nothing is said.
    told = [(entry["operation"], entry["subject"]) for entry in reversed(trail)]
    assert told == [("workflow.create", "greet"), ("workflow.execute", "greet"), ("workflow.execute", "greet")]
    me = f"os:{pwd.getpwuid(os.getuid()).pw_name}"
    assert {(entry["principal"], entry["surface"], entry["outcome"]) for entry in trail} == {(me, "cli", "allowed")}
    [started, *_] = shop.json("runs", "history", "r1")["items"]
    assert started["payload"]["startedBy"] == me
