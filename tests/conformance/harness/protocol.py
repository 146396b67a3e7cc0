"""The conformance harness: the engine behind the published 12-operation protocol, as JSON lines on stdin and stdout.

A driver owns the test vectors and talks to this process (`scripts/harness`). The surface `kernel` works on history rows
that the driver sends; `port` calls the published control functions. `rest`, `sdk` and `mcp` call the same functions the
way users reach them: over HTTP, in a program and as tools, always on a file (see `surfaces`).
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from penstock import __version__
from penstock.base.clock import Clock, ManualClock
from penstock.base.errors import PenstockError, Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.checks.shape.document import published_diagnostics
from penstock.definitions.outline.document import is_native
from penstock.definitions.signature import (
    SignatureRefused,
    SigningMode,
    Unsigned,
    Verified,
    public_key_spki,
    sign_definition,
    verify_signature,
)
from penstock.definitions.source.findings import Severity
from penstock.definitions.validate import validate_document
from penstock.runtime.activities.performing import Performer
from penstock.runtime.control_plane.functions import CallResult, ControlHost, ControlPlane
from penstock.runtime.control_plane.hosts import HostControl, MemoryControl
from penstock.runtime.host.driver import Driver
from penstock.runtime.host.embedded import EmbeddedHost
from penstock.runtime.host.memory import MemoryHost
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.system import SystemClock, new_worker_id
from penstock.runtime.tables.runs.store import RunStore
from tests.conformance.harness.activities import InThread, keep_test_child, performer_of, resolver_of
from tests.conformance.harness.kernel import Kernel
from tests.conformance.harness.surfaces import SERVED_SURFACES, Call, open_surface

__all__ = ["Harness", "main", "serve"]

SURFACES = ("port", *SERVED_SURFACES)


@dataclass(slots=True, kw_only=True)
class _Session:
    """What a driver opened; only one that holds its own host has a kernel."""

    call: Call
    close: Callable[[], Awaitable[None]]
    kernel: Kernel | None = None


Operation = Callable[[JsonObject], Awaitable[JsonValue]]


@dataclass(slots=True, kw_only=True)
class Harness:
    """Answers requests; sessions do not see each other. With `sqlite` every session has a file of its own.

    Its clock stands still: answers must be equal on all surfaces, and some of them name an instant.
    """

    sqlite: bool = False
    surfaces: tuple[str, ...] = SURFACES
    clock: Clock = field(default_factory=lambda: ManualClock(SystemClock().now_ms()))
    _sessions: dict[str, _Session] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    async def answer(self, request: JsonObject) -> JsonObject:
        """CallResult one request; what goes wrong is an error in the answer, never the end of the process."""
        operations: dict[str, Operation] = {
            "hello": self._hello,
            "validate": self._validate,
            "sign_fixture": self._sign,
            "verify_signature": self._verify,
            "open": self._open,
            "close": self._close,
            "append": self._append,
            "history": self._history,
            "run": self._run,
            "submit": self._submit,
            "resume": self._resume,
            "call": self._call,
        }
        number = request.get("id")
        operation = operations.get(str(request.get("op")))
        if operation is None:
            told = f"unknown op {request.get('op')}; known: {', '.join(operations)}"
            return {"id": number, "ok": False, "error": told}
        try:
            return {"id": number, "ok": True, "value": await operation(request)}
        except PenstockError as error:
            return {"id": number, "ok": False, "error": str(error)}

    async def _append(self, given: JsonObject) -> JsonValue:
        return self._kernel(given).append(_id(given), _list(given, "rows"))

    async def _history(self, given: JsonObject) -> JsonValue:
        return await self._kernel(given).history(_id(given))

    async def _run(self, given: JsonObject) -> JsonValue:
        return await self._kernel(given).run(given)

    async def _submit(self, given: JsonObject) -> JsonValue:
        return await self._kernel(given).submit(given)

    async def _resume(self, given: JsonObject) -> JsonValue:
        return await self._kernel(given).resume(given)

    async def _hello(self, given: JsonObject) -> JsonValue:
        return {"engine": f"penstock {__version__}", "surfaces": list(self.surfaces)}

    async def _validate(self, given: JsonObject) -> JsonValue:
        definition = given.get("definition")
        errors: list[JsonValue] = [
            {"instancePath": item.instance_path, "keyword": item.keyword, "message": item.message}
            for item in ([] if is_native(definition) else published_diagnostics(definition))
        ]
        if not errors:
            errors = [
                {"instancePath": item.path, "keyword": item.keyword or item.code, "message": item.message}
                for item in validate_document(definition)
                if item.severity is Severity.ERROR
            ]
        return {"ok": False, "errors": errors} if errors else {"ok": True}

    async def _sign(self, given: JsonObject) -> JsonValue:
        key = Ed25519PrivateKey.generate()
        key_id = str(given.get("key_id"))
        signed = sign_definition(_object(given, "definition"), key_id=key_id, private_key=key)
        return {"definition": signed, "public_keys": {key_id: public_key_spki(key)}}

    async def _verify(self, given: JsonObject) -> JsonValue:
        policy = given.get("policy")
        mode = SigningMode(str(policy.get("mode", "optional")) if isinstance(policy, dict) else "optional")
        keys = {name: str(key) for name, key in _object(given, "public_keys").items()}
        match verify_signature(_object(given, "definition"), mode=mode, public_keys=keys):
            case Verified():
                return {"ok": True, "verified": True}
            case Unsigned():
                return {"ok": True, "verified": False}
            case SignatureRefused(code=code, message=message):
                return {"ok": False, "verified": False, "error": {"code": code, "message": message}}

    async def _open(self, given: JsonObject) -> JsonValue:
        surface = str(given.get("surface"))
        if surface not in ("kernel", *self.surfaces):
            known = ", ".join(self.surfaces)
            raise Rejected("UNKNOWN_SURFACE", f"there is no surface {surface}", f"use kernel, {known}")
        name = f"s{next(self._numbers)}"
        opened = self._served if surface in SERVED_SURFACES else self._hosted
        self._sessions[name] = await opened(name, surface, given)
        return name

    async def _served(self, name: str, surface: str, given: JsonObject) -> _Session:
        """A session on a surface that users have."""
        stack = AsyncExitStack()
        call = await stack.enter_async_context(open_surface(surface, given, self.clock))
        return _Session(call=call, close=stack.aclose)

    async def _hosted(self, name: str, surface: str, given: JsonObject) -> _Session:
        """A session with a host of its own."""
        performer = performer_of(given)
        host, close = await self._sqlite_host(given, performer) if self.sqlite else self._memory_host(given, performer)
        control = ControlPlane(host=host, new_id=lambda: f"r_{name}_{next(self._numbers)}")

        async def call(tool: str, arguments: JsonObject) -> tuple[bool, JsonObject]:
            reply = await control.call(tool, arguments)
            return not isinstance(reply, CallResult), reply.body

        return _Session(call=call, close=close, kernel=Kernel(host=host))

    def _memory_host(
        self, given: JsonObject, performer: Performer
    ) -> tuple[ControlHost, Callable[[], Awaitable[None]]]:
        host = MemoryHost(clock=self.clock.now_ms, performer=performer, resolve=resolver_of(given))
        return MemoryControl(host), _nothing

    async def _sqlite_host(
        self, given: JsonObject, performer: Performer
    ) -> tuple[ControlHost, Callable[[], Awaitable[None]]]:
        folder = tempfile.TemporaryDirectory(prefix="penstock-harness-")
        store = RunStore(SqliteDatabase(Path(folder.name) / "penstock.db"))
        await store.open()
        host = EmbeddedHost(store=store, clock=self.clock, worker_id=new_worker_id())
        driver = Driver(host=host, performer=InThread(performer))
        await keep_test_child(store, given)
        await driver.start()

        async def close() -> None:
            await driver.stop()
            await store.close()
            folder.cleanup()

        return HostControl(host), close

    async def _close(self, given: JsonObject) -> JsonValue:
        session = self._sessions.pop(str(given.get("session")), None)
        if session is not None:
            await session.close()
        return session is not None

    async def close(self) -> None:
        """Close every session that is still open."""
        for name in tuple(self._sessions):
            await self._close({"session": name})

    def _session(self, given: JsonObject) -> _Session:
        session = self._sessions.get(str(given.get("session")))
        if session is None:
            raise Rejected("UNKNOWN_SESSION", f"there is no session {given.get('session')}", "open one first")
        return session

    def _kernel(self, given: JsonObject) -> Kernel:
        kernel = self._session(given).kernel
        if kernel is None:
            raise Rejected("NOT_ON_THIS_SURFACE", "this surface has no histories of its own", "open kernel for that")
        return kernel

    async def _call(self, given: JsonObject) -> JsonValue:
        is_error, body = await self._session(given).call(str(given.get("tool")), _object(given, "args"))
        return {"is_error": is_error, "body": body}


def _id(given: JsonObject) -> str:
    return str(given.get("execution_id"))


def _list(given: JsonObject, name: str) -> list[JsonValue]:
    value = given.get(name)
    return value if isinstance(value, list) else []


def _object(given: JsonObject, name: str) -> JsonObject:
    value = given.get(name)
    return value if isinstance(value, dict) else {}


async def _nothing() -> None:
    """A session in memory leaves nothing behind."""


async def serve(source: TextIO, sink: TextIO, *, sqlite: bool, surfaces: Sequence[str] = SURFACES) -> None:
    """CallResult line by line until the input ends."""
    harness = Harness(sqlite=sqlite, surfaces=tuple(surfaces))
    while line := await asyncio.to_thread(source.readline):
        if not line.strip():
            continue
        sink.write(json.dumps(await _reply(harness, line), ensure_ascii=False) + "\n")
        sink.flush()
    await harness.close()


async def _reply(harness: Harness, line: str) -> JsonObject:
    try:
        request = json.loads(line)
    except ValueError as error:
        return {"id": None, "ok": False, "error": f"not JSON: {error}"}
    if not isinstance(request, dict):
        return {"id": None, "ok": False, "error": "a request is a JSON object"}
    return await harness.answer(request)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The engine behind the conformance protocol, on stdin and stdout.")
    parser.add_argument("--sqlite", action="store_true", help="keep the runs of kernel and port in files")
    parser.add_argument("--surfaces", nargs="+", choices=SURFACES, default=SURFACES, help="only these, beside kernel")
    return parser.parse_args()


def main() -> None:
    """Serve standard input until it ends."""
    options = _options()
    asyncio.run(serve(sys.stdin, sys.stdout, sqlite=options.sqlite, surfaces=options.surfaces))
