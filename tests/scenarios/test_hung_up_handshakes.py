"""Clients of every era of MCP that hang up, at every stage and in both ways, are no errors of the server."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from tests.live.rest.servers import LiveServer, serving
from tests.scenarios.test_hanging_up import APPROVE, BOTH, NAP, STEPS, WORK, modern
from tests.waiting import SECONDS_MAX

ERA: Final = "2025-11-25"
CLIENT: Final[dict[str, Any]] = {
    "protocolVersion": ERA,
    "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "t", "version": "1"},
}
RESET: Final = struct.pack("ii", 1, 0)
"""With this, closing a connection resets it instead of ending it in an orderly way."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    (tmp_path / "steps.py").write_text(STEPS, encoding="utf-8")
    with serving(tmp_path, "--steps", "steps.py") as running:
        for document in (WORK, APPROVE, NAP):
            running.call("POST", "workflows", {"document": document})
        yield running


def message(method: str, number: int | None = 1, /, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params, **({} if number is None else {"id": number})}


def request(server: LiveServer, path: str, body: Any, verb: str = "POST", **headers: str) -> tuple[bytes, bytes]:
    """The head and the body of a request."""
    content = b"" if body is None else json.dumps(body).encode()
    lines = [f"{verb} {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {server.key}"]
    lines += ["Content-Type: application/json", f"Accept: {BOTH}", f"Content-Length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode(), content


class Line:
    """One connection."""

    def __init__(self, server: LiveServer) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS_MAX)

    def send(self, *parts: bytes) -> Line:
        self.socket.sendall(b"".join(parts))
        return self

    def read_until(self, end: bytes) -> bytes:
        found = b""
        while end not in found:
            more = self.socket.recv(65_536)
            assert more, found
            found += more
        return found

    def hang_up(self, *, reset: bool) -> None:
        if reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.socket.close()


def begin_session(server: LiveServer) -> str:
    """Shake hands over streamable HTTP, and return the id of the session."""
    line = Line(server).send(*request(server, "/mcp", message("initialize", **CLIENT)))
    head = line.read_until(b'"protocolVersion"').decode()
    line.hang_up(reset=False)
    name = next(
        part.split(":", 1)[1].strip() for part in head.split("\r\n") if part.lower().startswith("mcp-session-id")
    )
    line = Line(server).send(*request(server, "/mcp", message("notifications/initialized", None), Mcp_Session_Id=name))
    line.read_until(b"\r\n")
    line.hang_up(reset=False)
    return name


def open_stream(server: LiveServer) -> tuple[Line, str]:
    """Open a stream of HTTP+SSE, and return it with the address for messages."""
    line = Line(server).send(*request(server, "/mcp/sse", None, "GET"))
    told = line.read_until(b"data: ")
    if b"\n" not in told.split(b"data: ")[1]:
        told += line.read_until(b"\n")
    return line, told.split(b"data: ")[1].split()[0].decode()


Sent = tuple[bytes, bytes]
STAGES: Final[dict[str, Callable[[Sent], list[bytes]]]] = {
    "half of the head": lambda sent: [sent[0][: len(sent[0]) // 2]],
    "head": lambda sent: [sent[0]],
    "half of the body": lambda sent: [sent[0], sent[1][: len(sent[1]) // 2]],
    "whole request": lambda sent: [*sent],
}


def hang_up_everywhere(server: LiveServer, make: Callable[[], Sent]) -> Iterator[Callable[[], None]]:
    """Hang up at each stage of a request, and after the beginning of its answer, in both ways."""

    def at_stage(cut: Callable[[Sent], list[bytes]], *, reset: bool) -> None:
        Line(server).send(*cut(make())).hang_up(reset=reset)

    def in_answer(*, reset: bool) -> None:
        line = Line(server).send(*make())
        line.read_until(b"\r\n")
        line.hang_up(reset=reset)

    for reset in (False, True):
        for cut in STAGES.values():
            yield lambda cut=cut, reset=reset: at_stage(cut, reset=reset)  # type: ignore[misc]  # bound now
        yield lambda reset=reset: in_answer(reset=reset)  # type: ignore[misc]  # bound now


def quiet(server: LiveServer) -> list[dict[str, Any]]:
    """Stop a server, and return what its log has of errors of its own."""
    assert server.request("GET", "/healthz", key="").status == 200
    server.stop()
    return [
        entry
        for entry in server.rest_of_log()
        if "traceback" in entry or "INTERNAL_ERROR" in json.dumps(entry) or entry.get("level") in ("error", "critical")
    ]


def test_clients_of_streamable_http_that_hang_up_are_no_errors(server: LiveServer) -> None:
    session = begin_session(server)
    named = {"Mcp_Session_Id": session, "MCP_Protocol_Version": ERA}

    def call(tool: str) -> Sent:
        return request(server, "/mcp", message("tools/call", 2, name=tool, arguments={}), **named)

    def newest(tool: str) -> Sent:
        headers, body = modern("tools/call", name=tool, arguments={})
        return request(server, "/mcp", body, **headers)

    requests: list[Callable[[], Sent]] = [
        lambda: request(server, "/mcp", message("initialize", **CLIENT)),
        lambda: request(server, "/mcp", message("notifications/initialized", None), **named),
        lambda: request(server, "/mcp", message("tools/list", 2), **named),
        lambda: call("work"),
        lambda: call("approve"),
        lambda: call("nap"),
        lambda: newest("work"),
        lambda: newest("approve"),
        lambda: request(server, "/mcp", None, "GET", **named),
        lambda: request(server, "/mcp", None, "DELETE", **named),
    ]
    with ThreadPoolExecutor(8) as callers:
        list(callers.map(lambda act: act(), [act for make in requests for act in hang_up_everywhere(server, make)]))
    found = quiet(server)
    assert not found, json.dumps(found[:3])


def test_clients_of_http_and_sse_that_hang_up_are_no_errors(server: LiveServer) -> None:
    with ThreadPoolExecutor(8) as callers:
        streams = hang_up_everywhere(server, lambda: request(server, "/mcp/sse", None, "GET"))
        list(callers.map(lambda act: act(), [*streams]))
    for reset in (False, True):
        for tool in ("work", "approve", "nap"):
            line, address = open_stream(server)
            sent = [message("initialize", **CLIENT), message("notifications/initialized", None)]
            for body in sent:
                post = Line(server).send(*request(server, address, body))
                post.read_until(b"\r\n")
                post.hang_up(reset=reset)
            calls = hang_up_everywhere(
                server,
                lambda a=address, t=tool: request(server, a, message("tools/call", 2, name=t, arguments={})),  # type: ignore[misc]
            )
            for act in calls:
                act()
            line.hang_up(reset=reset)  # while calls are under way
    found = quiet(server)
    assert not found, json.dumps(found[:3])
