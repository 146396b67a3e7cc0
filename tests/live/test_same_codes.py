"""The same bad input has the same code, whichever way it comes in: REST, MCP, OpenWOP, a file, a server."""

import json
import os
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner

from penstock.base.json import JsonObject
from penstock.cli.main import app
from penstock.client.operations import find_operation
from penstock.operations.catalogue.errors import mapping_of
from penstock.operations.catalogue.reasons import REASONS
from tests.live.rest.servers import LiveServer
from tests.waiting import SECONDS_MAX

ORDER = """\
penstock: v1
name: order
input: {type: object, properties: {id: {type: string}}}
nodes:
  - {id: go, type: interrupt, message: Sure?, answer: {type: object, required: [ok], properties: {ok: {type: boolean}}}}
  - {id: done, type: end, output: {id: "${ .input.id }"}}
"""
TWICE = """\
penstock: v1
name: twice
nodes:
  - id: both
    type: parallel
    branches:
      - {name: a, nodes: [{id: one, type: interrupt, message: One?, answer: {type: boolean}}]}
      - {name: b, nodes: [{id: two, type: interrupt, message: Two?, answer: {type: boolean}}]}
  - {id: done, type: end}
"""
META: JsonObject = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass(frozen=True)
class Bad:
    """A call that is refused: the operation with its arguments, and the words of its command."""

    code: str
    operation: str
    arguments: JsonObject
    words: tuple[str, ...]
    by_model: str | None = None
    """The code over MCP where a model may not even try."""
    openwop: tuple[str, str, JsonObject | None] | None = None

    @property
    def name(self) -> str:
        return " ".join(self.words)


RUN, ENDED = {"execution_id": "asks"}, {"execution_id": "ended"}
NOBODY = {"execution_id": "nobody"}
PERSON = "PERSON_REQUIRED"
TABLE = (
    Bad(
        "EXECUTION_NOT_FOUND",
        "execution.status",
        {**NOBODY},
        ("runs", "show", "nobody"),
        None,
        ("GET", "/v1/runs/nobody", None),
    ),
    Bad("EXECUTION_NOT_FOUND", "execution.history", {**NOBODY}, ("runs", "history", "nobody")),
    Bad(
        "EXECUTION_NOT_FOUND",
        "execution.cancel",
        {**NOBODY},
        ("runs", "cancel", "nobody"),
        None,
        ("POST", "/v1/runs/nobody/cancel", {}),
    ),
    Bad("EXECUTION_NOT_FOUND", "execution.signal", {**NOBODY, "name": "x"}, ("runs", "signal", "nobody", "x")),
    Bad(
        "CANCEL_NOT_ALLOWED",
        "execution.cancel",
        {**ENDED},
        ("runs", "cancel", "ended"),
        None,
        ("POST", "/v1/runs/ended/cancel", {}),
    ),
    Bad(
        "RUN_ENDED",
        "execution.pause",
        {**ENDED},
        ("runs", "pause", "ended"),
        None,
        ("POST", "/v1/runs/ended:pause", {}),
    ),
    Bad(
        "RESUME_NOT_ALLOWED",
        "execution.resume",
        {**RUN},
        ("runs", "resume", "asks"),
        None,
        ("POST", "/v1/runs/asks:resume", {}),
    ),
    Bad(
        "ANSWER_INVALID",
        "execution.answer",
        {**RUN, "answer": {"ok": "perhaps"}},
        ("runs", "answer", "asks", "ok=perhaps"),
        PERSON,
    ),
    Bad(
        "NO_OPEN_QUESTION",
        "execution.answer",
        {**RUN, "answer": {"ok": True}, "node_id": "done"},
        ("runs", "answer", "asks", "ok=true", "--node", "done"),
    ),
    Bad(
        "ALREADY_ANSWERED",
        "execution.answer",
        {**ENDED, "answer": {"ok": False}},
        ("runs", "answer", "ended", "ok=false"),
    ),
    Bad(
        "QUESTION_AMBIGUOUS",
        "execution.answer",
        {"execution_id": "both", "answer": True},
        ("runs", "answer", "both", "true"),
    ),
    Bad("JQ_INVALID", "execution.query", {**RUN, "expression": "nonsense("}, ("runs", "query", "asks", "nonsense(")),
    Bad(
        "FORK_POINT_INVALID",
        "execution.fork",
        {**ENDED, "at_sequence": 999},
        ("runs", "fork", "ended", "--at", "999"),
        PERSON,
    ),
    Bad("RETRY_NOT_ALLOWED", "execution.retry", {**ENDED}, ("runs", "retry", "ended")),
    Bad(
        "ACTIVITY_SUBMIT_NOT_AWAITING",
        "execution.submit_activity",
        {**RUN, "node_id": "done", "ok": True},
        ("runs", "submit", "asks", "done"),
    ),
    Bad("EXECUTION_NOT_ENDED", "execution.delete", {**RUN}, ("runs", "delete", "asks")),
    Bad("INVALID_LIST_CURSOR", "execution.list", {"cursor": "x"}, ("runs", "list", "--cursor", "x")),
    Bad("INVALID_ARGUMENTS", "execution.list", {"limit": 0}, ("runs", "list", "--limit", "0")),
    Bad("INVALID_ARGUMENTS", "execution.list", {"label": "red"}, ("runs", "list", "--label", "red")),
    Bad("INVALID_ARGUMENTS", "execution.list", {"status": ["odd"]}, ("runs", "list", "--status", "odd")),
    Bad("WORKFLOW_NOT_FOUND", "workflow.execute", {"workflow_id": "nothing"}, ("workflow", "start", "nothing")),
    Bad(
        "INPUT_INVALID",
        "workflow.execute",
        {"workflow_id": "order", "input": 1},
        ("workflow", "start", "order", "--input", "1"),
    ),
    Bad(
        "INVALID_ARGUMENTS",
        "workflow.execute",
        {"workflow_id": "order", "execution_id": "a b"},
        ("workflow", "start", "order", "--execution-id", "a b"),
    ),
    Bad("WORKFLOW_EXISTS", "workflow.create", {"source": ORDER}, ("workflow", "create", "--file", "order.yaml")),
    Bad(
        "INVALID_DOCUMENT",
        "workflow.create",
        {"source": "penstock: v1\n"},
        ("workflow", "create", "--file", "broken.yaml"),
    ),
)


@dataclass(frozen=True)
class Everywhere:
    """One server and one file with the same runs in both, and every way to call them."""

    server: LiveServer
    folder: Path

    def command(self, words: tuple[str, ...], *where: str) -> tuple[int, Any]:
        kept = {name: None for name in os.environ if name.startswith("PENSTOCK")}
        environment = {**kept, "PENSTOCK_API_KEY": self.server.key, "XDG_CONFIG_HOME": str(self.folder)}
        with chdir(self.folder):
            result = CliRunner().invoke(app, [*words, *where, "--json"], env=environment)
        return result.exit_code, json.loads(result.stdout)

    def printed(self, words: tuple[str, ...], *where: str) -> str:
        """What a command prints for people."""
        kept = {name: None for name in os.environ if name.startswith("PENSTOCK")}
        environment = {**kept, "PENSTOCK_API_KEY": self.server.key, "XDG_CONFIG_HOME": str(self.folder)}
        with chdir(self.folder):
            return CliRunner().invoke(app, [*words, *where], env=environment).output

    def rest(self, bad: Bad) -> Any:
        operation, path, body = find_operation(bad.operation), "", dict(bad.arguments)
        path = f"/api/v0{operation.path}"
        query: list[tuple[str, Any]] = []
        for parameter in operation.parameters:
            if parameter.name not in body:
                continue
            if parameter.place == "path":
                path = path.replace(f"{{{parameter.name}}}", str(body.pop(parameter.name)))
            elif parameter.place == "query":
                value = body.pop(parameter.name)
                query += [(parameter.name, item) for item in (value if isinstance(value, list) else [value])]
        sent = None if operation.method in ("GET", "DELETE") else body
        return self.ask(operation.method, path, sent, query)

    def ask(self, method: str, path: str, body: Any, query: Any = None, **headers: str) -> Any:
        shown = {"Authorization": f"Bearer {self.server.key}", **headers}
        answer = httpx2.request(
            method, self.server.url + path, json=body, params=query, headers=shown, timeout=SECONDS_MAX
        )
        return answer.json()

    def mcp(self, bad: Bad) -> Any:
        name = f"penstock_{bad.operation.replace('.', '_')}"
        params: JsonObject = {"name": name, "arguments": dict(bad.arguments), "_meta": META}
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28"}
        answer = self.ask(
            "POST", "/mcp?toolset=all", asked, None, **headers, **{"Mcp-Method": "tools/call", "Mcp-Name": name}
        )
        return answer["result"]

    def openwop(self, method: str, path: str, body: JsonObject | None) -> Any:
        return self.ask(method, path, body)


@pytest.fixture(scope="module")
def everywhere(server: LiveServer, tmp_path_factory: pytest.TempPathFactory) -> Everywhere:
    folder = tmp_path_factory.mktemp("codes")
    for name, text in (("order", ORDER), ("twice", TWICE), ("broken", "penstock: v1\n")):
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    found = Everywhere(server, folder)
    for where in (("--server", server.url), ("--db", "codes.db")):
        for words in (
            ("workflow", "create", "--file", "order.yaml"),
            ("workflow", "create", "--file", "twice.yaml"),
            ("workflow", "start", "order", "--execution-id", "asks"),
            ("workflow", "start", "twice", "--execution-id", "both"),
            ("workflow", "start", "order", "--execution-id", "ended", "--input", '{"id": "A"}'),
            ("runs", "answer", "ended", "ok=true"),
        ):
            code, told = found.command(words, *where)
            assert code == 0, told
    return found


@pytest.mark.parametrize("bad", TABLE, ids=lambda bad: bad.name)
def test_a_bad_input_has_the_same_code_on_every_surface(everywhere: Everywhere, bad: Bad) -> None:
    told = {"rest": everywhere.rest(bad)["code"]}
    wanted = {"rest": bad.code, "mcp": bad.by_model or bad.code}
    told["mcp"] = everywhere.mcp(bad)["_meta"]["penstock/error"]["code"]
    for name, where in (("file", ("--db", "codes.db")), ("server", ("--server", everywhere.server.url))):
        exit_code, answer = everywhere.command(bad.words, *where)
        told[name], wanted[name] = answer["error"]["code"], bad.code
        assert exit_code == mapping_of(REASONS[bad.code].kind(bad.code, "")).exit_code
    if bad.openwop is not None:
        told["openwop"], wanted["openwop"] = everywhere.openwop(*bad.openwop)["details"]["code"], bad.code
    assert told == wanted


@pytest.mark.parametrize("bad", TABLE, ids=lambda bad: bad.name)
def test_a_refusal_says_on_every_surface_what_happened_and_what_to_do(everywhere: Everywhere, bad: Bad) -> None:
    problem = everywhere.rest(bad)
    assert problem["detail"]
    assert problem["hint"]
    result = everywhere.mcp(bad)
    fact, *more = result["content"][0]["text"].splitlines()
    assert fact.startswith(f"{result['_meta']['penstock/error']['code']}: ")
    assert [line for line in more if line.startswith("What to do: ")]
    for where in (("--db", "codes.db"), ("--server", everywhere.server.url)):
        error = everywhere.command(bad.words, *where)[1]["error"]
        assert error["message"]
        assert error["hint"]
        # The hint is folded at the width of a terminal.
        printed = " ".join(everywhere.printed(bad.words, *where).split())
        assert f"{bad.code}: " in printed
        listed = any(f"`{name}`" in error["hint"] and error["details"].get(name) for name in ("errors", "findings"))
        assert listed or " ".join(f"hint: {error['hint']}".split()) in printed
    if bad.openwop is not None:
        answer = everywhere.openwop(*bad.openwop)
        assert answer["message"]
        assert answer["details"]["hint"]


def test_a_run_is_told_alike_on_a_file_and_on_a_server(everywhere: Everywhere) -> None:
    for words in (
        ("runs", "show", "ended"),
        ("runs", "show", "both"),
        ("runs", "history", "ended"),
        ("runs", "query", "ended", ".input"),
        ("runs", "watch", "ended"),
    ):
        there, here = (
            everywhere.command(words, *where) for where in (("--server", everywhere.server.url), ("--db", "codes.db"))
        )
        assert (there[0], _timeless(there[1])) == (here[0], _timeless(here[1])), words


def _timeless(value: Any) -> Any:
    """Plain data without moments, and without who called: that is what differs."""
    if isinstance(value, dict):
        differing = ("_at", "At", "_by", "By")
        kept = [name for name in value if not name.endswith(differing) and name not in ("at", "starter")]
        return {name: _timeless(value[name]) for name in kept}
    return [_timeless(item) for item in value] if isinstance(value, list) else value


SWITCH = '  - {id: s, type: switch, default: go, cases: [{when: "${ .input.id }", next: go}]}'
STUMBLES = {
    "unquoted": (ORDER.replace('"${ .input.id }"', "${ .input.id }"), 'output: {id: "${ .input.id }"}'),
    "wrapped": (
        ORDER.replace(
            "nodes:", 'nodes:\n  - {id: s, type: switch, cases: [{when: "${ .input.id }", next: go}], default: go}'
        ),
        "write `when: .input.id`",
    ),
}


@pytest.mark.parametrize(("source", "fix"), STUMBLES.values(), ids=STUMBLES.keys())
def test_the_first_mistakes_of_newcomers_come_with_their_fix(everywhere: Everywhere, source: str, fix: str) -> None:
    (everywhere.folder / "stumble.yaml").write_text(source, encoding="utf-8")
    stored = Bad("INVALID_DOCUMENT", "workflow.create", {"source": source}, ())
    (finding,) = everywhere.rest(stored)["details"]["findings"]
    assert fix in finding["hint"]
    assert fix in everywhere.mcp(stored)["content"][0]["text"]
    checked = Bad("", "workflow.validate", {"source": source}, ())
    assert everywhere.rest(checked)["findings"] == [finding]
    assert everywhere.mcp(checked)["structuredContent"]["findings"] == [finding]
    assert fix in everywhere.printed(("validate", "stumble.yaml"))
    assert fix in everywhere.printed(("workflow", "create", "--file", "stumble.yaml", "--db", "codes.db"))
