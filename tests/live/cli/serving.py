"""A server in a process of its own, and calls to it over a real socket."""

import http.client
import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from tests.live.cli.processes import Shop, read_until
from tests.waiting import SECONDS_MAX


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Server:
    """A server that is running, and the key to it."""

    process: subprocess.Popen[str]
    address: str
    key: str | None
    announced: dict[str, Any] = field(default_factory=dict)

    def connect(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.address)
        return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=SECONDS_MAX)

    def request(self, connection: http.client.HTTPConnection, method: str, path: str, body: Any = None) -> None:
        """Send a request; the response is read by the caller."""
        headers = {"content-type": "application/json"}
        if self.key is not None:
            headers["authorization"] = f"Bearer {self.key}"
        text = None if body is None else json.dumps(body)
        connection.request(method, path, body=text, headers=headers)

    def call(self, method: str, path: str, body: Any = None) -> Answer:
        """One request with a connection of its own; a path without a leading slash stands below the base path."""
        connection = self.connect()
        try:
            self.request(connection, method, path if path.startswith("/") else f"/api/v0/{path}", body)
            response = connection.getresponse()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, headers, json.loads(response.read() or b"null"))
        finally:
            connection.close()

    @contextmanager
    def stream(self, path: str, *, receive_bytes: int | None = None) -> Iterator[http.client.HTTPResponse]:
        """An event stream, opened and not yet read; with a small window, if the test wants to be slow."""
        connection = self.connect()
        try:
            if receive_bytes is not None:
                connection.sock = socket.socket()
                connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
                connection.sock.settimeout(SECONDS_MAX)
                connection.sock.connect((connection.host, connection.port))
            self.request(connection, "GET", f"/api/v0/{path}")
            response = connection.getresponse()
            assert response.status == 200, response.read()
            yield response
        finally:
            connection.close()

    def stop(self, number: int) -> str:
        """Send a signal and wait for the end; everything that the process said since."""
        self.process.send_signal(number)
        output, _ = self.process.communicate(timeout=SECONDS_MAX)
        return output


@contextmanager
def serving(shop: Shop, *arguments: str, key: str | None = None) -> Iterator[Server]:
    """A server in the folder of a shop, on a free port."""
    with shop.start("serve", "--port", "0", "--json", *arguments) as process:
        line = read_until(process, '"server_started"').splitlines()[-1]
        announced = json.loads(line)
        yield Server(process, announced["address"], key or announced["owner_key"], announced)


def read_event(response: http.client.HTTPResponse, wanted: str) -> dict[str, Any]:
    """The data of the next event of a type."""
    found = ""
    while True:
        line = response.readline().decode()
        assert line, f"the stream ended before an event of type {wanted}"
        if line.startswith("event:"):
            found = line.partition(":")[2].strip()
        if line.startswith("data:") and found == wanted:
            data: dict[str, Any] = json.loads(line.partition(":")[2])
            return data
