"""`penstock mcp tools|call|doctor` on a real server and through a pipe, with and without a terminal."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli.main import app
from penstock.cli.project.init import create_project
from tests.live.cli.processes import Shop
from tests.live.cli.terminals import at_terminal
from tests.live.mcp.workflows import ALL
from tests.live.rest.servers import LiveServer
from tests.live.test_command_line import Place


class LiveShop(Shop):
    """A folder for commands that use the SDK, which is compiled already where it is installed."""

    def environment(self) -> dict[str, str]:
        return {name: value for name, value in super().environment().items() if name != "PYTHONPYCACHEPREFIX"}


@pytest.fixture(scope="module")
def server(plain_server: LiveServer) -> LiveServer:
    """A server with the workflows."""
    return plain_server


@pytest.fixture
def place(server: LiveServer, tmp_path: Path) -> Place:
    """A folder with an empty home, and the server."""
    variables = {"PENSTOCK_API_KEY": server.key, "HOME": str(tmp_path)}
    return Place(tmp_path, ("--server", server.url), variables)


def told(place: Place, *arguments: str, code: int = 0) -> Any:
    """What a command prints for programs."""
    return json.loads(place.run("mcp", *arguments, "--json", code=code))


def test_tools_are_listed_with_their_sizes(place: Place) -> None:
    listed = place.run("mcp", "tools")
    assert "greet " in listed
    assert "Greet somebody" in listed
    report = told(place, "tools")
    assert report["protocol_version"] == "2026-07-28"
    assert report["bytes"] == sum(tool["bytes"] for tool in report["tools"])
    assert report["tokens"] == -(-report["bytes"] // 4)


def test_a_toolset_lists_fewer_tools(place: Place) -> None:
    assert [tool["name"] for tool in told(place, "tools", "--toolset", "greet,nap")["tools"]] == ["greet", "nap"]
    assert "names of tools" in place.run("mcp", "tools", "--toolset", "nonsense")


def test_a_tool_is_shown_in_full(place: Place) -> None:
    shown = place.run("mcp", "tools", "greet")
    assert "Who is greeted." in shown
    assert "one of formal, friendly" in shown
    assert "did you mean greet?" in place.run("mcp", "tools", "gret", code=2)


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_a_tool_is_called_with_arguments_as_its_schema_wants_them(place: Place, era: str) -> None:
    assert '{"text":"Hello, 42"}' in place.run("mcp", "call", "greet", "name=42", "--era", era)
    report = told(place, "call", "greet", "--arguments", '{"name": "Ada"}', "--era", era)
    assert report["ok"] is True
    assert report["result"]["structuredContent"]["output"] == {"text": "Hello, Ada"}
    assert (report["protocol_version"] == "2026-07-28") == (era == "modern")


def test_an_error_of_a_tool_is_told_and_the_command_fails(place: Place) -> None:
    for arguments, error in ((("stumble",), "it fell over"), (("greet",), "must have required property 'name'")):
        report = told(place, "call", *arguments, code=1)
        assert report["ok"] is False
        assert error in report["result"]["content"][0]["text"]
        assert place.run("mcp", "call", *arguments, code=1) == ""  # nothing but errors, on standard error


def test_a_tool_that_is_not_there_is_named_with_the_one_that_may_be_meant(place: Place) -> None:
    assert "did you mean refund_order?" in place.run("mcp", "call", "refund_ordr", code=5)


def test_an_argument_that_is_not_there_is_named_with_the_one_that_may_be_meant(place: Place) -> None:
    result = CliRunner().invoke(app, ["mcp", "call", "greet", "nam=Ada", *place.where], env=place.environment())
    assert "did you mean name?" in result.stderr


def test_without_a_terminal_a_question_is_told_with_how_to_answer_it(place: Place, server: LiveServer) -> None:
    task = told(place, "call", "refund_order", "order=A-1", code=3)["task"]
    place.run("runs", "answer", task, "approved=true")
    ended = server.call("GET", f"executions/{task}/wait?wait_seconds=240")
    assert ended["output"]["approved"] is True
    shown = place.run("mcp", "call", "refund_order", "order=A-1", code=3)
    assert "asks   May I refund this order?" in shown
    assert "penstock runs answer" in shown


@pytest.mark.parametrize("era", ["auto", "legacy"])
def test_questions_are_asked_at_the_terminal(server: LiveServer, tmp_path: Path, era: str) -> None:
    call = ("mcp", "call", "refund_order", "order=A-1", "--era", era, "--url", f"{server.url}/mcp")
    with at_terminal(LiveShop(tmp_path), *call, "--header", f"Authorization: Bearer {server.key}") as terminal:
        terminal.expect("May I refund this order?")
        terminal.expect("Your decision [approve/decline]: ")
        terminal.type("maybe\n")
        terminal.expect("nothing is decided yet")
        terminal.type("y\n")
        terminal.expect("reason (may be left out): ")
        terminal.type("broken\n")
        terminal.expect('{"approved":true,"reason":"broken"}')
        assert terminal.end() == 0


def test_a_file_is_served_through_a_pipe(tmp_path: Path) -> None:
    for document in ALL:
        (tmp_path / f"{document['name']}.json").write_text(json.dumps(document), encoding="utf-8")
    local = Place(tmp_path, ("--db", "penstock.db", "--workflows", "."), {"HOME": str(tmp_path)})
    assert local.run("mcp", "call", "greet", "name=Ada") == '{"text":"Hello, Ada"}\n'


@pytest.mark.parametrize(("decision", "printed"), [("approve", '"refunded":180.0'), ("decline", '"refunded":0')])
def test_an_approval_of_a_project_is_asked_at_the_terminal(tmp_path: Path, decision: str, printed: str) -> None:
    create_project(tmp_path, force=False)
    call = ("mcp", "call", "refund_order", "order_id=A-7", "amount=180")
    with at_terminal(LiveShop(tmp_path), *call) as terminal:
        terminal.expect("[approve/decline]: ")
        terminal.type(f"{decision}\n")
        terminal.expect("(may be left out): ")
        terminal.type("\n")
        terminal.expect(printed)
        assert terminal.end() == 0


def test_an_approval_that_nobody_gives_at_the_terminal_can_be_given_elsewhere(tmp_path: Path) -> None:
    create_project(tmp_path, force=False)
    shop = LiveShop(tmp_path)
    call = ("mcp", "call", "refund_order", "order_id=A-7", "amount=180")
    with at_terminal(shop, *call) as terminal:
        run_id = "r_" + terminal.expect("[approve/decline]: ").partition("task r_")[2].split()[0]
        answered = shop.run("runs", "answer", run_id, "approve=true")
        assert answered.returncode == 0, answered.stderr
        terminal.expect('"refunded":180.0')
        assert terminal.end() == 0


def statuses(report: Any) -> dict[str, str]:
    return {check["name"]: check["status"] for check in report["checks"]}


def test_a_connection_that_is_well(place: Place, server: LiveServer) -> None:
    entry = {"mcpServers": {"penstock": {"url": f"{server.url}/mcp"}}}
    (place.folder / ".cursor").mkdir()
    (place.folder / ".cursor" / "mcp.json").write_text(json.dumps(entry), encoding="utf-8")
    report = told(place, "doctor")
    assert report["ok"] is True
    names = ("address", "host", "key", "clock", "connect", "tools", "call", "handshake", "clients")
    assert statuses(report) == dict.fromkeys(names, "ok")
    shown = place.run("mcp", "doctor")
    assert "2025-11-25" in shown
    assert "points to this server" in shown
    assert "all is well" in shown


def test_a_key_that_is_wrong_or_missing_is_told_apart(place: Place, server: LiveServer) -> None:
    for key, advice in (("pen_wrong", "penstock key create"), ("", "PENSTOCK_API_KEY")):
        other = Place(place.folder, place.where, {**place.variables, "PENSTOCK_API_KEY": key})
        report = told(other, "doctor", code=1)
        assert statuses(report)["key"] == "fail"
        assert "connect" not in statuses(report)
        assert advice in next(check["what_to_do"] for check in report["checks"] if check["name"] == "key")


def test_a_server_that_is_not_there_and_one_that_knows_another_name(place: Place, server: LiveServer) -> None:
    nowhere = Place(place.folder, ("--server", "http://127.0.0.1:1"), place.variables)
    assert "nobody listens there" in nowhere.run("mcp", "doctor", code=1)
    misnamed = Place(place.folder, ("--url", f"{server.url}/mcp", "--header", "Host: other.example"), place.variables)
    report = told(misnamed, "doctor", code=1)
    assert statuses(report)["host"] == "fail"
    assert "penstock mcp doctor" in nowhere.run("mcp", "call", "greet", code=8)
    elsewhere = Place(place.folder, ("--url", f"{server.url}/api/v0"), place.variables)
    assert statuses(told(elsewhere, "doctor", code=1))["path"] == "fail"


def test_a_program_that_is_no_server(tmp_path: Path) -> None:
    other = Place(tmp_path, ("--", "cat"), {"HOME": str(tmp_path)})
    assert statuses(told(other, "doctor", code=1))["connect"] == "fail"
    missing = Place(tmp_path, ("--", "nosuchprogram"), {"HOME": str(tmp_path)})
    assert "nosuchprogram cannot be started" in missing.run("mcp", "tools", code=8)
    bridge = ("--", sys.executable, "-m", "penstock", "mcp", "--server", "http://127.0.0.1:1")
    leads_nowhere = Place(tmp_path, bridge, {"HOME": str(tmp_path), "PENSTOCK_API_KEY": "pen_any"})
    assert "127.0.0.1:1/mcp cannot be reached" in leads_nowhere.run("mcp", "tools", code=8)


def test_whoever_starts_it_at_a_terminal_is_told_whom_it_is_for(tmp_path: Path) -> None:
    with at_terminal(LiveShop(tmp_path), "mcp") as terminal:
        terminal.expect("This command is for assistants")
        terminal.type("\x04")
        assert terminal.end() == 0


def test_options_before_the_name_of_a_command_are_refused(place: Place) -> None:
    shown = Place(place.folder, (), place.variables).run("mcp", "--toolset", "all", "tools", code=2)
    assert "--toolset must stand after tools" in shown
