"""One revision of the protocol alone: who is refused, and what is agreed on with the others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.mcp_surface.wire.versions import id_in, pinned_body, refused_version, with_header


def request(**headers: str) -> dict[str, Any]:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http", "method": "POST", "headers": named}


@pytest.mark.parametrize(
    ("only", "headers", "wrong"),
    [
        ("2026-07-28", {"mcp_protocol_version": "2026-07-28"}, None),
        ("2026-07-28", {"mcp_protocol_version": " 2026-07-28 "}, None),
        ("2026-07-28", {"mcp_protocol_version": "2025-11-25"}, "2025-11-25"),
        ("2026-07-28", {}, "a handshake"),
        ("2025-06-18", {}, None),
        ("2025-06-18", {"mcp_protocol_version": "2025-06-18", "mcp_session_id": "s"}, None),
        ("2025-06-18", {"mcp_protocol_version": "2025-11-25"}, None),
        ("2025-06-18", {"mcp_protocol_version": "2025-11-25", "mcp_session_id": "s"}, "2025-11-25"),
        ("2025-06-18", {"mcp_protocol_version": "2026-07-28"}, "2026-07-28"),
    ],
)
def test_a_request_in_another_revision_is_refused(only: str, headers: dict[str, str], wrong: str | None) -> None:
    assert refused_version(only, request(**headers)) == wrong


def test_what_a_client_proposes_becomes_what_there_is() -> None:
    scope = with_header("2025-06-18", request(mcp_protocol_version="2025-11-25", accept="*/*"))
    assert scope["headers"] == [(b"mcp-protocol-version", b"2025-06-18"), (b"accept", b"*/*")]
    sent = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "more": 1}}
    changed = pinned_body("2025-06-18", json.dumps(sent).encode())
    assert changed is not None
    assert json.loads(changed["body"])["params"] == {"protocolVersion": "2025-06-18", "more": 1}


@pytest.mark.parametrize("body", [b"", b"[1]", b"\xff", b'{"method": "ping"}'])
def test_other_bodies_stay_as_they_are(body: bytes) -> None:
    assert pinned_body("2025-06-18", body) is None


@pytest.mark.parametrize(
    ("body", "found"), [(b'{"id": 7}', 7), (b'{"id": "a"}', "a"), (b'{"id": true}', None), (b"{", None), (None, None)]
)
def test_a_refusal_has_the_id_of_its_request(body: bytes | None, found: int | str | None) -> None:
    assert id_in(body) == found
