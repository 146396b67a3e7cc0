"""A project as a whole: documents are checked against it, and one bad file does not keep the others from working."""

import json
import signal
from pathlib import Path

import pytest

from tests.live.cli.processes import GREET, STEPS, Shop, read_until
from tests.waiting import SECONDS_MAX

SETTINGS = """\
workflows: {paths: [flows]}
steps: {modules: [steps.py]}
mcp_servers: {shop: {url: "http://127.0.0.1:9/mcp"}}
models: {writer: {provider: mock, replies: []}, painter: {provider: mock, replies: []}}
secrets: {PAY_KEY: {env: SHOP_PAY_KEY}}
server: {port: 0}
"""
HEAD = "penstock: v1\nname: odd\n"
END = "  - {id: done, type: end}\n"
GREETS = '  - {id: hello, type: step, handler: "steps:greet", with: {name: you}}\n'
# What a document says, and what is found in it: the line, the code, and a word of the hint.
MISTAKES = {
    "cron": ('triggers: [{schedule: {cron: "61 * * * *"}}]\nnodes:\n', 3, "SCHEDULE_INVALID", "five fields"),
    "zone": (
        'triggers: [{schedule: {cron: "0 9 * * *", timezone: Europe/Berlinn}}]\nnodes:\n',
        3,
        "SCHEDULE_INVALID",
        "Europe/Berlin",
    ),
    "handler": ('nodes:\n  - {id: hello, type: step, handler: "steps:great"}\n', 4, "UNKNOWN_HANDLER", "`steps:greet`"),
    "missing argument": (
        'nodes:\n  - {id: hello, type: step, handler: "steps:greet"}\n',
        4,
        "MISSING_ARGUMENT",
        "add `name`",
    ),
    "unknown argument": (
        'nodes:\n  - {id: hello, type: step, handler: "steps:greet", with: {nam: you, name: you}}\n',
        4,
        "UNKNOWN_ARGUMENT",
        "`name`",
    ),
    "argument of another kind": (
        'nodes:\n  - {id: hello, type: step, handler: "steps:greet", with: {name: 7}}\n',
        4,
        "ARGUMENT_MISFIT",
        "",
    ),
    "undo": (
        'nodes:\n  - {id: hello, type: step, handler: "steps:greet", with: {name: you},\n'
        '     compensate: {handler: "steps:ungreet"}}\n',
        5,
        "UNKNOWN_HANDLER",
        "steps:",
    ),
    "workflow": ("nodes:\n  - {id: child, type: subworkflow, workflow: great}\n", 4, "UNKNOWN_WORKFLOW", "`greet`"),
    "model": ("nodes:\n  - {id: write, type: llm_call, model: writter, prompt: Hi}\n", 4, "UNKNOWN_MODEL", "`writer`"),
    "server": ("nodes:\n  - {id: call, type: tool_call, server: shpo, tool: x}\n", 4, "UNKNOWN_SERVER", "`shop`"),
    "agent": ("nodes:\n  - {id: ask, type: agent_delegate, agent_id: ada}\n", 4, "UNKNOWN_AGENT", "`agents`"),
    "secret": (
        "secrets: [PAY_KEY]\nnodes:\n"
        '  - {id: call, type: http, url: "https://x.example", headers: {a: "${secret:PAY_KEY}"}}\n',
        3,
        "SECRET_NOT_SET",
        "SHOP_PAY_KEY",
    ),
}


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    made = Shop(tmp_path)
    (tmp_path / "flows").mkdir()
    made.write("penstock.yaml", SETTINGS)
    made.write("steps.py", STEPS.read_text(encoding="utf-8"))
    made.write("flows/greet.yaml", GREET)
    return made


@pytest.mark.parametrize("name", MISTAKES)
def test_a_document_is_checked_against_its_project(shop: Shop, name: str) -> None:
    document, line, code, hint = MISTAKES[name]
    shop.write("flows/odd.yaml", HEAD + document + END)
    told = json.loads(shop.run("validate", "--json", "--strict").stdout)
    assert not told["ok"]
    (file,) = (item for item in told["files"] if item["file"] == "flows/odd.yaml")
    (finding,) = file["findings"]
    assert (finding["code"], finding["line"]) == (code, line)
    assert hint in finding.get("hint", "")
    alone = json.loads(shop.run("validate", "flows/odd.yaml", "--alone", "--json", "--strict").stdout)
    assert alone["ok"], alone


def test_a_project_without_mistakes_is_fine_and_its_files_need_not_be_named(shop: Shop) -> None:
    checked = shop.run("validate")
    assert (checked.returncode, "flows/greet.yaml: ok" in checked.stdout) == (0, True), checked.stdout + checked.stderr
    shop.write("steps.py", "import nothing_like_that\n")
    broken = shop.run("validate")
    assert (broken.returncode, "STEPS_BROKEN" in broken.stderr) == (1, True)


def test_one_bad_file_is_quarantined_with_its_place_and_the_others_are_served(shop: Shop) -> None:
    shop.write("flows/bad.yaml", GREET.replace("name: greet\n", "name: bad\n").replace("type: end", "type: ned"))
    shop.write("flows/late.yaml", HEAD + 'triggers: [{schedule: {cron: "61 * * * *"}}]\nnodes:\n' + END)
    (shop.folder / "flows" / "noise.yaml").write_bytes(b"penstock: \xff\xfe")
    shop.write("flows/lost.yaml", HEAD.replace("odd", "lost") + MISTAKES["handler"][0] + END)
    with shop.start("server", "worker", "--json") as worker:
        lines = [json.loads(line) for line in read_until(worker, '"workflow":"lost"').splitlines()]
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=SECONDS_MAX)
    assert worker.returncode == 0
    bad = {line["file"]: line["code"] for line in lines if line["event"] == "workflow_quarantined"}
    assert bad == {
        "flows/bad.yaml:7:16": "UNKNOWN_NODE_TYPE",
        "flows/late.yaml:3:24": "SCHEDULE_INVALID",
        "flows/noise.yaml": "UNREADABLE_FILE",
    }
    (incomplete,) = (line for line in lines if line["event"] == "workflow_incomplete")
    assert (incomplete["code"], "steps:greet" in incomplete["what_to_do"]) == ("UNKNOWN_HANDLER", True)
    assert [line["workflow"] for line in lines if line["event"] == "workflow_known"] == ["greet", "lost"]


def test_a_secret_that_is_missing_is_named_with_its_variable_when_a_server_starts(shop: Shop) -> None:
    shop.write("flows/odd.yaml", HEAD + MISTAKES["secret"][0] + END)
    with shop.start("serve", "--json") as server:
        told = json.loads(read_until(server, "SECRET_NOT_SET").splitlines()[-1])
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=SECONDS_MAX)
    assert "the variable SHOP_PAY_KEY" in told["what_to_do"]
    assert told["file"].startswith("flows/odd.yaml:3:")
