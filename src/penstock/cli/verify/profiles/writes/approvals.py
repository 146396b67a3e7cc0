"""Approvals: who may give them, what they are for, and that each counts once."""

from __future__ import annotations

import asyncio
import json
from secrets import token_hex

from penstock.cli.verify.checks import CheckFailed, NotApplicable, expect
from penstock.cli.verify.kit import API, App, Kit
from penstock.cli.verify.profiles.writes.table import WRITES
from penstock.cli.verify.target import Answer, Json, Plane, expect_data, expect_refused

__all__: list[str] = []

_CREATE = "transaction.create"
_CREATED = 201
_KEYS = f"{API}/keys"
_FINAL = ("agent.draft_already_final",)
_REVOKED = "A revoked caller must not act through an approval."


async def _waiting(kit: Kit) -> tuple[App, str, Json]:
    app, payload = await kit.app(), kit.expense()
    return app, await app.proposed(_CREATE, payload), payload


async def _expect_nothing(kit: Kit, answer: Answer, payload: Json) -> None:
    execution = answer.data.get("execution")
    succeeded = isinstance(execution, dict) and execution.get("status") == "success"
    expect(not succeeded, "no execution", answer)
    expect(not await kit.titled(payload["title"]), "no transaction", answer)


@WRITES.check("An approved draft is executed.", "An approval must lead somewhere.")
async def approval_executes(kit: Kit) -> None:
    app, draft, payload = await _waiting(kit)
    expect_data(await kit.approve(draft))
    expect(len(await kit.titled(payload["title"])) == 1, "one transaction", await kit.titled(payload["title"]))
    data = expect_data(await app.draft(draft))
    expect(data.get("draft", {}).get("status") == "confirmed", "status `confirmed`", data)
    expect((data.get("execution") or {}).get("status") == "success", "an execution that succeeded", data)


@WRITES.check("A draft says who approved it.", "An approval without a name is nobody's.")
async def approval_has_a_name(kit: Kit) -> None:
    _, draft, _ = await _waiting(kit)
    expect_data(await kit.approve(draft))
    found = (await kit.draft(draft)).get("draft", {})
    expect(found.get("confirmed_by_user_id") and found.get("confirmed_at"), "who approved it, and when", found)


@WRITES.check("A draft is approved once.", "A second yes must not be a second effect.")
async def second_approval(kit: Kit) -> None:
    _, draft, payload = await _waiting(kit)
    expect_data(await kit.approve(draft))
    expect_refused(await kit.approve(draft), 400, 409, codes=_FINAL)
    expect(len(await kit.titled(payload["title"])) == 1, "one transaction", await kit.titled(payload["title"]))


@WRITES.check("Approvals at once execute once.", "Two people look at the same list.")
async def approvals_at_once(kit: Kit) -> None:
    _, draft, payload = await _waiting(kit)
    answers = await asyncio.gather(*(kit.approve(draft) for _ in range(6)))
    strange = [str(answer) for answer in answers if answer.status not in (200, 400, 409)]
    expect(not strange, "200, 400 or 409 for each", strange)
    expect(len(await kit.titled(payload["title"])) == 1, "one transaction", await kit.titled(payload["title"]))


@WRITES.check("A rejected draft is never executed.", "No means no.")
async def rejection(kit: Kit) -> None:
    _, draft, payload = await _waiting(kit)
    expect_data(await kit.reject(draft))
    expect(await kit.draft_status(draft) == "canceled", "status `canceled`", await kit.draft(draft))
    answer = await kit.approve(draft)
    expect_refused(answer, 400, 409, codes=_FINAL)
    await _expect_nothing(kit, answer, payload)


@WRITES.check("An approved draft cannot be rejected.", "A later rejection cannot undo what happened.")
async def rejection_after_approval(kit: Kit) -> None:
    _, draft, _ = await _waiting(kit)
    expect_data(await kit.approve(draft))
    expect_refused(await kit.reject(draft), 400, 409, codes=_FINAL)


@WRITES.check("Of approval and rejection at once, one counts.", "Two people disagree at the same moment.")
async def approval_against_rejection(kit: Kit) -> None:
    _, draft, payload = await _waiting(kit)
    yes, no = await asyncio.gather(kit.approve(draft), kit.reject(draft))
    expect(yes.is_success != no.is_success, "one success and one refusal", f"{yes}; {no}")
    made = len(await kit.titled(payload["title"]))
    expect(made == (1 if yes.is_success else 0), "an effect exactly if it was approved", made)


@WRITES.check("The agent cannot approve its own draft.", "An approval by the requester approves nothing.")
async def requester_does_not_approve(kit: Kit) -> None:
    app, draft, payload = await _waiting(kit)
    answer = await kit.admin_with(app.token).request("POST", f"/drafts/{draft}/approve", {})
    expect_refused(answer, 401, 403)
    await _expect_nothing(kit, answer, payload)
    expect(await kit.draft_status(draft) == "draft", "a draft that still waits", await kit.draft(draft))


@WRITES.check("Another agent cannot approve it either.", "Models do not approve for each other.")
async def other_agent_does_not_approve(kit: Kit) -> None:
    _, draft, payload = await _waiting(kit)
    answer = await kit.admin_with((await kit.app()).token).request("POST", f"/drafts/{draft}/approve", {})
    expect_refused(answer, 401, 403)
    await _expect_nothing(kit, answer, payload)


@WRITES.check("An agent with rights to everything cannot approve its own draft.", "Rights of a model are not a person.")
async def powerful_requester_does_not_approve(kit: Kit) -> None:
    made = await kit.admin.request("POST", "/apps", {"name": "powerful", "scope": "personal", "scopes": ["*"]})
    if not made.is_success:
        return  # a server that gives no agent such rights has done more than is asked for
    token = str(made.data.get("token"))
    proposed = await kit.agent(token).request("POST", "/actions", {"action": _CREATE, "payload": kit.expense()})
    draft = proposed.data.get("draft")
    if not isinstance(draft, dict):
        raise CheckFailed("a draft", proposed)
    answer = await kit.admin_with(token).request("POST", f"/drafts/{draft['id']}/approve", {})
    expect_refused(answer, 401, 403)


@WRITES.check("The maker of the agent's key cannot approve for it.", "Who makes agents would approve for themselves.")
async def key_maker_does_not_approve(kit: Kit) -> None:
    if kit.target.approver_key is None:
        raise NotApplicable("no approver's key was given, so that the approver makes the keys")
    await kit.need_separate_duties()
    _, draft, payload = await _waiting(kit)
    answer = await kit.admin.request("POST", f"/drafts/{draft}/approve", {})
    expect_refused(answer, 401, 403)
    await _expect_nothing(kit, answer, payload)


@WRITES.check(
    "The maker of the agent's key cannot approve for it with another key of theirs.",
    "Duties are separated between people, and one person can have any number of keys.",
)
async def key_maker_does_not_approve_with_another_key(kit: Kit) -> None:
    await kit.need_separate_duties()
    maker = await _person(kit, "maker")
    plane = kit.admin_with(str(maker["secret"]))
    wanted: Json = {"name": "verify made", "scope": "personal", "scopes": ["transaction.write"]}
    token = str(expect_data(await plane.request("POST", "/apps", wanted)).get("token"))
    payload = kit.expense()
    answer = await kit.agent(token).request("POST", "/actions", {"action": _CREATE, "payload": payload})
    draft = expect_data(answer).get("draft")
    if not isinstance(draft, dict):
        raise CheckFailed("a draft", answer)
    own = _keys(kit, str(maker["secret"]))
    second = await own.request("POST", "", {"name": "second", "kind": "person", "scopes": ["*"]})
    rotated = await own.request("POST", f"/{maker['key']['id']}/rotate", {})
    for made in (second, rotated):
        secret = _made(made).get("secret")
        answer = await kit.admin_with(str(secret)).request("POST", f"/drafts/{draft['id']}/approve", {})
        expect_refused(answer, 401, 403)
        await _expect_nothing(kit, answer, payload)


@WRITES.check("A service cannot approve.", "A program that says yes to everything reviews nothing.")
async def service_does_not_approve(kit: Kit) -> None:
    service = await _person(kit, "service", kind="service")
    _, draft, payload = await _waiting(kit)
    answer = await kit.admin_with(str(service["secret"])).request("POST", f"/drafts/{draft}/approve", {})
    expect_refused(answer, 401, 403)
    await _expect_nothing(kit, answer, payload)


def _keys(kit: Kit, token: str) -> Plane:
    """Return the operations on keys, which the profile does not include, with a credential."""
    return kit.with_key(token, _KEYS)


def _made(answer: Answer) -> Json:
    found = json.loads(answer.text) if answer.status == _CREATED else None
    if not isinstance(found, dict):
        raise NotApplicable(f"keys of other people cannot be made at {_KEYS} ({answer.status})")
    return found


async def _person(kit: Kit, name: str, kind: str = "person") -> Json:
    """Make the key of somebody else than the administrator and the approver."""
    if kit.target.admin_key is None:
        raise NotApplicable("no admin key was given, so no keys of other people can be made")
    wanted = {"name": f"verify {name}", "kind": kind, "scopes": ["*"], "subject": f"machine:verify-{token_hex(6)}"}
    return _made(await _keys(kit, kit.target.admin_key).request("POST", "", wanted))


@WRITES.check("Nobody approves without a credential.", "A link that was forwarded must not be an approval.")
async def stranger_does_not_approve(kit: Kit) -> None:
    _, draft, payload = await _waiting(kit)
    answer = await kit.admin_with(None).request_once("POST", f"/drafts/{draft}/approve", {})
    expect_refused(answer, 401, 403, 429)
    await _expect_nothing(kit, answer, payload)


@WRITES.check("Reading the address of an approval approves nothing.", "Mail scanners open every link.")
async def reading_does_not_approve(kit: Kit) -> None:
    _, draft, payload = await _waiting(kit)
    answer = await kit.admin.request("GET", f"/drafts/{draft}/approve")
    expect_refused(answer, 404, 405)
    await _expect_nothing(kit, answer, payload)


@WRITES.check("Approving a draft of a revoked key executes nothing.", _REVOKED)
async def draft_of_revoked_key(kit: Kit) -> None:
    app, draft, payload = await _waiting(kit)
    expect_data(await kit.revoke_key(app.key_id))
    await _expect_nothing(kit, await kit.approve(draft), payload)


@WRITES.check("Approving a draft of a revoked app executes nothing.", _REVOKED)
async def draft_of_revoked_app(kit: Kit) -> None:
    app, draft, payload = await _waiting(kit)
    expect_data(await kit.revoke_app(app))
    await _expect_nothing(kit, await kit.approve(draft), payload)


@WRITES.check("Restoring the app does not make such a draft executable.", _REVOKED)
async def draft_of_restored_app(kit: Kit) -> None:
    app, draft, payload = await _waiting(kit)
    expect_data(await kit.revoke_app(app))
    expect_data(await kit.admin.request("POST", f"/apps/{app.id}/restore", {}))
    await _expect_nothing(kit, await kit.approve(draft), payload)


@WRITES.check("Approving after the policy forbids it executes nothing.", "The rule counts that holds at the effect.")
async def policy_changed_before_approval(kit: Kit) -> None:
    app, draft, payload = await _waiting(kit)
    await kit.set_policy(app, {"data": {"allowed_ledger_ids": []}})
    await _expect_nothing(kit, await kit.approve(draft), payload)


@WRITES.check("A draft that does not exist cannot be approved.", "Clients act on the code.")
async def unknown_draft_is_not_approved(kit: Kit) -> None:
    expect_refused(await kit.approve("drf_unknown"), 404, codes=("agent.draft_not_found",))


@WRITES.check("Another tenant's draft cannot be approved by its agents.", "Tenants share a server and nothing else.")
async def foreign_agent_does_not_approve(kit: Kit) -> None:
    _, draft, payload = await _waiting(kit)
    foreign = await kit.app(org="verify-other")
    answer = await kit.admin_with(foreign.token).request("POST", f"/drafts/{draft}/approve", {})
    expect_refused(answer, 401, 403, 404)
    await _expect_nothing(kit, answer, payload)
