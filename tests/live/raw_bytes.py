"""Raw bytes for the HTTP port and for the pipe of MCP, for a bounded time: `scripts/fuzz-raw`.

Requests of every surface, with a key and without, are mangled byte by byte; some are nothing but noise. Nothing may
fail the server: no status of 500 and above, no internal error, no end of the process. The last line of the script is
one JSON object; `ok` says whether nothing was found.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.live.mcp.broken_messages import META
from tests.live.rest.servers import LiveServer, serving
from tests.waiting import SECONDS_MAX

__all__ = ["SETTINGS", "Findings", "main", "noise_for_pipe", "noise_for_port"]

# A fuzzer is not to be told to wait.
SETTINGS = {
    "PENSTOCK_LIMITS_UNAUTHENTICATED_PER_MINUTE": "10000000",
    "PENSTOCK_LIMITS_FAILED_LOGINS_PER_MINUTE": "10000000",
}
# Some mistakes let the server wait for more, which never comes.
_WAIT_SECONDS = 0.3
_SERVER_ERROR = 500
# Every so often the server is asked whether it is well.
_LOOK_EVERY = 50
_INTERNAL = -32603


@dataclass
class Findings:
    """What was sent, and what went wrong."""

    sent: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def _call(method: str, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": {**params, "_meta": META}}).encode()


def _requests(key: str) -> list[tuple[str, str, bytes, dict[str, str]]]:
    """One request of each kind: method, path, body and headers."""
    bearer = {"Authorization": f"Bearer {key}"} if key else {}
    content = {**bearer, "Content-Type": "application/json"}
    mcp = {**content, "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28"}
    tool = _call("tools/call", name="penstock_workflow_list", arguments={"limit": 5})
    return [
        ("GET", "/api/v0/workflows?limit=5&cursor=x", b"", bearer),
        ("POST", "/api/v0/workflows/hello/executions", b'{"input": {"a": [1, 2.5e3, "\\u00e9"]}}', content),
        ("PUT", "/api/v0/quotas/tenant", b'{"runs_per_day": 5}', {**content, "Idempotency-Key": "k"}),
        ("GET", "/api/v0/executions/x/stream", b"", {**bearer, "Last-Event-ID": "3"}),
        ("POST", "/mcp", tool, {**mcp, "Mcp-Method": "tools/call", "Mcp-Name": "penstock_workflow_list"}),
        ("POST", "/mcp", _call("initialize", protocolVersion="2025-06-18", capabilities={}), content),
        ("POST", "/mcp", b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', {**mcp, "MCP-Protocol-Version": "2025-03-26"}),
        ("POST", "/v1/runs", b'{"workflowId": "hello", "inputs": {}}', content),
        ("POST", "/hooks/orders", b'{"a": 1}', {"X-Hub-Signature-256": "sha256=00"}),
        ("GET", "/answer/abc.def", b"", {}),
        ("POST", "/answer", b"key=x", {"Content-Type": "application/x-www-form-urlencoded"}),
        ("POST", "/api/agent/v1/actions", b'{"action": "transaction.create", "payload": {}}', content),
        ("GET", "/.well-known/oauth-protected-resource/mcp", b"", {}),
    ]


def _written(method: str, path: str, body: bytes, headers: dict[str, str]) -> bytes:
    lines = {"Host": "127.0.0.1", "Connection": "close", "Content-Length": str(len(body)), **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body


def _mangled(chance: random.Random, sent: bytes) -> bytes:
    """Bytes with a few of them changed, left out, repeated or put in."""
    changed = bytearray(sent)
    for _ in range(chance.randint(0, 5)):
        at = chance.randrange(len(changed) + 1)
        match chance.randrange(4):
            case 0:
                changed[at : at + 1] = chance.randbytes(1)
            case 1:
                del changed[at : at + chance.randint(1, 12)]
            case 2:
                changed[at:at] = changed[at : at + chance.randint(1, 40)]
            case _:
                changed[at:at] = chance.choice(
                    (b"\x00", b"\r\n", b"\xff\xfe", b"%00", b"{" * 200, b'"', b"\xed\xa0\x80")
                )
    return bytes(changed)


def _answered(port: int, sent: bytes) -> bytes:
    """What comes back; nothing if the server hangs up or waits for more."""
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX) as connection:
        parts = b""
        try:
            connection.sendall(sent)
            connection.settimeout(_WAIT_SECONDS)
            while len(parts) < 64 and (part := connection.recv(65_536)):
                parts += part
        except OSError:
            pass
        return parts


def noise_for_port(server: LiveServer, seconds: float, seed: int = 0) -> Findings:
    """Send mangled requests to a server for a time."""
    chance, found, end = random.Random(seed), Findings(), time.monotonic() + seconds
    kinds = [_written(*item) for key in (server.key, "", "pen_wrong") for item in _requests(key)]
    while time.monotonic() < end:
        noise = chance.randbytes(chance.randint(1, 300)) if chance.random() < 0.1 else None
        sent = noise or _mangled(chance, chance.choice(kinds))
        answer = _answered(server.port, sent)
        found.sent += 1
        status = answer[9:12]
        if answer.startswith(b"HTTP/1.1 ") and status.isdigit():
            found.statuses[int(status)] += 1
            # A server that has no place left says so; that is no failure.
            if int(status) >= _SERVER_ERROR:
                found.wrong.append(f"{sent!r} was answered with {answer[:200]!r}")
        if found.sent % _LOOK_EVERY == 0 and server.request("GET", "/healthz", key="").status != 200:
            found.wrong.append("the server is not well")
            break
    return found


def noise_for_pipe(folder: Path, seconds: float, seed: int = 0) -> Findings:
    """Send mangled lines to `penstock mcp` for a time; afterwards it must still answer."""
    chance, found, end = random.Random(seed), Findings(), time.monotonic() + seconds
    command = [sys.executable, "-m", "penstock", "mcp", "--db", "penstock.db"]
    lines = [
        _call("tools/list"),
        _call("tools/call", name="penstock_workflow_list", arguments={}),
        _call("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "x", "version": "1"}),
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}',
        b'{"jsonrpc":"2.0","id":7,"result":{}}',
        b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]',
    ]
    with subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            while time.monotonic() < end and process.poll() is None:
                noise = chance.randbytes(chance.randint(1, 200)) if chance.random() < 0.1 else None
                line = noise or _mangled(chance, chance.choice(lines))
                process.stdin.write(line.replace(b"\n", b" ") + b"\n")
                process.stdin.flush()
                found.sent += 1
                _read_answers(process.stdout.fileno(), found)
            process.stdin.write(b'{"jsonrpc":"2.0","id":"last","method":"ping","params":{}}\n')
            process.stdin.flush()
            if not _last_is_answered(process.stdout.fileno(), found):
                found.wrong.append(f"no answer after {found.sent} lines (exit code {process.poll()})")
        except BrokenPipeError:
            found.wrong.append(f"the process ended after {found.sent} lines (exit code {process.poll()})")
        finally:
            process.kill()
    return found


def _read_answers(pipe: int, found: Findings, seconds: float = 0.0) -> bytes:
    """Read what is there, and look for internal errors in it."""
    told = b""
    while select.select([pipe], [], [], seconds)[0]:
        part = os.read(pipe, 65_536)
        if not part:
            break
        told += part
    for line in told.splitlines():
        if str(_INTERNAL).encode() in line:
            found.wrong.append(f"an internal error: {line[:300]!r}")
    return told


def _last_is_answered(pipe: int, found: Findings) -> bool:
    end, told = time.monotonic() + SECONDS_MAX, b""
    while b'"last"' not in told:
        told = told[-100:] + _read_answers(pipe, found, 0.5)
        if time.monotonic() > end:
            return False
    return True


def main() -> int:
    """Run both, and say in one line what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long each of the two takes")
    parser.add_argument("--seed", type=int, default=None, help="repeat a run")
    chosen = parser.parse_args()
    seed = chosen.seed if chosen.seed is not None else random.randrange(2**32)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with serving(folder, **SETTINGS) as server:
            port = noise_for_port(server, chosen.seconds, seed)
        pipe = noise_for_pipe(folder, chosen.seconds, seed)
    for line in [*port.wrong[:20], *pipe.wrong[:20]]:
        print(line, file=sys.stderr)
    wrong = len(port.wrong) + len(pipe.wrong)
    told = {"seed": seed, "requests": port.sent, "lines": pipe.sent, "wrong": wrong, "ok": wrong == 0}
    print(json.dumps(told))
    return 0 if wrong == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
