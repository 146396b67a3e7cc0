"""Messages that are wrong in some way: every part of every request, replaced by what does not belong there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

__all__ = ["GARBAGE", "META", "Broken", "broken_requests", "is_internal"]

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {
        "elicitation": {},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    },
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
}
_DEEP = "[" * 4_000 + "]" * 4_000
_HOLE = "\0"
# As they stand in JSON: some of them are none.
_VALUES = (
    "null",
    "true",
    "-1",
    "1.5",
    "1e400",
    "NaN",
    "9" * 400,
    '""',
    '"x"',
    '"\\ud800"',
    '"\\u0000\\u202e"',
    json.dumps("[" * 4_000),
    '"' + "a" * 20_000 + '"',
    "[]",
    '{"a":1}',
    _DEEP,
    '{"a":' * 2_000 + "1" + "}" * 2_000,
    '"penstock://workflows/%2e%2e%2f%ff"',
)
GARBAGE = (
    b"{",
    b"[]",
    b"[1]",
    b"null",
    b'"x"',
    b"\xff\xfe",
    _DEEP.encode(),
    b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
    b'{"jsonrpc":"2.0"}',
    b'{"jsonrpc":"2.0","id":77,"result":' + _DEEP.encode() + b"}",
    b'{"jsonrpc":"2.0","id":77,"error":{"code":"x"}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}',
    b'{"jsonrpc":"2.0","method":"notifications/nothing","params":"\\ud800"}',
)


@dataclass(frozen=True, slots=True)
class Broken:
    """A request: its method, what its header names, and its parameters as they are sent."""

    method: str
    name: str | None
    params: str

    def body(self, number: int, *, with_envelope: bool) -> bytes:
        """The message."""
        params = self.params
        if with_envelope and params.startswith("{"):
            rest = params[1:] if params == "{}" else f",{params[1:]}"
            params = f'{{"_meta":{json.dumps(META)}{rest}'
        text = f'{{"jsonrpc":"2.0","id":{number},"method":"{self.method}","params":{params}}}'
        return text.encode("utf-8", "surrogatepass")


def is_internal(text: str) -> bool:
    """Whether an answer blames the server, or shows what it looks like inside."""
    signs = ("-32603", "INTERNAL_ERROR", "Traceback", "site-packages", "sqlite", '.py"')
    return any(sign in text for sign in signs)


def _requests(execution_id: str) -> Iterator[tuple[str, str | None, dict[str, Any]]]:
    answer = {"question": {"action": "accept", "content": {"approved": True}}}
    tools: tuple[tuple[str, dict[str, Any]], ...] = (
        ("greet", {"name": "Ada"}),
        ("echo", {"out": {"type": "text", "text": "x", "annotations": {"audience": ["user"]}}}),
        ("echo", {"out": [{"type": "resource", "resource": {"uri": "a://b", "blob": "eA=="}}]}),
        ("penstock_execution_status", {"execution_id": execution_id}),
        ("penstock_execution_answer", {"execution_id": execution_id, "answer": {"approved": "x"}}),
        ("penstock_control_workflow_resume", {"execution_id": execution_id, "resume_payload": 1, "node_id": "x"}),
        ("penstock_tools_call", {"name": "penstock_workflow_list", "arguments": {"limit": 1}}),
    )
    for name, arguments in tools:
        yield "tools/call", name, {"name": name, "arguments": arguments}
    more = {"inputResponses": answer, "requestState": "x"}
    yield "tools/call", "refund_order", {"name": "refund_order", "arguments": {"order": "1"}, **more}
    yield "tasks/get", execution_id, {"taskId": execution_id}
    yield "tasks/update", execution_id, {"taskId": execution_id, "inputResponses": answer}
    yield "tasks/cancel", "none", {"taskId": "none"}
    yield "prompts/get", "greet", {"name": "greet", "arguments": {"name": "Ada"}}
    yield "prompts/get", "echo", {"name": "echo", "arguments": {"out": "x"}}
    yield "resources/read", "penstock://workflows/greet", {"uri": "penstock://workflows/greet"}
    yield "resources/read", "echo://1", {"uri": "echo://1"}
    reference = {"type": "ref/prompt", "name": "greet"}
    chosen = {"arguments": {"workflow_id": "greet"}}
    completed = {"ref": reference, "argument": {"name": "tone", "value": "f"}, "context": chosen}
    yield "completion/complete", None, completed
    yield "tools/list", None, {"cursor": "x"}


def _holes(value: Any) -> Iterator[Any]:
    """A value with a hole in the place of each of its parts, and without each of its members."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield {**value, name: _HOLE}
            yield {key: kept for key, kept in value.items() if key != name}
            for inner in _holes(member):
                yield {**value, name: inner}
    elif isinstance(value, list):
        yield from ([inner] for item in value for inner in (_HOLE, *_holes(item)))


def broken_requests(execution_id: str, *, every: int = 1) -> list[Broken]:
    """The requests, or only some of them, spread over all kinds."""
    found: list[Broken] = []
    for method, name, params in _requests(execution_id):
        for holed in (_HOLE, *_holes(params)):
            text = json.dumps(holed)
            if json.dumps(_HOLE) not in text:
                found.append(Broken(method, name, text))
                continue
            found.extend(Broken(method, name, text.replace(json.dumps(_HOLE), value)) for value in _VALUES)
    return found[::every]
