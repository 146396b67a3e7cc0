"""What people come to the console for, with the keyboard alone: each journey with script and without."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.console.everyday import claimed, held
from tests.live.console.governed import World
from tests.live.console.keyboard import Keyboard
from tests.live.console.visiting import heading
from tests.live.mcp.browsers import Browser
from tests.live.rest.servers import LiveServer
from tests.waiting import wait_until


@pytest.fixture(scope="module", params=["with script", "without script"])
def keyboard(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Keyboard]:
    browser.command("Emulation.clearDeviceMetricsOverride")
    browser.command("Emulation.setScriptExecutionDisabled", value=request.param == "without script")
    yield Keyboard(browser)
    browser.command("Emulation.setScriptExecutionDisabled", value=False)


def text_of(keyboard: Keyboard, selector: str = "main") -> str:
    found: str = keyboard.browser.evaluate(f"(document.querySelector('{selector}') || {{}}).textContent || ''")
    return found


def status_of(server: LiveServer, run_id: str) -> str:
    status: str = server.call("GET", f"executions/{run_id}")["status"]
    return status


def test_a_question_is_answered(server: LiveServer, keyboard: Keyboard) -> None:
    run_id = claimed(server, "J-1", 300)
    keyboard.open(f"{server.url}/console/approvals")
    keyboard.follow(f"a[href$='{run_id}']")
    assert "Pay 300 for order J-1?" in text_of(keyboard, ".question")
    keyboard.follow(".ask button[value=approve]")
    assert "You approved: “Pay 300 for order J-1?”" in text_of(keyboard, "#decided")
    assert server.call("GET", f"executions/{run_id}/wait?wait_seconds=10")["output"] == {"paid": 300}
    keyboard.open(f"{server.url}/console/runs/{run_id}")
    assert "completed" in heading(keyboard.browser)


def test_a_call_that_waits_is_approved(server: LiveServer, world: World, keyboard: Keyboard) -> None:
    draft_id = held(server, world.agent, order="J-2", amount=180)
    keyboard.open(f"{server.url}/console/approvals")
    keyboard.follow(f"a[href$='{draft_id}']")
    keyboard.write("#note", "looked at it")
    keyboard.follow("button[value=approve]")
    assert "executed" in heading(keyboard.browser)
    assert server.call("GET", f"drafts/{draft_id}")["status"] == "executed"


def test_a_workflow_is_started_with_its_form(server: LiveServer, keyboard: Keyboard) -> None:
    keyboard.open(f"{server.url}/console/workflows?prefix=settle")
    keyboard.follow("a[href$='/settle_claim/start']")
    keyboard.write("[name='field.order']", "J-3")
    keyboard.write("[name='field.amount']", "12.5")
    run_id = keyboard.browser.evaluate("document.querySelector('[name=execution_id]').value")
    keyboard.follow("button[value=start]")
    assert heading(keyboard.browser).startswith("settle_claim")
    assert server.call("GET", f"executions/{run_id}")["input"] == {"order": "J-3", "amount": 12.5}


def test_runs_are_filtered_and_one_is_opened(server: LiveServer, keyboard: Keyboard) -> None:
    run_id = claimed(server, "J-4", -4)
    keyboard.open(f"{server.url}/console/runs")
    keyboard.to("#status")
    keyboard.press(*"fai")
    keyboard.write("#workflow_id", "settle_claim")
    keyboard.to(".filters button")
    keyboard.follow()
    rows = keyboard.browser.evaluate("[...document.querySelectorAll('tbody tr')].map(row => row.innerText)")
    assert rows
    assert all("failed" in row and "settle_claim" in row for row in rows)
    keyboard.follow(f"tbody a[href$='{run_id}']")
    assert "AMOUNT_NEGATIVE" in text_of(keyboard, ".wrong")


def test_a_run_is_cancelled(server: LiveServer, keyboard: Keyboard) -> None:
    run_id = claimed(server, "J-5", 500)
    keyboard.open(f"{server.url}/console/runs/{run_id}")
    keyboard.write("#reason", "ordered twice")
    keyboard.follow("button[value=cancel]")
    wait_until(lambda: status_of(server, run_id) == "cancelled")
    keyboard.open(f"{server.url}/console/runs/{run_id}")
    assert "cancelled" in heading(keyboard.browser)


def test_a_key_is_made_and_revoked(server: LiveServer, keyboard: Keyboard) -> None:
    keyboard.open(f"{server.url}/console/keys")
    keyboard.write("#name", "front desk")
    keyboard.write("#scopes", "workflow:run")
    keyboard.follow("button[value=create]")
    secret = text_of(keyboard, "#secret").strip()
    assert server.request("GET", "info", key=secret).status == 200
    keyboard.follow("main a.button[href$='/keys']")
    assert secret not in keyboard.browser.evaluate("document.documentElement.outerHTML")
    key_id = secret.removeprefix("pen_").partition("_")[0]
    keyboard.to(f"tr:has(input[value='{key_id}']) summary[aria-label^='Revoke']")
    keyboard.press("Enter")
    keyboard.follow("button[value=revoke]")
    assert server.request("GET", "info", key=secret).status == 401


def test_a_query_is_run(server: LiveServer, world: World, keyboard: Keyboard) -> None:
    keyboard.open(f"{server.url}/console/graphs")
    keyboard.follow("main a[href$='/graphs/crm']")
    keyboard.follow("a[href$='/queries/people_of_age']")
    keyboard.write("[name='field.age']", "5")
    keyboard.follow("form.wide button.main")
    rows = keyboard.browser.evaluate("[...document.querySelectorAll('tbody tr')].map(row => row.cells[2].textContent)")
    assert set(rows) == {"5"}


def test_the_audit_log_is_verified(server: LiveServer, keyboard: Keyboard) -> None:
    keyboard.open(f"{server.url}/console/audit")
    keyboard.follow("main a[href$='/audit/verify']")
    keyboard.follow("button[value=verify]")
    assert "The log is intact" in text_of(keyboard, "#verdict")


def test_the_documented_keys_lead_to_a_list_through_it_and_back(server: LiveServer, browser: Browser) -> None:
    browser.command("Emulation.setScriptExecutionDisabled", value=False)
    keyboard = Keyboard(browser)
    claimed(server, "J-6", 6)
    claimed(server, "J-7", 7)
    browser.open(f"{server.url}/console/system")
    keyboard.go("g", "r")
    assert heading(browser) == "Runs"
    here = "document.activeElement.closest('tr').rowIndex"
    keyboard.press("j", "j")
    assert browser.evaluate(here) == 2
    keyboard.press("k")
    assert browser.evaluate(here) == 1
    assert browser.evaluate("document.activeElement.matches(':focus-visible')")
    chosen = browser.evaluate("document.activeElement.href")
    keyboard.go("Enter")
    assert browser.evaluate("location.href") == chosen
    keyboard.go("g", "h")
    assert heading(browser) == "Home"
