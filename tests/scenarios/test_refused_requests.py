"""Whatever a server refuses is on record: every kind of refusal, on every surface, over a real socket.

Each request comes from an address of its own on this machine, so that its record is found by that. The server is asked
to end, which writes what was gathered; then the trail is read from its file.
"""

from __future__ import annotations

import asyncio
import json
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from penstock.app.gate import open_gate
from penstock.app.penstock import Penstock
from penstock.base import limits
from penstock.operations.gate.audit_log import ANONYMOUS_TENANT
from penstock.operations.gate.refusals import VARIOUS
from penstock.runtime.ports.platform import AuditEntry, AuditQuery
from penstock.runtime.tables.audit.records import list_audit
from tests.live.mcp.broken_messages import META
from tests.live.rest.servers import LiveServer, serving
from tests.waiting import SECONDS_MAX

# Stands in paths, queries, bodies and names that are refused; no record may have it.
MARKER = "s3cr3t-marker"
KEY = "{key}"
TOO_LARGE = {"Content-Length": "9999999999", "Expect": "100-continue"}
LARGE = b" " * (limits.REQUEST_BYTES_MAX + 1)
MODERN = "2026-07-28"
LEGACY = "2025-06-18"
# More than there are places.
CROWD = 8
# So few writes a minute that the second one at once is too many.
FEW_WRITES = {"PENSTOCK_LIMITS_WRITE_PER_MINUTE": "6", "PENSTOCK_SERVER_MCP_MAX_CONCURRENT_REQUESTS": "2"}


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A request, and what its record says."""

    name: str
    code: str
    method: str = "GET"
    path: str = "/"
    key: str = KEY
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    raw: bytes | None = None
    surface: str = "rest"
    operation: str | None = None
    known: bool | None = None
    """Whether the record names a principal; None: as there is a key."""
    crowded: bool = False
    """Whether it comes when there is no place."""

    def sent(self, key: str) -> bytes:
        """The request as it is sent."""
        if self.raw is not None:
            return self.raw
        headers = {"Host": "127.0.0.1", "Connection": "close", **self.headers}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key.format(key=key)}"
        if self.method not in ("GET", "HEAD"):
            headers.setdefault("Content-Length", str(len(self.body)))
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"{self.method} {self.path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + self.body


JSON = {"Content-Type": "application/json"}
BIG_HEAD = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Much: " + b"a" * (limits.REQUEST_HEAD_BYTES_MAX + 1) + b"\r\n\r\n"
LONG_TARGET = b"GET /" + b"a" * (limits.REQUEST_TARGET_BYTES_MAX + 1) + b" HTTP/1.1\r\nHost: x\r\n\r\n"
REST = [
    Refusal(name="no route", path=f"/api/v0/{MARKER}", key="", code="ROUTE_NOT_FOUND"),
    Refusal(name="no route, with a key", path=f"/{MARKER}?token={MARKER}", code="ROUTE_NOT_FOUND"),
    Refusal(name="no route, with a wrong key", path="/nothing", key=f"pen_{MARKER}", code="ROUTE_NOT_FOUND"),
    Refusal(name="method", method="PATCH", path="/api/v0/workflows", code="METHOD_NOT_ALLOWED"),
    Refusal(name="method without a key", method="PUT", path="/api/v0/keys", key="", code="METHOD_NOT_ALLOWED"),
    Refusal(name="method of a page", method="POST", path="/healthz", key="", code="METHOD_NOT_ALLOWED"),
    Refusal(name="no key", path="/api/v0/keys", key="", code="UNAUTHENTICATED", operation="key.list"),
    Refusal(name="a wrong key", path="/api/v0/keys", key=f"pen_{MARKER}", code="UNAUTHENTICATED"),
    Refusal(name="no key for metrics", path="/metrics", key="", code="UNAUTHENTICATED"),
    Refusal(
        name="no JSON",
        method="POST",
        path="/api/v0/workflows",
        headers=JSON,
        body=f'{{"{MARKER}'.encode(),
        code="MALFORMED_JSON",
        operation="workflow.create",
    ),
    Refusal(name="no UTF-8", path="/api/v0/workflows/%ff", code="MALFORMED_REQUEST", operation="workflow.get"),
    Refusal(name="unknown parameter", path=f"/api/v0/workflows?{MARKER}=1", code="UNKNOWN_PARAMETER"),
    Refusal(
        name="media type",
        method="POST",
        path="/api/v0/workflows",
        headers={"Content-Type": "text/html"},
        body=b"x",
        code="UNSUPPORTED_MEDIA_TYPE",
    ),
    Refusal(name="too large", method="POST", path="/api/v0/workflows", headers=TOO_LARGE, code="BODY_TOO_LARGE"),
    Refusal(name="two ids", path="/api/v0/keys", headers={"If-Match": "1", "if-match": "2"}, code="MALFORMED_REQUEST"),
    Refusal(name="no HTTP", raw=b"\x16\x03\x01 nonsense\r\n\r\n", code="MALFORMED_REQUEST", known=False),
    Refusal(name="large head", raw=BIG_HEAD, code="HEADERS_TOO_LARGE", known=False),
    Refusal(name="long target", raw=LONG_TARGET, code="TARGET_TOO_LONG", known=False),
    Refusal(name="a write", method="DELETE", path="/api/v0/workflows/nothing", code="WORKFLOW_NOT_FOUND"),
    Refusal(
        name="above the rate",
        method="DELETE",
        path="/api/v0/workflows/nothing",
        code="RATE_LIMITED",
        operation="workflow.delete",
    ),
    Refusal(
        name="no webhook",
        method="POST",
        path=f"/hooks/{MARKER}",
        key="",
        code="WEBHOOK_NOT_FOUND",
        surface="webhook",
    ),
    Refusal(
        name="large webhook",
        method="POST",
        path="/hooks/x",
        headers=TOO_LARGE,
        code="BODY_TOO_LARGE",
        surface="webhook",
    ),
]


def message(method: str, *, envelope: bool = False, **params: Any) -> bytes:
    given = {**params, "_meta": META} if envelope else params
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": given}).encode()


def mcp(name: str, code: str, *, path: str = "/mcp", **more: Any) -> Refusal:
    return Refusal(name=name, code=code, path=path, surface="mcp", **{"method": "POST", **more})


BOTH = {**JSON, "Accept": "application/json, text/event-stream"}


def modern(name: str, code: str, body: bytes, path: str = "/mcp", **headers: str) -> Refusal:
    named = {**BOTH, "MCP-Protocol-Version": MODERN, **{key.replace("_", "-"): value for key, value in headers.items()}}
    return mcp(f"modern: {name}", code, body=body, headers=named, path=path)


def legacy(name: str, code: str, body: bytes, version: str = LEGACY) -> Refusal:
    """A client of the handshake era, with a session that this process does not know and need not."""
    headers = {**BOTH, "MCP-Protocol-Version": version, "Mcp-Session-Id": "0" * 32}
    return mcp(f"legacy: {name}", code, body=body, headers=headers)


CALL: dict[str, Any] = {"Mcp_Method": "tools/call", "Mcp_Name": MARKER}
UNKNOWN_TOOL: dict[str, Any] = {"name": MARKER, "arguments": {}}
DELETE: dict[str, Any] = {"name": "penstock_workflow_delete", "arguments": {"workflow_id": "nothing"}}
DELETES: dict[str, Any] = {"path": "/mcp?toolset=all", "Mcp_Method": "tools/call", "Mcp_Name": DELETE["name"]}
MCP = [
    mcp("no key", "UNAUTHENTICATED", key=""),
    mcp("method", "METHOD_NOT_ALLOWED", method="PUT"),
    mcp("host", "HOST_NOT_ALLOWED", headers={"Host": f"{MARKER}.example"}),
    mcp("origin", "ORIGIN_NOT_ALLOWED", key="", headers={"Origin": f"https://{MARKER}.example"}),
    mcp("answer page", "ROUTE_NOT_FOUND", method="GET", path=f"/answer/{MARKER}", key=""),
    mcp("old stream", "METHOD_NOT_ALLOWED", path="/mcp/sse", headers=BOTH, body=message("ping")),
    mcp("busy", "TOO_MANY_REQUESTS_IN_FLIGHT", headers=BOTH, body=message("ping"), crowded=True),
]
ERAS = [
    modern("no JSON", "MALFORMED_JSON", f'{{"{MARKER}'.encode(), Mcp_Method="ping"),
    modern("no message", "MALFORMED_REQUEST", b'{"jsonrpc":"1.0","id":1,"method":"ping"}', Mcp_Method="ping"),
    modern("method", "METHOD_NOT_FOUND", message("nothing/here", envelope=True), Mcp_Method="nothing/here"),
    modern("header", "HEADER_MISMATCH", message("tools/list", envelope=True), Mcp_Method="tools/call"),
    modern("tool", "OPERATION_NOT_FOUND", message("tools/call", envelope=True, **UNKNOWN_TOOL), **CALL),
    modern("write", "WORKFLOW_NOT_FOUND", message("tools/call", envelope=True, **DELETE), **DELETES),
    modern("above the rate", "RATE_LIMITED", message("tools/call", envelope=True, **DELETE), **DELETES),
    mcp(
        "modern: version",
        "PROTOCOL_VERSION_UNSUPPORTED",
        headers={**BOTH, "MCP-Protocol-Version": "2031-01-01", "Mcp-Method": "tools/list"},
        body=message("tools/list", envelope=True).replace(MODERN.encode(), b"2031-01-01"),
    ),
    modern("too large", "BODY_TOO_LARGE", LARGE, Mcp_Method="ping"),
    legacy("no JSON", "MALFORMED_JSON", f'{{"{MARKER}'.encode()),
    legacy("no message", "MALFORMED_REQUEST", b'{"jsonrpc":"1.0","id":1,"method":"ping"}'),
    legacy("a list", "MALFORMED_REQUEST", b"[]"),
    legacy("a bad message in a list", "MALFORMED_REQUEST", b'[{"jsonrpc":"2.0","id":{}}]', "2025-03-26"),
    legacy("method", "METHOD_NOT_FOUND", message("nothing/here")),
    legacy("parameters", "INVALID_ARGUMENTS", message("tools/call", name=7)),
    legacy("tool", "OPERATION_NOT_FOUND", message("tools/call", **UNKNOWN_TOOL)),
    legacy("resource", "RESOURCE_NOT_FOUND", message("resources/read", uri="penstock://workflows/nothing/at/all")),
    legacy("too large", "BODY_TOO_LARGE", LARGE),
]


def wop(name: str, code: str, path: str, **more: Any) -> Refusal:
    return Refusal(name=name, code=code, path=path, **{"method": "POST", "headers": JSON, **more})


OPENWOP = [
    wop("no route", "ROUTE_NOT_FOUND", f"/v1/{MARKER}", key="", method="GET"),
    wop("no route, with a key", "ROUTE_NOT_FOUND", f"/v1/{MARKER}", method="GET"),
    wop("method", "METHOD_NOT_ALLOWED", "/v1/runs", method="DELETE"),
    wop("no key", "UNAUTHENTICATED", "/v1/runs", key="", body=b"{}"),
    wop("no JSON", "MALFORMED_REQUEST", "/v1/runs", body=f'{{"{MARKER}'.encode()),
    wop("too large", "BODY_TOO_LARGE", "/v1/runs", headers=TOO_LARGE),
    wop("version", "WIRE_VERSION_UNSUPPORTED", "/v1/runs", headers={**JSON, "OpenWOP-Version": "9"}, body=b"{}"),
    wop("no workflow", "WORKFLOW_NOT_FOUND", "/v1/runs", body=b'{"workflowId":"nothing"}'),
    mcp("plain: no key", "UNAUTHENTICATED", path="/v1/mcp", key="", body=message("ping")),
    mcp("plain: method of HTTP", "METHOD_NOT_ALLOWED", path="/v1/mcp", method="GET"),
    mcp("plain: too large", "BODY_TOO_LARGE", path="/v1/mcp", body=LARGE),
    mcp("plain: no JSON", "MALFORMED_JSON", path="/v1/mcp", body=f'{{"{MARKER}'.encode()),
    mcp("plain: no message", "MALFORMED_REQUEST", path="/v1/mcp", body=b'{"jsonrpc":"1.0"}'),
    mcp("plain: method", "METHOD_NOT_FOUND", path="/v1/mcp", body=message("nothing/here")),
    mcp("plain: tool", "OPERATION_NOT_FOUND", path="/v1/mcp", body=message("tools/call", **UNKNOWN_TOOL)),
    mcp("plain: parameters", "INVALID_ARGUMENTS", path="/v1/mcp", body=message("tools/call", name=7)),
]
SURFACES = {"REST": REST, "MCP": MCP, "both eras of MCP": ERAS, "OpenWOP": OPENWOP}


def connected(server: LiveServer, address: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS_MAX, source_address=(address, 0))


def answered(connection: socket.socket, sent: bytes) -> bytes:
    """The whole answer to a request that is the last on its connection; a server may hang up on what is too large."""
    parts = []
    with suppress(ConnectionError):
        connection.sendall(sent)
        while part := connection.recv(65_536):
            parts.append(part)
    return b"".join(parts)


@contextmanager
def crowd(server: LiveServer, refusal: Refusal) -> Iterator[None]:
    """Requests that take every place: their bodies never end."""
    with ExitStack() as stack:
        held = []
        for number in range(CROWD if refusal.crowded else 0):
            connection = stack.enter_context(connected(server, f"127.0.1.{number + 1}"))
            connection.sendall(refusal.sent(server.key).replace(b"Content-Length: ", b"Content-Length: 9"))
            held.append(connection)
        if held:
            # One of them is refused when the others have every place.
            assert select.select(held, [], [], SECONDS_MAX)[0]
        yield


def recorded(folder: Path) -> list[AuditEntry]:
    """Everything but what was allowed, of whoever is known and of strangers."""

    async def read() -> list[AuditEntry]:
        async with Penstock.open(folder / "penstock.db", perform=False) as penstock, open_gate(penstock) as gate:
            pages = [
                await list_audit(gate.services.platform, AuditQuery(tenant=tenant, limit=1_000))
                for tenant in (ANONYMOUS_TENANT, "default")
            ]
            return [record.entry for page in pages for record in page.records if record.entry.outcome != "allowed"]

    return asyncio.run(asyncio.wait_for(read(), SECONDS_MAX))


@pytest.mark.parametrize("surface", SURFACES)
def test_every_refusal_leaves_one_record_with_its_code_and_address(tmp_path: Path, surface: str) -> None:
    refusals = SURFACES[surface]
    with serving(tmp_path, **FEW_WRITES) as server:
        for number, refusal in enumerate(refusals, 1):
            with crowd(server, refusal), connected(server, f"127.0.0.{number + 1}") as connection:
                answer = answered(connection, refusal.sent(server.key))
                assert answer.startswith(b"HTTP/1.1 ") or refusal.body is LARGE, (refusal.name, answer)
        server.stop()
    entries = recorded(tmp_path)
    problems = []
    for number, refusal in enumerate(refusals, 1):
        found = [entry for entry in entries if entry.remote == f"127.0.0.{number + 1}"]
        known = refusal.key == KEY if refusal.known is None else refusal.known
        wanted = [("refused", refusal.code, refusal.surface, 1, known)]
        told = [(item.outcome, item.code, item.surface, item.count, item.principal != "anonymous") for item in found]
        if refusal.crowded:  # whose it is, is known if it had to be found out
            told = [(*item[:4], known) for item in told]
        if told != wanted or (refusal.operation and found[0].operation != refusal.operation):
            problems.append((refusal.name, told, wanted, [item.operation for item in found]))
    assert not problems
    written = json.dumps([[str(entry), entry.operation] for entry in entries if entry.operation != MARKER])
    assert MARKER not in written.replace(f"operation='{MARKER}'", "")
    assert server.key not in written


def test_a_flood_of_refusals_writes_few_rows_and_counts_them_all(tmp_path: Path) -> None:
    addresses, each = 100, 10
    with serving(tmp_path) as server:
        for number in range(addresses):
            with connected(server, f"127.0.2.{number + 1}") as connection:
                for again in range(each):
                    last = "close" if again == each - 1 else "keep-alive"
                    head = f"GET /{number}/{again} HTTP/1.1\r\nHost: x\r\nConnection: {last}\r\n\r\n".encode()
                    connection.sendall(head)
                while connection.recv(65_536):
                    pass
        server.stop()
    entries = [entry for entry in recorded(tmp_path) if entry.tenant == ANONYMOUS_TENANT]
    assert sum(entry.count for entry in entries) == addresses * each
    # Each is written when it comes and once more at the end of its minute; and the flood may go on into a second one.
    assert len(entries) <= 2 * (2 * limits.AUDIT_REFUSALS_KEPT_MAX + 1)
    rest = [entry for entry in entries if entry.operation == VARIOUS]
    assert rest
    assert all(entry.details["codes"] == {"ROUTE_NOT_FOUND": entry.count} for entry in rest)
    named = [str(entry.remote).split() for entry in rest]
    assert all(len(item) <= limits.AUDIT_REFUSAL_ADDRESSES_MAX for item in named)
