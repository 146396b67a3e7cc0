"""Approvals, policies, the audit log and graphs on the console: what they show, what they do, and what stays inert."""

from __future__ import annotations

import json

import pytest

from tests.live.console.governed import LONG, World, person
from tests.live.console.visiting import HOSTILE, cookie_of, get, heading, post, token_of
from tests.live.mcp.browsers import Browser
from tests.live.rest.servers import Answer, LiveServer
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def cookie(server: LiveServer) -> str:
    return cookie_of(server, server.key)


def held(server: LiveServer, world: World, customer: str = HOSTILE) -> str:
    """A call of an agent that waits for approval."""
    asked = {"input": {"customer": customer}}
    answer = server.request("POST", "workflows/erase_customer/executions", asked, key=world.agent)
    draft_id: str = answer.json()["held"]["draft_id"]
    return draft_id


def text_of(browser: Browser, selector: str) -> str:
    found: str = browser.evaluate(f"document.querySelector({json.dumps(selector)}).textContent")
    return found


def send(server: LiveServer, path: str, cookie: str, **fields: str) -> Answer:
    """Send a form of a page."""
    token = token_of(get(server, "/console", cookie))
    return post(server, path, {"form_token": token, **fields}, Cookie=cookie, Origin=server.url)


# --- approvals --------------------------------------------------------------------------------------------------------


def test_what_changed_meanwhile_is_not_approved_and_the_page_says_so(
    server: LiveServer, browser: Browser, world: World
) -> None:
    draft_id = held(server, world, "C-7")
    browser.open(f"{server.url}/console/approvals")
    browser.press(f"a[href$='{draft_id}']")
    assert "Nothing has changed" in text_of(browser, "main")
    browser.type_into("#note", "fine by me")
    document = server.call("GET", "workflows/erase_customer")["document"]
    server.call("PUT", "workflows/erase_customer", {"document": {**document, "description": HOSTILE}})
    browser.press("button[value=approve]")
    assert "it was not made" in text_of(browser, "main [role=alert]")
    assert server.call("GET", f"drafts/{draft_id}")["status"] == "drifted"
    other = held(server, world, "C-8")
    server.call("PUT", "workflows/erase_customer", {"document": document})
    browser.open(f"{server.url}/console/approvals/{other}")
    assert "This has changed since the request" in text_of(browser, ".box")
    browser.evaluate("document.querySelector('[name=digest]').value = '0'.repeat(64)")
    browser.type_into("#note", "kept")
    browser.press("button[value=approve]")
    assert "DIGEST_MISMATCH" in text_of(browser, "main [role=alert]")
    assert browser.evaluate("document.querySelector('#note').value") == "kept"
    browser.press("button[value=reject]")
    assert "declined by owner" in heading(browser)
    assert "kept" in text_of(browser, "main")


def test_a_queue_is_of_those_who_may_decide_and_others_are_told_why_they_may_not(
    server: LiveServer, browser: Browser, world: World, cookie: str
) -> None:
    draft_id = held(server, world)
    mine = get(server, "/console/approvals", cookie).body.decode()
    assert draft_id in mine
    assert "customer <strong>" in mine  # what tells it from others of its kind
    browser.open(f"{server.url}/console/approvals")
    later = held(server, world)
    wait_until(
        lambda: browser.evaluate(f"!!document.querySelector('#queue a[href$=\"{later}\"]')")
    )  # without reloading
    clerk = cookie_of(server, world.clerk)
    theirs = get(server, "/console/approvals", clerk).body.decode()
    assert draft_id not in theirs
    assert "Nothing needs you" in theirs
    assert draft_id in get(server, "/console/approvals?status=open", clerk).body.decode()
    page = get(server, f"/console/approvals/{draft_id}", clerk).body.decode()
    assert "You cannot decide this: your key or account lacks the scope for it" in page
    assert 'value="approve"' not in page
    refused = send(server, f"/console/approvals/{draft_id}", clerk, decision="approve", digest="0" * 64)
    assert refused.status == 409
    assert b"SCOPE_REQUIRED" in refused.body
    assert server.call("GET", f"drafts/{draft_id}")["status"] == "waiting"


# --- policies ---------------------------------------------------------------------------------------------------------


def test_a_call_is_explained_with_the_policies_that_decided(server: LiveServer, world: World, cookie: str) -> None:
    listed = get(server, "/console/policies", cookie).body.decode()
    assert "watched only" in listed
    wanted = "/console/policies/explain?action=breaks&who=somebody&kind=agent"
    shown = get(server, wanted, cookie).body.decode()
    assert "It would wait for approval" in shown
    assert "<code>ask</code>" in shown
    assert "2 of approvers" in shown
    watched = get(server, "/console/policies/explain?action=erase_customer", cookie).body.decode()
    assert "would have decided differently" in watched
    missing = get(server, "/console/policies/explain?action=nothing_like_it", cookie)
    assert (missing.status, b"ACTION_NOT_FOUND" in missing.body) == (422, True)
    wrong = get(server, "/console/policies/explain?action=breaks&arguments=%5B1%5D&who=", cookie)
    assert (wrong.status, b"must be a JSON object" in wrong.body) == (422, True)


def test_other_policies_are_tried_on_recorded_calls(server: LiveServer, world: World, cookie: str) -> None:
    held(server, world)
    text = '@id("none") forbid (principal, action == Action::"policy.put", resource);'
    tried = send(
        server, "/console/policies/replay", cookie, text=f'@id("all") permit (principal, action, resource);{text}'
    )
    assert (tried.status, b"What would change" in tried.body, b"policy.put" in tried.body) == (200, True, True)
    broken = send(server, "/console/policies/replay", cookie, text=f"permit {HOSTILE}")
    assert (broken.status, b"POLICY_INVALID" in broken.body) == (422, True)
    assert b"<script>document" not in broken.body
    shadow = get(server, "/console/policies/shadow", cookie).body.decode()
    assert "shadow forbidden: watch" in shadow


# --- the audit log ----------------------------------------------------------------------------------------------------


def test_the_log_is_searched_signed_verified_proved_and_exported(
    server: LiveServer, browser: Browser, world: World, cookie: str
) -> None:
    browser.open(f"{server.url}/console/audit?operation=graph.create&outcome=allowed")
    assert browser.evaluate("document.querySelectorAll('tbody tr').length") == 1
    browser.press("tbody a")
    assert "graph.create" in text_of(browser, "dl")
    number = heading(browser).split()[1]
    browser.open(f"{server.url}/console/audit/verify")
    browser.press("button[value=sign]")
    assert "signed up to record" in text_of(browser, ".box[role=status]")
    note = text_of(browser, "pre")
    browser.evaluate("document.querySelector('details').open = true")
    browser.type_into("#against", note)
    browser.press("button[value=verify]")
    assert "The log is intact" in text_of(browser, "#verdict")
    assert "Compared with" in text_of(browser, ".box[role=status]")
    browser.open(f"{server.url}/console/audit/{number}/proof")
    assert text_of(browser, "pre") == note
    saved = get(server, f"/console/audit/{number}/proof?file=yes", cookie)
    assert json.loads(saved.body)["record"]["operation"] == "graph.create"
    assert "attachment" in saved.headers["content-disposition"]
    lines = get(server, "/console/audit/export?file=yes", cookie).body.decode().splitlines()
    assert any("checkpoint" in json.loads(line) for line in lines)
    later = get(server, "/console/audit/99999999/proof", cookie)
    assert (later.status, b"AUDIT_RECORD_NOT_FOUND" in later.body) == (404, True)


def test_an_empty_list_a_filter_without_matches_and_a_closed_page_look_different(
    server: LiveServer, world: World, cookie: str
) -> None:
    assert b"No record matches" in get(server, "/console/audit?operation=nothing", cookie).body
    assert b"No older records" in get(server, "/console/audit?cursor=1", cookie).body
    wrong = get(server, "/console/audit?since=yesterday", cookie)
    assert (wrong.status, b"since" in wrong.body) == (422, True)
    clerk = cookie_of(server, world.clerk)
    for page in ("/audit", "/audit/1", "/audit/verify", "/policies"):
        closed = get(server, f"/console{page}", clerk)
        told = closed.status == 403 or page == "/audit/verify"
        assert told, page
    assert send(server, "/console/audit/verify", clerk, action="verify").status == 422
    graph = get(server, "/console/graphs/crm/queries/people?run=yes&reads=yes&branch=nothing", cookie)
    assert (graph.status, b"BRANCH_NOT_FOUND" in graph.body) == (422, True)


# --- graphs -----------------------------------------------------------------------------------------------------------


def test_a_query_tells_a_bad_value_at_its_field_and_runs_with_a_good_one(
    server: LiveServer, browser: Browser, world: World
) -> None:
    browser.open(f"{server.url}/console/graphs/crm")
    assert browser.evaluate("document.querySelectorAll('svg a[href=\"#type-Person\"] rect').length") == 1
    browser.press("a[href$='/queries/people_of_age']")
    browser.type_into("[name='field.age']", "many")
    browser.type_into("[name='field.tag']", "kept")
    browser.press("form.wide button.main")
    assert "many is not a whole number" in text_of(browser, "[id='field.age-wrong']")
    assert browser.evaluate("document.querySelector('[name=\"field.age\"]').getAttribute('aria-invalid')") == "true"
    assert browser.evaluate("document.querySelector('[name=\"field.tag\"]').value") == "kept"
    browser.evaluate("document.querySelector('[name=\"field.age\"]').value = ''")
    browser.type_into("[name='field.age']", "9007199254740993")
    browser.press("form.wide button.main")
    rows = browser.evaluate("[...document.querySelectorAll('tbody tr')].map(row => row.cells[2].textContent)")
    assert rows == ["9007199254740993"] * 3
    browser.open(f"{server.url}/console/graphs/crm/queries/people_of_age?run=yes&reads=yes&field.age={2**70}")
    assert browser.evaluate("document.querySelectorAll('[aria-invalid]').length") == 1


def test_rows_are_paged_in_one_version_and_a_long_one_is_cut(server: LiveServer, world: World, cookie: str) -> None:
    first = get(server, "/console/graphs/crm/queries/people?run=yes&reads=yes", cookie).body.decode()
    assert "Rows 1 to 100" in first
    snapshot = first.partition('name="snapshot" value="c_')[2].partition('"')[0]
    more = f"/console/graphs/crm/queries/people?run=yes&reads=yes&snapshot=c_{snapshot}&offset=100"
    assert "Rows 101 to 134" in get(server, more, cookie).body.decode()
    long = get(server, "/console/graphs/crm/queries/people_of_age?run=yes&reads=yes&field.age=41", cookie).body.decode()
    assert f"({len(LONG)} characters)" in long
    assert len(long) < 20_000


def test_a_merge_is_reviewed_waits_for_approval_and_conflicts_are_shown_first(
    server: LiveServer, browser: Browser, world: World, cookie: str
) -> None:
    clash = get(server, f"/console/graphs/crm/merge?source={world.conflict}", cookie).body.decode()
    assert "1 conflict: it cannot be merged" in clash
    assert "Merge into main</button>" not in clash
    browser.open(f"{server.url}/console/graphs/crm/merge?source={world.review}")
    changed = browser.evaluate("[...document.querySelectorAll('.changes code')].map(item => item.textContent)")
    assert changed == ["new", "p001"]  # and not what was changed on main meanwhile
    record = json.dumps(person("late"))
    server.call("POST", "graphs/crm/load", {"data": record, "branch": world.review})
    browser.press("form.ask button.main")
    assert "PRECONDITION_FAILED" in text_of(browser, "main [role=alert]")
    browser.type_into("#message", "looked at it")
    browser.press("form.ask button.main")
    assert heading(browser) == "Waiting for approval"
    browser.press("main p:last-of-type a")
    assert "What it would change" in text_of(browser, "main")
    browser.press("button[value=approve]")
    assert "executed" in heading(browser)
    newest = server.call("GET", "graphs/crm/commits?branch=main&limit=1")["commits"][0]
    assert (newest["kind"], newest["message"]) == ("merge", "looked at it")
