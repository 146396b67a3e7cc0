"""Credentials: which are accepted, and until when."""

from __future__ import annotations

from functools import partial

from penstock.cli.verify.checks import expect
from penstock.cli.verify.kit import LEDGER, TRANSACTION, Kit
from penstock.cli.verify.profiles.authz.table import AUTHZ
from penstock.cli.verify.target import Json, expect_data, expect_refused

__all__: list[str] = []

_INVALID = ("agent.token_invalid",)
_GONE = ("agent.token_invalid", "agent.token_expired")
# Unknown callers may be told to slow down instead.
_REFUSED = (401, 429)
_KEY_MATERIAL = ("token_hash", "secret", "secret_hash", "hash", "token")

_ENDPOINTS: dict[str, tuple[str, str, Json | None]] = {
    "ledgers": ("GET", "/ledgers", None),
    "transactions": ("GET", f"/transactions?ledgerId={LEDGER}", None),
    "preflight": ("POST", "/preflight", {"action": "transaction.delete", "payload": {"transactionId": TRANSACTION}}),
    "actions": ("POST", "/actions", {"action": "transaction.create", "payload": {"ledgerId": LEDGER}}),
    "drafts": ("GET", "/drafts/drf_unknown", None),
}


async def _refuses_strangers(name: str, kit: Kit) -> None:
    method, path, body = _ENDPOINTS[name]
    expect_refused(await kit.agent(None).request_once(method, path, body), *_REFUSED)


for _name in _ENDPOINTS:
    AUTHZ.add(
        f"token-needed-{_name}",
        f"`/{_name}` is a 401 for a caller without a token.",
        "One address that forgets to ask is enough.",
        partial(_refuses_strangers, _name),
    )


@AUTHZ.check("A token that nobody made is a 401.", "A token must be known, not only well-formed.")
async def unknown_token(kit: Kit) -> None:
    answer = await kit.agent("op_" + "A" * 43).request("GET", "/manifest")
    expect_refused(answer, 401, codes=_INVALID)


@AUTHZ.check("A token with one letter changed is a 401.", "A prefix of the token must not be enough.")
async def altered_token(kit: Kit) -> None:
    token = (await kit.app()).token
    altered = token[:-1] + ("A" if token[-1] != "A" else "B")
    expect_refused(await kit.agent(altered).request("GET", "/manifest"), 401, codes=_INVALID)


@AUTHZ.check("A token under another scheme than Bearer is a 401.", "Only what is documented is accepted.")
async def other_scheme(kit: Kit) -> None:
    token = (await kit.app()).token
    answer = await kit.agent(None, authorization=f"Basic {token}").request("GET", "/manifest")
    expect_refused(answer, 401)


@AUTHZ.check("A token in the query is not accepted.", "Addresses end up in logs and histories.")
async def token_in_query(kit: Kit) -> None:
    token = (await kit.app()).token
    query = {"token": token, "access_token": token, "authorization": f"Bearer {token}"}
    expect_refused(await kit.agent(None).request("GET", "/manifest", query=query), 400, 401)


@AUTHZ.check(
    "A key that has expired is a 401 with `agent.token_expired`.", "An expiry that is not enforced is a comment."
)
async def expired_key(kit: Kit) -> None:
    made = await kit.app()
    answer = await kit.after_end(
        lambda seconds: kit.new_key(made, expires_in=seconds),
        lambda app: app.agent.request("GET", "/manifest"),
        lambda answer: answer.is_success,
    )
    expect_refused(answer, 401, codes=("agent.token_expired",))


@AUTHZ.check("A revoked key is a 401 on the next request.", "Revocation is for emergencies; minutes count.")
async def revoked_key(kit: Kit) -> None:
    app = await kit.app()
    expect_data(await app.agent.request("GET", "/manifest"))
    expect_data(await kit.revoke_key(app.key_id))
    expect_refused(await app.agent.request("GET", "/manifest"), 401, codes=_GONE)


@AUTHZ.check(
    "A key that is revoked between preflight and action is refused.",
    "Authority is checked when it is used, not when it was first seen.",
)
async def revoked_between_preflight_and_action(kit: Kit) -> None:
    app = await kit.app()
    payload = {"transactionId": await kit.transaction()}
    seen = expect_data(await app.preflight("transaction.delete", payload))
    expect_data(await kit.revoke_key(app.key_id))
    answer = await app.act("transaction.delete", payload, preflightHash=seen.get("impactHash"))
    expect_refused(answer, 401, codes=_GONE)


@AUTHZ.check(
    "A key that is revoked in an open MCP session is refused there too.",
    "A session that outlives its key is a key that cannot be revoked.",
)
async def revoked_in_mcp_session(kit: Kit) -> None:
    app = await kit.app()
    client = await kit.mcp(app.token)
    await client.tools()
    expect_data(await kit.revoke_key(app.key_id))
    answer = await client.send("tools/list")
    expect(answer.status in (401, 404), "401", str(answer))


@AUTHZ.check("Other keys of the app go on working when one is revoked.", "Rotation needs two keys for a while.")
async def other_keys_stay(kit: Kit) -> None:
    app = await kit.app()
    other = await kit.new_key(app)
    expect_data(await kit.revoke_key(app.key_id))
    expect_data(await other.agent.request("GET", "/manifest"))


@AUTHZ.check(
    "Revoking a key answers without any key material.",
    "A hash of a secret in an answer ends up in logs, where it can be attacked at leisure.",
)
async def revoking_returns_no_secret(kit: Kit) -> None:
    app = await kit.app()
    answer = await kit.revoke_key(app.key_id)
    expect_data(answer)
    key = answer.data.get("key")
    leaked = [name for name in _KEY_MATERIAL if isinstance(key, dict) and key.get(name)]
    expect(not leaked and app.token not in answer.text, "a key without hash and secret", answer)


@AUTHZ.check("The list of apps has no key material.", "A secret is shown once, when it is made.")
async def apps_list_has_no_secret(kit: Kit) -> None:
    app = await kit.app()
    answer = await kit.admin.request("GET", "/apps")
    expect_data(answer)
    mine = [item for item in answer.items if item.get("id") == app.id]
    expect(mine, f"the app {app.id} in the list", answer)
    keys = mine[0].get("keys", [])
    leaked = [name for key in keys if isinstance(key, dict) for name in _KEY_MATERIAL if key.get(name)]
    expect(not leaked and app.token not in answer.text, "keys without hash and secret", leaked or answer)
