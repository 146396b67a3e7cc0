"""What the policy of an app allows: addresses, ledgers, days, fields; on lists, in previews and for drafts alike."""

from __future__ import annotations

from penstock.cli.verify.checks import expect
from penstock.cli.verify.kit import LEDGER, App, Kit
from penstock.cli.verify.profiles.authz.table import AUTHZ
from penstock.cli.verify.target import Json, expect_data, expect_refused

__all__: list[str] = []

_DENIED = ("agent.policy_denied",)
# An address for documentation (RFC 5737): nobody calls from there.
_ELSEWHERE = "203.0.113.10"
_EVERYWHERE = ["0.0.0.0/0", "::/0"]
_FORGED = {
    "x-forwarded-for": _ELSEWHERE,
    "x-real-ip": _ELSEWHERE,
    "forwarded": f"for={_ELSEWHERE}",
    "cf-connecting-ip": _ELSEWHERE,
    "true-client-ip": _ELSEWHERE,
}
_PREVIEW = "What may not be read may not be previewed either."


def _data(**policy: object) -> Json:
    return {"data": policy}


async def _elsewhere(kit: Kit) -> App:
    """Return an app that may touch another ledger only, and see no sensitive field."""
    return await kit.app(policy=_data(allowed_ledger_ids=["ledger_elsewhere"], allow_sensitive_fields=False))


@AUTHZ.check("An address outside the allow-list is refused.", "A stolen key is then worth nothing elsewhere.")
async def other_address(kit: Kit) -> None:
    app = await kit.app(policy={"network": {"allowed_ips": [_ELSEWHERE]}})
    expect_refused(await app.agent.request("GET", "/ledgers"), 403, codes=_DENIED)


@AUTHZ.check("An address within the allow-list is let in.", "A list that refuses everybody proves nothing.")
async def listed_address(kit: Kit) -> None:
    app = await kit.app(policy={"network": {"allowed_ips": _EVERYWHERE}})
    expect_data(await app.agent.request("GET", "/ledgers"))


@AUTHZ.check(
    "Headers that claim an address on the allow-list do not let anybody in.",
    "Anybody can send a header; only the address of the connection is known.",
)
async def forged_address(kit: Kit) -> None:
    app = await kit.app(policy={"network": {"allowed_ips": [_ELSEWHERE]}})
    for name, value in _FORGED.items():
        answer = await app.agent.request("GET", "/ledgers", headers={name: value})
        expect_refused(answer, 403, codes=_DENIED)


@AUTHZ.check("An empty allow-list of addresses lets nobody in.", "An empty list that means everybody fails open.")
async def no_address(kit: Kit) -> None:
    app = await kit.app(policy={"network": {"allowed_ips": []}})
    expect_refused(await app.agent.request("GET", "/ledgers"), 403, codes=_DENIED)


@AUTHZ.check("Transactions of a ledger outside the allow-list are refused.", "The list is the boundary.")
async def other_ledger(kit: Kit) -> None:
    expect_refused(await (await _elsewhere(kit)).transactions(), 403, 404, codes=(*_DENIED, "agent.not_found"))


@AUTHZ.check("A ledger within the allow-list can be read.", "A list that refuses everything proves nothing.")
async def listed_ledger(kit: Kit) -> None:
    app = await kit.app(policy=_data(allowed_ledger_ids=[LEDGER]))
    expect_data(await app.transactions())


@AUTHZ.check("Ledgers outside the allow-list are not listed.", "Names of ledgers are data too.")
async def other_ledgers_are_hidden(kit: Kit) -> None:
    answer = await (await _elsewhere(kit)).agent.request("GET", "/ledgers")
    expect_data(answer)
    expect(LEDGER not in [item.get("id") for item in answer.items], f"a list without {LEDGER}", answer)


@AUTHZ.check("An empty allow-list of ledgers allows none.", "An empty list that means everything fails open.")
async def no_ledger(kit: Kit) -> None:
    app = await kit.app(policy=_data(allowed_ledger_ids=[]))
    expect_refused(await app.transactions(), 403, 404, codes=(*_DENIED, "agent.not_found"))


@AUTHZ.check("With an empty allow-list no ledger is listed.", "An empty list that means everything fails open.")
async def no_ledger_is_listed(kit: Kit) -> None:
    app = await kit.app(policy=_data(allowed_ledger_ids=[]))
    answer = await app.agent.request("GET", "/ledgers")
    expect(answer.is_enveloped_refusal or (answer.is_success and not answer.items), "no ledger", answer)


@AUTHZ.check("A draft for a ledger outside the allow-list is refused.", "Approvers trust that a draft is allowed.")
async def draft_in_other_ledger(kit: Kit) -> None:
    app = await _elsewhere(kit)
    expect_refused(await app.act("transaction.create", kit.expense()), 403, 404, codes=(*_DENIED, "agent.not_found"))


@AUTHZ.check(
    "A draft that would change a transaction of another ledger is refused.", "The target counts, not the call."
)
async def draft_on_other_ledgers_transaction(kit: Kit) -> None:
    app, target = await _elsewhere(kit), await kit.transaction()
    answer = await app.act("transaction.delete", {"transactionId": target})
    expect_refused(answer, 403, 404, codes=(*_DENIED, "agent.not_found"))


@AUTHZ.check("A preflight on another ledger is refused, and reveals nothing.", _PREVIEW)
async def preflight_on_other_ledger(kit: Kit) -> None:
    app, title = await _elsewhere(kit), kit.expense()["title"]
    answer = await app.preflight("transaction.delete", {"transactionId": await kit.transaction(title)})
    expect(title not in answer.text, "an answer without the title", answer)
    expect_refused(answer, 403, 404, codes=(*_DENIED, "agent.not_found"))


@AUTHZ.check("Sensitive fields are left out of lists, if the policy says so.", "Sums need no names.")
async def redacted_list(kit: Kit) -> None:
    app, title = await kit.app(policy=_data(allow_sensitive_fields=False)), kit.expense()["title"]
    made = await kit.transaction(title, notes=f"note of {title}")
    answer = await app.transactions()
    expect_data(answer)
    expect(title not in answer.text, "a list without titles and notes", answer)
    expect(made, "the transaction itself", answer)


@AUTHZ.check("Sensitive fields are left out of previews too.", _PREVIEW)
async def redacted_preflight(kit: Kit) -> None:
    app, title = await kit.app(policy=_data(allow_sensitive_fields=False)), kit.expense()["title"]
    answer = await app.preflight("transaction.delete", {"transactionId": await kit.transaction(title)})
    expect_data(answer)
    expect(title not in answer.text, "a preview without the title", answer)


@AUTHZ.check("Sensitive fields are left out of what a draft shows of its impact.", _PREVIEW)
async def redacted_draft(kit: Kit) -> None:
    app, title = await kit.app(policy=_data(allow_sensitive_fields=False)), kit.expense()["title"]
    draft = await app.proposed("transaction.delete", {"transactionId": await kit.transaction(title)})
    answer = await app.draft(draft)
    expect_data(answer)
    expect(title not in answer.text, "a draft without the title", answer)


@AUTHZ.check("A range of more days than allowed is refused.", "The window is the boundary, not the default.")
async def too_many_days(kit: Kit) -> None:
    app = await kit.app(policy=_data(max_days=7))
    answer = await app.transactions(startDate="2020-01-01", endDate="2026-01-01")
    expect_refused(answer, 403, codes=_DENIED)


@AUTHZ.check("Without a range only the allowed days are listed.", "Leaving an argument out must not widen anything.")
async def days_by_default(kit: Kit) -> None:
    app, title = await kit.app(policy=_data(max_days=7)), kit.expense()["title"]
    await kit.transaction(title, date="2020-01-01T00:00:00.000Z")
    answer = await app.transactions()
    expect_data(answer)
    expect(title not in answer.text, "a list of the last days", answer)


@AUTHZ.check("A narrower policy holds on the next request.", "Until a cache expires, the old rights would still hold.")
async def policy_holds_at_once(kit: Kit) -> None:
    app = await kit.app()
    expect_data(await app.transactions())
    await kit.set_policy(app, _data(allowed_ledger_ids=[]))
    expect_refused(await app.transactions(), 403, 404, codes=(*_DENIED, "agent.not_found"))


@AUTHZ.check("MCP applies the policy of the app as well.", "A second door with other rules is the door that is used.")
async def mcp_applies_policy(kit: Kit) -> None:
    app = await kit.app(policy=_data(allowed_ledger_ids=[]))
    client = await kit.mcp(app.token)
    answer = await client.call(
        "tools/call", {"name": await client.tool("transaction.list"), "arguments": {"ledgerId": LEDGER}}
    )
    expect("error" in answer or answer.get("result", {}).get("isError") is True, "an error", answer)
