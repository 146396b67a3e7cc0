"""What an approver sees with a key that can only approve: what waits, what was decided, by whom, and what it led to."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest

from tests.live.console.everyday import claimed, held
from tests.live.console.governed import World
from tests.live.console.visiting import cookie_of, get, post, token_of
from tests.live.rest.servers import LiveServer
from tests.waiting import wait_until

_APPROVER = ("draft:read", "draft:approve", "execution:read", "execution:write", "approve:approvers")
APPROVAL: dict[str, Any] = {
    "penstock": "v1",
    "name": "pay_invoice",
    "input": {"type": "object", "properties": {"amount": {"type": "number"}}},
    "nodes": [
        {
            "id": "ask",
            "type": "interrupt",
            "message": "Pay ${ .input.amount }?",
            "answer": {"type": "object", "required": ["approve"], "properties": {"approve": {"type": "boolean"}}},
            "approvers": {"group": "approvers"},
            "next": {"when": ".ask.approve", "then": "paid", "else": "unpaid"},
        },
        {"id": "paid", "type": "end", "output": {"paid": "${ .input.amount }"}},
        {"id": "unpaid", "type": "end", "output": {"paid": 0}},
    ],
}


def key_of(server: LiveServer, name: str, *scopes: str) -> str:
    made = server.call("POST", "keys", {"name": name, "kind": "person", "scopes": [*scopes]})
    secret: str = made["secret"]
    return secret


@pytest.fixture(scope="module")
def ana(server: LiveServer) -> str:
    """The cookie of somebody who can only approve."""
    server.call("POST", "workflows", {"document": APPROVAL})
    return cookie_of(server, key_of(server, "Ana Lima", *_APPROVER))


@pytest.fixture(scope="module")
def bo(server: LiveServer) -> str:
    """The cookie of somebody who may look, and is no approver."""
    return cookie_of(server, key_of(server, "Bo Berg", "draft:read", "execution:read", "execution:write"))


def asked(server: LiveServer, amount: float) -> str:
    """A run that waits for an approval."""
    given = {"input": {"amount": amount}}
    run_id: str = server.call("POST", "workflows/pay_invoice/executions", given)["execution_id"]
    wait_until(lambda: server.call("GET", f"executions/{run_id}")["status"] == "waiting_approval")
    return run_id


def words(server: LiveServer, path: str, cookie: str, part: str = "") -> str:
    """The text of a page, or of the element with an id."""
    page = get(server, path, cookie).body.decode()
    found = page.partition(f'id="{part}"')[2] if part else page.partition("<main")[2]
    return unescape(" ".join(re.sub(r"<[^>]*>", " ", found.partition(">")[2]).split()))


def heading(server: LiveServer, path: str, cookie: str) -> tuple[str, str]:
    """What the heading of a page says, and the tone in which it says how things stand."""
    page = get(server, path, cookie).body.decode()
    found = re.search(r"<h1>(.*?)</h1>", page, re.DOTALL)
    assert found is not None
    tone = re.search(r'class="status (\w+)"', found[1])
    assert tone is not None
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", found[1])).split()), tone[1]


def decide(server: LiveServer, path: str, cookie: str, **fields: str) -> None:
    """Press a button of a page."""
    page = get(server, path, cookie)
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page.body.decode()))
    hidden = {name: unescape(value) for name, value in hidden.items() if name in ("interrupt_id", "digest")}
    sent = {"form_token": token_of(page), **hidden, **fields}
    assert post(server, path, sent, Cookie=cookie, Origin=server.url).status == 303


def test_a_run_that_was_declined_is_not_shown_as_a_success(server: LiveServer, ana: str, bo: str) -> None:
    run_id = asked(server, 240)
    path = f"/console/runs/{run_id}"
    decide(server, path, ana, action="answer", decision="decline")
    server.call("GET", f"executions/{run_id}/wait?wait_seconds=10")
    for cookie in (ana, bo):
        assert heading(server, path, cookie) == ("pay_invoice declined by Ana Lima · run completed", "plain")
    told = words(server, path, ana, "decided")
    assert "You declined : “Pay 240?”" in told
    assert "The run completed." in told
    assert "paid 0" in told
    assert "Ana Lima declined : “Pay 240?”" in words(server, path, bo, "decided")


def test_a_run_that_was_approved_says_by_whom(server: LiveServer, ana: str) -> None:
    run_id = asked(server, 12)
    path = f"/console/runs/{run_id}"
    decide(server, path, ana, action="answer", decision="approve")
    server.call("GET", f"executions/{run_id}/wait?wait_seconds=10")
    assert heading(server, path, ana) == ("pay_invoice approved by Ana Lima · run completed", "good")


def test_an_address_cannot_say_what_was_decided(server: LiveServer, ana: str) -> None:
    run_id = asked(server, 9)
    for word in ("approved", "declined", "answered"):
        shown = words(server, f"/console/runs/{run_id}?decided={word}", ana)
        assert "What was decided" not in shown
        assert word not in shown


def test_an_address_cannot_say_that_a_session_has_expired(server: LiveServer, ana: str) -> None:
    shown = [words(server, "/console/sign-in?to=%2Fconsole%2Fruns&expired=1", cookie) for cookie in ("", ana)]
    assert not any("has expired" in text for text in shown)


def test_a_session_that_has_expired_is_said_to_have(server: LiveServer) -> None:
    cookie = cookie_of(server, key_of(server, "Cy", *_APPROVER))
    page = get(server, "/console/approvals", cookie)
    sent = {"form_token": token_of(page)}
    assert post(server, "/console/sign-out", sent, Cookie=cookie, Origin=server.url).status in (200, 303)
    answer = get(server, "/console/approvals", cookie)
    assert answer.headers["location"] == "/console/sign-in?to=%2Fconsole%2Fapprovals"
    assert "Your session has expired" in words(server, answer.headers["location"], cookie)


def test_an_approver_sees_no_panel_about_what_they_may_not_read(server: LiveServer, ana: str, world: World) -> None:
    run_id, draft_id = asked(server, 33), held(server, world.agent, order="D-1", amount=5)
    for path in ("", "/approvals", "/approvals?status=ended", f"/runs/{run_id}", f"/approvals/{draft_id}"):
        page = get(server, f"/console{path}", ana)
        shown = page.body.decode()
        assert page.status == 200
        assert "No access" not in shown, path
        assert "cannot be shown" not in shown, path
        links = set(re.findall(r'<a[^>]* href="(/console[^"#?]*)', shown))
        refused = [link for link in sorted(links) if get(server, link, ana).status == 403]
        assert refused == [], path
        assert 'value="cancel"' not in shown, "a button that would be refused"


def test_somebody_who_may_not_decide_has_no_buttons_and_is_told_who_does(server: LiveServer, ana: str, bo: str) -> None:
    path = f"/console/runs/{asked(server, 50)}"
    assert 'value="approve"' in get(server, path, ana).body.decode()
    assert 'value="approve"' not in get(server, path, bo).body.decode()
    told = words(server, path, bo, "asked")
    assert "You are not one of its approvers." in told
    assert "Who decides: group approvers" in told


def test_a_call_that_was_decided_says_by_whom_and_leads_to_its_run(server: LiveServer, ana: str, world: World) -> None:
    approved = held(server, world.agent, order="D-2", amount=180)
    decide(server, f"/console/approvals/{approved}", ana, decision="approve", note="checked")
    run_id = server.call("GET", f"drafts/{approved}")["result"]["execution_id"]
    server.call("GET", f"executions/{run_id}/wait?wait_seconds=10")
    page = get(server, f"/console/approvals/{approved}", ana).body.decode()
    assert f'href="/console/runs/{run_id}"' in page
    told = words(server, f"/console/approvals/{approved}", ana, "decided")
    assert "You approved" in told
    assert "checked" in told
    assert "refunded 180" in told
    assert "Why it waits" not in page
    title, tone = heading(server, f"/console/approvals/{approved}", ana)
    assert (title.endswith("approved by Ana Lima · executed"), tone) == (True, "good")
    declined = held(server, world.agent, order="D-3", amount=181)
    decide(server, f"/console/approvals/{declined}", ana, decision="reject", note="no")
    title, tone = heading(server, f"/console/approvals/{declined}", ana)
    assert (title.endswith("declined by Ana Lima"), tone) == (True, "plain")
    told = words(server, f"/console/approvals/{declined}", ana, "decided")
    assert "The call was not made." in told
    assert "DRAFT_REJECTED" not in told


def test_the_lists_have_names_and_decided_questions(server: LiveServer, ana: str, bo: str) -> None:
    run_id, waiting = asked(server, 7_001), asked(server, 7_002)
    decide(server, f"/console/runs/{run_id}", ana, action="answer", decision="decline")
    server.call("GET", f"executions/{run_id}/wait?wait_seconds=10")
    decided = words(server, "/console/approvals?status=ended", bo, "queue")
    assert "declined · run completed Pay 7001? pay_invoice Ana Lima" in decided
    for path in ("/console/approvals?status=open", "/console"):
        shown = words(server, path, bo)
        assert "Pay 7002? run r_" in shown, path
        row = shown.partition("Pay 7002?")[2][:200]
        assert "key:" not in row, path
    assert f"/console/runs/{waiting}" in get(server, "/console", ana).body.decode()


def test_a_claim_that_is_declined_is_not_paid(server: LiveServer, ana: str) -> None:
    run_id = claimed(server, "D-9", 600)
    decide(server, f"/console/runs/{run_id}", ana, action="answer", decision="decline")
    assert server.call("GET", f"executions/{run_id}/wait?wait_seconds=10")["output"] == {"paid": 0}


def test_a_declined_call_is_no_failure(server: LiveServer, ana: str, world: World) -> None:
    draft_id = held(server, world.agent, order="D-77", amount=1)
    decide(server, f"/console/approvals/{draft_id}", ana, decision="reject")
    assert server.call("GET", f"executions/{draft_id}")["status"] == "failed"
    assert draft_id not in get(server, "/console", ana).body.decode()
    title, tone = heading(server, f"/console/runs/{draft_id}", ana)
    assert (title.endswith("declined by Ana Lima"), tone) == (True, "plain")
    row = get(server, "/console/runs", ana).body.decode().partition(f'id="run-{draft_id}"')[2].partition("</tr>")[0]
    assert "not completed" in row
    assert "failed" not in row


def test_the_list_of_runs_has_names_and_no_button_that_would_be_refused(server: LiveServer, ana: str) -> None:
    asked(server, 8_001)
    shown = get(server, "/console/runs", ana).body.decode().partition("<tbody>")[2]
    assert ">owner</a>" in shown
    assert ">key:" not in shown
    assert 'value="cancel"' not in shown
