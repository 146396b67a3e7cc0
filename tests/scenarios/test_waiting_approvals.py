"""One list of what waits for somebody: held calls and questions of workflows, with who may decide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.scenarios.office import Office, in_office
from tests.waiting import until

ASKING: dict[str, Any] = {
    "penstock": "v1",
    "name": "refund",
    "nodes": [
        {
            "id": "ok",
            "type": "interrupt",
            "message": "Refund 180?",
            "answer": {"type": "object", "required": ["approve"], "properties": {"approve": {"type": "boolean"}}},
            "approvers": {"group": "approvers", "count": 2},
        },
        {"id": "done", "type": "end", "output": "${ .ok }"},
    ],
}


async def _asked(office: Office, count: int = 1) -> list[str]:
    await office.call(office.owner, "workflow.create", document=ASKING)
    runs = [await office.call(office.owner, "workflow.execute", workflow_id="refund") for _ in range(count)]

    async def asks() -> bool:
        listed = await office.call(office.owner, "execution.list", status=["waiting_approval"])
        return len([item for item in listed["items"] if item["workflow_id"] == "refund"]) == count

    await until(asks)
    return [run["execution_id"] for run in runs]


def _decidable(page: dict[str, Any]) -> dict[tuple[str, str], bool]:
    return {(item["kind"], item["id"]): item["decidable"] for item in page["items"]}


def test_calls_and_questions_are_in_one_list_for_those_who_decide(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        (run_id,) = await _asked(office)
        draft_id = await office.propose()
        await office.hire("clerk", "person", "draft:read", "execution:read")
        await office.hire("half", "person", "draft:*", "approve:approvers")
        listed = {who: await office.call(who, "approval.list") for who in ("ada", "clerk", "half", "robot")}
        found = {who: _decidable(page) for who, page in listed.items()}
        call, question = ("call", draft_id), ("question", run_id)
        assert found["ada"] == {call: True, question: True}
        assert found["clerk"] == {call: False, question: False}
        assert found["half"] == {call: True}
        assert found["robot"] == {call: False, question: False}
        asked = next(item for item in listed["ada"]["items"] if item["kind"] == "question")
        assert (asked["question"]["decides"], asked["question"]["decline"]) == ("approve", {"approve": False})
        assert asked["approvers"]["group"] == "approvers"
        mine = await office.call("clerk", "approval.list", mine=True)
        assert mine["items"] == []

    in_office(tmp_path, test)


def test_somebody_who_has_decided_is_not_asked_again(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        (run_id,) = await _asked(office)
        await office.call("ada", "execution.answer", execution_id=run_id, answer={"approve": True})
        mine = {who: len((await office.call(who, "approval.list", mine=True))["items"]) for who in ("ada", "grace")}
        assert mine == {"ada": 0, "grace": 1}
        await office.call("grace", "execution.answer", execution_id=run_id, answer={"approve": True})
        assert (await office.call("grace", "approval.list"))["items"] == []

    in_office(tmp_path, test)


def test_the_list_is_paged(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        wanted, seen, cursor = set(await _asked(office, 5)), [], None
        while True:
            page = await office.call("ada", "approval.list", limit=2, **({} if cursor is None else {"cursor": cursor}))
            seen += [item["id"] for item in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert (len(seen), set(seen)) == (5, wanted)

    in_office(tmp_path, test)


def test_the_list_says_who_asked_by_name_and_why_somebody_cannot_decide(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        (run_id,) = await _asked(office)
        draft_id = await office.propose()
        await office.hire("clerk", "person", "draft:read", "execution:read")
        await office.hire("stranger", "person", "draft:*", "execution:*")
        await office.hire("lead", "person", "*")
        await office.hire("spare", "person", "draft:*", "execution:*", "approve:approvers", maker=office.people["lead"])
        await office.call("lead", "execution.answer", execution_id=run_id, answer={"approve": True})
        found = {}
        for who in ("lead", "spare", "grace", "clerk", "stranger", "robot"):
            page = await office.call(who, "approval.list")
            found[who] = {item["kind"]: item["why_not"] for item in page["items"]}
            names = {item["kind"]: item["asked_by_name"] for item in page["items"]}
            assert names == {"call": "robot", "question": office.owner.name}
            timeline = await office.call(who, "execution.timeline", execution_id=run_id)
            (told,) = timeline["undecided"]
            assert (told["why_not"], told["decidable"]) == (found[who]["question"], found[who]["question"] is None)
            assert (await office.call(who, "draft.get", draft_id=draft_id))["why_not"] == found[who]["call"]
        assert found == {
            "lead": {"call": None, "question": "voted"},
            "spare": {"call": None, "question": "voted"},
            "grace": {"call": None, "question": None},
            "clerk": {"call": "scope", "question": "scope"},
            "stranger": {"call": "others", "question": "others"},
            "robot": {"call": "person", "question": "person"},
        }

    in_office(tmp_path, test)


def test_whoever_asked_is_told_so_where_somebody_else_has_to_decide(tmp_path: Path) -> None:
    async def test(office: Office) -> None:
        node = {**ASKING["nodes"][0], "approvers": {"group": "approvers", "not_requester": True}}
        document = {**ASKING, "nodes": [node, ASKING["nodes"][1]]}
        await office.call(office.owner, "workflow.create", document=document)
        await office.hire("boss", "person", "*")
        await office.call("boss", "workflow.execute", workflow_id="refund")

        async def listed() -> list[Any]:
            found: list[Any] = (await office.call("boss", "approval.list"))["items"]
            return found

        async def asks() -> bool:
            return bool(await listed())

        await until(asks)
        (item,) = await listed()
        assert (item["why_not"], item["decidable"], item["asked_by_name"]) == ("requester", False, "boss")

    in_office(tmp_path, test)
