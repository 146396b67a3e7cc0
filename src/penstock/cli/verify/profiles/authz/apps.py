"""Apps: their life, and the admin plane that makes them."""

from __future__ import annotations

from penstock.cli.verify.checks import expect
from penstock.cli.verify.kit import Kit
from penstock.cli.verify.profiles.authz.table import AUTHZ
from penstock.cli.verify.target import expect_data, expect_refused

__all__: list[str] = []

_GONE = ("agent.token_invalid", "agent.token_expired")
_STRANGER = "An admin plane that trusts every caller gives everything away."


@AUTHZ.check("Revoking an app refuses all of its keys.", "One forgotten key keeps the app alive.")
async def revoked_app(kit: Kit) -> None:
    app = await kit.app()
    other = await kit.new_key(app)
    expect_data(await kit.revoke_app(app))
    for plane in (app.agent, other.agent):
        expect_refused(await plane.request("GET", "/manifest"), 401, codes=_GONE)


@AUTHZ.check("Restoring an app does not revive its keys.", "What was revoked may be known to others.")
async def restored_app(kit: Kit) -> None:
    app = await kit.app()
    expect_data(await kit.revoke_app(app))
    expect_data(await kit.admin.request("POST", f"/apps/{app.id}/restore", {}))
    expect_refused(await app.agent.request("GET", "/manifest"), 401, codes=_GONE)


@AUTHZ.check("A restored app works with a new key.", "Restoring must lead somewhere.")
async def restored_app_with_new_key(kit: Kit) -> None:
    app = await kit.app()
    expect_data(await kit.revoke_app(app))
    expect_data(await kit.admin.request("POST", f"/apps/{app.id}/restore", {}))
    expect_data(await (await kit.new_key(app)).agent.request("GET", "/manifest"))


@AUTHZ.check("A revoked app gets no new key.", "A key for a revoked app would undo the revocation.")
async def no_key_for_revoked_app(kit: Kit) -> None:
    app = await kit.app()
    expect_data(await kit.revoke_app(app))
    expect_refused(await kit.admin.request("POST", f"/apps/{app.id}/keys", {"name": "late"}), 400, 404, 409)


@AUTHZ.check("An active app cannot be deleted.", "Deleting ends what somebody still uses, without a trace.")
async def active_app_stays(kit: Kit) -> None:
    app = await kit.app()
    expect_refused(await kit.admin.request("DELETE", f"/apps/{app.id}"), 400, 409)
    expect_data(await app.agent.request("GET", "/manifest"))


@AUTHZ.check("A revoked app with a pending draft cannot be deleted.", "The draft would be left without a requester.")
async def app_with_draft_stays(kit: Kit) -> None:
    app = await kit.app()
    await app.proposed("transaction.create", kit.expense())
    expect_data(await kit.revoke_app(app))
    expect_refused(await kit.admin.request("DELETE", f"/apps/{app.id}"), 400, 409)


@AUTHZ.check("A revoked app without drafts can be deleted, and is gone.", "What is not needed is not kept.")
async def revoked_app_is_deleted(kit: Kit) -> None:
    app = await kit.app()
    expect_data(await kit.revoke_app(app))
    expect_data(await kit.admin.request("DELETE", f"/apps/{app.id}"))
    expect_refused(await kit.admin.request("GET", f"/apps/{app.id}/tools"), 404)
    listed = [item.get("id") for item in (await kit.admin.request("GET", "/apps")).items]
    expect(app.id not in listed, "a list without the app", listed)


@AUTHZ.check("The admin plane refuses a caller without a credential with a 401.", _STRANGER)
async def admin_needs_credential(kit: Kit) -> None:
    _ = kit.admin
    expect_refused(await kit.admin_with(None).request_once("GET", "/apps"), 401, 429)


@AUTHZ.check("A header that names an administrator is not a credential.", _STRANGER)
async def admin_header_is_no_credential(kit: Kit) -> None:
    _ = kit.admin
    answer = await kit.admin_with(None, **{"x-admin-user": "root"}).request_once("GET", "/apps")
    expect_refused(answer, 401, 403, 429)


@AUTHZ.check(
    "An agent's token does not open the admin plane.", "An agent that makes its own keys grants itself rights."
)
async def agent_is_no_admin(kit: Kit) -> None:
    app = await kit.app()
    plane = kit.admin_with(app.token)
    for method, path, body in (
        ("GET", "/apps", None),
        ("POST", "/apps", {"name": "mine", "scope": "personal", "scopes": []}),
        ("PATCH", f"/apps/{app.id}/policy", {}),
        ("PATCH", f"/apps/{app.id}/auto-execute", {"writes": {"enabled": True}}),
        ("GET", "/audit", None),
        ("GET", "/drafts", None),
    ):
        expect_refused(await plane.request(method, path, body), 401, 403)


@AUTHZ.check("Asking for an app that is not there is a 404 in the envelope.", "A crash there tells nobody anything.")
async def unknown_app(kit: Kit) -> None:
    answer = await kit.admin.request("POST", "/apps/app_unknown/keys", {"name": "none"})
    expect_refused(answer, 404, codes=("agent.not_found",))


@AUTHZ.check(
    "Another app of the same owner cannot read a draft.", "A draft holds what an agent was about to do, and with what."
)
async def drafts_belong_to_their_app(kit: Kit) -> None:
    app, other = await kit.app(), await kit.app()
    draft = await app.proposed("transaction.create", kit.expense())
    expect_refused(await other.draft(draft), 404, codes=("agent.draft_not_found",))


@AUTHZ.check("Another key of the same app can read a draft.", "Keys are rotated while drafts wait.")
async def drafts_are_shared_by_keys(kit: Kit) -> None:
    app = await kit.app()
    draft = await app.proposed("transaction.create", kit.expense())
    expect_data(await (await kit.new_key(app)).draft(draft))


@AUTHZ.check(
    "A draft of another tenant looks exactly like one that does not exist.",
    "A difference in status or text tells which ids are real.",
)
async def foreign_draft_looks_unknown(kit: Kit) -> None:
    app = await kit.app()
    draft = await app.proposed("transaction.create", kit.expense())
    foreign = await kit.app(org="verify-other")
    real, unreal = await foreign.draft(draft), await foreign.draft("drf_" + "0" * (len(draft) - 4))
    expect_refused(real, 404, codes=("agent.draft_not_found",))
    same = (real.status, real.code, str(real.body.get("message")).replace(draft, "ID"))
    other = (
        unreal.status,
        unreal.code,
        str(unreal.body.get("message")).replace(unreal.request.rsplit("/", 1)[1], "ID"),
    )
    expect(same == other, f"the answer for an unknown id, {other}", same)


@AUTHZ.check("Data of another tenant is not listed.", "Tenants share a server and nothing else.")
async def tenants_are_apart(kit: Kit) -> None:
    title = kit.expense()["title"]
    await kit.transaction(title)
    foreign = await kit.app(org="verify-other")
    answer = await foreign.transactions()
    expect(title not in answer.text, "a list without the transaction", answer)
