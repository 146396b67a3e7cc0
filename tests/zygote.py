"""A zygote: one process per test worker that imports the command line once, and forks for every command of a test.

Tests run hundreds of commands and servers, and each would spend most of its time importing. A fork is still a process
with its own folder, environment and exit code, and can be killed. Commands that need a terminal are started afresh, and
so is everything whose start is measured.

Some commands are started by others: a client starts its server, Penstock starts a tool server, a shell starts a
command. These take a command line. `piped_command` and `piped_script` return one that runs `tests/fixtures/piped.py`: a
small process that hands its streams to a fork, forwards signals to it, and ends when it ends.

Above it: tests that start processes. Below it: Linux (`pidfd_open`, abstract sockets), the modules that it imports in
advance.
"""

from __future__ import annotations

import array
import atexit
import json
import os
import runpy
import secrets
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["Forked", "piped_command", "piped_folder", "piped_script", "run_command", "start_command"]

_IMPORTED = (
    "penstock.cli.main",
    "penstock.cli.run.command",
    "penstock.cli.runs",
    "penstock.cli.server.serve",
    "penstock.cli.documents.validate",
    "penstock.cli.operations.commands",
    "penstock.app.penstock",
    "penstock.app.gate",
    "penstock.app.serving.server",
    "penstock.definitions.build.workflow",
    "penstock.mcp_surface.entry_points",
    "uvicorn",
    "uvloop",
    "httptools",
)
# Imported in advance only by workers that start programs through a pipe.
_IMPORTED_BY_PIPED = ("mcp.server.mcpserver", "anyio._backends._asyncio")
_PIPED = Path(__file__).parent / "fixtures" / "piped.py"
_MESSAGE_BYTES_MAX = 1 << 20
_STREAMS = 3


class _Zygote:
    """The process that forks, as seen from a test worker."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # An abstract socket has no file, and disappears with the process.
        self.address = f"penstock-tests-{os.getpid()}-{secrets.token_hex(8)}"
        piped = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        piped.bind(f"\0{self.address}")
        piped.listen()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK", "PYTHON"))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.zygote", str(theirs.fileno()), str(piped.fileno())],
            cwd=Path(__file__).parents[1],
            env=kept,
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(), piped.fileno()),
            start_new_session=True,
        )
        theirs.close()
        piped.close()
        atexit.register(self._end)

    def _end(self) -> None:
        self._ours.close()
        self._process.wait(timeout=240)

    def ask(self, request: dict[str, Any], streams: Sequence[int] = ()) -> int:
        """Send a request, and return the answer: a process id, or an exit code."""
        with self._lock:
            socket.send_fds(self._ours, [json.dumps(request).encode()], list(streams))
            answer = self._ours.recv(_MESSAGE_BYTES_MAX)
        number: int = json.loads(answer)
        return number


_zygote: list[_Zygote] = []
_starting = threading.Lock()


class Forked:
    """A process that the zygote forked, with the part of `subprocess.Popen` that tests use."""

    def __init__(self, zygote: _Zygote, arguments: Sequence[str], pid: int) -> None:
        self._zygote = zygote
        self._handle = os.pidfd_open(pid)
        self.arguments = list(arguments)
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended, and return the exit code."""
        if self.returncode is None:
            poll = select.poll()
            poll.register(self._handle, select.POLLIN)
            if not poll.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired(self.arguments, timeout or 0)
            os.close(self._handle)
            self.returncode = self._zygote.ask({"reap": self.pid})
        return self.returncode

    def send_signal(self, how: signal.Signals) -> None:
        """Send it a signal."""
        if self.returncode is None:
            signal.pidfd_send_signal(self._handle, how)


def _the_zygote() -> _Zygote:
    with _starting:
        if not _zygote:
            _zygote.append(_Zygote())
    return _zygote[0]


def piped_script(script: Path, *arguments: str) -> tuple[str, ...]:
    """A command that runs a Python script as `python script` does, with its imports done in advance."""
    return (sys.executable, "-I", "-S", str(_PIPED), _the_zygote().address, str(script), *arguments)


def piped_command(*arguments: str) -> tuple[str, ...]:
    """A command that runs `penstock` with these arguments as `python -m penstock` does."""
    return (sys.executable, "-I", "-S", str(_PIPED), _the_zygote().address, "", *arguments)


def piped_folder(folder: Path) -> Path:
    """A folder for a shell's PATH in which `penstock` and `python SCRIPT` are such commands."""
    folder.mkdir(exist_ok=True)
    for name, command in (("penstock", piped_command()), ("python", piped_command()[:-1])):
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
    return folder


def start_command(
    arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str], streams: tuple[int, int, int]
) -> Forked:
    """Start `penstock` with these arguments, and these descriptors as its standard streams."""
    zygote = _the_zygote()
    request = {"arguments": list(arguments), "folder": str(folder), "environment": dict(environment)}
    return Forked(zygote, arguments, zygote.ask(request, streams))


def run_command(
    arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str], timeout_seconds: float
) -> subprocess.CompletedProcess[str]:
    """Run `penstock` with these arguments to its end, without a terminal."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, Path(os.devnull).open("rb") as nothing:
        streams = (nothing.fileno(), out.fileno(), err.fileno())
        process = start_command(arguments, folder=folder, environment=environment, streams=streams)
        try:
            code = process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            raise
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(["penstock", *arguments], code, out.read().decode(), err.read().decode())


def _serve(requests: socket.socket, piped: socket.socket) -> None:
    children: set[int] = set()
    keepers: set[int] = set()
    while True:
        ready, _, _ = select.select([requests, piped], [], [])
        keepers = {keeper for keeper in keepers if os.waitpid(keeper, os.WNOHANG) == (0, 0)}
        if piped in ready:
            _import(_IMPORTED_BY_PIPED)
            caller, _ = piped.accept()
            if keeper := os.fork():
                keepers.add(keeper)
                caller.close()
            else:
                requests.close()
                piped.close()
                _keep(caller)
        if requests not in ready:
            continue
        message, streams, _, _ = socket.recv_fds(requests, _MESSAGE_BYTES_MAX, _STREAMS)
        if not message:
            break
        request = json.loads(message)
        if "reap" in request:
            children.discard(request["reap"])
            _, status = os.waitpid(request["reap"], 0)
            answer = os.waitstatus_to_exitcode(status)
        else:
            answer = os.fork()
            if answer == 0:
                requests.close()
                piped.close()
                _be(request, streams)
            children.add(answer)
            for stream in streams:
                os.close(stream)
        requests.send(json.dumps(answer).encode())
    for child in children:
        os.kill(child, signal.SIGKILL)


def _keep(caller: socket.socket) -> None:
    """Run what the process at the other end requests; neither outlives the other."""
    message, streams, _, _ = socket.recv_fds(caller, _MESSAGE_BYTES_MAX, _STREAMS)
    if message:
        child = os.fork()
        if child == 0:
            caller.close()
            _be(json.loads(message), streams)
        for stream in streams:
            os.close(stream)
        ended = os.pidfd_open(child)
        while ended not in select.select([ended, caller.fileno()], [], [])[0]:
            # A message is the number of a signal to forward; an empty one means that the other end is gone.
            os.kill(child, int(caller.recv(_MESSAGE_BYTES_MAX) or signal.SIGKILL))
        _, status = os.waitpid(child, 0)
        with suppress(OSError):
            caller.send(json.dumps(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _be(request: dict[str, Any], streams: array.array[int] | list[int]) -> None:
    """Become the command, and end with its exit code."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.stdin = open(0, closefd=False, encoding="utf-8")  # noqa: SIM115
    buffering = 1 if request["environment"].get("PYTHONUNBUFFERED") else -1
    sys.stdout = open(1, "w", closefd=False, encoding="utf-8", buffering=buffering)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, encoding="utf-8", buffering=1)  # noqa: SIM115
    script = request.get("script")
    sys.argv = [script, *request["arguments"]] if script else ["penstock", *request["arguments"]]
    code = 70
    try:
        if script:
            runpy.run_path(script, run_name="__main__")
        else:
            runpy.run_module("penstock", run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # print what a process of its own would print
        sys.excepthook(*sys.exc_info())
        code = 1
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _import(modules: Sequence[str]) -> None:
    for module in modules:
        __import__(module)


if __name__ == "__main__":
    _import(_IMPORTED)
    _serve(*(socket.socket(fileno=int(number)) for number in sys.argv[1:]))
