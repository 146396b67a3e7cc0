"""Every template of `penstock init` works out of the box: each command of its README runs in an empty folder."""

import re
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from penstock.cli.project.templates import TEMPLATES, project_files
from tests.live.cli.processes import Shop, read_until
from tests.live.cli.terminals import at_terminal, program_at_terminal
from tests.waiting import wait_until

# What one can type where a command asks, and what somebody who agrees types there.
ANSWERS = {"[approve/decline]: ": "approve", "(may be left out): ": ""}
# Calls that a person has to approve, and that nobody approves here.
_WAITS = ("--no-input", """close_task 'params={"slug": "renew-acme"}'""")
# What each README promises, in what its commands print.
PROMISES = {
    "approval": ['{"refunded":180.0', "5 passed", "waiting_approval", "mcpServers"],
    "agent": ["Order A-7 was lost on its way", "6 passed", "workflow:refund_order"],
    "api": ['{"ordered":["tea","sugar"]}', "4 passed", '{"status":200,"body":[]}', "pinned"],
    "graph": ["9 entities on main", '"row_count":2', '"branch":"review/call-acme"', "4 of 4 cases hold", "Close task"],
}
_API_PORT = "8099"
_LINES_MAX = 45
_WIDTH_MAX = 140


def readme_commands(text: str) -> list[str]:
    """The commands of all shell blocks, without the remarks behind them."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [re.sub(r"\s{2,}# .*$", "", line).strip() for line in lines if line.strip()]


def made(shop: Shop, template: str) -> Shop:
    """A project of the template, as `penstock init` leaves it."""
    assert shop.json("init", "shop", "--template", template)["template"] == template
    programs = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    return Shop(shop.folder / "shop", {"PATH": programs, "HOME": str(shop.folder), "COLUMNS": "400"})


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_command_of_a_readme_runs_in_a_new_project(template: str, shop: Shop) -> None:
    project = made(shop, template)
    _use_free_port(project.folder)
    commands = readme_commands((project.folder / "README.md").read_text(encoding="utf-8"))
    printed = ""
    with ExitStack() as stack:
        for command in commands:
            if command.endswith("&"):
                stack.enter_context(_in_background(project, command))
            elif command == "penstock dev":
                _serve_once(project)
            elif command == "penstock agent chat support":
                printed += _chat(project)
            else:
                with program_at_terminal(project, "bash", "-c", command) as terminal:
                    code = terminal.end_answering(ANSWERS)
                    printed += terminal.seen
                assert code == (3 if command.endswith(_WAITS) else 0), f"{command}\n{terminal.seen}"
    assert "is now `penstock" not in printed, "a README has the present names of commands"
    assert [promise for promise in PROMISES[template] if promise not in printed] == [], printed


def _in_background(project: Shop, command: str) -> "_Background":
    return _Background(project, command.removesuffix("&").strip())


class _Background:
    """A server of the project that goes on beside the commands after it."""

    def __init__(self, project: Shop, command: str) -> None:
        self._opened = program_at_terminal(project, "bash", "-c", f"exec {command}")
        self._port = _port_in(project.folder)

    def __enter__(self) -> None:
        self._opened.__enter__()
        wait_until(lambda: _answers(self._port))

    def __exit__(self, *_: object) -> None:
        self._opened.__exit__(None, None, None)


def _answers(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def _use_free_port(folder: Path) -> None:
    """Tests run side by side, so that each has a port of its own."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = str(unused.getsockname()[1])
    for path in folder.rglob("*.*"):
        if path.is_file():
            path.write_text(path.read_text(encoding="utf-8").replace(_API_PORT, port), encoding="utf-8")


def _port_in(folder: Path) -> int:
    return int(re.findall(r'"127\.0\.0\.1", (\d+)', (folder / "stock_api.py").read_text(encoding="utf-8"))[0])


def _serve_once(project: Shop) -> None:
    with project.start("dev", "--port", "0") as server:
        read_until(server, "Ctrl-C stops it")
        server.send_signal(signal.SIGINT)
        assert server.wait() == 0


def _chat(project: Shop) -> str:
    with at_terminal(project, "agent", "chat", "support") as terminal:
        for message in ("Where is my order?", "And my money?"):
            terminal.expect("\n> ")
            terminal.type(f"{message}\n")
            terminal.expect("[approve/decline]: ")
            terminal.type("approve\n")
            terminal.expect("Order A-7 was lost on its way")
        terminal.expect("\n> ")
        terminal.type("/exit\n")
        assert terminal.end() == 0
        return terminal.seen


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_new_project_is_valid_and_passes_its_own_tests(template: str, shop: Shop) -> None:
    project = made(shop, template)
    validated = project.json("validate")
    assert (validated["ok"], [item["findings"] for item in validated["files"] if item["findings"]]) == (True, [])
    assert project.json("config", "validate")["ok"]
    assert project.run("test", "workflows").returncode == 0


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_readme_is_one_screen_that_begins_with_the_commands_to_try(template: str) -> None:
    readme = project_files(template)["README.md"]
    lines = readme.splitlines()
    assert (len(lines) <= _LINES_MAX, max(map(len, lines)) <= _WIDTH_MAX) == (True, True)
    advised = [command for command, _ in TEMPLATES[template].next if command != "penstock validate"]
    commands = readme_commands(readme)
    assert [command for command in advised if command not in commands] == []
    assert commands[0] == advised[0]


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_file_that_init_explains_is_in_the_project_and_its_readme(template: str) -> None:
    files = project_files(template)
    assert [path for path in TEMPLATES[template].about if path not in files] == []
    assert [path for path in TEMPLATES[template].about if f"`{path}`" not in files["README.md"]] == []


def test_a_refund_that_waited_in_another_process_ends_with_the_scripted_model(shop: Shop) -> None:
    project = made(shop, "agent")
    call = ("mcp", "call", "support", "prompt=My order never arrived.", "--no-input")
    assert project.run(*call).returncode == 3
    [waiting] = [item for item in project.json("runs", "list")["items"] if item["status"] == "waiting_approval"]
    assert project.run("runs", "answer", waiting["execution_id"], "approved=true").returncode == 0
    watched = project.run("runs", "watch", waiting["execution_id"], "--perform")
    assert (watched.returncode, "Order A-7 was lost on its way" in watched.stdout) == (0, True), watched.stdout


def prompts_of(shop: Shop, *typed: str) -> Iterator[str]:
    with at_terminal(shop, "init", "shop") as terminal:
        for answer in typed:
            yield terminal.expect("Template [approval]: ")
            terminal.type(f"{answer}\n")
        yield str(terminal.end())
        yield terminal.seen


def test_a_terminal_is_asked_for_the_template_and_enter_takes_the_default(shop: Shop) -> None:
    asked, code, seen = prompts_of(shop, "")
    assert all(template.title in asked for template in TEMPLATES.values())
    assert (code, "workflows/refund.yaml" in seen) == ("0", True)


def test_a_template_can_be_chosen_by_number_or_name_and_nothing_else(shop: Shop) -> None:
    _, again, code, seen = prompts_of(shop, "soup", "4")
    assert "type a number from 1 to 4, or a name" in again
    assert (code, (shop.folder / "shop" / "schema.pg").exists()) == ("0", True), seen


def test_without_a_terminal_nothing_is_asked_and_the_default_is_made(shop: Shop) -> None:
    assert shop.json("init", "shop")["template"] == "approval"
    listed = shop.json("init", "--list-templates")["templates"]
    assert [(item["name"], item["default"]) for item in listed] == [
        ("approval", True),
        ("agent", False),
        ("api", False),
        ("graph", False),
    ]
    assert "approval  a refund that waits until a person approves it (default)" in shop.run(
        "init", "--list-templates"
    ).stdout.replace("   ", "  ")


def test_an_unknown_template_is_refused_with_the_close_one(shop: Shop) -> None:
    refused = shop.run("init", "shop", "--template", "agnet")
    assert (refused.returncode, "did you mean `agent`?" in refused.stderr) == (2, True), refused.stderr
    assert not (shop.folder / "shop").exists()
