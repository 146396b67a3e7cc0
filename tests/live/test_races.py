"""Many callers at the same moment on a live server: one of them wins, the others learn that they did not."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.live.parallel import Call, at_once
from tests.live.rest.seeds import APPROVE, COUNT, SIGNALLED
from tests.live.rest.servers import LiveServer
from tests.live.tenants import Member, member

CALLERS = 20


@pytest.fixture
def owner(server: LiveServer, request: pytest.FixtureRequest) -> Member:
    """Somebody with a tenant of their own, which has three workflows."""
    tenant = "t" + str(abs(hash(request.node.name)))[:12]
    found = member(server, tenant)
    for document in (COUNT, APPROVE, SIGNALLED):
        found.call("POST", "workflows", {"document": document})
    return found


def documents(name: str, first: int = 0) -> list[dict[str, Any]]:
    """As many versions of a workflow as there are callers."""
    return [
        {"penstock": "v1", "name": name, "nodes": [{"id": "done", "type": "end", "output": number}]}
        for number in range(first, first + CALLERS)
    ]


def codes(answers: list[Any]) -> Counter[Any]:
    return Counter(answer.json().get("code", answer.status) for answer in answers)


def test_of_many_changes_to_one_version_of_a_workflow_one_is_made(owner: Member) -> None:
    etag = owner.request("GET", "workflows/count").headers["etag"]
    calls = [Call("PUT", "workflows/count", {"document": item}, {"If-Match": etag}) for item in documents("count")]
    answers = at_once(owner, calls)
    assert codes(answers) == {200: 1, "PRECONDITION_FAILED": CALLERS - 1}
    assert {answer.status for answer in answers} == {200, 412}
    won = next(number for number, answer in enumerate(answers) if answer.status == 200)
    stored = owner.call("GET", "workflows/count")
    assert stored["document"] == documents("count")[won] == answers[won].json()["document"]
    assert answers[won].headers["etag"] == f'"{stored["hash"]}"'
    assert len(owner.call("GET", "workflows/count/versions")["items"]) == 2


def test_many_changes_without_a_version_are_all_made_and_each_is_told_of_its_own(owner: Member) -> None:
    answers = at_once(owner, [Call("PUT", "workflows/count", {"document": item}) for item in documents("count")])
    assert [answer.status for answer in answers] == [200] * CALLERS
    assert [answer.json()["document"] for answer in answers] == documents("count")
    assert len(owner.call("GET", "workflows/count/versions")["items"]) == CALLERS + 1


def test_of_many_changes_to_one_version_of_the_tasks_one_is_made(owner: Member) -> None:
    etag = owner.request("GET", "workflows/count/tasks").headers["etag"]
    calls = [
        Call(
            "POST",
            "workflows/count/tasks",
            {"task": {"id": f"t{number}", "type": "set_state", "set": {"n": number}}, "after": "note"},
            {"If-Match": etag},
        )
        for number in range(CALLERS)
    ]
    answers = at_once(owner, calls)
    assert codes(answers) == {201: 1, "PRECONDITION_FAILED": CALLERS - 1}


def test_a_workflow_is_either_changed_or_deleted(owner: Member) -> None:
    for turn in range(5):
        etag = owner.request("GET", "workflows/count").headers["etag"]
        versions = documents("count", turn * CALLERS)
        calls = [Call("PUT", "workflows/count", {"document": item}, {"If-Match": etag}) for item in versions]
        calls[10:] = [Call("DELETE", "workflows/count", None, {"If-Match": etag})] * (CALLERS - 10)
        answers = at_once(owner, calls)
        assert sum(answer.status == 200 for answer in answers) == 1, codes(answers)
        deleted = any(answer.status == 200 for answer in answers[10:])
        assert owner.request("GET", "workflows/count").status == (404 if deleted else 200)
        if deleted:
            owner.call("POST", "workflows", {"document": COUNT})


def test_of_many_who_create_the_same_one_does(owner: Member) -> None:
    made = at_once(owner, [Call("POST", "workflows", {"document": item}) for item in documents("fresh")])
    assert codes(made) == {201: 1, "WORKFLOW_EXISTS": CALLERS - 1}
    schedule = {"schedule_id": "nightly", "workflow_id": "count", "input": {"number": 1}}
    made = at_once(
        owner, [Call("POST", "schedules", {**schedule, "cron": f"{number} 3 * * *"}) for number in range(CALLERS)]
    )
    assert codes(made) == {201: 1, "SCHEDULE_EXISTS": CALLERS - 1}
    won = next(answer for answer in made if answer.status == 201).json()
    assert owner.call("GET", "schedules/nightly")["cron"] == won["cron"]
    registered: list[tuple[str, dict[str, Any]]] = [("schema", {"schema": {}}), ("agent", {})]
    for kind, body in registered:
        made = at_once(owner, [Call("POST", f"{kind}s", {"id": "x", **body, "description": str(n)}) for n in range(9)])
        assert codes(made) == {201: 1, f"{kind.upper()}_EXISTS": 8}


def test_of_many_changes_to_one_version_of_a_registered_thing_one_is_made(owner: Member) -> None:
    owner.call("POST", "models", {"id": "fast", "provider": "openai", "model": "small"})
    etag = owner.request("GET", "models/fast").headers["etag"]
    calls = [
        Call("PUT", "models/fast", {"provider": "openai", "model": f"m{number}"}, {"If-Match": etag})
        for number in range(CALLERS)
    ]
    assert codes(at_once(owner, calls)) == {200: 1, "PRECONDITION_FAILED": CALLERS - 1}


def test_a_secret_that_was_replaced_stays_replaced_when_the_webhook_is_changed(owner: Member) -> None:
    url = "https://example.com/events"
    made = owner.call("POST", "webhooks", {"url": url})["webhook"]["id"]
    for _ in range(5):
        calls = [Call("PUT", f"webhooks/{made}", {"url": url, "description": str(n)}) for n in range(CALLERS)]
        calls[3] = Call("POST", f"webhooks/{made}/rotate", {})
        before = owner.call("GET", f"webhooks/{made}")
        answers = at_once(owner, calls)
        assert {answer.status for index, answer in enumerate(answers) if index != 3} == {200}
        if answers[3].status == 201:
            assert owner.call("GET", f"webhooks/{made}")["secret_version"] == before["secret_version"] + 1


def test_of_many_answers_to_a_question_the_first_counts(owner: Member) -> None:
    owner.call("POST", "workflows/approve/executions", {"execution_id": "q"})
    calls = [Call("POST", "executions/q/answers", {"answer": {"ok": number % 2 == 0}}) for number in range(CALLERS)]
    answers = at_once(owner, calls)
    assert codes(answers) == {200: 1, "ALREADY_ANSWERED": CALLERS - 1}
    won = next(number for number, answer in enumerate(answers) if answer.status == 200)
    assert owner.call("GET", "executions/q/wait")["output"] == {"ok": won % 2 == 0}


def test_of_many_results_of_an_activity_the_first_counts(owner: Member) -> None:
    document = {
        "penstock": "v1",
        "name": "work",
        "nodes": [
            {"id": "fetch", "type": "http", "url": "https://example.com/x"},
            {"id": "done", "type": "end", "output": "${ .fetch }"},
        ],
    }
    owner.call("POST", "workflows", {"document": document})
    owner.call("POST", "workflows/work/executions", {"execution_id": "w", "mode": "host_mediated"})
    calls = [Call("POST", "executions/w/activities/fetch", {"ok": True, "result": n}) for n in range(CALLERS)]
    answers = at_once(owner, calls)
    assert codes(answers) == {200: 1, "ACTIVITY_SUBMIT_NOT_AWAITING": CALLERS - 1}
    won = next(number for number, answer in enumerate(answers) if answer.status == 200)
    assert owner.call("GET", "executions/w/wait")["output"] == won


def test_an_activity_is_leased_to_one_of_many(owner: Member) -> None:
    document = {
        "penstock": "v1",
        "name": "work",
        "nodes": [{"id": "fetch", "type": "http", "url": "https://example.com/x"}, {"id": "done", "type": "end"}],
    }
    owner.call("POST", "workflows", {"document": document})
    owner.call("POST", "workflows/work/executions", {"execution_id": "w", "mode": "host_mediated"})
    calls = [
        Call("POST", "executions/w/activities/fetch/lease", {"seconds": 60, "holder": f"worker-{number}"})
        for number in range(CALLERS)
    ]
    assert codes(at_once(owner, calls)) == {200: 1, "ACTIVITY_LEASED": CALLERS - 1}


def test_many_who_choose_one_id_get_one_execution(owner: Member) -> None:
    start = {"execution_id": "once", "input": {"number": 4}, "sync": True}
    answers = at_once(owner, [Call("POST", "workflows/count/executions", start)] * CALLERS)
    assert {answer.status for answer in answers} == {200}
    assert {answer.json()["execution_id"] for answer in answers} == {"once"}
    assert len(owner.call("GET", "workflows/count/executions")["items"]) == 1
    others = [
        Call("POST", "workflows/count/executions", {"execution_id": "other", "input": {"number": number}})
        for number in range(CALLERS)
    ]
    assert codes(at_once(owner, others)) == {202: 1, "EXECUTION_ID_TAKEN": CALLERS - 1}


def test_many_signals_are_all_kept_once(owner: Member) -> None:
    document = {
        "penstock": "v1",
        "name": "collect",
        "state": {"type": "object", "properties": {"heard": {"type": "array", "default": [], "reducer": "append"}}},
        "nodes": [
            {
                "id": "rounds",
                "type": "loop",
                "until": f".state.heard | length >= {CALLERS}",
                "max_iterations": CALLERS,
                "nodes": [
                    {"id": "wait", "type": "wait", "signal": "n"},
                    {"id": "note", "type": "set_state", "set": {"heard": "${ .wait }"}},
                ],
            },
            {"id": "done", "type": "end", "output": "${ .state.heard }"},
        ],
    }
    answer = owner.request("POST", "workflows", {"document": document})
    assert answer.status == 201, answer
    owner.call("POST", "workflows/collect/executions", {"execution_id": "c"})
    calls = [
        Call("POST", "executions/c/signals", {"name": "n", "payload": number, "signal_id": f"s{number}"})
        for number in range(CALLERS)
    ]
    assert {answer.status for answer in at_once(owner, [*calls, *calls])} <= {202, 409}
    ended = owner.call("GET", "executions/c/wait")
    assert ended["status"] == "completed", ended
    assert sorted(ended["output"]) == list(range(CALLERS))


def test_a_schedule_that_is_paused_stays_paused_while_it_is_started_and_changed(owner: Member) -> None:
    body = {"schedule_id": "s", "workflow_id": "count", "cron": "0 3 * * *", "overlap": "allow", "input": {"number": 1}}
    for _ in range(4):
        owner.call("POST", "schedules", body)
        calls = [Call("POST", "schedules/s/run", {})] * 10 + [Call("PATCH", "schedules/s", {"jitter": "5s"})] * 5
        calls.insert(7, Call("POST", "schedules/s/pause", {}))
        calls.insert(3, Call("PATCH", "schedules/s", {"cron": "0 4 * * *"}))
        answers = at_once(owner, calls)
        assert {answer.status for answer in answers} == {200, 202}
        stored = owner.call("GET", "schedules/s")
        assert (stored["paused"], stored["cron"], stored["jitter"]) == (True, "0 4 * * *", "5s")
        owner.call("DELETE", "schedules/s")


def test_every_start_of_a_schedule_by_hand_is_an_execution_of_its_own_unless_one_goes_on(owner: Member) -> None:
    body = {"schedule_id": "s", "workflow_id": "count", "cron": "0 3 * * *", "overlap": "allow", "input": {"number": 1}}
    owner.call("POST", "schedules", body)
    started = at_once(owner, [Call("POST", "schedules/s/run", {})] * CALLERS)
    assert len({answer.json()["execution_id"] for answer in started}) == CALLERS
    owner.call("POST", "schedules", {"schedule_id": "one", "workflow_id": "signalled", "cron": "0 3 * * *"})
    answers = at_once(owner, [Call("POST", "schedules/one/run", {})] * CALLERS)
    assert codes(answers) == {202: 1, "SCHEDULE_NOT_STARTED": CALLERS - 1}


def test_a_deleted_schedule_does_not_come_back(owner: Member) -> None:
    body = {"schedule_id": "s", "workflow_id": "count", "cron": "0 3 * * *", "input": {"number": 1}}
    for _ in range(4):
        owner.call("POST", "schedules", body)
        calls = [Call("PATCH", "schedules/s", {"cron": f"{number} 3 * * *"}) for number in range(10)]
        calls += [Call("POST", "schedules/s/pause", {})] * 5 + [Call("POST", "schedules/s/resume", {})] * 4
        calls.insert(8, Call("DELETE", "schedules/s"))
        answers = at_once(owner, calls)
        assert {answer.status for answer in answers} <= {200, 404}
        assert owner.request("GET", "schedules/s").status == 404


def test_the_schedules_of_a_workflow_are_those_of_its_newest_version(owner: Member) -> None:
    versions = [
        {
            "penstock": "v1",
            "name": "timed",
            "triggers": [{"id": f"at-{number}", "schedule": {"cron": f"{number} 3 * * *"}}],
            "nodes": [{"id": "done", "type": "end"}],
        }
        for number in range(CALLERS)
    ]
    owner.call("POST", "workflows", {"document": versions[0]})
    for _ in range(3):
        answers = at_once(owner, [Call("PUT", "workflows/timed", {"document": item}) for item in versions])
        assert {answer.status for answer in answers} == {200}
        newest = owner.call("GET", "workflows/timed")["document"]["triggers"][0]["id"]
        assert [item["schedule_id"] for item in owner.call("GET", "schedules")["items"]] == [newest]
    at_once(
        owner,
        [*(Call("PUT", "workflows/timed", {"document": item}) for item in versions), Call("DELETE", "workflows/timed")],
    )
    left = owner.call("GET", "schedules")["items"]
    assert len(left) == (0 if owner.request("GET", "workflows/timed").status == 404 else 1)


def test_a_key_that_was_revoked_while_it_was_replaced_stays_revoked(server: LiveServer) -> None:
    operator = Member(server, server.key)
    for _ in range(5):
        made = operator.call("POST", "keys", {"name": "worker", "scopes": ["execution:read"]})
        path = f"keys/{made['key']['id']}"
        calls = [Call("POST", f"{path}/rotate", {"overlap": "1h"})] * 6
        calls.insert(3, Call("POST", f"{path}/revoke", {}))
        at_once(operator, calls)
        assert operator.call("GET", path)["status"] == "revoked"
        assert server.request("GET", "executions", key=made["secret"]).json()["code"] == "KEY_REVOKED"


def test_an_execution_ends_once_however_many_cancel_it(owner: Member) -> None:
    owner.call("POST", "workflows/signalled/executions", {"execution_id": "c"})
    calls = [Call("POST", "executions/c/cancel", {"reason": str(number)}) for number in range(CALLERS)]
    answers = at_once(owner, calls)
    assert {answer.status for answer in answers} <= {200, 409}
    history = owner.call("GET", "executions/c/history?limit=500")["items"]
    assert sum(record["name"] == "ExecutionCancelled" for record in history) == 1
    assert owner.call("GET", "executions/c")["status"] == "cancelled"


def test_forks_with_one_id_are_one_execution(owner: Member) -> None:
    owner.call("POST", "workflows/count/executions", {"execution_id": "a", "input": {"number": 1}, "sync": True})
    calls = [Call("POST", "executions/a/fork", {"at_sequence": 2, "new_execution_id": "b"})] * CALLERS
    assert {answer.status for answer in at_once(owner, calls)} == {201}
    assert len(owner.call("GET", "executions?limit=500")["items"]) == 2
    deleted = at_once(owner, [Call("DELETE", "executions/a")] * CALLERS)
    assert {answer.status for answer in deleted} <= {200, 404}
    assert owner.request("GET", "executions/a").status == 404
