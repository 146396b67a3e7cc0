"""Visits of the console, in a browser and without one: what its tests share."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from tests.live.mcp.browsers import Browser
from tests.live.rest.servers import Answer, LiveServer

__all__ = [
    "ASKS",
    "AXE",
    "BREAKS",
    "HOSTILE",
    "blocked",
    "cookie_of",
    "get",
    "heading",
    "only_tab",
    "post",
    "sign_in",
    "token_of",
]

HOSTILE = '<script>document.title="owned"</script><img src=x onerror="document.title=1">"\'}}{{7*7}} \u202egnp.exe'
ASKS: dict[str, Any] = {
    "penstock": "v1",
    "name": "asks",
    "description": f"Asks. {HOSTILE}",
    "input": {"type": "object", "properties": {"what": {"type": "string"}}},
    "nodes": [
        {
            "id": "ask",
            "type": "interrupt",
            "message": "Shall we? ${ .input.what }",
            "answer": {
                "type": "object",
                "required": ["amount"],
                "properties": {"amount": {"type": "integer", "minimum": 1}, "note": {"type": "string"}},
            },
        },
        {"id": "done", "type": "end", "output": "${ .ask }"},
    ],
}
BREAKS: dict[str, Any] = {
    "penstock": "v1",
    "name": "breaks",
    "nodes": [
        {"id": "choose", "type": "switch", "cases": [{"when": ".input.ok == true", "next": "done"}], "default": "stop"},
        {"id": "stop", "type": "fail", "code": "BROKEN", "message": HOSTILE},
        {"id": "done", "type": "end"},
    ],
}


# Serious and critical findings of axe, as `rule: element`.
AXE = """axe.run(document, {resultTypes: ["violations"]}).then(found => JSON.stringify(found.violations
  .filter(item => ["serious", "critical"].includes(item.impact))
  .flatMap(item => item.nodes.map(node => item.id + ": " + node.html.slice(0, 120)))))"""


def sign_in(browser: Browser, server: LiveServer, key: str, page: str = "/console", *, at: str = "") -> None:
    """Sign in with a key; `at` is another address of the server."""
    browser.command("Network.clearBrowserCookies")
    browser.open(f"{at or server.url}{page}")
    browser.type_into("#key", key)
    browser.press("main form button")


def heading(browser: Browser) -> str:
    """The heading of the page."""
    found: str = browser.evaluate("document.querySelector('h1').textContent.trim()")
    return found


def blocked(browser: Browser) -> list[Any]:
    """What the browser complained about, such as violations of the content security policy."""
    return [item["params"] for item in browser.events if item.get("method") == "Log.entryAdded"]


def post(server: LiveServer, path: str, fields: dict[str, str], **headers: str) -> Answer:
    """Send a form."""
    sent = {"Content-Type": "application/x-www-form-urlencoded", **headers}
    return server.request("POST", path, urlencode(fields).encode(), key="", headers=sent)


def cookie_of(server: LiveServer, key: str) -> str:
    """Sign in, and return the cookie."""
    answer = post(server, "/console/sign-in", {"key": key}, Origin=server.url)
    assert (answer.status, answer.headers["location"]) == (303, "/console")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert key not in cookie
    return cookie.partition(";")[0]


def get(server: LiveServer, path: str, cookie: str = "", **headers: str) -> Answer:
    """Ask for a page."""
    sent = {"Cookie": cookie, **headers} if cookie else headers
    return server.request("GET", path, key="", headers=sent)


def token_of(page: Answer) -> str:
    """The token in the forms of a page."""
    return page.body.decode().partition('name="form_token" value="')[2].partition('"')[0]


def only_tab(browser: Browser, *, backwards: bool = False) -> None:
    """Press the tab key."""
    key = {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9, "modifiers": 8 if backwards else 0}
    browser.command("Input.dispatchKeyEvent", type="rawKeyDown", **key)
    browser.command("Input.dispatchKeyEvent", type="keyUp", **key)
