"""The same JSON, however it is spelled, is the same request under an idempotency key, on every surface that takes keys.

Requests to webhooks are not among them: their sender's id alone says whether one was there before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.operations.gate.idempotency import digest_arguments
from tests.live.rest.servers import Answer, LiveServer, serving

FIRST: Final = '{"a": {"x": 1, "y": [100, {"p": "\u00e9/", "q": true}]}, "b": 0}'
SPELLED: Final = {
    "the same bytes": FIRST,
    "members in another order": '{"b": 0, "a": {"y": [100, {"q": true, "p": "\u00e9/"}], "x": 1}}',
    "blanks": '{"a":{"x":1,"y":[100,{"p":"\u00e9/","q":true}]},\n\t"b":0}',
    "escapes": '{"\\u0061": {"x": 1, "y": [100, {"p": "\\u00e9\\/", "q": true}]}, "b": 0}',
    "numbers": '{"a": {"x": 1.0, "y": [1e2, {"p": "\u00e9/", "q": true}]}, "b": -0.0}',
}
OTHER: Final = '{"a": {"x": 1, "y": [100, {"p": "\u00e9/", "q": 1}]}, "b": 0}'
ECHO: Final = {
    "penstock": "v1",
    "name": "echo",
    "expose": {"tool": True},
    "nodes": [{"id": "done", "type": "end", "output": ".input"}],
}
AGENT: Final = {
    "penstock": "v1",
    "name": "helper",
    "agent": {"model": "mock", "instructions": "Help."},
    "expose": {"a2a": True},
}
_ABOUT: Final = "io.modelcontextprotocol/"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    folder: Path = tmp_path_factory.mktemp("server")
    with serving(folder, PENSTOCK_SERVER_OPENWOP_SEAM="true") as running:
        running.call("POST", "models", {"id": "mock", "provider": "mock", "model": "m", "replies": ["hello"] * 20})
        for document in (ECHO, AGENT):
            running.call("POST", "workflows", {"document": document})
        yield running


def over_rest(server: LiveServer, text: str, key: str) -> Answer:
    body = f'{{"input": {text}, "sync": true}}'.encode()
    return server.request("POST", "workflows/echo/executions", body, headers={"Idempotency-Key": key})


def over_openwop(server: LiveServer, text: str, key: str) -> Answer:
    body = f'{{"workflowId": "echo", "inputs": {text}}}'.encode()
    return server.request("POST", "/v1/runs", body, headers={"Idempotency-Key": key})


def over_mcp(server: LiveServer, text: str, key: str) -> Answer:
    meta = {
        f"{_ABOUT}protocolVersion": "2026-07-28",
        f"{_ABOUT}clientCapabilities": {},
        f"{_ABOUT}clientInfo": {"name": "t", "version": "1"},
        "penstock/idempotency_key": key,
    }
    params = f'{{"name": "echo", "arguments": {text}, "_meta": {json.dumps(meta)}}}'
    body = f'{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {params}}}'.encode()
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28"}
    return server.request("POST", "/mcp", body, headers={**headers, "Mcp-Method": "tools/call", "Mcp-Name": "echo"})


def over_a2a(server: LiveServer, text: str, key: str) -> Answer:
    message = f'{{"messageId": "{key}", "role": "ROLE_USER", "parts": [{{"text": "Do"}}, {{"data": {text}}}]}}'
    body = f'{{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {{"message": {message}}}}}'.encode()
    return server.request("POST", "/a2a/helper", body, headers={"A2A-Version": "1.0"})


def run_of(answer: Answer) -> str | None:
    """The run that an answer is about; None if it is a refusal."""
    found: list[str] = []

    def look(value: Any) -> None:
        if isinstance(value, dict):
            found.extend(str(value[name]) for name in ("execution_id", "runId") if name in value)
            if isinstance(value.get("task"), dict):
                found.append(str(value["task"]["id"]))
            for member in value.values():
                look(member)

    text = answer.body.decode()
    look(json.loads(text.split("data: ", 1)[1].splitlines()[0] if "data: " in text[:200] else text))
    return found[0] if found else None


SURFACES: Final[dict[str, Callable[[LiveServer, str, str], Answer]]] = {
    "rest": over_rest,
    "mcp": over_mcp,
    "openwop": over_openwop,
    "a2a": over_a2a,
}


@pytest.mark.parametrize("surface", SURFACES)
def test_the_same_json_is_the_same_request(server: LiveServer, surface: str) -> None:
    ask, key = SURFACES[surface], f"k-{surface}"
    begun = ask(server, FIRST, key)
    first = run_of(begun)
    assert first is not None, begun
    answers = {name: ask(server, text, key) for name, text in SPELLED.items()}
    assert {name: run_of(answer) for name, answer in answers.items()} == dict.fromkeys(SPELLED, first), answers
    other = ask(server, OTHER, key)
    assert run_of(other) is None, other
    assert b"IDEMPOTENCY_KEY_REUSED" in other.body or b"idempotency_key_mismatch" in other.body


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def spell_again(value: Any) -> Any:
    """The same value with members in the other order, and whole numbers as the other type."""
    if isinstance(value, dict):
        return {name: spell_again(value[name]) for name in reversed(value)}
    if isinstance(value, list):
        return [spell_again(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53:
        return int(value)
    return float(value) if type(value) is int else value


@given(value=st.dictionaries(st.text(), VALUES, max_size=4))
def test_equal_values_have_equal_digests(value: dict[str, Any]) -> None:
    assert digest_arguments(b"pepper", value) == digest_arguments(b"pepper", spell_again(value))


@given(value=VALUES)
def test_a_boolean_is_no_number_and_a_number_no_text(value: Any) -> None:
    items: tuple[Any, ...] = (1, True, "1", 1.5, [1], None)
    digests = [digest_arguments(b"pepper", {"a": item, "b": value}) for item in items]
    assert len(set(digests)) == len(digests)
