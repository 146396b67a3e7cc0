"""Profile `state-witness`: an action that was decided on one state is not carried out on another.

A preflight shows a witness of the state that it saw, and its hash. The hash is compared when an action is proposed with
it, and always when it is executed; a difference is a 409 and the end of the draft. The state of a call that runs a
workflow includes what the workflow calls. The agent profile does not include workflows: these checks use the REST API.
"""

from __future__ import annotations

from dataclasses import dataclass
from secrets import token_hex

from penstock.cli.verify.checks import CheckFailed, NotApplicable, Profile, expect
from penstock.cli.verify.kit import API, LEDGER, App, Kit, digest_of, executed, high_risk_enabled
from penstock.cli.verify.target import Answer, Json, Plane, expect_data, expect_refused

__all__ = ["STATE_WITNESS"]

STATE_WITNESS = Profile("state-witness", "An action decided on one state is not carried out on another.")

_DELETE, _UPDATE = "transaction.delete", "transaction.update"
_FAILED = ("agent.precondition_failed",)
_CONFLICT = 409
_NOT_SERVED = (404, 405)
_MADE = (200, 201, 202)
_SIGNAL = "go"
_DRIFT = "The world has moved on: what was agreed to is no longer what would happen."


async def _seen(app: App, target: str, action: str = _DELETE) -> Json:
    payload = {"transactionId": target, **({"title": "new"} if action == _UPDATE else {})}
    return expect_data(await app.preflight(action, payload))


def _witness_hash(seen: Json) -> str:
    found = seen.get("stateWitnessHash")
    if not isinstance(found, str):
        raise CheckFailed("a `stateWitnessHash`", seen)
    return found


def _expect_mismatch(answer: Answer, *reasons: str) -> None:
    expect_refused(answer, 409, codes=_FAILED)
    details = answer.body.get("details")
    reason = details.get("reason") if isinstance(details, dict) else None
    expect(reason in reasons, f"details.reason {' or '.join(reasons)}", answer)


async def _gone(kit: Kit, target: str) -> bool:
    """Whether a transaction is gone, as a preflight of its deletion sees it."""
    answer = await (await kit.shared_app()).preflight(_DELETE, {"transactionId": target})
    witness = answer.data.get("stateWitness")
    return not answer.is_success or (isinstance(witness, dict) and witness.get("is_deleted") is True)


@STATE_WITNESS.check("A preflight shows a witness of the state and its hash.", "Without it nobody notices a change.")
async def witness_is_shown(kit: Kit) -> None:
    seen = await _seen(await kit.app(), await kit.transaction())
    expect(isinstance(seen.get("stateWitness"), dict), "a `stateWitness`", seen)
    _witness_hash(seen)


@STATE_WITNESS.check(
    "The hash is the SHA-256 of the witness in canonical JSON (RFC 8785).",
    "A program that shows a witness to an approver must be able to check the hash.",
)
async def witness_is_hashed(kit: Kit) -> None:
    seen = await _seen(await kit.app(), await kit.transaction())
    wanted = digest_of(seen.get("stateWitness"))
    expect(_witness_hash(seen) == wanted, wanted, seen)


@STATE_WITNESS.check("The witness stays the same while nothing changes.", "A witness of the time refuses everything.")
async def witness_is_stable(kit: Kit) -> None:
    app, target = await kit.app(), await kit.transaction()
    first = _witness_hash(await _seen(app, target))
    await kit.change(await kit.transaction())
    second = _witness_hash(await _seen(app, target))
    expect(first == second, "the same hash", (first, second))


@STATE_WITNESS.check("The witness changes with the thing.", "A witness that never changes witnesses nothing.")
async def witness_follows_state(kit: Kit) -> None:
    app, target = await kit.app(), await kit.transaction()
    first = _witness_hash(await _seen(app, target))
    await kit.change(target)
    second = _witness_hash(await _seen(app, target))
    expect(first != second, "another hash", first)


@STATE_WITNESS.check("An action with the current hash is accepted.", "A check that refuses everything proves nothing.")
async def current_hash(kit: Kit) -> None:
    app, target = await kit.app(), await kit.transaction()
    found = _witness_hash(await _seen(app, target))
    await app.proposed(_DELETE, {"transactionId": target}, stateWitnessHash=found)


@STATE_WITNESS.check("An action with an outdated hash is a 409 when it is proposed.", _DRIFT)
async def outdated_hash(kit: Kit) -> None:
    app, target = await kit.app(), await kit.transaction()
    found = _witness_hash(await _seen(app, target))
    await kit.change(target)
    answer = await app.act(_DELETE, {"transactionId": target}, stateWitnessHash=found)
    _expect_mismatch(answer, "state_witness_mismatch")


@STATE_WITNESS.check("An invented hash is a 409.", _DRIFT)
async def invented_witness(kit: Kit) -> None:
    app = await kit.app()
    answer = await app.act(_DELETE, {"transactionId": await kit.transaction()}, stateWitnessHash="0" * 64)
    _expect_mismatch(answer, "state_witness_mismatch")


@STATE_WITNESS.check("A hash for an action that has no witness is a 409.", "A skipped check checks nothing.")
async def unsupported_witness(kit: Kit) -> None:
    app = await kit.app()
    answer = await app.act("transactions.export_csv", {"ledgerId": LEDGER}, stateWitnessHash="0" * 64)
    _expect_mismatch(answer, "state_witness_unsupported", "state_witness_mismatch")


@STATE_WITNESS.check("A draft whose state has changed is not executed when it is approved.", _DRIFT)
async def drift_before_approval(kit: Kit) -> None:
    app, target = await kit.app(), await kit.transaction()
    found = _witness_hash(await _seen(app, target))
    draft = await app.proposed(_DELETE, {"transactionId": target}, stateWitnessHash=found)
    await kit.change(target)
    _expect_mismatch(await kit.approve(draft), "state_witness_mismatch")
    expect(not await _gone(kit, target), "the transaction, unchanged", target)


@STATE_WITNESS.check(
    "The state is compared at approval even if the agent sent no hash.",
    "An agent that leaves the hash out must not get more than one that sends it.",
)
async def drift_without_hash(kit: Kit) -> None:
    app, target = await kit.app(), await kit.transaction()
    draft = await app.proposed(_DELETE, {"transactionId": target})
    await kit.change(target)
    _expect_mismatch(await kit.approve(draft), "state_witness_mismatch")
    expect(not await _gone(kit, target), "the transaction, unchanged", target)


@STATE_WITNESS.check(
    "A drifted draft has ended, and says so.",
    "A draft that is confirmed and was never executed misleads everybody who reads it.",
)
async def drifted_draft_ends(kit: Kit) -> None:
    app, target = await kit.app(), await kit.transaction()
    draft = await app.proposed(_DELETE, {"transactionId": target})
    await kit.change(target)
    await kit.approve(draft)
    status = await kit.draft_status(draft)
    expect(status in ("failed", "canceled"), "status `failed`", await kit.draft(draft))
    again = await kit.approve(draft)
    expect(again.is_enveloped_refusal, "a refusal of a second approval", again)


@STATE_WITNESS.check("A drifted action can be proposed again.", "A dead end makes people work around the control.")
async def drifted_action_is_proposed_again(kit: Kit) -> None:
    app, target = await kit.app(), await kit.transaction()
    draft = await app.proposed(_DELETE, {"transactionId": target})
    await kit.change(target)
    await kit.approve(draft)
    second = await app.proposed(_DELETE, {"transactionId": target})
    expect_data(await kit.approve(second))
    expect(await _gone(kit, target), "the transaction, deleted", target)


@STATE_WITNESS.check("A handle of an outdated state executes nothing.", _DRIFT)
async def drift_after_handle(kit: Kit) -> None:
    app, target = await kit.app(auto_execute=high_risk_enabled()), await kit.transaction()
    handle = (await _seen(app, target)).get("preflightId")
    await kit.change(target)
    more = {"execute": True, "justification": "a duplicate", "idempotencyKey": token_hex(8), "preflightId": handle}
    answer = await app.act(_DELETE, None, **more)
    execution = answer.data.get("execution")
    expect(not (isinstance(execution, dict) and execution.get("status") == "success"), "no execution", answer)
    expect(not await _gone(kit, target), "the transaction, unchanged", answer)


@STATE_WITNESS.check("An action whose thing was deleted meanwhile is a 409.", _DRIFT)
async def deleted_before_approval(kit: Kit) -> None:
    app, other, target = await kit.app(), await kit.app(), await kit.transaction()
    draft = await app.proposed(_UPDATE, {"transactionId": target, "title": "new"})
    expect_data(await kit.approve(await other.proposed(_DELETE, {"transactionId": target})))
    answer = await kit.approve(draft)
    expect_refused(answer, 404, 409)


@STATE_WITNESS.check("Of two actions decided on one state, the first alone is executed.", _DRIFT)
async def two_on_one_state(kit: Kit) -> None:
    app, target = await kit.app(), await kit.transaction()
    drafts = [await app.proposed(_UPDATE, {"transactionId": target, "title": f"t{number}"}) for number in (1, 2)]
    first, second = [await kit.approve(draft) for draft in drafts]
    expect_data(first)
    _expect_mismatch(second, "state_witness_mismatch")


@STATE_WITNESS.check("With an unchanged state the handle executes.", "A check that refuses everything proves nothing.")
async def unchanged_state_executes(kit: Kit) -> None:
    app, target = await kit.app(auto_execute=high_risk_enabled()), await kit.transaction()
    handle = (await _seen(app, target)).get("preflightId")
    more = {"execute": True, "justification": "a duplicate", "idempotencyKey": token_hex(8), "preflightId": handle}
    executed(await app.act(_DELETE, None, **more))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Payment:
    """A workflow of high risk that calls another one, and the people who run, change and approve it."""

    parent: str
    child: str
    owner: Plane
    agent: Plane
    approver: Plane

    async def proposed(self) -> str:
        """Run the workflow as an agent; return the draft that waits."""
        answer = await self.agent.request("POST", f"/workflows/{self.parent}/executions", {})
        held = answer.body.get("held")
        if answer.body.get("status") != "waiting_approval" or not isinstance(held, dict):
            raise CheckFailed("a call that waits for approval", answer)
        return str(held["draft_id"])

    async def approve(self, draft: str) -> Answer:
        """Approve the call."""
        return await self.approver.request("POST", f"/drafts/{draft}/approve", {})

    async def change_child(self) -> None:
        """Change what the workflow calls."""
        body = {"document": _child(self.child, paid=7000)}
        answer = await self.owner.request("PUT", f"/workflows/{self.child}", body)
        expect(answer.status in _MADE, "another version of the workflow that is called", answer)

    async def outcome(self, approved: Answer) -> Answer:
        """Let the run of an approved call reach the other workflow; return how it ended."""
        result = approved.body.get("result")
        run = result.get("execution_id") if isinstance(result, dict) else None
        expect(isinstance(run, str), "a run of the approved call", approved)
        await self.owner.request("POST", f"/executions/{run}/signals", {"name": _SIGNAL})
        return await self.owner.request("GET", f"/executions/{run}/wait", query={"wait_seconds": "30"})


def _child(name: str, *, paid: int) -> Json:
    return {"penstock": "v1", "name": name, "nodes": [{"id": "done", "type": "end", "output": {"paid": paid}}]}


def _parent(name: str, child: str) -> Json:
    nodes: list[Json] = [
        {"id": "hold", "type": "wait", "signal": _SIGNAL},
        {"id": "pay", "type": "subworkflow", "workflow": child, "input": {}},
        {"id": "done", "type": "end", "output": "${ .pay }"},
    ]
    return {"penstock": "v1", "name": name, "governance": {"risk": "high"}, "nodes": nodes}


async def _payment(kit: Kit) -> _Payment:
    keys = (kit.target.admin_key, kit.target.approver_key)
    if None in keys:
        raise NotApplicable("no keys were given that store workflows and approve; pass --admin-key and --approver-key")
    await kit.need_held_calls()
    owner, approver = (kit.with_key(key, API) for key in keys)
    # Its own subject: otherwise it would stand for the owner, who also made the key of the approver.
    wanted: Json = {
        "name": "verify agent",
        "kind": "agent",
        "subject": "machine:verify-agent",
        "scopes": ["workflow:run", "execution:*"],
    }
    made = await owner.request("POST", "/keys", wanted)
    if made.status in _NOT_SERVED:
        raise NotApplicable(f"nothing makes keys at {API}/keys")
    expect(isinstance(made.body.get("secret"), str), "a key of an agent", made)
    agent = kit.with_key(str(made.body["secret"]), API)
    name = f"verify_{token_hex(6)}"
    parent, child = f"{name}_parent", f"{name}_child"
    for document in (_child(child, paid=7), _parent(parent, child)):
        stored = await owner.request("POST", "/workflows", {"document": document})
        expect(stored.status in _MADE, "a stored workflow", stored)
    return _Payment(parent=parent, child=child, owner=owner, agent=agent, approver=approver)


@STATE_WITNESS.check(
    "An approved call runs what it calls.", "A server that refuses every call of a workflow would pass the next checks."
)
async def unchanged_child_runs(kit: Kit) -> None:
    payment = await _payment(kit)
    ended = await payment.outcome(await payment.approve(await payment.proposed()))
    expect(ended.body.get("output") == {"paid": 7}, "the output of the workflow that is called", ended)


@STATE_WITNESS.check("A call is not executed if what it calls has changed before it is approved.", _DRIFT)
async def changed_child_before_approval(kit: Kit) -> None:
    payment = await _payment(kit)
    draft = await payment.proposed()
    await payment.change_child()
    answer = await payment.approve(draft)
    expect(answer.status == _CONFLICT, "a 409", answer)
    runs = await payment.owner.request("GET", "/executions", query={"workflow_id": payment.parent})
    expect(runs.body.get("items") == [], "no run", runs)


@STATE_WITNESS.check(
    "A run of an approved call does not use what has changed since.",
    "Between the approval and the effect there can be days.",
)
async def changed_child_after_approval(kit: Kit) -> None:
    payment = await _payment(kit)
    approved = await payment.approve(await payment.proposed())
    await payment.change_child()
    ended = await payment.outcome(approved)
    refused = ended.body.get("status") == "failed"
    expect(refused or ended.body.get("output") == {"paid": 7}, "what was approved, or a refusal", ended)
