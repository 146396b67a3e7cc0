"""Forms that make and change schedules and webhooks: with script and without, and nothing that was written is lost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.live.console.visiting import blocked, heading
from tests.live.mcp.browsers import Browser
from tests.live.rest.servers import LiveServer
from tests.waiting import wait_until

REPORT: dict[str, Any] = {
    "penstock": "v1",
    "name": "report",
    "input": {
        "type": "object",
        "required": ["to"],
        "properties": {
            "to": {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 3}},
            "sent": {
                "oneOf": [
                    {"title": "As a file", "type": "object", "properties": {"folder": {"type": "string"}}},
                    {"title": "In a message", "type": "string"},
                ]
            },
        },
    },
    "nodes": [{"id": "done", "type": "end", "output": "${ .input }"}],
}


@pytest.fixture(scope="module", autouse=True)
def workflow(server: LiveServer) -> None:
    server.call("POST", "workflows", {"document": REPORT})


@pytest.fixture(params=["with script", "without script"])
def scripted(browser: Browser, request: pytest.FixtureRequest) -> Iterator[str]:
    browser.command("Emulation.setScriptExecutionDisabled", value=request.param == "without script")
    browser.events.clear()
    yield request.param.partition(" ")[0]
    browser.command("Emulation.setScriptExecutionDisabled", value=False)


def value_of(browser: Browser, selector: str) -> str:
    found: str = browser.evaluate(f"(document.querySelector({json.dumps(selector)}) || {{}}).value || ''")
    return found


def text_of(browser: Browser, selector: str) -> str:
    found: str = browser.evaluate(f"(document.querySelector({json.dumps(selector)}) || {{}}).textContent || ''")
    return found


def write(browser: Browser, selector: str, text: str) -> None:
    """Write into a field, in place of what is in it."""
    browser.evaluate(f"document.querySelector({json.dumps(selector)}).value = ''")
    browser.type_into(selector, text)


def press_list_button(browser: Browser, value: str, scripted: str, field: str) -> None:
    """Press a button of a list, and wait for a field that is there afterwards."""
    selector = f"button[value={json.dumps(value)}]"
    if scripted == "without":
        browser.press(selector)
        return
    browser.evaluate("document.body.dataset.stays = 'yes'")
    browser.evaluate(f"document.querySelector({json.dumps(selector)}).click()")
    wait_until(lambda: browser.evaluate(f"document.querySelector({json.dumps(field)}) !== null"))
    assert browser.evaluate("document.body.dataset.stays") == "yes"  # the page was not left


def test_a_schedule_is_made_looked_at_changed_and_deleted(server: LiveServer, browser: Browser, scripted: str) -> None:
    schedule_id = f"weekly-{scripted}"
    browser.open(f"{server.url}/console/schedules")
    browser.press("a[href$='/new/schedule']")
    browser.type_into("#workflow_id", "report")
    browser.press("main form button")
    browser.type_into("#schedule_id", schedule_id)
    browser.type_into("#cron", "61 3 * * 1")
    write(browser, "#timezone", "Europe/Berlin")
    browser.type_into("[name='field.to/0']", "ada")
    browser.press("button.main[value=save]")
    assert "is not a cron expression" in text_of(browser, "#cron-wrong")
    written = [value_of(browser, name) for name in ("#schedule_id", "#cron", "#timezone", "[name='field.to/0']")]
    assert written == [schedule_id, "61 3 * * 1", "Europe/Berlin", "ada"]

    write(browser, "#cron", "30 3 * * 1")
    browser.press("button[value=preview]")
    assert browser.evaluate("document.querySelectorAll('#times li').length") == 5
    assert "03:30 there" in text_of(browser, "#times li")
    press_list_button(browser, "add to", scripted, "[name='field.to/1']")
    browser.type_into("[name='field.to/1']", "no")
    browser.evaluate("document.querySelector('form.wide').noValidate = true")
    browser.press("button.main[value=save]")
    assert "fewer than 3" in text_of(browser, "[id='field.to/1-wrong']")
    assert value_of(browser, "[name='field.to/0']") == "ada"
    write(browser, "[name='field.to/1']", "bob")
    browser.evaluate('document.querySelector(\'[name="variant.sent"][value="0"]\').checked = true')
    browser.type_into("[name='field.sent(0)/folder']", "reports")
    browser.press("button.main[value=save]")
    assert heading(browser) == schedule_id
    made = server.call("GET", f"schedules/{schedule_id}")
    assert (made["cron"], made["timezone"]) == ("30 3 * * 1", "Europe/Berlin")
    assert made["input"] == {"to": ["ada", "bob"], "sent": {"folder": "reports"}}

    assert value_of(browser, "[name='field.sent(0)/folder']") == "reports"
    press_list_button(browser, "remove to/0", scripted, "[name='field.to/0'][value=bob]")
    browser.type_into("#catch_up", "10m")
    browser.press("button.main[value=save]")
    changed = server.call("GET", f"schedules/{schedule_id}")
    assert (changed["input"]["to"], changed["catch_up"]) == (["bob"], "10m")
    browser.evaluate("document.querySelector('#catch_up').value = ''")
    browser.press("button.main[value=save]")
    assert server.call("GET", f"schedules/{schedule_id}")["catch_up"] is None

    browser.press("button[value=pause]")
    assert server.call("GET", f"schedules/{schedule_id}")["paused"] is True
    browser.evaluate("document.querySelector('details.sure').open = true")
    browser.press("button[value=delete]")
    assert heading(browser) == "Schedules"
    assert server.request("GET", f"schedules/{schedule_id}").status == 404
    assert [item for item in blocked(browser) if "422" not in str(item)] == []


def test_a_webhook_is_made_changed_rotated_and_deleted(server: LiveServer, browser: Browser, scripted: str) -> None:
    browser.open(f"{server.url}/console/webhooks")
    browser.press("a[href$='/new/webhook']")
    browser.type_into("#url", "http://127.0.0.1/events")
    browser.type_into("#description", f"for the books, {scripted} script")
    browser.press("form.wide button.main")
    assert text_of(browser, "#url-wrong") != ""
    assert value_of(browser, "#description").startswith("for the books")
    assert browser.evaluate("document.querySelectorAll('[name=events]:checked').length") > 0
    write(browser, "#url", f"https://example.com/{scripted}")
    browser.press("form.wide button.main")
    secret = text_of(browser, "#secret").strip()
    assert secret.startswith("whsec_")
    browser.press("a.button")
    assert secret not in browser.evaluate("document.documentElement.outerHTML")
    endpoint_id = browser.evaluate("location.pathname").rpartition("/")[2]

    browser.evaluate("document.querySelectorAll('details').forEach(item => { item.open = true; })")
    write(browser, "#workflows", "report, asks")
    browser.evaluate("document.querySelector('[name=enabled]').checked = false")
    stale = server.call("GET", f"webhooks/{endpoint_id}")
    body = {name: stale[name] for name in ("url", "events", "workflows", "enabled")}
    server.call("PUT", f"webhooks/{endpoint_id}", {**body, "description": "by somebody else"})
    browser.press("button[value=save]")
    assert "changed" in text_of(browser, "[role=alert]")
    assert value_of(browser, "#workflows") == "report asks"
    browser.press("button[value=save]")
    shown = server.call("GET", f"webhooks/{endpoint_id}")
    assert (shown["workflows"], shown["enabled"]) == (["report", "asks"], False)

    browser.evaluate("document.querySelectorAll('details').forEach(item => { item.open = true; })")
    write(browser, "#overlap", "90d")
    browser.press("button[value=rotate]")
    assert "7 days" in text_of(browser, "#overlap-wrong")
    write(browser, "#overlap", "1h")
    browser.press("button[value=rotate]")
    assert text_of(browser, "#secret").strip() not in ("", secret)
    browser.press("a.button")
    browser.evaluate("document.querySelector('details.sure').open = true")
    browser.press("button[value=delete]")
    assert heading(browser) == "Webhooks"
    assert server.request("GET", f"webhooks/{endpoint_id}").status == 404
