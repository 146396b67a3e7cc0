"""The console in a real browser: signing in, looking, answering, deciding; and what does not get through it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.live.console.visiting import (
    ASKS,
    BREAKS,
    HOSTILE,
    blocked,
    cookie_of,
    get,
    heading,
    post,
    sign_in,
)
from tests.live.mcp.browsers import Browser
from tests.live.rest.servers import LiveServer

__all__ = ["ASKS", "BREAKS", "blocked", "heading", "sign_in", "start"]

# Screenshots of the last run, to look at; not kept in the repository.
PICTURES = Path(__file__).parents[3] / "build" / "console"


def start(server: LiveServer, workflow: str, **given: Any) -> str:
    run_id: str = server.call("POST", f"workflows/{workflow}/executions", {"input": given})["execution_id"]
    return run_id


def held(server: LiveServer) -> str:
    """A call of an agent that waits for approval."""
    made = server.call("POST", "keys", {"name": "robot", "kind": "agent", "scopes": ["*"]})
    answer = server.request(
        "POST", "workflows/erase_customer/executions", {"input": {"customer": HOSTILE}}, key=made["secret"]
    )
    draft_id: str = answer.json()["held"]["draft_id"]
    return draft_id


# --- looking, answering, deciding -------------------------------------------------------------------------------------


def test_a_question_is_answered_and_a_wrong_answer_is_told_and_kept(server: LiveServer, browser: Browser) -> None:
    run_id = start(server, "asks", what=HOSTILE)
    browser.open(f"{server.url}/console/runs?status=waiting_input")
    browser.press(f"a[href$='{run_id}']")
    assert heading(browser).startswith("asks")
    browser.evaluate("document.querySelector('.ask form').noValidate = true")
    browser.type_into("[name='field.note']", "fine")
    browser.type_into("[name='field.amount']", "0")
    browser.press(".ask button.main")
    assert "beside the field" in browser.evaluate("document.querySelector('[role=alert]').textContent")
    assert "must be >= 1" in browser.evaluate("document.querySelector('.ask small.wrong').textContent")
    assert browser.evaluate("document.querySelector('[name=\"field.note\"]').value") == "fine"
    browser.evaluate("document.querySelector('[name=\"field.amount\"]').value = ''")
    browser.type_into("[name='field.amount']", "3")
    browser.press(".ask button.main")
    shown = server.call("GET", f"executions/{run_id}/wait?wait_seconds=10")
    assert (shown["status"], shown["output"]) == ("completed", {"amount": 3, "note": "fine"})
    browser.open(f"{server.url}/console/runs/{run_id}")
    assert "completed" in heading(browser)


@pytest.mark.parametrize(
    ("button", "status", "words"),
    [("approve", "executed", "approved by owner · executed"), ("reject", "rejected", "declined by owner")],
)
def test_a_call_that_waits_is_decided_with_the_digest_that_was_shown(
    server: LiveServer, browser: Browser, button: str, status: str, words: str
) -> None:
    draft_id = held(server)
    browser.open(f"{server.url}/console/approvals")
    browser.press(f"a[href$='{draft_id}']")
    digest = browser.evaluate("document.querySelector('[name=digest]').value")
    assert digest == server.call("GET", f"drafts/{draft_id}")["digest"]
    shown = json.loads(browser.evaluate("document.querySelector('pre').textContent"))["input"]["customer"]
    assert shown == HOSTILE.replace("\u202e", "[U+202E]")  # as it is sent, not as it would like to be read
    browser.type_into("#note", "looked at it")
    browser.press(f"button[value={button}]")
    assert server.call("GET", f"drafts/{draft_id}")["status"] == status
    assert heading(browser).endswith(words)


def test_runs_are_found_by_id_and_by_filters_and_paged_by_address(server: LiveServer, browser: Browser) -> None:
    run_id = start(server, "breaks")
    server.call("GET", f"executions/{run_id}/wait?wait_seconds=10")
    browser.open(f"{server.url}/console/runs?text={run_id}")
    assert heading(browser).startswith("breaks")
    assert "BROKEN" in browser.evaluate("document.querySelector('.wrong').textContent")
    browser.open(f"{server.url}/console/runs?status=failed&workflow_id=breaks")
    rows = browser.evaluate("[...document.querySelectorAll('tbody tr')].map(row => row.innerText)")
    assert rows
    assert all("breaks" in row and "failed" in row for row in rows)
    browser.open(f"{server.url}/console/runs?workflow_id=nothing_of_that_name")
    assert "No run matches" in browser.evaluate("document.querySelector('.none').textContent")


# --- who gets in ------------------------------------------------------------------------------------------------------


def test_somebody_unknown_signs_in_and_comes_back_to_the_page_they_wanted(server: LiveServer) -> None:
    refused = get(server, "/console/runs?status=failed")
    assert (refused.status, refused.headers["location"]) == (
        303,
        "/console/sign-in?to=%2Fconsole%2Fruns%3Fstatus%3Dfailed",
    )
    signed_in = post(server, refused.headers["location"], {"key": server.key}, Origin=server.url)
    assert signed_in.headers["location"] == "/console/runs?status=failed"
    elsewhere = post(server, "/console/sign-in?to=//evil.example", {"key": server.key}, Origin=server.url)
    assert elsewhere.headers["location"] == "/console"
    wrong = post(server, "/console/sign-in", {"key": "pen_wrong"}, Origin=server.url)
    assert (wrong.status, "set-cookie" in wrong.headers) == (403, False)
    assert b'role="alert"' in wrong.body


def test_a_link_from_another_site_does_not_look_signed_out(server: LiveServer) -> None:
    answer = get(server, "/console/approvals", **{"Sec-Fetch-Site": "cross-site"})
    assert answer.status == 200
    assert b'http-equiv="refresh"' in answer.body


def test_a_session_ends_with_its_key_and_cannot_be_made_up(server: LiveServer) -> None:
    made = server.call("POST", "keys", {"name": "clerk", "kind": "person", "scopes": ["execution:read"]})
    cookie = cookie_of(server, made["secret"])
    assert get(server, "/console/runs", cookie).status == 200
    changed = cookie[:-6] + ("A" if cookie[-6] != "A" else "B") + cookie[-5:]
    assert get(server, "/console/runs", changed).status == 303
    server.call("POST", f"keys/{made['key']['id']}/revoke")
    assert get(server, "/console/runs", cookie).status == 303


def test_a_page_shows_what_its_visitor_may_see_and_says_what_is_closed(server: LiveServer) -> None:
    made = server.call("POST", "keys", {"name": "clerk", "kind": "person", "scopes": ["execution:read"]})
    cookie = cookie_of(server, made["secret"])
    home = get(server, "/console", cookie)
    assert home.status == 200
    assert b"No access" in home.body
    assert get(server, "/console/workflows", cookie).status == 403


def test_forms_of_other_sites_and_other_sessions_are_refused_and_do_nothing(server: LiveServer) -> None:
    run_id = start(server, "asks", what="wait")
    cookie, other = cookie_of(server, server.key), cookie_of(server, server.key)
    path = f"/console/runs/{run_id}"

    def token(of: str) -> str:
        page = get(server, path, of).body.decode()
        return page.partition('name="form_token" value="')[2].partition('"')[0]

    mine, strangers = token(cookie), token(other)
    assert mine != strangers
    cancel = {"action": "cancel", "form_token": mine}
    refused = [
        post(server, path, cancel, Cookie=cookie, Origin="https://evil.example"),
        post(server, path, cancel, Cookie=cookie, Origin=server.url, **{"Sec-Fetch-Site": "cross-site"}),
        post(server, path, cancel, Cookie=cookie),
        post(server, path, {"action": "cancel"}, Cookie=cookie, Origin=server.url),
        post(server, path, {**cancel, "form_token": strangers}, Cookie=cookie, Origin=server.url),
        post(server, path, cancel, Origin=server.url),
    ]
    assert [answer.status for answer in refused] == [403] * 6
    assert server.call("GET", f"executions/{run_id}")["status"] == "waiting_input"
    done = post(server, path, cancel, Cookie=cookie, Origin=server.url)
    assert (done.status, done.headers["location"]) == (303, path)
    assert server.call("GET", f"executions/{run_id}/wait?wait_seconds=10")["status"] == "cancelled"


def test_signing_out_forgets_the_session_of_this_browser(server: LiveServer) -> None:
    cookie = cookie_of(server, server.key)
    page = get(server, "/console", cookie).body.decode()
    token = page.partition('name="form_token" value="')[2].partition('"')[0]
    out = post(server, "/console/sign-out", {"form_token": token}, Cookie=cookie, Origin=server.url)
    assert out.status == 303
    assert "Max-Age=0" in out.headers["set-cookie"]
    assert get(server, "/console", cookie).status == 303  # a copy is worth nothing


def test_somebody_ends_a_session_that_they_do_not_know(server: LiveServer, browser: Browser) -> None:
    made = server.call("POST", "keys", {"name": "stranger", "kind": "person", "scopes": ["execution:read"]})
    cookie = cookie_of(server, made["secret"])
    browser.open(f"{server.url}/console/sessions")
    assert "on Linux (this one)" in browser.evaluate("document.querySelector('main').innerText")
    browser.open(f"{server.url}/console/sessions?everybody=1")
    row = f"[...document.querySelectorAll('tbody tr')].find(row => row.innerText.includes('{made['key']['id']}'))"
    assert "from 127.0.0.1" in browser.evaluate(f"{row}.querySelector('summary').ariaLabel")
    browser.evaluate(f"{row}.querySelector('button').id = 'that'")
    browser.press("#that")
    assert browser.evaluate("location.search") == "?everybody=1"
    assert browser.evaluate(f"{row} === undefined")
    assert get(server, "/console/runs", cookie).status == 303
