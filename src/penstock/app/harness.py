"""The conformance harness: the engine behind the 12-operation protocol, one JSON object per line on stdin and stdout.

A driver owns the vectors and talks to this process; see ``scripts/harness``. Surface `kernel` works on given history
rows, surface `port` on the published control-plane functions.

Above it: ``scripts/harness``. Below it: everything; it is part of the composition root because it wires executors.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TextIO

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from penstock import __version__
from penstock.app.harness_kernel import Kernel
from penstock.app.harness_performers import performer_of, resolver_of
from penstock.base.errors import PenstockError, Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.check_schema import published_diagnostics
from penstock.definitions.findings import Severity
from penstock.definitions.outline import is_native
from penstock.definitions.signature import (
    SignatureRefused,
    SigningMode,
    Unsigned,
    Verified,
    public_key_spki,
    sign_definition,
    verify_signature,
)
from penstock.definitions.validate import validate_document
from penstock.runtime.control_plane import Answer, ControlPlane
from penstock.runtime.memory_host import MemoryHost

__all__ = ["Harness", "serve"]

SURFACES = ("port",)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class _Session:
    surface: str
    kernel: Kernel
    control: ControlPlane


@dataclass(slots=True, kw_only=True)
class Harness:
    """Answers requests; sessions do not see each other."""

    clock: Callable[[], int] = _now_ms
    _sessions: dict[str, _Session] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def answer(self, request: JsonObject) -> JsonObject:
        """Answer one request; what goes wrong is an error in the answer, never the end of the process."""
        operations: dict[str, Callable[[JsonObject], JsonValue]] = {
            "hello": self._hello,
            "validate": self._validate,
            "sign_fixture": self._sign,
            "verify_signature": self._verify,
            "open": self._open,
            "close": self._close,
            "append": lambda given: self._session(given).kernel.append(_id(given), _list(given, "rows")),
            "history": lambda given: list(self._session(given).kernel.history(_id(given))),
            "run": lambda given: self._session(given).kernel.run(given),
            "submit": lambda given: self._session(given).kernel.submit(given),
            "resume": lambda given: self._session(given).kernel.resume(given),
            "call": self._call,
        }
        number = request.get("id")
        operation = operations.get(str(request.get("op")))
        if operation is None:
            return {
                "id": number,
                "ok": False,
                "error": f"unknown op {request.get('op')}; known: {', '.join(operations)}",
            }
        try:
            return {"id": number, "ok": True, "value": operation(request)}
        except PenstockError as error:
            return {"id": number, "ok": False, "error": str(error)}

    def _hello(self, given: JsonObject) -> JsonValue:
        return {"engine": f"penstock {__version__}", "surfaces": list(SURFACES)}

    def _validate(self, given: JsonObject) -> JsonValue:
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

    def _sign(self, given: JsonObject) -> JsonValue:
        key = Ed25519PrivateKey.generate()
        key_id = str(given.get("key_id"))
        signed = sign_definition(_object(given, "definition"), key_id=key_id, private_key=key)
        return {"definition": signed, "public_keys": {key_id: public_key_spki(key)}}

    def _verify(self, given: JsonObject) -> JsonValue:
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

    def _open(self, given: JsonObject) -> JsonValue:
        surface = str(given.get("surface"))
        if surface not in ("kernel", *SURFACES):
            raise Rejected("UNKNOWN_SURFACE", f"there is no surface {surface}", f"use kernel, {', '.join(SURFACES)}")
        host = MemoryHost(clock=self.clock, performer=performer_of(given), resolve=resolver_of(given))
        name = f"s{next(self._numbers)}"
        control = ControlPlane(host=host, new_id=lambda: f"r_{name}_{next(self._numbers)}")
        self._sessions[name] = _Session(surface, Kernel(host=host), control)
        return name

    def _close(self, given: JsonObject) -> JsonValue:
        return self._sessions.pop(str(given.get("session")), None) is not None

    def _session(self, given: JsonObject) -> _Session:
        session = self._sessions.get(str(given.get("session")))
        if session is None:
            raise Rejected("UNKNOWN_SESSION", f"there is no session {given.get('session')}", "open one first")
        return session

    def _call(self, given: JsonObject) -> JsonValue:
        reply = self._session(given).control.call(str(given.get("tool")), _object(given, "args"))
        return {"is_error": not isinstance(reply, Answer), "body": reply.body}


def _id(given: JsonObject) -> str:
    return str(given.get("execution_id"))


def _list(given: JsonObject, name: str) -> list[JsonValue]:
    value = given.get(name)
    return value if isinstance(value, list) else []


def _object(given: JsonObject, name: str) -> JsonObject:
    value = given.get(name)
    return value if isinstance(value, dict) else {}


def serve(source: TextIO = sys.stdin, sink: TextIO = sys.stdout) -> None:
    """Answer line by line until the input ends."""
    harness = Harness()
    for line in source:
        if not line.strip():
            continue
        try:
            request = json.loads(line)
        except ValueError as error:
            reply: JsonObject = {"id": None, "ok": False, "error": f"not JSON: {error}"}
        else:
            reply = (
                harness.answer(request)
                if isinstance(request, dict)
                else {"id": None, "ok": False, "error": "not an object"}
            )
        sink.write(json.dumps(reply, ensure_ascii=False) + "\n")
        sink.flush()


if __name__ == "__main__":
    serve()
