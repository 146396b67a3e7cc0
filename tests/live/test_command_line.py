"""The commands of the catalogue: the same on a server, through a profile, and on a file."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli.main import app
from tests.live.rest.servers import LiveServer
from tests.waiting import SECONDS_MAX

WORKFLOW = """\
penstock: v1
name: take_order
input: {type: object, properties: {id: {type: string}}}
nodes:
  - {id: go, type: wait, signal: go_ahead}
  - {id: done, type: end, output: {order: "${ .input.id }", got: "${ .go }"}}
"""


@dataclass(frozen=True)
class Place:
    """A folder to run commands in, and where they work."""

    folder: Path
    where: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK")}
        settings = {"XDG_CONFIG_HOME": str(self.folder / "config"), "NO_COLOR": "1", "COLUMNS": "160"}
        return {**kept, **settings, **self.variables}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """A command in a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "penstock", *arguments, *self.where],
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, code: int = 0) -> str:
        """What a command prints; it must end with a code."""
        cleared = {name: None for name in os.environ if name.startswith("PENSTOCK")}
        with chdir(self.folder):
            result = CliRunner().invoke(app, [*arguments, *self.where], env={**cleared, **self.environment()})
        assert result.exit_code == code, result.output
        return result.stdout if code in (0, 1, 3) else result.output

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self.run(*arguments, "--json", code=code))


@pytest.fixture(scope="module", params=["server", "profile", "file"])
def place(request: pytest.FixtureRequest, server: LiveServer, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Where the commands work; the workflow is there, under a name of its own."""
    folder: Path = tmp_path_factory.mktemp(request.param)
    if request.param == "server":
        found = Place(folder, ("--server", server.url), {"PENSTOCK_API_KEY": server.key})
    elif request.param == "profile":
        (folder / "key").write_text(server.key + "\n", encoding="utf-8")
        (folder / "key").chmod(0o600)
        found = Place(folder, ())
        found.run(
            "config", "profile", "add", "here", "--server", server.url, "--key-file", str(folder / "key"), "--use"
        )
    else:
        found = Place(folder, ("--db", "orders.db"))
    # Another one each time: a worker that is given tests of another makes a place again, beside the same server.
    name = f"take_order_{request.param}_{secrets.token_hex(4)}"
    (folder / "order.yaml").write_text(WORKFLOW.replace("take_order", name), encoding="utf-8")
    found.run("workflow", "create", "--file", "order.yaml")
    return Place(folder, found.where, {**found.variables, "NAME": name})


def test_a_workflow_is_listed_shown_checked_and_exported(place: Place) -> None:
    name = place.variables["NAME"]
    assert name in place.run("workflow", "list")
    assert place.json("workflow", "get", name)["id"] == name
    assert f"id: {name}" in place.run("workflow", "get", name)
    assert place.json("workflow", "validate", "--file", "order.yaml")["valid"] is True
    (place.folder / "broken.yaml").write_text("penstock: v1\nname: x\nnodes: []\n", encoding="utf-8")
    assert place.json("workflow", "validate", "--file", "broken.yaml", code=1)["valid"] is False
    bundle = place.json("workflow", "export", "--prefix", name)
    (place.folder / "bundle.json").write_text(json.dumps(bundle), encoding="utf-8")
    assert place.json("workflow", "import", "--workflows", "@bundle.json")["skipped"] == [name]


def test_an_execution_is_started_steered_and_listed(place: Place) -> None:
    name = place.variables["NAME"]
    execution_id = f"{name}.first"
    started = place.json(
        *("workflow", "execute", name, "--input", '{"id": "A-1"}', "--execution-id", execution_id),
        *("--labels", "team=a", "--labels", "day=1"),
    )
    assert started["status"] == "waiting_signal"
    assert place.json("runs", "list", "--label", "team=a", "--workflow-id", name)["items"]
    assert "waiting_signal" in place.run("runs", "list", "--status", "waiting_signal", "--status", "failed")
    place.run("runs", "signal", execution_id, "go_ahead", '{"n": 1}')
    with_events = place.run("runs", "stream", execution_id)
    assert "complete" in with_events
    lines = [json.loads(line) for line in place.run("runs", "stream", execution_id, "--json").splitlines()]
    assert [line["event"] for line in lines][-2:] == ["output", "complete"]
    assert place.json("runs", "show", execution_id)["output"] == {"order": "A-1", "got": {"n": 1}}
    assert place.json("runs", "delete", execution_id)["deleted"] is True


def test_every_page_is_listed_on_demand(place: Place) -> None:
    name = place.variables["NAME"]
    for number in range(3):
        place.run("workflow", "execute", name, "--execution-id", f"{name}.page.{number}")
    one = place.json("runs", "list", "--limit", "1", "--workflow-id", name)
    assert len(one["items"]) == 1
    assert one["next_cursor"]
    every = place.json("runs", "list", "--limit", "1", "--all", "--workflow-id", name)
    assert len(every["items"]) == 3
    assert every["next_cursor"] is None
    for number in range(3):
        place.run("runs", "cancel", f"{name}.page.{number}", "--reason", "done here")


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("workflow", "get", "nobody_knows"), 4, "WORKFLOW_NOT_FOUND"),
        (("workflow", "list", "--limit", "0"), 5, "INVALID_ARGUMENTS"),
        (("workflow", "create", "--file", "order.yaml"), 6, "WORKFLOW_EXISTS"),
        (("workflow", "create", "--file", "nowhere.yaml"), 2, "nowhere.yaml"),
        (("workflow", "start", "x", "--input", "{"), 2, "not JSON"),
    ],
    ids=["not_found", "rejected", "conflict", "no_file", "no_json"],
)
def test_refusals_have_exit_codes_of_their_own(place: Place, arguments: tuple[str, ...], code: int, told: str) -> None:
    assert told in place.run(*arguments, code=code)
    error = place.json(*arguments, code=code)["error"]
    assert told in f"{error['code']} {error['message']}"


def test_keys_audit_and_registries_have_commands(place: Place) -> None:
    made = place.json("key", "create", "--name", "ci", "--scopes", "workflow:read", "--scopes", "execution:read")
    assert made["key"]["scopes"] == ["workflow:read", "execution:read"]
    assert place.json("key", "revoke", made["key"]["id"])["status"] == "revoked"
    assert place.json("audit", "verify")["intact"] is True
    assert "key.revoke" in place.run("audit", "list", "--operation", "key.revoke")
    resource = f"{place.variables['NAME']}.schema"
    assert (
        place.json("workflow", "schema", "create", "--id", resource, "--schema", '{"type": "object"}')["id"] == resource
    )
    assert (
        place.json("tool", "create", "--id", resource, "--kind", "mcp", "--name", "t", "--tool-server", "s")["server"]
        == "s"
    )


def test_an_idempotency_key_makes_a_command_happen_once(place: Place) -> None:
    name = place.variables["NAME"]
    command = ("workflow", "execute", name, "--idempotency-key", f"{name}-once")
    first = place.json(*command)
    assert place.json(*command) == first
    place.run("runs", "cancel", first["execution_id"])


def test_a_stream_is_left_with_ctrl_c(place: Place) -> None:
    name = place.variables["NAME"]
    execution_id = f"{name}.left"
    place.run("workflow", "execute", name, "--execution-id", execution_id)
    process = place.start("runs", "stream", execution_id, "--json")
    assert process.stdout is not None
    with process:
        try:
            for line in process.stdout:
                if json.loads(line)["data"].get("status") == "waiting_signal":
                    break
            process.send_signal(signal.SIGINT)
            assert process.wait(SECONDS_MAX) == 130
        finally:
            process.kill()
    place.run("runs", "cancel", execution_id)


def test_runs_of_a_server_are_shown_and_changed_by_the_same_commands(server: LiveServer, tmp_path: Path) -> None:
    there = Place(tmp_path, ("--server", server.url), {"PENSTOCK_API_KEY": server.key})
    document = WORKFLOW.replace("take_order", "ask_somebody").replace(
        "{id: go, type: wait, signal: go_ahead}",
        "{id: go, type: interrupt, message: Sure?, answer: {type: object, properties: {ok: {type: boolean}}}}",
    )
    (tmp_path / "ask.yaml").write_text(document, encoding="utf-8")
    there.run("workflow", "create", "--file", "ask.yaml")
    there.run("workflow", "execute", "ask_somebody", "--execution-id", "asked")
    assert "asked" in there.run("runs", "list", "--workflow", "ask_somebody", "--since", "1h")
    assert there.json("runs", "show", "asked")["status"] == "waiting_input"
    there.run("runs", "pause", "asked")
    there.run("runs", "resume", "asked")
    there.run("runs", "answer", "asked", "ok=true")
    assert "complete" in there.run("runs", "watch", "asked")
    history = there.json("runs", "history", "asked")["items"]
    forked = there.json("runs", "fork", "asked", "--at", str(history[2]["seq"]), "--run-id", "asked-again")
    assert forked["execution_id"] == "asked-again"
    there.run("runs", "cancel", "asked-again", "--reason", "enough")
    assert "nobody" in there.run("runs", "show", "nobody", code=4)


def test_a_key_without_the_scope_is_told_so(server: LiveServer, tmp_path: Path) -> None:
    owner = Place(tmp_path, ("--server", server.url), {"PENSTOCK_API_KEY": server.key})
    secret = owner.json("key", "create", "--name", "reader", "--scopes", "workflow:read")["secret"]
    reader = Place(tmp_path, owner.where, {"PENSTOCK_API_KEY": secret})
    reader.run("workflow", "list")
    assert "SCOPE_REQUIRED" in reader.run("key", "list", code=9)
    nobody = Place(tmp_path, owner.where)
    assert "put the key into PENSTOCK_API_KEY" in nobody.run("workflow", "list", code=9)


def test_a_server_that_does_not_answer_is_unavailable(tmp_path: Path) -> None:
    assert "CONNECTION_FAILED" in Place(tmp_path, ("--server", "http://127.0.0.1:9")).run("workflow", "list", code=8)


def test_places_to_work_exclude_each_other(tmp_path: Path) -> None:
    place = Place(tmp_path, ("--server", "http://127.0.0.1:9", "--db", "x.db"))
    assert "exclude each other" in place.run("workflow", "list", code=2)


def test_looking_into_a_file_that_is_not_there_makes_none(tmp_path: Path) -> None:
    place = Place(tmp_path, ("--db", "x.db"))
    assert "there is no database" in place.run("workflow", "list", code=2)
    assert not (tmp_path / "x.db").exists()
