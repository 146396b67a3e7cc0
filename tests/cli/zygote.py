"""Processes of the command line that are born with everything imported.

Hundreds of commands are run by these tests, and most of the time of each is importing. So one process per test worker
imports the command line once and forks for every command: each still runs in a process, folder and environment of its
own, and ends with an exit code. Commands that are killed, or that have a terminal, are started from nothing instead.
"""

from __future__ import annotations

import array
import atexit
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["run_command"]

_IMPORTED = (
    "penstock.cli.main",
    "penstock.cli.run",
    "penstock.cli.runs",
    "penstock.cli.validate",
    "penstock.cli.operations",
    "penstock.app.penstock",
    "penstock.app.gateway",
    "penstock.definitions.build",
)
_REQUEST_BYTES_MAX = 1 << 20
_STREAMS = 3


class _Zygote:
    """The process that forks, as seen from a test worker."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK", "PYTHON"))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.zygote", str(theirs.fileno())],
            cwd=Path(__file__).parents[2],
            env=kept,
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
        theirs.close()
        atexit.register(self._end)

    def _end(self) -> None:
        self._ours.close()
        self._process.wait(timeout=30)

    def kill(self) -> None:
        """End it and the command that it waits for."""
        os.killpg(self._process.pid, signal.SIGKILL)

    def run(self, request: dict[str, Any], streams: Sequence[int], timeout_seconds: float) -> int:
        self._ours.settimeout(timeout_seconds)
        socket.send_fds(self._ours, [json.dumps(request).encode()], list(streams))
        answer = self._ours.recv(_REQUEST_BYTES_MAX)
        code: int = json.loads(answer)["code"]
        return code


_zygote: list[_Zygote] = []


def run_command(
    arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str], timeout_seconds: float
) -> subprocess.CompletedProcess[str]:
    """Run `penstock` with these arguments to its end, without a terminal."""
    if not _zygote:
        _zygote.append(_Zygote())
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, Path(os.devnull).open("rb") as nothing:
        request = {"arguments": list(arguments), "folder": str(folder), "environment": dict(environment)}
        try:
            code = _zygote[0].run(request, (nothing.fileno(), out.fileno(), err.fileno()), timeout_seconds)
        except TimeoutError:
            _zygote.pop().kill()
            raise subprocess.TimeoutExpired(["penstock", *arguments], timeout_seconds) from None
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(["penstock", *arguments], code, out.read().decode(), err.read().decode())


def _serve(requests: socket.socket) -> None:
    while True:
        message, streams, _, _ = socket.recv_fds(requests, _REQUEST_BYTES_MAX, _STREAMS)
        if not message:
            return
        child = os.fork()
        if child == 0:
            requests.close()
            _be(json.loads(message), streams)
        for stream in streams:
            os.close(stream)
        _, status = os.waitpid(child, 0)
        requests.send(json.dumps({"code": os.waitstatus_to_exitcode(status)}).encode())


def _be(request: dict[str, Any], streams: array.array[int] | list[int]) -> None:
    """Become the command, and end with its exit code."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.stdin = open(0, closefd=False, encoding="utf-8")  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False, encoding="utf-8")  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, encoding="utf-8", buffering=1)  # noqa: SIM115
    sys.argv = ["penstock", *request["arguments"]]
    code = 70
    try:
        runpy.run_module("penstock", run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # what a process of its own would print
        sys.excepthook(*sys.exc_info())
        code = 1
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    for module in _IMPORTED:
        __import__(module)
    _serve(socket.socket(fileno=int(sys.argv[1])))
