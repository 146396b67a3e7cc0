"""Plays the client of an MCP server over a pipe and prints every message that goes and comes.

    python examples/wire.py session.jsonl -- penstock mcp --db penstock.db

Each line of the session is a message, as clients send them: a request is answered before the next line is sent, unless
the server asks something first; then the next line is the answer to that. `$execution_id` in a line is the id of the
execution that was heard of last. Only the beginning of long messages is shown, and `…` for what is another one each
time: ids, times, marks, how far an execution is.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

SHOWN_MAX = 480
IDS = re.compile(r"r_[0-9A-Z]{26}")
CHANGING = re.compile(
    r"(?<=r_)[0-9A-Z]{26}|(?<=untrusted-)[0-9a-f]{12}|[0-9]{4}-[0-9-]{5}T[0-9:.]+Z|(?<=State\": \")[^\"]+"
)
HANDLE = re.compile(r"(status\W+)\w+(\W+sequence\W+)\d+(?=\W+url)")


class Wire:
    """The messages between the two."""

    def __init__(self, command: list[str]) -> None:
        self.server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.execution_id = ""

    def send(self, message: dict[str, Any]) -> None:
        """Say something."""
        assert self.server.stdin is not None
        show("→", message)
        self.server.stdin.write(json.dumps(message).replace("$execution_id", self.execution_id) + "\n")
        self.server.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """Hear something."""
        assert self.server.stdout is not None
        line = self.server.stdout.readline()
        if not line:
            sys.exit("the server has hung up")
        heard = IDS.search(line)
        self.execution_id = heard[0] if heard else self.execution_id
        message: dict[str, Any] = json.loads(line)
        show("←", message)
        return message

    def play(self, session: list[dict[str, Any]]) -> None:
        """The whole session."""
        waiting: list[Any] = []
        asked: Any = None
        for message in session:
            self.send(message if asked is None else {**message, "id": asked})
            asked = None
            waiting += [message["id"]] if "method" in message and "id" in message else []
            while waiting and asked is None:
                answer = self.receive()
                if "method" in answer:
                    asked = answer.get("id")
                else:
                    waiting.remove(answer["id"])
        assert self.server.stdin is not None
        self.server.stdin.close()
        self.server.wait()


def show(mark: str, message: dict[str, Any]) -> None:
    """A message in a line."""
    what = message.get("method") or ("error" if "error" in message else "result")
    body = message.get("params") or message.get("result") or message.get("error") or {}
    number = f" {message['id']}" if "id" in message else ""
    text = CHANGING.sub("…", f"{mark}{number} {what} {json.dumps(body, ensure_ascii=False)}")
    text = HANDLE.sub(r"\1…\2…", text)
    print(text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…", flush=True)


if __name__ == "__main__":
    lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    Wire(sys.argv[3:]).play([json.loads(line) for line in lines if line.strip()])
