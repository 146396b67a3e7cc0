"""What was decided in a run, by whom and when: told from its records, by name, and hidden with its contents."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from penstock.runtime.tables.api_keys import read_key
from tests.scenarios.office import Office, in_office
from tests.scenarios.test_waiting_approvals import ASKING
from tests.waiting import until

_APPROVE = {"type": "object", "required": ["approve"], "properties": {"approve": {"type": "boolean"}}}
_CHOICE = {
    "type": "object",
    "required": ["size"],
    "properties": {"size": {"type": "string", "enum": ["small", "large"]}},
}
_POLICY = """
@id("hide") @redact("output.amount")
forbid (principal, action == Action::"workflow:pay", resource) when { principal.name == "grace" };
"""


def asks(name: str, answer: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A workflow that asks one question, and completes whatever the answer is."""
    asked = {"id": "ok", "type": "interrupt", "message": "Pay ${ .input.amount }?", "answer": answer, **more}
    return {
        "penstock": "v1",
        "name": name,
        "output": {"type": "object", "properties": {"amount": {"type": "number"}}},
        "nodes": [asked, {"id": "done", "type": "end", "output": {"amount": "${ .input.amount }"}}],
    }


async def start(office: Office, document: dict[str, Any], status: str = "waiting_input") -> str:
    """A run of a workflow that waits for its answer."""
    name = document["name"]
    await office.call(office.owner, "workflow.create", document=document)
    run = await office.call(office.owner, "workflow.execute", workflow_id=name, input={"amount": 180})
    run_id: str = run["execution_id"]

    async def waits() -> bool:
        found = await office.call(office.owner, "execution.status", execution_id=run_id)
        return bool(found["status"] == status)

    await until(waits)
    return run_id


async def decisions(office: Office, who: str, run_id: str) -> list[dict[str, Any]]:
    """What was decided, as somebody sees it."""
    timeline = await office.call(who, "execution.timeline", execution_id=run_id)
    found: list[dict[str, Any]] = timeline["decisions"]
    return found


def test_a_run_tells_what_was_decided_by_whom_and_when(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        for name, schema, answer, word in (
            ("yes", _APPROVE, {"approve": True}, "approved"),
            ("no", _APPROVE, {"approve": False}, "declined"),
            ("plain", {"type": "boolean"}, False, "declined"),
            ("size", _CHOICE, {"size": "large"}, "answered"),
        ):
            run_id = await start(office, asks(name, schema))
            assert await decisions(office, "ada", run_id) == []
            await office.call("ada", "execution.answer", execution_id=run_id, answer=answer, note="I looked")
            (told,) = await decisions(office, "grace", run_id)
            assert (told["decision"], told["name"], told["final"]) == (word, "ada", True)
            assert (told["by"], told["note"], told["prompt"]) == (office.people["ada"].id, "I looked", "Pay 180?")
            assert told["interrupt_id"] == "ok:1"
            assert told["at"]

    in_office(tmp_path, test)


def test_the_vote_of_one_of_several_is_told_as_such(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        run_id = await start(office, ASKING, "waiting_approval")
        await office.call("ada", "execution.answer", execution_id=run_id, answer={"approve": True})
        await office.call("grace", "execution.answer", execution_id=run_id, answer={"approve": False})
        told = await decisions(office, "ada", run_id)
        found = [(item["name"], item["decision"], item["final"]) for item in told]
        assert found == [("ada", "approved", False), ("grace", "declined", True)]

    in_office(tmp_path, test)


def test_a_question_that_nobody_answered_in_time_is_told(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        document = asks("hurry", _APPROVE, timeout="50ms", on_timeout="done")
        await office.call(office.owner, "workflow.create", document=document)
        given = {"workflow_id": "hurry", "input": {"amount": 1}, "sync": True, "wait_seconds": 30}
        run = await office.call(office.owner, "workflow.execute", **given)
        (told,) = await decisions(office, "ada", run["execution_id"])
        assert (told["decision"], told["by"], told["name"], told["final"]) == ("expired", None, "", True)

    in_office(tmp_path, test)


def test_what_was_decided_is_hidden_where_the_contents_of_a_run_are(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        run_id = await start(office, asks("pay", _APPROVE))
        await office.call("ada", "execution.answer", execution_id=run_id, answer={"approve": False}, note="too much")
        await office.call(office.owner, "policy.put", policy_id="house", text=_POLICY)
        (open_one,) = await decisions(office, "ada", run_id)
        (hidden,) = await decisions(office, "grace", run_id)
        assert (open_one["decision"], open_one["note"], open_one["prompt"]) == ("declined", "too much", "Pay 180?")
        assert (hidden["decision"], hidden["note"], hidden["prompt"]) == (None, None, None)
        assert (hidden["name"], hidden["at"]) == ("ada", open_one["at"])

    in_office(tmp_path, test)


def test_a_held_call_tells_who_decided_by_name(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        draft_id = await office.propose()
        await office.call("ada", "draft.reject", draft_id=draft_id, note="not this one")
        (vote,) = (await office.call("grace", "draft.get", draft_id=draft_id))["votes"]
        assert (vote["by"], vote["name"]) == (office.people["ada"].id, "ada")
        (told,) = await decisions(office, "grace", draft_id)
        assert (told["decision"], told["name"], told["note"]) == ("declined", "ada", "not this one")

    in_office(tmp_path, test)


def test_a_key_of_another_tenant_has_no_name_here(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        run_id = await start(office, asks("far", _APPROVE))
        made = await office.call(office.owner, "key.create", name="elsewhere", kind="person", scopes=["*"], tenant="t2")
        key = await read_key(office.gate.services.platform, made["key"]["id"])
        assert key is not None
        await office.penstock.run(run_id).answer({"approve": True}, by=key.principal_id)
        (told,) = await decisions(office, "ada", run_id)
        assert (told["by"], told["name"]) == (key.principal_id, key.principal_id)

    in_office(tmp_path, test)


async def listed(office: Office, who: str, **given: Any) -> list[dict[str, Any]]:
    """What was decided, as somebody sees it in the list."""
    found: list[dict[str, Any]] = (await office.call(who, "approval.decided", **given))["items"]
    return found


def test_decisions_about_calls_and_questions_are_in_one_list(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.hire("clerk", "person", "draft:read")
        run_id = await start(office, asks("pay", _APPROVE))
        await office.call("ada", "execution.answer", execution_id=run_id, answer={"approve": False}, note="too much")
        other = await start(office, asks("size", _CHOICE))
        await office.call("ada", "execution.answer", execution_id=other, answer={"size": "small"})
        voted = await start(office, ASKING, "waiting_approval")
        await office.call("ada", "execution.answer", execution_id=voted, answer={"approve": True})
        draft_id = await office.propose()
        await office.call("grace", "draft.approve", draft_id=draft_id, wait_seconds=20)
        found = await listed(office, "ada")
        assert [(item["kind"], item["id"], item["status"]) for item in found] == [
            ("call", draft_id, "executed"),
            ("question", run_id, "completed"),
        ]
        call, question = (item["decision"] for item in found)
        assert (call["decision"], call["name"], question["decision"], question["name"]) == (
            *("approved", "grace"),
            *("declined", "ada"),
        )
        assert (question["prompt"], question["note"]) == ("Pay 180?", "too much")
        assert found[1]["title"] == "pay"
        assert [item["kind"] for item in await listed(office, "clerk")] == ["call"]
        assert [item["kind"] for item in await listed(office, "robot")] == ["call", "question"]
        await office.call("grace", "execution.answer", execution_id=voted, answer={"approve": True})
        newest, *_ = await listed(office, "ada")
        assert (newest["id"], newest["decision"]["name"], newest["decision"]["final"]) == (voted, "grace", True)

    in_office(tmp_path, test)


def test_the_list_of_decisions_is_paged_and_hides_what_is_hidden(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        await office.call(office.owner, "workflow.create", document=asks("pay", _APPROVE))
        runs = []
        for agreed in (True, False, True, False, True):
            run = await office.call(office.owner, "workflow.execute", workflow_id="pay", input={"amount": 180})
            runs.append(run["execution_id"])

            async def waits(run_id: str = runs[-1]) -> bool:
                found = await office.call(office.owner, "execution.status", execution_id=run_id)
                return bool(found["status"] == "waiting_input")

            await until(waits)
            await office.call("ada", "execution.answer", execution_id=runs[-1], answer={"approve": agreed})
        seen, cursor = [], None
        while True:
            page = await office.call("ada", "approval.decided", limit=2, **({"cursor": cursor} if cursor else {}))
            seen += [item["id"] for item in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert seen == runs[::-1]
        await office.call(office.owner, "policy.put", policy_id="house", text=_POLICY)
        hidden = await listed(office, "grace")
        told = {(item["decision"]["decision"], item["decision"]["prompt"]) for item in hidden}
        assert told == {(None, None)}
        assert {item["decision"]["name"] for item in hidden} == {"ada"}
        refused = await office.refusal("ada", "approval.decided", cursor="x")
        assert refused.code == "INVALID_LIST_CURSOR"

    in_office(tmp_path, test)


def test_the_audit_log_says_what_an_answer_decided(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        found = []
        for name, answer in (("yes", {"approve": True}), ("no", {"approve": False}), ("size", {"size": "large"})):
            run_id = await start(office, asks(name, _CHOICE if name == "size" else _APPROVE))
            await office.call("ada", "execution.answer", execution_id=run_id, answer=answer)
            page = await office.call(office.owner, "audit.list", operation="execution.answer", subject=run_id)
            found.append(page["items"][0]["outcome"])
        run_id = await start(office, asks("plane", _APPROVE))
        given = {"execution_id": run_id, "resume_payload": {"approve": False}}
        await office.call("ada", "control.workflow_resume", **given)
        page = await office.call(office.owner, "audit.list", operation="control.workflow_resume")
        assert [*found, page["items"][0]["outcome"]] == ["approved", "rejected", "allowed", "rejected"]

    in_office(tmp_path, test)


def test_somebody_who_answers_too_late_is_told_who_decided_what(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        run_id = await start(office, asks("pay", _APPROVE))
        await office.call("ada", "execution.answer", execution_id=run_id, answer={"approve": False})
        refused = await office.refusal("grace", "execution.answer", execution_id=run_id, answer={"approve": True})
        assert refused.code == "ALREADY_ANSWERED"
        assert refused.message.startswith("ok was answered by ada at ")
        assert refused.details["answered_by_name"] == "ada"
        assert refused.details["answered_by"] == office.people["ada"].id
        draft_id = await office.propose()
        await office.call("ada", "draft.reject", draft_id=draft_id)
        refused = await office.refusal("grace", "draft.approve", draft_id=draft_id)
        assert refused.code == "DRAFT_FINAL"
        assert "declined by ada" in refused.message

    in_office(tmp_path, test)


def test_a_held_call_says_for_whom_somebody_asked_by_name(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        acting = replace(office.people["robot"], acting_for=(office.people["ada"].id, office.owner.id))
        held = await office.call(acting, "workflow:erase_customer", customer="C-1")
        draft_id = held["held"]["draft_id"]
        names = ["ada", office.owner.name]
        assert (await office.call("grace", "draft.get", draft_id=draft_id))["acting_for_names"] == names
        (listed_draft,) = (await office.call("grace", "draft.list"))["items"]
        (waiting,) = (await office.call("grace", "approval.list"))["items"]
        assert listed_draft["acting_for_names"] == waiting["draft"]["acting_for_names"] == names

    in_office(tmp_path, test)
