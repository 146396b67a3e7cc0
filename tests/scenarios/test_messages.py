"""Messages as JSON-RPC and each revision have them: in sessions, over a pipe, alone and in lists."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from penstock.base import limits
from tests.live.mcp.broken_messages import META
from tests.live.mcp.clients import new_session
from tests.live.mcp.workflows import GREET, NAP
from tests.live.rest.servers import LiveServer, serving
from tests.waiting import SECONDS_MAX
from tests.zygote import Forked, start_command

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
CALL = {"jsonrpc": "2.0", "id": "call", "method": "tools/call", "params": {"name": "greet", "arguments": {"name": "A"}}}
# What is sent, and the id and the code of what comes back.
SHAPES: list[tuple[Any, Any, int]] = [
    ({**PING, "id": None}, None, -32600),
    ({**PING, "id": 1.5}, None, -32600),
    ({**PING, "id": True}, None, -32600),
    ({**PING, "id": {}}, None, -32600),
    ({"jsonrpc": "2.0", "id": 5}, 5, -32600),
    ({**PING, "method": 1}, 1, -32600),
    ({"id": 7, "method": "ping"}, 7, -32600),
    ({**PING, "jsonrpc": "1.0"}, 1, -32600),
    ({**PING, "params": []}, 1, -32602),
    ({**PING, "params": "x"}, 1, -32600),
    (1, None, -32600),
    (None, None, -32600),
    ([], None, -32600),
]
LIST = [PING, CALL, {"jsonrpc": "2.0", "method": "notifications/nothing"}, {"jsonrpc": "2.0", "id": 9}]
LISTED = {1: "result", "call": "result", 9: "error"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server with a workflow."""
    with serving(tmp_path_factory.mktemp("messages")) as running:
        running.call("POST", "workflows", {"document": GREET})
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a workflow."""
    made = tmp_path_factory.mktemp("pipe")
    for document in (GREET, NAP):
        (made / f"{document['name']}.json").write_text(json.dumps(document), encoding="utf-8")
    return made


@contextmanager
def open_pipe(folder: Path, version: str) -> Iterator[tuple[Forked, IO[bytes], IO[bytes]]]:
    """A process that serves a pipe, after the handshake: its end of the pipe to write to, and the one to read from."""
    (incoming, ours), (theirs, outgoing) = os.pipe(), os.pipe()
    arguments = ["mcp", "--db", "penstock.db", "--workflows", "."]
    with Path(os.devnull).open("r+b") as nothing:
        streams = (incoming, outgoing, nothing.fileno())
        process = start_command(arguments, folder=folder, environment=os.environ, streams=streams)
    os.close(incoming)
    os.close(outgoing)
    with os.fdopen(ours, "wb", buffering=0) as sink, os.fdopen(theirs, "rb") as source:
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        sink.write(line_of({"jsonrpc": "2.0", "id": "begin", "method": "initialize", "params": params}))
        assert json.loads(source.readline())["result"]["protocolVersion"] == version
        yield process, sink, source
        sink.close()
        assert process.wait(SECONDS_MAX) == 0


def line_of(message: Any) -> bytes:
    """A message as a line."""
    return (message if isinstance(message, bytes) else json.dumps(message).encode()) + b"\n"


def piped(folder: Path, version: str, *messages: Any, answers: int) -> list[Any]:
    """What comes back over a pipe after a handshake."""
    with open_pipe(folder, version) as (_, sink, source):
        for message in messages:
            sink.write(line_of(message))
        return [json.loads(source.readline()) for _ in range(answers)]


def test_whoever_closes_a_pipe_is_sent_nothing_more(folder: Path) -> None:
    nap = {"name": "nap", "arguments": {}, "_meta": {"progressToken": "p"}}
    with open_pipe(folder, "2025-11-25") as (_, sink, source):
        sink.write(line_of({"jsonrpc": "2.0", "id": "nap", "method": "tools/call", "params": nap}))
        # The call is under way when it tells of its progress; clients crash on an answer after they have closed.
        assert json.loads(source.readline())["method"] == "notifications/progress"
        sink.close()
        rest = [json.loads(line) for line in source]
    assert [message for message in rest if message.get("id") == "nap"] == []


def test_what_is_no_request_is_answered_in_a_session(server: LiveServer) -> None:
    session = new_session(server)
    for sent, message_id, code in SHAPES:
        answer = server.request("POST", "/mcp", json.dumps(sent).encode(), headers=session)
        assert (answer.status, answer.json()["id"], answer.json()["error"]["code"]) == (400, message_id, code), sent
    told = server.request("POST", "/mcp", {"jsonrpc": "2.0", "id": 5, "result": {}}, headers=session)
    assert told.status == 202


def test_what_is_no_request_is_answered_over_a_pipe(folder: Path) -> None:
    found = piped(folder, "2025-11-25", *(sent for sent, _, _ in SHAPES), b"{", answers=len(SHAPES) + 1)
    expected = [(message_id, code) for _, message_id, code in SHAPES]
    assert [(answer["id"], answer["error"]["code"]) for answer in found] == [*expected, (None, -32700)]


def test_a_message_above_the_limit_is_refused_and_the_pipe_goes_on(folder: Path) -> None:
    large = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"' + b"a" * (2 * limits.REQUEST_BYTES_MAX) + b'"}}'
    refused, alive = piped(folder, "2025-11-25", large, {**PING, "id": 2}, answers=2)
    assert (refused["id"], refused["error"]["code"]) == (None, -32600)
    assert str(limits.REQUEST_BYTES_MAX) in refused["error"]["message"]
    assert alive == {"jsonrpc": "2.0", "id": 2, "result": {}}


def _events(body: bytes) -> list[Any]:
    lines = body.decode().splitlines()
    return [json.loads(line.removeprefix("data:")) for line in lines if line.startswith("data:") and line[5:].strip()]


def test_a_list_of_messages_is_answered_where_the_revision_has_lists(server: LiveServer) -> None:
    session = new_session(server, version="2025-03-26")
    for headers in (session, {name: value for name, value in session.items() if name != "MCP-Protocol-Version"}):
        answer = server.request("POST", "/mcp", LIST, headers=headers)
        assert (answer.status, answer.media_type) == (200, "text/event-stream")
        found = {event["id"]: event for event in _events(answer.body)}
        assert {name: "result" if "result" in event else "error" for name, event in found.items()} == LISTED
        assert found["call"]["result"]["content"][0]["text"] == '{"text":"Hello, A"}'
        assert server.request("POST", "/mcp", LIST[2:3], headers=headers).status == 202
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
    (refused,) = _events(server.request("POST", "/mcp", [begin], headers=session).body)
    assert refused["error"]["code"] == -32600
    many = server.request("POST", "/mcp", [PING] * (limits.MCP_BATCH_MESSAGES_MAX + 1), headers=session)
    assert (many.status, many.json()["error"]["code"]) == (400, -32600)


def test_elsewhere_a_list_is_refused(server: LiveServer, folder: Path) -> None:
    for version in ("2025-06-18", "2025-11-25"):
        answer = server.request("POST", "/mcp", LIST, headers=new_session(server, version=version))
        assert (answer.status, answer.json()["error"]["code"]) == (400, -32600)
    (refused,) = piped(folder, "2025-11-25", LIST, answers=1)
    assert (refused["id"], refused["error"]["code"]) == (None, -32600)


def test_a_list_over_a_pipe_is_answered_with_a_list(folder: Path) -> None:
    alone, listed = piped(folder, "2025-03-26", LIST, {**PING, "id": 2}, answers=2)
    if isinstance(alone, list):
        alone, listed = listed, alone
    assert alone == {"jsonrpc": "2.0", "id": 2, "result": {}}
    assert {answer["id"]: "result" if "result" in answer else "error" for answer in listed} == LISTED


def test_headers_that_do_not_match_their_request_have_a_code_of_their_own(server: LiveServer) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
    accept = {"Accept": "application/json, text/event-stream"}
    right = {**accept, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}
    wrong: list[dict[str, str]] = [
        accept,
        {**accept, "Mcp-Method": "tools/list"},
        {**right, "MCP-Protocol-Version": "2025-11-25"},
        {**right, "MCP-Protocol-Version": "2099-01-01"},
        {**right, "Mcp-Method": "tools/call"},
        {**accept, "MCP-Protocol-Version": "2026-07-28"},
    ]
    assert server.request("POST", "/mcp", body, headers=right).status == 200
    for headers in wrong:
        answer = server.request("POST", "/mcp", body, headers=headers)
        assert (answer.status, answer.json()["id"], answer.json()["error"]["code"]) == (400, 1, -32020), headers
