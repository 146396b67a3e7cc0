"""Pages about workflows, agents, tools, keys, schedules, webhooks and the system: in a browser, and by plain HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.live.console.governed import World
from tests.live.console.shop import ORDER, PLAIN
from tests.live.console.visiting import HOSTILE
from tests.live.mcp.browsers import Browser
from tests.live.rest.servers import Answer, LiveServer
from tests.waiting import wait_until


def text_of(browser: Browser, selector: str) -> str:
    found: str = browser.evaluate(f"(document.querySelector({json.dumps(selector)}) || {{}}).textContent || ''")
    return found


@pytest.fixture
def _without_script(browser: Browser) -> Iterator[None]:
    browser.command("Emulation.setScriptExecutionDisabled", value=True)
    yield
    browser.command("Emulation.setScriptExecutionDisabled", value=False)


# --- in a browser, without script -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("_without_script")
def test_a_form_made_from_a_schema_keeps_what_was_written_and_starts_one_run(
    server: LiveServer, browser: Browser
) -> None:
    browser.open(f"{server.url}/console/workflows/order/start")
    browser.evaluate("document.querySelector('form.wide').noValidate = true")
    browser.type_into("[name='field.amount']", "0")
    browser.type_into("[name='field.address/city']", "Cologne")
    for number, note in enumerate(("soon", "never mind", "fresh")):
        browser.press("button[value='add notes']")
        assert browser.evaluate("document.querySelector('[name=\"field.address/city\"]').value") == "Cologne"
        browser.type_into(f"[name='field.notes/{number}']", note)
    browser.press("button[value='remove notes/1']")
    browser.type_into("[name='field.password']", "hunter22")
    browser.evaluate("document.querySelector('form.wide').noValidate = true")
    browser.press("button.main[value=start]")
    assert "must be >= 1" in text_of(browser, "[id='field.amount-wrong']")
    assert text_of(browser, "[id='field.item-wrong']") == "this field is required"
    kept = "[...document.querySelectorAll('[name^=\"field.\"]')].map(item => [item.name, item.value])"
    written = dict(browser.evaluate(kept))
    assert written["field.address/city"] == "Cologne"
    assert [written["field.notes/0"], written["field.notes/1"]] == ["soon", "fresh"]
    assert written["field.password"] == ""
    assert "hunter22" not in browser.evaluate("document.documentElement.outerHTML")

    browser.evaluate("document.querySelector('[name=\"field.amount\"]').value = ''")
    browser.type_into("[name='field.amount']", "12")
    browser.evaluate("document.querySelector('[name=\"field.item\"]').value = 'tea'")
    browser.type_into("[name='field.password']", "hunter22")
    run_id = browser.evaluate("document.querySelector('[name=execution_id]').value")
    browser.press("button[value=simulate]")
    assert "waiting" in text_of(browser, "#simulated")
    assert "hunter22" not in browser.evaluate("document.documentElement.outerHTML")
    assert browser.evaluate("document.querySelector('[name=execution_id]').value") == run_id

    browser.type_into("[name='field.password']", "hunter22")
    browser.press("button.main[value=start]")
    assert browser.evaluate("location.pathname") == f"/console/runs/{run_id}"
    shown = server.call("GET", f"executions/{run_id}")
    assert shown["input"]["address"] == {"city": "Cologne"}
    assert shown["input"]["notes"] == ["soon", "fresh"]
    assert "hunter22" not in json.dumps(shown)
    assert "hunter22" not in browser.evaluate("document.documentElement.outerHTML")


def test_a_key_is_made_shown_once_replaced_and_revoked(server: LiveServer, browser: Browser) -> None:
    browser.open(f"{server.url}/console/keys")
    browser.type_into("#name", "for the desk")
    browser.type_into("#scopes", "workflow:run not_a_scope!")
    browser.press("button[value=create]")
    assert "not a scope" in text_of(browser, "[role=alert]")
    assert browser.evaluate("document.querySelector('#name').value") == "for the desk"
    browser.evaluate("document.querySelector('#scopes').value = ''")
    browser.type_into("#scopes", "workflow:run, execution:read")
    browser.press("button[value=create]")
    secret = text_of(browser, "#secret").strip()
    assert server.request("GET", "info", key=secret).status == 200
    browser.open(f"{server.url}/console/keys")
    assert secret not in browser.evaluate("document.documentElement.outerHTML")
    pressed = "button[value={}][data-pressed]"
    mark = (
        "[...document.querySelectorAll('input[name=key_id][value=\"{}\"]')]"
        ".map(item => item.form.querySelector('button[value={}]')).find(item => item).dataset.pressed = 'yes'"
    )
    key_id = secret.removeprefix("pen_").partition("_")[0]
    browser.evaluate(f"document.querySelector('#overlap-{key_id}').value = 'soon'")
    browser.evaluate(mark.format(key_id, "rotate"))
    browser.press(pressed.format("rotate"))
    assert "'soon' is not a duration" in text_of(browser, "#overlap-wrong")
    assert browser.evaluate(f"document.querySelector('#overlap-{key_id}').value") == "soon"
    browser.evaluate(f"document.querySelector('#overlap-{key_id}').value = '0s'")
    browser.evaluate(mark.format(key_id, "rotate"))
    browser.press(pressed.format("rotate"))
    replaced = text_of(browser, "#secret").strip()
    assert [server.request("GET", "info", key=key).status for key in (secret, replaced)] == [401, 200]
    browser.open(f"{server.url}/console/keys")
    browser.evaluate(mark.format(replaced.removeprefix("pen_").partition("_")[0], "revoke"))
    browser.press(pressed.format("revoke"))
    assert server.request("GET", "info", key=replaced).status == 401


def test_a_tool_is_accepted_as_it_was_read_and_a_change_is_shown_word_by_word(
    server: LiveServer, browser: Browser
) -> None:
    page = f"{server.url}/console/tools/servers/shop"
    browser.open(page)
    assert HOSTILE.replace("\u202e", "[U+202E]") in text_of(browser, "#tool-search pre")
    browser.press("#tool-search button[value=accept]")
    assert "pinned" in text_of(browser, "#tool-search .status")
    (server.folder / "said.txt").write_text("Finds items and sends them away.", encoding="utf-8")
    browser.press("button[value=refresh]")
    assert "changed" in text_of(browser, "#tool-search .status")
    assert "sends them away" in text_of(browser, "#tool-search ins")
    assert "script" in text_of(browser, "#tool-search del")
    stale = "0" * 64
    browser.evaluate(f"document.querySelector('#tool-search [name=hash]').value = '{stale}'")
    browser.press("#tool-search button[value=accept]")
    assert "did not work" in text_of(browser, "h1")
    browser.open(page)
    browser.evaluate("document.querySelector('#tool-search [name=reason]').required = false")
    browser.press("#tool-search button[value=refuse]")
    assert "Give a reason" in text_of(browser, "#reason-wrong")
    browser.type_into("#tool-search [name=reason]", f"It sends things away. {HOSTILE}")
    browser.press("#tool-search button[value=refuse]")
    assert "refused" in text_of(browser, "#tool-search .status")
    assert "It sends things away." in text_of(browser, "#tool-search .notice")
    assert b"1 changed" not in Visitor(server, server.key).get("").body
    browser.press("#tool-search button[value=accept]")
    assert "pinned" in text_of(browser, "#tool-search .status")


@pytest.mark.usefixtures("_without_script")
def test_a_backup_is_made_without_script_and_is_listed_and_a_folder_that_is_gone_is_said(
    server: LiveServer, browser: Browser
) -> None:
    browser.open(f"{server.url}/console/system")
    assert "Runs todaynot counted" in text_of(browser, "main")
    before = server.call("GET", "backups")["total"]
    browser.press("button[value=backup]")
    newest = server.call("GET", "backups")["items"][0]
    assert server.call("GET", "backups")["total"] == before + 1
    assert newest["verified"]
    row = text_of(browser, "#backups ~ table tbody tr")
    assert newest["name"] in row
    assert "verified" in row
    folder = server.folder / "backups"
    assert (folder / newest["name"]).stat().st_mode & 0o777 == 0o600
    [record] = server.call("GET", f"audit?operation=backup.create&subject={newest['name']}")["items"]
    assert record["surface"] == "console"

    folder.rename(folder.with_name("away"))
    browser.press("button[value=backup]")
    assert "BACKUP_FOLDER_UNAVAILABLE" in text_of(browser, "main [role=alert]")
    assert "Cannot show this" in text_of(browser, "#backups ~ .wrong")
    folder.with_name("away").rename(folder)


# --- by plain HTTP ----------------------------------------------------------------------------------------------------


class Visitor:
    """Somebody who is signed in, without a browser."""

    def __init__(self, server: LiveServer, key: str) -> None:
        self.server = server
        answer = self._sent("/console/sign-in", {"key": key}, "")
        self.cookie = answer.headers["set-cookie"].partition(";")[0]

    def _sent(self, path: str, fields: dict[str, str], cookie: str) -> Answer:
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": self.server.url, "Cookie": cookie}
        return self.server.request("POST", path, urlencode(fields).encode(), key="", headers=headers)

    def get(self, path: str) -> Answer:
        return self.server.request("GET", f"/console{path}", key="", headers={"Cookie": self.cookie})

    def post(self, path: str, **fields: str) -> Answer:
        page = self.get(path).body.decode()
        token = page.partition('name="form_token" value="')[2].partition('"')[0]
        return self._sent(f"/console{path}", {"form_token": token, **fields}, self.cookie)


@pytest.fixture(scope="module")
def owner(server: LiveServer) -> Visitor:
    return Visitor(server, server.key)


def test_tests_of_a_workflow_are_run_and_differences_shown(owner: Visitor) -> None:
    report = unescape(owner.post("/workflows/order/tests").body.decode())
    assert "1 of 2 failed" in report
    assert "<script>document" not in owner.post("/workflows/order/tests").body.decode()
    assert "No case failed" in owner.post("/workflows/order/tests", case=ORDER["tests"][0]["name"]).body.decode()


def test_versions_are_compared_and_access_is_explained(server: LiveServer, owner: Visitor) -> None:
    versions = [item["hash"] for item in server.call("GET", "workflows/order/versions")["items"]]
    compared = owner.get(f"/workflows/order/versions?before={versions[1]}&after={versions[0]}").body.decode()
    assert "What differs" in compared
    assert "<ins>" in compared
    explained = owner.get("/workflows/order/access").body.decode()
    assert "permitted" in explained
    assert owner.get("/workflows/order/access?arguments=%7B").status == 422


def test_the_input_of_a_workflow_without_a_schema_is_json_and_huge_input_stays_inert(owner: Visitor) -> None:
    wrong = owner.post("/workflows/plain/start", action="start", **{"field.answer": f"{HOSTILE} {'x' * 500_000}"})
    assert wrong.status == 422
    assert "this is not JSON" in wrong.body.decode()
    assert "<script>document" not in wrong.body.decode()
    started = owner.post("/workflows/plain/start", action="start", execution_id="c-1", **{"field.answer": '{"a": 1}'})
    assert (started.status, started.headers["location"]) == (303, "/console/runs/c-1")
    unknown = owner.post("/workflows/plain/start", action="delete", **{"field.answer": "{}"})
    assert (unknown.status, b"ACTION_UNKNOWN" in unknown.body) == (422, True)


def test_schedules_are_paused_resumed_and_run_and_deliveries_are_made_again(server: LiveServer, owner: Visitor) -> None:
    for action, paused in (("pause", True), ("resume", False)):
        assert owner.post("/schedules", action=action, schedule_id="nightly").status == 303
        assert server.call("GET", "schedules/nightly")["paused"] is paused
    ran = owner.post("/schedules", action="run_now", schedule_id="nightly")
    assert ran.headers["location"].startswith("/console/runs/")
    endpoint = server.call("GET", "webhooks")["items"][0]["id"]

    def tests_sent() -> int:
        made = server.call("GET", f"webhooks/{endpoint}/deliveries")["items"]
        return sum(item["event_type"] == "penstock.webhook.test" for item in made)

    before = tests_sent()
    assert owner.post(f"/webhooks/{endpoint}", action="test").status == 303
    assert tests_sent() == before + 1
    assert owner.post("/agents/helper", prompt=" ").status == 422


def test_a_drawing_that_is_wider_than_the_screen_begins_at_its_first_node(server: LiveServer, browser: Browser) -> None:
    browser.command("Emulation.setDeviceMetricsOverride", width=375, height=800, deviceScaleFactor=1, mobile=False)
    try:
        browser.open(f"{server.url}/console/workflows/settle_claim")
        picture = "document.querySelector('.picture')"
        assert browser.evaluate(f"{picture}.scrollWidth > {picture}.clientWidth")
        node = f"{picture}.querySelector('svg a').getBoundingClientRect()"
        wait_until(lambda: browser.evaluate(f"{node}.left >= 0 && {node}.right <= innerWidth"))
    finally:
        browser.command("Emulation.clearDeviceMetricsOverride")


def test_what_a_document_triggers_is_shown_as_part_of_it_and_can_be_paused(server: LiveServer, owner: Visitor) -> None:
    triggers = [
        {"id": "each-night", "schedule": {"cron": "30 2 * * *", "timezone": "Europe/Berlin"}, "input": {"n": 7}},
        {"id": "at-noon", "schedule": {"cron": "0 12 * * *"}, "enabled": False},
        {"id": "bell", "webhook": {"path": "/hooks/bell", "secret": "${secret:BELL_KEY}"}, "enabled": False},
    ]
    document = {**PLAIN, "name": "timed", "description": "Timed.", "secrets": ["BELL_KEY"], "triggers": triggers}
    server.call("POST", "workflows", {"document": document})
    workflow = owner.get("/workflows/timed").body.decode()
    assert '<a href="/console/schedules/each-night">' in workflow
    assert "defined in the document of its workflow" in workflow
    assert "<code>at-noon</code>: switched off in the document" in workflow
    assert "hmac), switched off in the document" in workflow
    schedule = owner.get("/schedules/each-night").body.decode()
    assert 'defined in the document of <a href="/console/workflows/timed">timed</a>' in schedule
    for shown in ("30 2 * * *", "Europe/Berlin", "{&#34;n&#34;: 7}", "skip this start", "02:30 there"):
        assert shown in schedule
    assert 'value="save"' not in schedule
    assert 'value="delete"' not in schedule
    for action, paused in (("pause", True), ("resume", False)):
        assert owner.post("/schedules/each-night", action=action).status == 303
        assert server.call("GET", "schedules/each-night")["paused"] is paused
    refused = owner.post("/schedules/each-night", action="delete")
    assert (refused.status, b"SCHEDULE_OF_DOCUMENT" in refused.body) == (409, True)
    webhooks = owner.get("/webhooks").body.decode()
    assert "defined in the documents of their workflows" in webhooks
    assert server.request("DELETE", "workflows/timed").status in (200, 204)


def test_who_made_something_is_named_for_those_who_may_read_keys(
    server: LiveServer, owner: Visitor, world: World
) -> None:
    name = f"the desk {HOSTILE}"[:100]
    scopes = ["agent:*", "schedule:*", "webhook:*", "workflow:*", "graph:*"]
    made = server.call("POST", "keys", {"name": name, "kind": "person", "scopes": scopes})
    desk, key_id = Visitor(server, made["secret"]), f"key:{made['key']['id']}"
    hook = {"url": "https://example.com/desk"}

    def sent(method: str, path: str, body: dict[str, Any]) -> Any:
        answer = server.request(method, path, body, key=made["secret"])
        assert answer.status in (200, 201), answer
        return answer.json()

    sent("POST", "agents", {"id": "desk"})
    sent("POST", "schedules", {"workflow_id": "plain", "cron": "0 3 * * *", "schedule_id": "desk"})
    sent("POST", "workflows", {"document": {**PLAIN, "name": "desk", "description": "Ours."}})
    sent("POST", "graphs/crm/branches", {"name": "desk"})
    endpoint = sent("POST", "webhooks", hook)["webhook"]["id"]
    pages = ("/agents/desk", "/schedules", "/schedules/desk", "/workflows/desk", f"/webhooks/{endpoint}", "/graphs/crm")
    for page in pages:
        shown = owner.get(page).body.decode()
        assert "the desk &lt;script&gt;" in shown, page
        assert key_id in shown, page
        assert "<script>document" not in shown, page
        theirs = desk.get(page).body.decode()
        assert key_id in theirs, page
        assert "the desk" not in theirs.partition("<main")[2], page
    refused = server.call("GET", f"audit?operation=key.list&principal={key_id}")["items"]
    assert refused == []
    for path in ("agents/desk", "schedules/desk", "workflows/desk", "graphs/crm/branches/desk", f"webhooks/{endpoint}"):
        assert server.request("DELETE", path).status in (200, 204), path


def test_what_a_visitor_may_not_see_is_said_to_be_closed_and_what_is_missing_is_not_found(
    server: LiveServer, owner: Visitor
) -> None:
    made = server.call("POST", "keys", {"name": "reader", "kind": "person", "scopes": ["workflow:read"]})
    reader = Visitor(server, made["secret"])
    shown = reader.get("/workflows/order")
    assert shown.status == 200
    assert shown.body.count(b"No access") >= 2
    assert b"No schedule." not in shown.body
    for page in ("/tools", "/workflows/order/access", "/system", "/webhooks"):
        answer = reader.get(page)
        assert (page, answer.status, b"No access" in answer.body) == (page, 200, True)
    for page in (
        "/workflows?prefix=no",
        "/schedules?workflow_id=no",
        "/tools/servers/shop?status=gone",
        "/agents?prefix=no",
    ):
        answer = owner.get(page)
        assert (page, answer.status, b"Show all" in answer.body) == (page, 200, True)
    for page in ("/connect?client=codex", "/tools?operations=yes&toolset=workflows", "/workflows/order/versions"):
        assert (page, owner.get(page).status) == (page, 200)
    for page in ("/keys", "/agents", "/schedules", "/tools/servers"):
        answer = reader.get(page)
        assert (page, answer.status, b"<h1>You do not have access</h1>" in answer.body) == (page, 403, True)
    refused = reader.post(
        "/workflows/order/start",
        action="start",
        execution_id="c-2",
        **{"field.amount": "1", "field.item": "tea", "field.password": "abc"},
    )
    assert refused.status == 403
    for page in (
        "/workflows/none",
        "/workflows/none/start",
        "/agents/none",
        "/tools/servers/none",
        "/webhooks/none",
        "/x",
    ):
        answer = owner.get(page)
        assert (page, answer.status, b"<h1>Not found</h1>" in answer.body) == (page, 404, True)
    # Neither of these refusals has a hint of its own.
    for page, hint in (
        ("/runs/none/values/nothing", b"<p>Open the page again.</p>"),
        ("/runs/none/records/x", b"<p>Open the history of the run, and choose a record.</p>"),
    ):
        answer = owner.get(page)
        assert (page, answer.status, hint in answer.body) == (page, 404, True)
