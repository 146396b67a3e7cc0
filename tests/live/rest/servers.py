"""A real `penstock serve` process, and short ways to talk to it."""

from __future__ import annotations

import http.client
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO, TypeAlias

from tests.waiting import SECONDS_MAX
from tests.zygote import Forked, start_command

__all__ = ["Answer", "LiveServer", "serving"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0]


Process: TypeAlias = subprocess.Popen[bytes] | Forked


def _read(told: TextIO, lines: queue.Queue[str | None]) -> None:
    with told:
        for line in told:
            lines.put(line)
    lines.put(None)


@dataclass(slots=True)
class LiveServer:
    """A server process on a folder; it can be killed and started again on the same port."""

    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    """Environment variables, for settings that flags do not have."""
    script: str | None = None
    """A program to run instead of `python -m penstock`."""
    port: int = 0
    key: str = ""
    log: list[dict[str, Any]] = field(default_factory=list)
    process: Process | None = None
    _lines: queue.Queue[str | None] = field(default_factory=queue.Queue)
    _reading: threading.Thread | None = None

    def start(self, *flags: str) -> None:
        """Start the process, and wait until it listens."""
        self._lines = queue.Queue()
        arguments = ["serve", "--db", "penstock.db", "--port", str(self.port), "--json", *flags]
        readable, writable = os.pipe()
        self.process = self._started(arguments, writable)
        os.close(writable)
        told = os.fdopen(readable, encoding="utf-8")
        self._reading = threading.Thread(target=_read, args=(told, self._lines), daemon=True)
        self._reading.start()
        started = self.logged("server_started")
        self.port = int(started["address"].rpartition(":")[2])
        self.key = started.get("owner_key") or self.key

    def _started(self, arguments: list[str], log: int) -> Process:
        environment = {**os.environ, **self.settings}
        with Path(os.devnull).open("r+b") as nothing:
            streams = (nothing.fileno(), nothing.fileno(), log)
            if self.script is None:
                return start_command(arguments, folder=self.folder, environment=environment, streams=streams)
            stdin, stdout, stderr = streams
            return subprocess.Popen(
                [sys.executable, "-c", self.script, *arguments],
                cwd=self.folder,
                env=environment,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
            )

    def logged(self, event: str, **fields: Any) -> dict[str, Any]:
        """Wait for a line of the log with an event and some fields."""
        while True:
            line = self._lines.get(timeout=SECONDS_MAX)
            assert line is not None, f"the server ended: {self.log[-5:]}"
            try:
                entry = json.loads(line)
            except ValueError:
                entry = {"event": "text", "text": line}
            self.log.append(entry)
            if entry["event"] == event and all(entry.get(name) == value for name, value in fields.items()):
                found: dict[str, Any] = entry
                return found

    def rest_of_log(self) -> list[dict[str, Any]]:
        """What is in the log behind the last line that was waited for, once the process has ended."""
        while (line := self._lines.get(timeout=SECONDS_MAX)) is not None:
            self.log.append(json.loads(line) if line.startswith("{") else {"event": "text", "text": line})
        return self.log

    @property
    def running(self) -> Process:
        assert self.process is not None
        return self.process

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """End it as a power failure would."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to end."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        if self.running.poll() is None:
            self.running.send_signal(how)
        code = self.running.wait(SECONDS_MAX)
        if self._reading is not None:
            self._reading.join(SECONDS_MAX)
        return code

    def resident_bytes(self) -> int:
        """The memory that the process has."""
        pages = int(Path(f"/proc/{self.running.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: dict[str, str] | None = None,
        key: str | None = None,
        timeout: float = SECONDS_MAX,
    ) -> Answer:
        """Make a request; a body that is no bytes is sent as JSON. Without a leading slash a path is an operation's."""
        sent = {"Authorization": f"Bearer {self.key if key is None else key}", **(headers or {})}
        if key == "":
            del sent["Authorization"]
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if content is not None:
            sent.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            target = path if path.startswith("/") else f"/api/v0/{path}"
            connection.request(method, target, content, sent)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    def call(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """The JSON of a request that must succeed."""
        answer = self.request(method, path, body, **more)
        assert 200 <= answer.status < 300, answer
        return answer.json()


@contextmanager
def serving(folder: Path, *flags: str, script: str | None = None, **settings: str) -> Iterator[LiveServer]:
    """A server in a folder, until the block ends; settings are environment variables."""
    server = LiveServer(folder, settings=settings, script=script)
    server.start(*flags)
    try:
        yield server
    finally:
        server.kill()
