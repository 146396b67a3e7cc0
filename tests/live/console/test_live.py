"""Pages that stay current: what moves is shown, a lost connection is told, and keys, themes and tabs work."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.live.console.relay import relaying
from tests.live.console.test_console import start
from tests.live.console.visiting import ASKS, BREAKS, blocked, heading, sign_in
from tests.live.mcp.browsers import Browser, browsing
from tests.live.rest.servers import LiveServer, serving
from tests.waiting import wait_until

TABS = 7


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with serving(tmp_path_factory.mktemp("server")) as running:
        for document in (ASKS, BREAKS):
            running.call("POST", "workflows", {"document": document})
        yield running


@pytest.fixture(scope="module")
def browser(server: LiveServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsing(tmp_path_factory.mktemp("profile"), whole=True) as running:
        sign_in(running, server, server.key)
        yield running


def shown(browser: Browser, script: str) -> None:
    """Wait until a condition holds on the page."""
    wait_until(lambda: browser.evaluate(script))


def is_live(browser: Browser) -> None:
    shown(browser, "document.querySelector('#freshness').dataset.state === 'live'")


def press_key(browser: Browser, *keys: str) -> None:
    for key in keys:
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if kind == "keyDown" and len(key) == 1 else {}
            code = {"windowsVirtualKeyCode": 27} if key == "Escape" else {}
            browser.command("Input.dispatchKeyEvent", type=kind, key=key, **text, **code)


@contextmanager
def other_tab(browser: Browser, url: str) -> Iterator[str]:
    """Another tab of the same browser; the block speaks to it by its session."""
    before, browser.session = browser.session, ""
    target = browser.command("Target.createTarget", url="about:blank")["targetId"]
    session: str = browser.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    browser.session = session
    browser.command("Page.enable")
    browser.open(url)
    try:
        yield session
    finally:
        browser.session = ""
        browser.command("Target.closeTarget", targetId=target)
        browser.session = before


def open_streams(server: LiveServer) -> float:
    lines = server.request("GET", "/metrics").body.decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("penstock_stream_active_connections"))


def test_a_page_shows_what_moves_and_says_when_it_cannot(server: LiveServer, browser: Browser) -> None:
    browser.open(f"{server.url}/console")
    is_live(browser)
    browser.evaluate("window.untouched = true")
    run_id = start(server, "asks", what="now")
    shown(browser, f"document.querySelector('main').innerText.includes('{run_id}')")
    server.kill()
    shown(browser, "document.querySelector('#freshness').innerText.startsWith('Connection lost')")
    shown(browser, "/trying again in [0-9]+ s/.test(document.querySelector('#freshness').innerText)")
    assert browser.evaluate(f"document.querySelector('main').innerText.includes('{run_id}')")  # what was shown stays
    server.start()
    later = start(server, "asks", what="later")
    is_live(browser)
    shown(browser, f"document.querySelector('main').innerText.includes('{later}')")
    assert browser.evaluate("window.untouched") is True  # the page was never left
    assert [item for item in blocked(browser) if "Security" in str(item) or "Trusted" in str(item)] == []


def test_a_page_whose_stream_is_mute_or_cut_says_so_and_misses_nothing(server: LiveServer, browser: Browser) -> None:
    # A quarter of a minute without a word is waited for by setting the clock of the page forward.
    clock = "window.ahead = 0; const now = performance.now.bind(performance); performance.now = () => now() + ahead"
    script = browser.command("Page.addScriptToEvaluateOnNewDocument", source=clock)["identifier"]
    says = "document.querySelector('#freshness').innerText.startsWith('{}')"
    has = "document.querySelector('main').innerText.includes('{}')"
    try:
        with relaying(server.port) as relay:
            sign_in(browser, server, server.key, at=relay.url)
            is_live(browser)
            browser.evaluate("window.untouched = true")
            relay.is_mute = True
            unheard = start(server, "asks", what="unheard")
            browser.evaluate("ahead += 20000")
            shown(browser, says.format("No news, asking every 15 s"))
            browser.evaluate("ahead += 20000")
            shown(browser, has.format(unheard))  # it asked by itself
            relay.is_mute = False
            relay.cut()
            shown(browser, says.format("Connection lost"))
            missed = start(server, "asks", what="missed")
            is_live(browser)
            shown(browser, has.format(missed))
            assert browser.evaluate("window.untouched") is True
    finally:
        browser.command("Page.removeScriptToEvaluateOnNewDocument", identifier=script)


def test_what_could_not_be_read_is_read_later(server: LiveServer, browser: Browser) -> None:
    sign_in(browser, server, server.key)
    is_live(browser)
    run_id = start(server, "asks", what="unread")
    browser.open(f"{server.url}/console/runs/{run_id}")
    is_live(browser)
    browser.command("Network.enable")
    browser.evaluate("window.failed = 0; document.addEventListener('htmx:error', () => { window.failed += 1; })")
    try:
        browser.command("Network.setBlockedURLs", urls=[f"*/console/runs/{run_id}*"])
        server.call("POST", f"executions/{run_id}/cancel", {})
        shown(browser, "window.failed > 1")  # it was tried again, too
    finally:
        browser.command("Network.setBlockedURLs", urls=[])
    shown(browser, "document.querySelector('h1').innerText.toLowerCase().includes('cancelled')")
    assert browser.evaluate("window.failed") > 0  # the page was never left


def test_seven_tabs_have_one_stream_and_all_show_what_moves(server: LiveServer, browser: Browser) -> None:
    sign_in(browser, server, server.key)
    is_live(browser)
    tabs: list[Any] = []
    sessions = [browser.session]
    try:
        for _ in range(TABS - 1):
            tabs.append(other_tab(browser, f"{server.url}/console"))
            sessions.append(tabs[-1].__enter__())
            is_live(browser)
        wait_until(lambda: open_streams(server) == 1)
        run_id = start(server, "asks", what="everywhere")
        for session in reversed(sessions):
            browser.session = session
            browser.command("Page.bringToFront")  # a tab that is hidden reads when it is shown
            shown(browser, f"document.querySelector('main').innerText.includes('{run_id}')")
            is_live(browser)
        browser.session = sessions[-1]
        wait_until(lambda: open_streams(server) == 1)
    finally:
        for tab in reversed(tabs):
            tab.__exit__(None, None, None)
    browser.command("Page.bringToFront")
    is_live(browser)


def test_a_session_that_ends_while_somebody_writes_is_told_and_nothing_is_lost(
    server: LiveServer, browser: Browser
) -> None:
    made = server.call("POST", "keys", {"name": "clerk", "kind": "person", "scopes": ["execution:*", "workflow:read"]})
    run_id = start(server, "asks", what="in time")
    try:
        sign_in(browser, server, made["secret"], f"/console/runs/{run_id}")
        is_live(browser)
        browser.type_into("[name='field.note']", "a long answer")
        browser.type_into("[name='field.amount']", "4")
        server.call("POST", "keys/sign-out", {"principal": f"key:{made['key']['id']}"})
        server.call("POST", f"executions/{run_id}/pause", {})  # the stream notices with the next thing that moves
        shown(browser, "!document.querySelector('#signed-out').hidden")
        assert "You are signed out" in browser.evaluate("document.querySelector('#signed-out').innerText")
        assert browser.evaluate("document.querySelector('#freshness').innerText").startswith("Signed out")
        server.call("POST", f"executions/{run_id}/resume", {})
        browser.press(".ask button.main")
        assert heading(browser) == "Not sent yet"
        assert "nothing was sent" in browser.evaluate("document.querySelector('[role=alert]').innerText")
        kept = "[...document.querySelectorAll('main textarea')].map(item => item.value)"
        assert browser.evaluate(kept) == ["4", "a long answer"]
        with other_tab(browser, f"{server.url}/console/sign-in"):
            browser.type_into("#key", made["secret"])
            browser.press("main form button")
        browser.press("main form button")
        assert "signed in again" in browser.evaluate("document.querySelector('[role=alert]').innerText")
        assert browser.evaluate(kept) == ["4", "a long answer"]
        browser.press("main form button")
        done = server.call("GET", f"executions/{run_id}/wait?wait_seconds=10")
        assert (done["status"], done["output"]) == ("completed", {"amount": 4, "note": "a long answer"})
    finally:
        browser.command("Network.clearBrowserCookies")
        sign_in(browser, server, server.key)


def test_the_focus_is_where_it_was_after_something_moved(server: LiveServer, browser: Browser) -> None:
    run_id = start(server, "asks", what="focus")
    browser.open(f"{server.url}/console/runs/{run_id}")
    is_live(browser)
    browser.evaluate("document.querySelector('#buttons summary').click()")
    browser.evaluate("document.querySelector('#buttons a').focus()")
    focused = "document.activeElement.getAttribute('href')"
    href = browser.evaluate(focused)
    server.call("POST", f"executions/{run_id}/pause", {})
    shown(browser, "document.querySelector('#buttons button[value=resume]') !== null")
    shown(browser, f"{focused} === {json.dumps(href)}")
    shown(browser, "document.querySelector('#buttons details').open")  # and what was unfolded is
    browser.evaluate("document.querySelector('#buttons button[value=cancel]').focus()")
    server.call("POST", f"executions/{run_id}/cancel", {})
    shown(browser, "document.querySelector('#buttons button') === null")
    shown(browser, "document.activeElement.id === 'buttons'")  # the button is gone, its place is not
    assert "cancelled" in browser.evaluate("document.querySelector('#moved').textContent")


def test_keys_go_to_pages_search_and_are_explained(server: LiveServer, browser: Browser) -> None:
    browser.open(f"{server.url}/console")
    press_key(browser, "?")
    assert browser.evaluate("document.querySelector('#keys').open") is True
    press_key(browser, "Escape")
    shown(browser, "!document.querySelector('#keys').open")
    browser.events.clear()
    press_key(browser, "g", "r")
    browser.wait_for("Page.loadEventFired")
    assert heading(browser) == "Runs"
    press_key(browser, "/")
    assert browser.evaluate("document.activeElement.type") == "search"
    press_key(browser, "g", "r")  # these are letters of a search now
    assert browser.evaluate("document.activeElement.value") == "gr"


def test_a_theme_is_kept_in_the_browser(server: LiveServer, browser: Browser) -> None:
    browser.open(f"{server.url}/console/runs")
    choose = "const list = document.querySelector('#theme'); list.value = {}; list.dispatchEvent(new Event('change'))"
    browser.evaluate("{" + choose.format(json.dumps("dark")) + "}")
    browser.open(f"{server.url}/console")
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(19, 23, 29)"
    browser.evaluate("{" + choose.format(json.dumps("system")) + "}")


# --- runs -------------------------------------------------------------------------------------------------------------


def ended(server: LiveServer, workflow: str, **given: Any) -> str:
    run_id = start(server, workflow, **given)
    server.call("GET", f"executions/{run_id}/wait?wait_seconds=10")
    return run_id


def test_runs_that_are_new_are_counted_and_move_nothing(server: LiveServer, browser: Browser) -> None:
    here = start(server, "asks", what="first")
    browser.open(f"{server.url}/console/runs?workflow_id=asks")
    is_live(browser)
    first = "document.querySelector('tbody tr').id"
    assert browser.evaluate(first) == f"run-{here}"
    start(server, "asks", what="second")
    shown(browser, "document.querySelector('#fresh').innerText === '1 new: show them'")
    assert browser.evaluate(first) == f"run-{here}"
    server.call("POST", f"executions/{here}/cancel", {})
    shown(browser, "document.querySelector('tbody tr').innerText.includes('cancelled')")  # its row changes in place
    browser.press("#fresh a")
    assert browser.evaluate(first) != f"run-{here}"


def test_several_runs_are_cancelled_after_a_page_that_shows_which(server: LiveServer, browser: Browser) -> None:
    running, over = start(server, "asks", what="bulk"), ended(server, "breaks")
    browser.open(f"{server.url}/console/runs")
    for run_id in (running, over):
        browser.evaluate(f"document.getElementById('mark-{run_id}').click()")
    browser.press("button[value=cancel]")
    assert heading(browser) == "Cancel: 1 of 2 runs"
    assert server.call("GET", f"executions/{running}")["status"] == "waiting_input"  # nothing has happened yet
    browser.press("main form button.main")
    assert "done" in browser.evaluate("document.querySelector('tbody').innerText")
    assert server.call("GET", f"executions/{running}/wait?wait_seconds=10")["status"] == "cancelled"


def test_a_run_is_drawn_with_states_and_each_visit_can_be_looked_at_and_forked(
    server: LiveServer, browser: Browser
) -> None:
    run_id = ended(server, "breaks")
    browser.open(f"{server.url}/console/runs/{run_id}")
    labels = browser.evaluate("[...document.querySelectorAll('.penstock-drawing a')].map(a => a.ariaLabel)")
    states = {label.split(", ")[0]: label.split(", ")[-1] for label in labels}
    assert states == {"choose": "completed", "done": "pending", "stop": "failed"}
    assert browser.evaluate("document.querySelector('.penstock-drawing a').getAttribute('href')") == "#node-choose"
    assert browser.evaluate("document.getElementById('node-choose') !== null")
    assert browser.evaluate("document.querySelectorAll('.timeline .bar').length") == 2
    address = browser.evaluate("document.querySelector('.timeline a[aria-label^=stop]').getAttribute('href')")
    browser.open(f"{server.url}{address}")
    assert heading(browser) == "stop, visit 1"
    failure = browser.evaluate("document.querySelector('main h2 a').getAttribute('href')")
    browser.open(f"{server.url}{failure}")
    assert browser.evaluate("document.querySelector('.row:target') !== null")


def test_a_run_is_signalled_compared_and_exported(server: LiveServer, browser: Browser) -> None:
    document = {
        "penstock": "v1",
        "name": "listens",
        "nodes": [
            {"id": "hear", "type": "wait", "signal": "go"},
            {"id": "done", "type": "end", "output": "${ .hear }"},
        ],
    }
    server.call("POST", "workflows", {"document": document})
    run_id = start(server, "listens")
    wait_until(lambda: server.call("GET", f"executions/{run_id}")["status"] == "waiting_signal")
    browser.open(f"{server.url}/console/runs/{run_id}")
    browser.evaluate("document.querySelector('#signal-payload').closest('details').open = true")
    browser.type_into("#signal-payload", '{"number": 7}')
    browser.press("#buttons details button")
    assert server.call("GET", f"executions/{run_id}/wait?wait_seconds=10")["output"] == {"number": 7}
    other = ended(server, "breaks")
    browser.open(f"{server.url}/console/runs/{run_id}/compare?with={other}")
    assert "differs" in browser.evaluate("document.querySelector('tbody').innerText")
    text = browser.command(
        "Runtime.evaluate",
        expression=f"fetch('/console/runs/{run_id}/export').then(answer => answer.text())",
        awaitPromise=True,
        returnByValue=True,
    )["result"]["value"]
    exported = json.loads(text)
    assert exported["complete"] is True
    assert [item["seq"] for item in exported["history"]] == list(range(1, exported["execution"]["sequence"] + 1))


def test_what_somebody_writes_is_not_taken_away_when_the_run_moves(server: LiveServer, browser: Browser) -> None:
    run_id = start(server, "asks", what="slowly")
    browser.open(f"{server.url}/console/runs/{run_id}")
    is_live(browser)
    browser.type_into("[name='field.note']", "half a sen")
    server.call("POST", f"executions/{run_id}/cancel", {})
    shown(browser, "!document.querySelector('#outdated').hidden")
    assert browser.evaluate("document.querySelector('[name=\"field.note\"]').value") == "half a sen"
    shown(browser, "document.querySelector('h1').innerText.includes('cancelled')")
