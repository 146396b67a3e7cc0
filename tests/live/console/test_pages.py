"""Pages about workflows, agents, tools, keys, schedules, webhooks and the system: in a browser, and by plain HTTP."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from penstock.runtime.executors.mcp.config import command_name
from tests.conformance.mcp_suite.node import node_programs
from tests.live.mcp.browsers import Browser, browsing
from tests.live.rest.servers import Answer, LiveServer, serving

UPSTREAM = Path(__file__).parents[2] / "fixtures" / "upstream_server.py"
HOSTILE = '<script>document.title="owned"</script><img src=x onerror="document.title=1">"\'}}{{7*7}} \u202egnp.exe'
LINK = "[see](javascript:alert(1)) javascript:alert(1)"
LONG = "m" * 1_000_000
SETTINGS: dict[str, Any] = {
    "mcpServers": {
        "shop": {
            "command": sys.executable,
            "args": [str(UPSTREAM), "said.txt"],
            "import": {"tools": ["search", "order"]},
        }
    },
    "mcp_allow_commands": [command_name(sys.executable)],
}
ORDER: dict[str, Any] = {
    "penstock": "v1",
    "name": "order",
    "version": "1.0.0",
    "title": f"Order {HOSTILE}",
    "description": f"Orders. {HOSTILE} {LINK}",
    "expose": {"tool": {"name": "order", "description": HOSTILE}},
    "input": {
        "type": "object",
        "required": ["amount", "item", "password"],
        "properties": {
            "amount": {"type": "integer", "minimum": 1, "title": f"Amount {HOSTILE}"},
            "item": {"type": "string", "enum": ["tea", HOSTILE]},
            "on": {"type": "string", "format": "date"},
            "gift": {"type": "boolean"},
            "password": {"type": "string", "minLength": 3, "writeOnly": True},
            "address": {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}},
            "notes": {"type": "array", "items": {"type": "string"}},
        },
    },
    "nodes": [
        {
            "id": "many",
            "type": "switch",
            "title": HOSTILE,
            "cases": [{"when": ".input.amount > 10", "next": "ask"}],
            "default": "done",
        },
        {"id": "ask", "type": "interrupt", "message": HOSTILE},
        {"id": "done", "type": "end", "output": {"ordered": "${ .input.item }", "city": "${ .input.address.city }"}},
    ],
    "tests": [
        {
            "name": f"few {HOSTILE}",
            "input": {"amount": 1, "item": "tea", "password": "abc"},
            "expect": {"status": "completed"},
        },
        {
            "name": "wrong",
            "input": {"amount": 1, "item": "tea", "password": "abc"},
            "expect": {"output": {"ordered": HOSTILE}},
        },
    ],
    "triggers": [{"id": "nightly", "type": "schedule", "cron": "0 3 * * *", "input": {}, "enabled": False}],
}
PLAIN: dict[str, Any] = {
    "penstock": "v1",
    "name": "plain",
    "description": LONG,
    "nodes": [{"id": "done", "type": "end", "output": "${ .input }"}],
}
# Serious and critical findings of axe, as `rule: element`.
AXE = """axe.run(document, {resultTypes: ["violations"]}).then(found => JSON.stringify(found.violations
  .filter(item => ["serious", "critical"].includes(item.impact))
  .flatMap(item => item.nodes.map(node => item.id + ": " + node.html.slice(0, 120)))))"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "penstock.yaml").write_text(json.dumps(SETTINGS), encoding="utf-8")
    (folder / "said.txt").write_text(f"Finds items. {HOSTILE} {LINK}", encoding="utf-8")
    with serving(folder) as running:
        order = {**ORDER, "triggers": []}
        running.call("POST", "workflows", {"document": order})
        running.call(
            "PUT", "workflows/order", {"document": {**order, "version": "1.1.0", "output": {"type": "object"}}}
        )
        running.call("POST", "workflows", {"document": {**PLAIN, "description": LONG[:500_000]}})
        running.call("POST", "agents", {"id": "helper", "description": HOSTILE, "instructions": f"{HOSTILE} {LINK}"})
        running.call("POST", "schedules", {"workflow_id": "plain", "cron": "0 3 * * *", "schedule_id": "nightly"})
        hook = {"url": "https://example.com/events", "description": HOSTILE}
        made = running.call("POST", "webhooks", hook)["webhook"]
        running.call("POST", f"webhooks/{made['id']}/test")
        running.call("POST", "keys", {"name": HOSTILE, "kind": "agent", "scopes": ["workflow:run"]})
        running.call("POST", "upstreams/shop/refresh", {})
        yield running


@pytest.fixture(scope="module")
def browser(server: LiveServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser that is signed in."""
    with browsing(tmp_path_factory.mktemp("profile"), whole=True) as running:
        running.open(f"{server.url}/console")
        running.type_into("#key", server.key)
        running.press("main form button")
        yield running


def text_of(browser: Browser, selector: str) -> str:
    found: str = browser.evaluate(f"(document.querySelector({json.dumps(selector)}) || {{}}).textContent || ''")
    return found


# --- in a browser, without script -------------------------------------------------------------------------------------


def test_a_form_made_from_a_schema_keeps_what_was_written_and_starts_one_run(
    server: LiveServer, browser: Browser
) -> None:
    browser.command("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(f"{server.url}/console/workflows/order/start")
    browser.evaluate("document.querySelector('form.wide').noValidate = true")
    browser.type_into("[name='field.amount']", "0")
    browser.type_into("[name='field.address/city']", "Cologne")
    browser.type_into("[name='field.password']", "hunter22")
    browser.type_into("[name='field.notes']", '["soon", "fresh"]')
    browser.press("button[value=start]")
    assert "must be >= 1" in text_of(browser, "[id='field.amount-wrong']")
    assert "needed" in text_of(browser, "[id='field.item-wrong']")
    kept = "[...document.querySelectorAll('[name^=\"field.\"]')].map(item => [item.name, item.value])"
    written = dict(browser.evaluate(kept))
    assert (written["field.address/city"], written["field.notes"]) == ("Cologne", '["soon", "fresh"]')
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
    browser.press("button[value=start]")
    assert browser.evaluate("location.pathname") == f"/console/runs/{run_id}"
    shown = server.call("GET", f"executions/{run_id}")
    assert shown["input"]["address"] == {"city": "Cologne"}
    assert shown["input"]["notes"] == ["soon", "fresh"]
    assert "hunter22" not in json.dumps(shown)
    assert "hunter22" not in browser.evaluate("document.documentElement.outerHTML")
    browser.command("Emulation.setScriptExecutionDisabled", value=False)


def test_a_key_is_made_shown_once_and_revoked(server: LiveServer, browser: Browser) -> None:
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
    key_id = secret.removeprefix("pen_").partition("_")[0]
    browser.evaluate(
        f"document.querySelector('input[name=key_id][value=\"{key_id}\"]').form.querySelector('button').id = 'that'"
    )
    browser.press("#that")
    assert server.request("GET", "info", key=secret).status == 401


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
    browser.press("#tool-search button[value=accept]")
    assert "pinned" in text_of(browser, "#tool-search .status")


def pages(server: LiveServer) -> list[str]:
    versions = [item["hash"] for item in server.call("GET", "workflows/order/versions")["items"]]
    endpoint = server.call("GET", "webhooks")["items"][0]["id"]
    return [
        "/workflows",
        "/workflows/order",
        "/workflows/plain",
        "/workflows/order/start",
        "/workflows/order/tests",
        f"/workflows/order/versions?{urlencode({'before': versions[1], 'after': versions[0]})}",
        "/workflows/order/access",
        f"/workflows/order/access?arguments={quote(HOSTILE)}",
        "/agents",
        "/agents/helper",
        "/tools",
        "/tools/servers",
        "/tools/servers/shop",
        "/connect",
        "/keys",
        "/schedules",
        "/webhooks",
        f"/webhooks/{endpoint}",
        "/system",
    ]


def test_no_page_runs_anything_hostile_is_too_wide_or_shuts_anybody_out(
    server: LiveServer, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    axe = (node_programs().modules / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
    pictures = Path(tmp_path_factory.getbasetemp()) / "console-pages"
    pictures.mkdir(exist_ok=True)
    problems: list[str] = []
    for number, page in enumerate(pages(server)):
        for width, scheme in ((1280, "light"), (375, "dark")):
            browser.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            browser.command(
                "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
            )
            browser.open(f"{server.url}/console{page}")
            heard = [item["params"]["entry"]["text"] for item in browser.events if item["method"] == "Log.entryAdded"]
            problems += [f"{page}: {text}" for text in heard if "422" not in text]
            status = browser.evaluate("performance.getEntriesByType('navigation')[0].responseStatus")
            if status not in (200, 422):
                problems.append(f"{page}: {status}")
            if browser.evaluate("document.scrollingElement.scrollWidth > innerWidth"):
                problems.append(f"{page} at {width}: wider than the screen")
            if browser.evaluate("document.title") in ("owned", "1") or browser.evaluate("document.images.length"):
                problems.append(f"{page}: hostile markup is alive")
            if browser.evaluate("document.querySelectorAll('a[href^=\"javascript:\" i], style, [style]').length"):
                problems.append(f"{page}: a link that runs, or a style in the page")
            if "\u202e" in browser.evaluate("document.body.textContent"):
                problems.append(f"{page}: a text turns others around")
            if (number % 2 == 0) == (
                scheme == "light"
            ):  # the stylesheet is one; both schemes and widths get their share
                browser.evaluate(axe)
                ran = browser.command("Runtime.evaluate", expression=AXE, awaitPromise=True, returnByValue=True)
                problems += [f"{page} at {width}, {scheme}: {item}" for item in json.loads(ran["result"]["value"])]
            taken = browser.command("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
            (pictures / f"{number:02}-{width}-{scheme}.png").write_bytes(base64.b64decode(taken))
    browser.command("Emulation.clearDeviceMetricsOverride")
    assert problems == [], "\n".join(problems)


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
    before = len(server.call("GET", f"webhooks/{endpoint}/deliveries")["items"])
    assert owner.post(f"/webhooks/{endpoint}", action="test").status == 303
    assert len(server.call("GET", f"webhooks/{endpoint}/deliveries")["items"]) == before + 1
    assert owner.post("/agents/helper", prompt=" ").status == 422


def test_what_a_visitor_may_not_see_is_said_to_be_closed_and_what_is_missing_is_not_found(
    server: LiveServer, owner: Visitor
) -> None:
    made = server.call("POST", "keys", {"name": "reader", "kind": "person", "scopes": ["workflow:read"]})
    reader = Visitor(server, made["secret"])
    shown = reader.get("/workflows/order")
    assert shown.status == 200
    assert shown.body.count(b"Not for you") >= 2
    assert b"No schedule." not in shown.body
    for page in ("/tools", "/workflows/order/access", "/system", "/webhooks"):
        answer = reader.get(page)
        assert (page, answer.status, b"Not for you" in answer.body) == (page, 200, True)
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
        assert (page, reader.get(page).status) == (page, 403)
    refused = reader.post(
        "/workflows/order/start",
        action="start",
        execution_id="c-2",
        **{"field.amount": "1", "field.item": "tea", "field.password": "abc"},
    )
    assert refused.status == 403
    for page in ("/workflows/none", "/workflows/none/start", "/agents/none", "/tools/servers/none", "/webhooks/none"):
        assert (page, owner.get(page).status) == (page, 404)
