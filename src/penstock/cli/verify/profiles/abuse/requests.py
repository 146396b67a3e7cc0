"""Requests that are wrong: addresses, methods, queries, headers, MCP messages."""

from __future__ import annotations

from functools import partial

from penstock.cli.verify.checks import expect
from penstock.cli.verify.kit import LEDGER, Kit
from penstock.cli.verify.profiles.abuse.table import ABUSE
from penstock.cli.verify.target import Json, expect_refused

__all__: list[str] = []

_WHY = "A client that reads the envelope must find it everywhere."
_STRANGE_IDS = ("..%2f..%2fetc%2fpasswd", "%00", "%ff", "a" * 3_000, "%f0%9f%92%a3", "null", "0", "-1", "'%20or%201=1")

_POLICIES: tuple[object, ...] = (
    {"network": {"allowed_ips": ["not-an-address"]}},
    {"network": {"allowed_ips": "127.0.0.1"}},
    {"data": {"max_days": -1}},
    {"data": {"allowed_ledger_ids": "ledger_main"}},
    {"data": {"allow_sensitive_fields": "no"}},
    [],
)
_ARGUMENTS: tuple[Json, ...] = (
    {"ledgerId": 7},
    {"ledgerId": None},
    {"ledgerId": LEDGER, "pageSize": "x"},
    {"ledgerId": {}},
)
_QUERIES: dict[str, tuple[str, dict[str, str]]] = {
    "ledger-missing": ("A list without a ledger", {}),
    "page-size-zero": ("A page of no items", {"ledgerId": LEDGER, "pageSize": "0"}),
    "page-size-huge": ("A page of a million items", {"ledgerId": LEDGER, "pageSize": "1000000"}),
    "page-size-text": ("A page size that is not a number", {"ledgerId": LEDGER, "pageSize": "many"}),
    "page-negative": ("A page before the first", {"ledgerId": LEDGER, "page": "-1"}),
    "date-text": ("A date that is not a date", {"ledgerId": LEDGER, "startDate": "yesterday"}),
}


async def _query_refused(name: str, kit: Kit) -> None:
    answer = await (await kit.shared_app()).agent.request("GET", "/transactions", query=_QUERIES[name][1])
    expect_refused(answer, 400, 422, codes=("common.validation", "agent.action_invalid"))


for _name, (_what, _query) in _QUERIES.items():
    ABUSE.add(
        f"query-{_name}",
        f"{_what} is a 400 in the envelope.",
        "A default that is guessed hides a mistake.",
        partial(_query_refused, _name),
    )


@ABUSE.check("An unknown address of the agent plane is a 404 in the envelope.", _WHY)
async def unknown_agent_route(kit: Kit) -> None:
    expect_refused(await (await kit.shared_app()).agent.request("GET", "/nothing-here"), 404)


@ABUSE.check("An unknown address of the admin plane is a 404 in the envelope.", _WHY)
async def unknown_admin_route(kit: Kit) -> None:
    expect_refused(await kit.admin.request("GET", "/nothing-here"), 404)


@ABUSE.check("A method that an address does not have is a 404 or 405 in the envelope.", _WHY)
async def other_method(kit: Kit) -> None:
    plane = (await kit.shared_app()).agent
    for method, path in (("DELETE", "/manifest"), ("PUT", "/actions"), ("GET", "/preflight"), ("PATCH", "/ledgers")):
        expect_refused(await plane.request(method, path, {} if method in ("PUT", "PATCH") else None), 404, 405)


@ABUSE.check("Strange ids are a 4xx in the envelope.", "Ids are text from outside, and go into queries and paths.")
async def strange_ids(kit: Kit) -> None:
    plane = (await kit.shared_app()).agent
    for strange in _STRANGE_IDS:
        expect_refused(await plane.request("GET", f"/drafts/{strange}"))


@ABUSE.check("Strange ids are a 4xx in the envelope on the admin plane.", "Ids are text from outside.")
async def strange_admin_ids(kit: Kit) -> None:
    for strange in _STRANGE_IDS:
        expect_refused(await kit.admin.request("POST", f"/apps/{strange}/keys", {"name": "x"}))
        expect_refused(await kit.admin.request("POST", f"/drafts/{strange}/approve", {}))


@ABUSE.check("Headers of a megabyte do not break the server.", "Anybody can send them, without a token.")
async def large_headers(kit: Kit) -> None:
    token = (await kit.shared_app()).token
    answer = await kit.agent(token, **{"x-large": "x" * 60_000}).request("GET", "/manifest")
    expect(answer.status in (200, 400, 413, 431), "200 or a 4xx", str(answer))


@ABUSE.check("The admin plane without a credential is a 401, and no 5xx.", "The reference crashed there.")
async def admin_without_identity(kit: Kit) -> None:
    for method, path in (("GET", "/apps"), ("POST", "/apps"), ("GET", "/audit"), ("POST", "/drafts/x/approve")):
        answer = await kit.admin_with(None).request_once(method, path, {} if method == "POST" else None)
        expect_refused(answer, 401, 429)


@ABUSE.check("An app that asks for too much is refused.", "A list without end is a way to fill a disk.")
async def too_many_scopes(kit: Kit) -> None:
    body = {"name": "many", "scope": "personal", "scopes": [f"a.s{number}" for number in range(1_000)]}
    expect_refused(await kit.admin.request("POST", "/apps", body), 400, 422)


@ABUSE.check("An invalid policy is refused.", "A policy that is misread may allow what it should forbid.")
async def invalid_policy(kit: Kit) -> None:
    app = await kit.app()
    for policy in _POLICIES:
        expect_refused(await kit.admin.request("PATCH", f"/apps/{app.id}/policy", policy), 400, 422)


@ABUSE.check("A JSON-RPC message that cannot be read is an error, and no 5xx.", "The other door, the same care.")
async def mcp_malformed(kit: Kit) -> None:
    client = await kit.mcp((await kit.shared_app()).token)
    for content in (b"{", b"[]", b'"x"', b"null", b'{"jsonrpc": "2.0"}', b"\xff\xfe"):
        answer = await client.post(None, content)
        expect(answer.status < 500, "no 5xx", str(answer))  # noqa: PLR2004  # RFC 9110


@ABUSE.check("An unknown method of MCP is an error, and no 5xx.", "The other door, the same care.")
async def mcp_unknown_method(kit: Kit) -> None:
    client = await kit.mcp((await kit.shared_app()).token)
    answer = await client.send("tools/vaporize")
    expect(answer.status < 500 and '"error"' in answer.text, "a JSON-RPC error", str(answer))  # noqa: PLR2004


@ABUSE.check("Arguments of the wrong types are an error over MCP.", "The other door, the same care.")
async def mcp_wrong_types(kit: Kit) -> None:
    client = await kit.mcp((await kit.shared_app()).token)
    name = await client.tool("transaction.list")
    for arguments in _ARGUMENTS:
        answer = await client.call("tools/call", {"name": name, "arguments": arguments})
        expect("error" in answer or answer.get("result", {}).get("isError") is True, "an error", answer)
