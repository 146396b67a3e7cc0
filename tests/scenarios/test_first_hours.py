"""The first hours: what people try who have read only the README, and what they are told."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import penstock
from penstock import Penstock, PenstockError
from penstock.app.gate import local_owner, open_gate
from penstock.cli.main import app
from penstock.operations.catalogue.capability import Reply
from penstock.operations.gate.context import Request
from penstock.operations.gate.pipeline import AnsweredCall
from tests.live.cli.processes import GREET, STEPS, Shop
from tests.waiting import SECONDS_MAX

PARENT = """\
penstock: v1
name: parent
nodes:
  - {id: each, type: for_each, items: '["a", "b"]', as: item, nodes: [
      {id: inner, type: step, handler: "steps:greet", with: {name: "${ .item }"}}]}
  - {id: child, type: subworkflow, workflow: greet, input: {name: you}}
  - {id: page, type: http, url: "http://127.0.0.1:9/${ .input.who }", on_error: {next: sorry}, next: done}
  - {id: sorry, type: fail, code: NO_PAGE, message: there is no page}
  - {id: done, type: end, output: {said: "${ .child.said }"}}
"""


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    made = Shop(tmp_path)
    (tmp_path / "flows").mkdir()
    made.write("penstock.yaml", "workflows: {paths: [flows]}\nsteps: {modules: [steps.py]}\n")
    made.write("steps.py", STEPS.read_text(encoding="utf-8"))
    made.write("flows/greet.yaml", GREET)
    made.write("flows/parent.yaml", PARENT)
    return made


def test_a_workflow_of_the_project_is_run_by_its_name(shop: Shop) -> None:
    ran = shop.run("run", "greet", "--input", '{"name": "Ada"}')
    assert (ran.returncode, "Hello Ada" in ran.stdout) == (0, True), ran.stderr
    misspelt = shop.run("run", "great")
    assert (misspelt.returncode, "did you mean `greet`?" in misspelt.stderr) == (2, True)


def test_a_run_shows_item_numbers_filled_in_addresses_and_child_runs_and_is_retried_from_what_failed(
    shop: Shop,
) -> None:
    ran = shop.run("run", "parent", "--input", '{"who": "ada"}', "--run-id", "r1")
    assert ran.returncode == 1, ran.stderr
    lines = ran.stdout.splitlines()
    assert [line.split("  ")[2] for line in lines if "inner" in line and "gave" in line] == [
        '#1 step gave {"text": "Hello a"}',
        '#2 step gave {"text": "Hello b"}',
    ]
    assert any("http http://127.0.0.1:9/ada" in line for line in lines)
    assert "${" not in ran.stdout
    assert "r1:sub:child  greet  completed" in shop.run("runs", "show", "r1").stdout
    retried = shop.json("runs", "retry", "r1", "--run-id", "r2")
    records = [json.dumps(record) for record in shop.json("runs", "history", "r2")["items"]]
    assert retried["status"] == "waiting_activity"
    assert '"nodeId": "page"' in records[-1]


def test_a_document_that_ends_a_run_by_its_own_word_has_nothing_to_retry(shop: Shop) -> None:
    shop.write(
        "flows/stop.yaml",
        "penstock: v1\nname: stop\nnodes:\n"
        "  - {id: which, type: switch, cases: [{when: .input.fine, next: done}], default: 'no'}\n"
        "  - {id: 'no', type: fail, code: NO, message: never}\n  - {id: done, type: end}\n",
    )
    assert shop.run("run", "stop", "--run-id", "s1").returncode == 1
    refused = shop.run("runs", "retry", "s1")
    assert (refused.returncode, "no failure led there" in refused.stderr) == (6, True)


def test_a_missing_secret_and_an_unknown_function_are_said_before_a_run_begins(shop: Shop) -> None:
    shop.write(
        "flows/odd.yaml",
        "penstock: v1\nname: odd\nsecrets: [KEY]\nnodes:\n"
        '  - {id: a, type: step, handler: "steps:great", with: {name: "${secret:KEY}"}}\n  - {id: done, type: end}\n',
    )
    told = shop.run("run", "odd").stderr
    assert "set the variable PENSTOCK_SECRET_KEY" in told
    assert "did you mean `steps:greet`?" in told


@pytest.mark.anyio
async def test_a_misspelt_scope_is_taken_with_a_warning_that_names_the_one_that_is_meant(tmp_path: Path) -> None:
    async with Penstock.open(tmp_path / "penstock.db", perform=False) as opened, open_gate(opened) as gate:
        for scope, meant in (("workflow:raed", "workflow:read"), ("workflow:*", None)):
            request = Request(
                operation="key.create",
                arguments={"name": "k", "scopes": [scope]},
                principal=local_owner(),
                surface="cli",
                request_id="test",
            )
            outcome = await gate.call(request)
            assert isinstance(outcome, AnsweredCall), scope
            assert isinstance(outcome.reply, Reply)
            told = " ".join(outcome.reply.value.warnings)
            assert (meant in told) if meant else not told


@pytest.mark.anyio
async def test_a_run_prints_as_one_short_line_and_signals_say_who_sent_them(tmp_path: Path) -> None:
    async with Penstock.open(tmp_path / "penstock.db") as opened:
        await opened.register(
            "penstock: v1\nname: w\nnodes:\n  - {id: go, type: wait, signal: go}\n  - {id: done, type: end}\n"
        )
        run = await opened.start("w", run_id="r1")
        assert repr(run) == "Run(id='r1')"
        await run.signal("go", by="ada")
        await run.result(timeout_seconds=240)
        (sent,) = [record for record in await run.history() if "sentBy" in record.payload]
        assert sent.payload["sentBy"] == "ada"


def test_the_errors_of_the_package_are_public() -> None:
    for name in ("Conflict", "Denied", "LimitExceeded", "NotFound", "PenstockError", "Rejected", "Unavailable"):
        assert name in penstock.__all__
        assert issubclass(getattr(penstock, name), PenstockError)


def test_what_is_for_developers_of_penstock_is_not_in_the_help_of_users() -> None:
    program = "import sys; from penstock.cli.main import main; sys.argv = ['penstock', '--help']; main()"
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=SECONDS_MAX
    )
    assert "server" in shown.stdout
    assert "coverage" not in shown.stdout


def test_a_key_given_in_the_place_of_a_variable_is_not_repeated() -> None:
    secret = "pen_abcdefghijkl_0123456789"
    told = CliRunner().invoke(app, ["mcp", "tools", "--url", "http://127.0.0.1:9/mcp", "--key-env", secret]).output
    assert "the name of a variable" in told
    assert secret not in told
    unset = CliRunner().invoke(app, ["mcp", "tools", "--url", "http://127.0.0.1:9/mcp", "--key-env", "NO_KEY_HERE"])
    assert "export NO_KEY_HERE=" in unset.output


MODELS = """\
workflows: {paths: [flows]}
steps: {modules: [steps.py]}
models: {writer: {provider: mock, replies: [hello]}}
"""


def test_a_misspelt_model_fails_with_the_one_that_is_meant(shop: Shop) -> None:
    shop.write("penstock.yaml", MODELS)
    shop.write(
        "flows/ask.yaml",
        "penstock: v1\nname: ask\nnodes:\n  - {id: write, type: llm_call, model: writter, prompt: Hi}\n"
        "  - {id: done, type: end}\n",
    )
    ran = shop.run("run", "ask")
    assert (ran.returncode, "UNKNOWN_MODEL" in ran.stderr) == (1, True), ran.stderr
    assert "there is no model writter; did you mean `writer`?" in ran.stdout
