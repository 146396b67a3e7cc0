"""Pages beside results of tools, over the wire and in a real browser: a host written for the test shows them.

The host speaks the protocol of the extension, and allows a page what the extension says that hosts allow by default.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from tests.live.console.test_console import PICTURES
from tests.live.console.visiting import HOSTILE, blocked, get
from tests.live.mcp.browsers import Browser
from tests.live.mcp.clients import new_session
from tests.live.rest.servers import LiveServer

APPS: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}
_PREFIX = "io.modelcontextprotocol/"
_SEEN = HOSTILE.replace("\u202e", "[U+202E]")
_HOST = """<!DOCTYPE html><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'self' 'unsafe-inline';
 style-src 'self' 'unsafe-inline'; img-src 'self' data:; media-src 'self' data:; connect-src 'none'">
<style>body { margin: 0; background: light-dark(#fff, #222) } iframe { border: 0; width: 100%% }</style>
<iframe id="view" sandbox="allow-scripts allow-same-origin"></iframe>
<script>
const given = %s, heard = [], view = document.getElementById("view");
let allowed = true;
document.documentElement.style.colorScheme = given.theme;
const say = (message) => view.contentWindow.postMessage({jsonrpc: "2.0", ...message}, "*");
addEventListener("message", ({data, source}) => {
  if (source !== view.contentWindow) return;
  heard.push(data);
  if (data.method === "ui/initialize") say({id: data.id, result: {protocolVersion: "2026-01-26",
    hostCapabilities: {openLinks: {}}, hostInfo: {name: "test", version: "1"}, hostContext: {theme: given.theme}}});
  if (data.method === "ui/notifications/initialized") {
    say({method: "ui/notifications/tool-input", params: {arguments: {}}});
    say({method: "ui/notifications/tool-result", params: given.result});
    say({id: "bye", method: "ui/resource-teardown", params: {reason: "test"}});
  }
  if (data.method === "ui/notifications/size-changed") view.style.height = data.params.height + "px";
  if (data.method === "ui/open-link") say(allowed ? {id: data.id, result: {}}
    : {id: data.id, error: {code: -32000, message: "denied"}});
});
view.srcdoc = given.page;
</script>"""


def asked(
    server: LiveServer,
    method: str,
    *,
    key: str | None = None,
    declared: dict[str, Any] | None = None,
    toolset: str = "default",
    **params: Any,
) -> Any:
    """The result of a request of the newest era."""
    meta = {
        f"{_PREFIX}protocolVersion": "2026-07-28",
        f"{_PREFIX}clientCapabilities": APPS if declared is None else declared,
        f"{_PREFIX}clientInfo": {"name": "test", "version": "1"},
    }
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
    }
    if (name := params.get("name") or params.get("uri")) is not None:
        headers["Mcp-Name"] = name
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta, **params}}
    answer = server.request("POST", f"/mcp?toolset={toolset}", body, headers=headers, key=key)
    assert answer.status == 200, answer
    return answer.json()["result"]


def pages_of(tools: list[dict[str, Any]]) -> dict[str, str]:
    """The pages that tools name."""
    return {tool["name"]: tool["_meta"]["ui"]["resourceUri"] for tool in tools if "ui" in tool.get("_meta", {})}


# --- over the wire ----------------------------------------------------------------------------------------------------


def test_pages_are_named_and_listed_to_clients_that_show_them_and_to_no_others(server: LiveServer) -> None:
    assert "io.modelcontextprotocol/ui" in asked(server, "server/discover")["capabilities"]["extensions"]
    for _ in range(2):  # the second time, what was learnt from the first answers
        with_pages, without = (asked(server, "tools/list", declared=item) for item in (APPS, {}))
        assert pages_of(with_pages["tools"])["erase_customer"] == "ui://penstock/run"
        assert pages_of(with_pages["tools"])["penstock_execution_status"] == "ui://penstock/run"
        assert pages_of(without["tools"]) == {}
        sizes = [answer["_meta"]["penstock/catalogue"]["bytes"] for answer in (with_pages, without)]
        assert sizes[0] > sizes[1]
    listed, unlisted = (
        {item["uri"] for item in asked(server, "resources/list", declared=item)["resources"]} for item in (APPS, {})
    )
    assert listed - unlisted == {"ui://penstock/approval", "ui://penstock/run"}
    session = new_session(server, capabilities=APPS)
    for headers, named in ((session, True), (new_session(server), False)):
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        answer = server.request("POST", "/mcp", body, headers=headers).body.decode()
        assert ("ui://penstock/run" in answer) is named


def test_everybody_who_may_call_reads_the_pages_which_say_nothing_about_anybody(server: LiveServer) -> None:
    blind = server.call("POST", "keys", {"name": "blind", "scopes": ["workflow:read"]})["secret"]
    for uri in ("ui://penstock/approval", "ui://penstock/run"):
        read = [asked(server, "resources/read", uri=uri, key=key)["contents"] for key in (server.key, blind)]
        assert read[0] == read[1]
        assert read[0][0]["mimeType"] == "text/html;profile=mcp-app"


# --- in a browser -----------------------------------------------------------------------------------------------------


def found(browser: Browser, expression: str) -> Any:
    """What an expression becomes, once it is something."""
    looks = f"const it = ({expression}); it ? done(it) : setTimeout(look, 20)"
    waiting = f"new Promise(done => {{ const look = () => {{ {looks} }}; look() }})"
    ran = browser.command("Runtime.evaluate", expression=waiting, awaitPromise=True, returnByValue=True)
    return ran["result"]["value"]


def hosted(browser: Browser, folder: Path, page: str, result: Any, theme: str) -> str:
    """Show a page with a result in a host, and return its text."""
    given = json.dumps({"page": page, "result": result, "theme": theme}).replace("<", "\\u003c")
    place = folder / "host.html"
    place.write_text(_HOST % given, encoding="utf-8")
    browser.open(place.as_uri())
    text: str = found(browser, "view.contentDocument?.querySelector('section') && view.contentDocument.body.innerText")
    found(browser, "heard.find(item => item.id === 'bye' && item.result)")
    return text


def test_the_pages_show_what_results_say_and_leave_for_the_servers_own_pages(
    server: LiveServer, browser: Browser, tmp_path: Path
) -> None:
    approval, run = (
        asked(server, "resources/read", uri=f"ui://penstock/{name}")["contents"][0]["text"]
        for name in ("approval", "run")
    )
    robot = server.call("POST", "keys", {"name": HOSTILE, "kind": "agent", "scopes": ["*"]})["secret"]
    waits = asked(server, "tools/call", key=robot, name="erase_customer", arguments={"customer": HOSTILE})
    draft_id = waits["structuredContent"]["held"]["draft_id"]
    draft = asked(server, "tools/call", toolset="all", name="penstock_draft_get", arguments={"draft_id": draft_id})
    digest = draft["structuredContent"]["digest"]
    run_id = server.call("POST", "workflows/asks/executions", {"input": {"what": HOSTILE}})["execution_id"]
    status = asked(server, "tools/call", name="penstock_execution_status", arguments={"execution_id": run_id})
    broken_id = server.call("POST", "workflows/breaks/executions", {"input": {}})["execution_id"]
    server.call("GET", f"executions/{broken_id}/wait?wait_seconds=240")
    broken = asked(server, "tools/call", name="penstock_execution_wait", arguments={"execution_id": broken_id})
    shown = [
        ("approval", approval, draft, f"/console/approvals/{draft_id}", [_SEEN, digest, "Expires", "0 of 1", "high"]),
        ("held", run, waits, f"/console/approvals/{draft_id}", [digest, "Waits for approval", "[U+202E]", "Expires"]),
        ("run", run, status, f"/answer?execution={run_id}&question=", ["Shall we?", "[U+202E]", run_id, "ask", "done"]),
        ("ended", run, broken, f"/console/runs/{broken_id}", ["failed", f"BROKEN: {_SEEN}", "choose", "Ended"]),
    ]
    PICTURES.mkdir(parents=True, exist_ok=True)
    problems: list[str] = []
    browser.command("Emulation.setDeviceMetricsOverride", width=560, height=700, deviceScaleFactor=1, mobile=False)
    for name, page, result, address, expected in shown:
        for theme in ("light", "dark"):
            text = hosted(browser, tmp_path, page, result, theme)
            problems += [f"{name}: {item!r} is not in {text!r}" for item in expected if item not in text]
            if "\u202e" in text or browser.evaluate("view.contentDocument.querySelectorAll('img, main script').length"):
                problems.append(f"{name}: hostile markup is alive")
            if browser.evaluate("view.contentDocument.title") in ("owned", "1"):
                problems.append(f"{name}: a hostile script ran")
            if browser.evaluate("view.contentDocument.documentElement.dataset.theme") != theme:
                problems.append(f"{name}: not {theme}")
            if browser.evaluate("view.contentDocument.scrollingElement.scrollWidth > innerWidth"):
                problems.append(f"{name}: wider than its place")
            problems += [f"{name}: {item['entry']['text']}" for item in blocked(browser)]
            taken = browser.command("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
            (PICTURES / f"mcp-app-{name}-{theme}.png").write_bytes(base64.b64decode(taken))
        browser.evaluate("view.contentDocument.querySelector('button').click()")
        asking = found(browser, "heard.find(item => item.method === 'ui/open-link')")
        assert asking["params"]["url"].startswith(f"{server.url}{address}"), asking
        path = asking["params"]["url"].removeprefix(server.url)
        assert get(server, path).status in (200, 303)
        # A host that opens nothing: the page says where to go.
        browser.evaluate("allowed = false; view.contentDocument.querySelector('button').click()")
        said = found(browser, "view.contentDocument.querySelector('[role=status]').textContent")
        assert asking["params"]["url"] in said
        methods = {item.get("method", "answer") for item in browser.evaluate("heard")}
        assert methods == {
            "answer",
            "ui/initialize",
            "ui/notifications/initialized",
            "ui/notifications/size-changed",
            "ui/open-link",
        }
    browser.command("Emulation.clearDeviceMetricsOverride")
    assert problems == []
    assert server.call("GET", f"drafts/{draft_id}")["status"] == "waiting"  # the page decided nothing
