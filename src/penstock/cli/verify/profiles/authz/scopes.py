"""Scopes: they decide what is listed, and what can be called, on every plane alike."""

from __future__ import annotations

from penstock.cli.verify.checks import expect
from penstock.cli.verify.kit import TRANSACTION, Kit
from penstock.cli.verify.profiles.authz.table import AUTHZ
from penstock.cli.verify.target import expect_data, expect_refused

__all__: list[str] = []

_READS = ("ledger.read", "transaction.read")
_DENIED = ("agent.scope_denied", "agent.action_unknown", "agent.forbidden", "agent.policy_denied")
_FIELDS = ("name", "description", "requiredScopes", "risk", "requiresConfirmation", "inputSchema")
_RISKS = ("low", "medium", "high", "critical")


@AUTHZ.check(
    "An app with every scope is shown the actions of the demo ledger.",
    "Without this, checks of what is hidden would pass on an empty list.",
)
async def manifest_lists_granted(kit: Kit) -> None:
    names = {tool.get("name") for tool in await (await kit.shared_app()).manifest()}
    wanted = {"ledger.list", "transaction.list", "transaction.create", "transaction.delete"}
    expect(wanted <= names, f"{sorted(wanted)} among the tools", sorted(map(str, names)))


@AUTHZ.check(
    "Every tool of the manifest says what it needs, how risky it is, and what it takes.",
    "An agent that does not know the risk of a tool cannot be careful with it.",
)
async def manifest_describes_tools(kit: Kit) -> None:
    for tool in await (await kit.shared_app()).manifest():
        missing = [name for name in _FIELDS if name not in tool]
        expect(not missing and tool.get("risk") in _RISKS, f"{_FIELDS} and a known risk", tool)


@AUTHZ.check(
    "A tool whose scopes the app lacks is not in its manifest.",
    "Tools that are shown are tried; a list of what is forbidden is a map for an attacker.",
)
async def manifest_hides_ungranted(kit: Kit) -> None:
    names = {tool.get("name") for tool in await (await kit.app(scopes=_READS)).manifest()}
    shown = {name for name in names if str(name) in ("transaction.create", "transaction.delete")}
    expect(not shown, "no action that needs more than reading", sorted(map(str, shown)))


@AUTHZ.check(
    "A tool whose scopes the app lacks is refused when it is called.",
    "Hiding is not refusing: names can be guessed.",
)
async def action_needs_scope(kit: Kit) -> None:
    app = await kit.app(scopes=_READS)
    expect_refused(await app.act("transaction.create", kit.expense()), 400, 403, 404, codes=_DENIED)


@AUTHZ.check(
    "A preflight needs the scopes of the action.",
    "A preview of what one may not do shows data that one may not see.",
)
async def preflight_needs_scope(kit: Kit) -> None:
    app = await kit.app(scopes=_READS)
    answer = await app.preflight("transaction.delete", {"transactionId": TRANSACTION})
    expect_refused(answer, 400, 403, 404, codes=_DENIED)


@AUTHZ.check("Listing ledgers needs its scope.", "Reading is a right like any other.")
async def ledgers_need_scope(kit: Kit) -> None:
    app = await kit.app(scopes=("transaction.read",))
    expect_refused(await app.agent.request("GET", "/ledgers"), 403, codes=("agent.scope_denied",))


@AUTHZ.check("Listing transactions needs its scope.", "Reading is a right like any other.")
async def transactions_need_scope(kit: Kit) -> None:
    app = await kit.app(scopes=("ledger.read",))
    expect_refused(await app.transactions(), 403, codes=("agent.scope_denied",))


@AUTHZ.check(
    "An export needs all of its scopes, and not only one of them.",
    "A server that checks any of the scopes instead of all grants the strongest with the weakest.",
)
async def all_scopes_count(kit: Kit) -> None:
    app = await kit.app(scopes=("transaction.export",))
    answer = await app.act("transactions.export_csv", {"ledgerId": "ledger_main"})
    expect_refused(answer, 400, 403, 404, codes=_DENIED)


@AUTHZ.check(
    "A scope that begins like another one does not grant it.",
    "Comparing beginnings turns `transaction.re` into `transaction.read`.",
)
async def similar_scope_grants_nothing(kit: Kit) -> None:
    app = await kit.app(scopes=("transaction.reading", "transaction"))
    expect_refused(await app.transactions(), 403, codes=("agent.scope_denied",))


@AUTHZ.check(
    "An app with no scope that counts is shown none of the demo ledger's tools.",
    "Deny by default: what is not granted is not there.",
)
async def nothing_by_default(kit: Kit) -> None:
    app = await kit.app(scopes=("unrelated.read",))
    names = {str(tool.get("name")) for tool in await app.manifest()}
    shown = {name for name in names if name.startswith(("ledger.", "transaction"))}
    expect(not shown, "no tool of the ledger", sorted(shown))


@AUTHZ.check(
    "The tools of an app are the same for its administrators as for itself.",
    "Two lists that differ mean two rules, and one of them is wrong.",
)
async def admin_sees_the_same_tools(kit: Kit) -> None:
    app = await kit.app(scopes=(*_READS, "transaction.write"))
    own = {str(tool.get("name")) for tool in await app.manifest()}
    seen = {str(tool.get("name")) for tool in (await kit.admin.request("GET", f"/apps/{app.id}/tools")).items}
    expect(seen <= own, "no tool that the app does not have", sorted(seen - own))
    expect("transaction.create" in seen, "`transaction.create` for an app that may write", sorted(seen))


@AUTHZ.check(
    "MCP lists an app the tools that it may call, and no others.",
    "A second door with other rules is the door that is used.",
)
async def mcp_hides_ungranted(kit: Kit) -> None:
    granted = await kit.mcp((await kit.shared_app()).token)
    name = await granted.tool("transaction.delete")
    limited = await kit.mcp((await kit.app(scopes=_READS)).token)
    names = {tool.get("name") for tool in await limited.tools()}
    expect(name not in names, f"a list without {name}", sorted(map(str, names)))


@AUTHZ.check(
    "MCP refuses a tool that the app may not call, also by name.",
    "An unlisted tool can still be called by name; only the call is the boundary.",
)
async def mcp_refuses_ungranted(kit: Kit) -> None:
    name = await (await kit.mcp((await kit.shared_app()).token)).tool("transaction.create")
    title = f"mcp {kit.expense()['title']}"
    limited = await kit.mcp((await kit.app(scopes=_READS)).token)
    answer = await limited.call("tools/call", {"name": name, "arguments": kit.expense(title)})
    refused = "error" in answer or answer.get("result", {}).get("isError") is True
    expect(refused, "an error", answer)
    expect(not await kit.titled(title), "no transaction", await kit.titled(title))


@AUTHZ.check(
    "MCP refuses a client without a valid token.",
    "A second door must have the same lock.",
)
async def mcp_needs_token(kit: Kit) -> None:
    probe = await kit.mcp((await kit.shared_app()).token)
    for token in (None, "op_" + "x" * 43):
        probe.token, probe.session = token, None
        answer = await probe.send_once("tools/list")
        expect(answer.status in (401, 429), "401", str(answer))


@AUTHZ.check(
    "The manifest names the app that it is for.",
    "An agent that acts for another app than it believes acts for the wrong people.",
)
async def manifest_names_app(kit: Kit) -> None:
    app = await kit.app()
    found = expect_data(await app.agent.request("GET", "/manifest")).get("app")
    expect(isinstance(found, dict) and found.get("id") == app.id, f"the app {app.id}", found)
