"""The page of a run: its trace, what its activities report, its export; and nothing hostile in it lives.

Thorough runs (`tests.thorough`) take pictures too, to look at; nothing is asserted about them.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import sqlite3
import time
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from penstock.base import limits
from tests.live.console.visiting import HOSTILE, blocked, cookie_of, get
from tests.live.mcp.browsers import Browser
from tests.live.rest.servers import LiveServer
from tests.thorough import IS_THOROUGH
from tests.waiting import wait_until

LINK = "[see](javascript:document.title='owned') javascript:alert(1) ![x](//evil.example/x.png) **bold**"
INVISIBLE = "a\u200bb\u2060c\u00add\ufeffe\U000e0041f\u2066g\u2069h\u202ei"
NASTY = f"{HOSTILE} {LINK} {INVISIBLE}"
LONG = f"{NASTY} {'long ' * 200_000}"
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
PAGE_KB_GZIP_MAX = 60
NODES = 10_000  # far more than are drawn or listed
REPORTS: dict[str, Any] = {
    "penstock": "v1",
    "name": "reports",
    "nodes": [
        {
            "id": "work",
            "type": "step",
            "handler": "working:report",
            "with": {"gate": "${ .input.gate }", "said": "${ .input.said }"},
        },
        {"id": "done", "type": "end"},
    ],
}
TELLS: dict[str, Any] = {
    "penstock": "v1",
    "name": "tells",
    "nodes": [
        {
            "id": "tell",
            "type": "tool_call",
            "server": "chatty",
            "tool": "tell",
            "arguments": {"message": "${ .input.said }", "level": "warning"},
        },
        {"id": "done", "type": "end"},
    ],
}
LOOPS: dict[str, Any] = {
    "penstock": "v1",
    "name": "loops",
    "state": {"type": "object", "properties": {"number": {"type": "integer"}, "text": {"type": "string"}}},
    "nodes": [
        {"id": "begin", "type": "set_state", "set": {"number": 0, "text": "${ .input.text }"}},
        {"id": "add", "type": "set_state", "set": {"number": "${ .state.number + 1 }"}},
        {
            "id": "enough",
            "type": "switch",
            "cases": [
                {"when": ".state.number < (.input.rounds // 200)", "next": "add"},
                {"when": ".input.ok == true", "next": "done"},
            ],
            "default": "stop",
        },
        {"id": "done", "type": "end"},
        {"id": "stop", "type": "fail", "code": "BROKEN", "message": "${ .input.text }"},
    ],
}
BROAD: dict[str, Any] = {
    "penstock": "v1",
    "name": "broad",
    "nodes": [
        {
            "id": "choose",
            "type": "switch",
            "cases": [{"when": f".input.way == {number}", "next": f"way{number}"} for number in range(8)],
            "default": "done",
        },
        *({"id": f"way{number}", "type": "wait", "signal": "go", "next": "done"} for number in range(8)),
        {"id": "done", "type": "end"},
    ],
}
WIDE: dict[str, Any] = {
    "penstock": "v1",
    "name": "wide",
    "state": {"type": "object", "properties": {"n": {"type": "integer"}}},
    "title": NASTY[:150],
    "description": NASTY,
    "nodes": [
        {"id": "hear", "type": "wait", "signal": "go", "title": NASTY[:150]},
        *({"id": f"n{number:05}", "type": "set_state", "set": {"n": 1}} for number in range(NODES - 2)),
        {"id": "done", "type": "end"},
    ],
}


@pytest.fixture(scope="module")
def cookie(server: LiveServer) -> str:
    for document in (REPORTS, TELLS, LOOPS, BROAD, WIDE):
        server.call("POST", "workflows", {"document": document})
    return cookie_of(server, server.key)


def start(server: LiveServer, workflow: str, given: Any, **more: Any) -> str:
    run_id: str = server.call("POST", f"workflows/{workflow}/executions", {"input": given, **more})["execution_id"]
    return run_id


def ended(server: LiveServer, workflow: str, given: Any) -> str:
    run_id = start(server, workflow, given)
    wait_until(lambda: server.call("GET", f"executions/{run_id}")["ended_at"] is not None)
    return run_id


def waiting(server: LiveServer, workflow: str, **more: Any) -> str:
    run_id = start(server, workflow, {}, **more)
    wait_until(lambda: server.call("GET", f"executions/{run_id}")["status"] == "waiting_signal")
    return run_id


def shown(browser: Browser, condition: str) -> None:
    try:
        wait_until(lambda: browser.evaluate(f"Boolean({condition})"))
    except TimeoutError as error:
        error.add_note(browser.evaluate("document.body.innerText"))
        raise


# --- trace ------------------------------------------------------------------------------------------------------------


def test_a_run_shows_its_trace_and_where_to_look_at_it(server: LiveServer, cookie: str) -> None:
    run_id = waiting(server, "wide", labels={"team": "red"})
    assert b"<dt>Trace</dt>" not in get(server, f"/console/runs/{run_id}", cookie).body
    file = sqlite3.connect(server.folder / "penstock.db", timeout=60)
    with file:
        for parent in ("<script>", f"00-{TRACE_ID}-b7ad6b7169203331-01"):
            labels = json.dumps({"team": "red", "penstock.trace": parent})
            file.execute("UPDATE runs SET labels = ? WHERE run_id = ?", (labels, run_id))
    file.close()
    server.call("POST", f"executions/{run_id}/cancel", {})  # what was seen before is not seen again
    page = get(server, f"/console/runs/{run_id}", cookie).body.decode()
    assert f'<code class="whole">{TRACE_ID}</code>' in page
    assert f'href="https://traces.example/trace/{TRACE_ID}?from=penstock" rel="noreferrer noopener"' in page
    assert "<dt>team</dt>" in page
    assert ">owner</a></dd>" in page  # the name of the key that started it
    assert "<dt>penstock.trace</dt>" not in page


# --- windows of nodes -------------------------------------------------------------------------------------------------


def test_every_node_of_a_large_workflow_is_listed_in_a_window_with_an_address(server: LiveServer, cookie: str) -> None:
    version = server.call("GET", "workflows/wide")["hash"]
    listed: list[str] = []
    place = f"/console/workflows/wide?hash={version}&nodes_from=9600"
    while place:
        page = get(server, unescape(place), cookie).body.decode()
        listed += re.findall(r'<li id="node-([^"]+)"', page)
        following = re.search(r'href="([^"]+)#nodes" rel="next"', page)
        place = following[1] if following else ""
    assert listed == [node["id"] for node in WIDE["nodes"][9600:]]
    first = get(server, "/console/workflows/wide", cookie).body.decode()
    assert "Nodes 1 to 200 of 10000." in first
    assert 'href="/console/workflows/wide?nodes_from=200#node-n00199"' in first  # the way on from the last one
    assert 'rel="prev"' not in first
    assert (
        "The workflow has only 10000 nodes."
        in get(server, "/console/workflows/wide?nodes_from=20000", cookie).body.decode()
    )
    assert "Nodes 1 to 200 of 10000." in get(server, "/console/workflows/wide?nodes_from=x", cookie).body.decode()


# --- drawings on a phone ----------------------------------------------------------------------------------------------

IN_SIGHT = """(() => {
  const frame = document.querySelector(".picture").getBoundingClientRect();
  const box = document.querySelector("%s").getBoundingClientRect();
  return box.width > 0 && box.left >= frame.left && box.right <= frame.right && box.bottom <= frame.bottom;
})()"""


def test_a_drawing_that_is_wider_than_a_phone_begins_where_something_happens(
    server: LiveServer, browser: Browser, cookie: str
) -> None:
    assert cookie  # the workflows are stored
    run_id = start(server, "broad", {"way": 7})
    wait_until(lambda: server.call("GET", f"executions/{run_id}")["status"] == "waiting_signal")
    done = ended(server, "broad", {"way": 99})
    browser.command("Emulation.setDeviceMetricsOverride", width=375, height=800, deviceScaleFactor=1, mobile=False)
    try:
        browser.open(f"{server.url}/console/runs/{run_id}")
        shown(browser, "document.querySelector('.picture').scrollLeft > 0")
        assert browser.evaluate(IN_SIGHT % ".figure.state-waiting")
        # What the visitor looks at stays when the part is read again.
        browser.evaluate("document.querySelector('.picture').scrollLeft = 123")
        server.call("POST", f"executions/{run_id}/pause", {})
        shown(browser, "document.querySelector('h1').textContent.includes('paused')")
        assert browser.evaluate("document.querySelector('.picture').scrollLeft") == 123
        for page in (f"runs/{done}", "workflows/broad"):
            browser.open(f"{server.url}/console/{page}")
            shown(browser, "document.querySelector('.picture').scrollLeft > 0")
            assert browser.evaluate(IN_SIGHT % ".dot")
        browser.command("Emulation.setScriptExecutionDisabled", value=True)
        browser.open(f"{server.url}/console/runs/{run_id}")
        assert browser.evaluate(IN_SIGHT % ".figure.state-waiting")
        picture = "document.querySelector('.picture')"
        assert browser.evaluate(f"{picture}.scrollWidth <= {picture}.clientWidth")
    finally:
        browser.command("Emulation.setScriptExecutionDisabled", value=False)
        browser.command("Emulation.clearDeviceMetricsOverride")


# --- reports ----------------------------------------------------------------------------------------------------------


def test_what_an_activity_reports_is_shown_while_it_works_and_afterwards(
    server: LiveServer, browser: Browser, cookie: str, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    run_id = start(server, "reports", {"gate": str(gate), "said": NASTY})
    browser.open(f"{server.url}/console/runs/{run_id}")
    shown(browser, "document.querySelector('#progress progress')?.value === 0.25")
    with gate.open("w", encoding="utf-8") as opened:
        opened.write("more news\n")
        opened.flush()
        # No record is written meanwhile: the part is read again by itself.
        shown(browser, "document.querySelector('#progress').textContent.includes('heard more news')")
        assert browser.evaluate("document.querySelector('#progress progress').value") == 0.75
        assert browser.evaluate("document.querySelector('#progress').dataset.liveEvery") == "2000"
    shown(browser, "!document.querySelector('#progress').dataset.liveEvery")
    text = browser.evaluate("document.querySelector('#progress').textContent")
    assert "not stored" in text
    assert "looking" in text
    assert "\u202e" not in text
    assert browser.evaluate("document.title") not in ("owned", "1")
    assert [item["entry"]["text"] for item in blocked(browser)] == []
    told = server.call("GET", f"executions/{run_id}/progress")
    assert [(item["node_id"], item["value"], item["under_way"]) for item in told["attempts"]] == [("work", 0.75, False)]
    assert [item["level"] for item in told["lines"]] == ["warning", "info"]
    other = ended(server, "loops", {"text": "short"})
    assert "No activity has reported anything" in get(server, f"/console/runs/{other}/progress", cookie).body.decode()
    assert get(server, "/console/runs/r_unknown/progress", cookie).status == 404


def test_log_messages_of_a_server_are_shown_as_its_words_and_do_nothing(
    server: LiveServer, browser: Browser, cookie: str
) -> None:
    run_id = ended(server, "tells", {"said": NASTY})
    told = server.call("GET", f"executions/{run_id}/progress")
    assert [(item["node_id"], item["attempt"], item["level"], item["server"]) for item in told["lines"]] == [
        ("tell", 1, "warning", "chatty")
    ]
    assert told["lines"][0]["message"].startswith("shop: ")
    assert told["untrusted"] is told["lines"][0]["untrusted"] is True
    browser.open(f"{server.url}/console/runs/{run_id}")
    text = browser.evaluate("document.querySelector('#progress').textContent")
    assert "sent by chatty" in text
    assert "read messages as data, not as instructions" in text
    assert "javascript:alert(1)" in text
    assert "\u202e" not in text
    assert browser.evaluate("document.querySelectorAll('#progress a, #progress img, #progress script').length") == 0
    assert browser.evaluate("document.title") not in ("owned", "1")
    assert [item["entry"]["text"] for item in blocked(browser)] == []


# --- export -----------------------------------------------------------------------------------------------------------


def test_an_export_has_the_whole_history_in_pages_of_any_size(server: LiveServer, cookie: str) -> None:
    run_id = ended(server, "loops", {"text": "x" * 100_000})
    answer = get(server, f"/console/runs/{run_id}/export", cookie)
    assert answer.headers["content-disposition"] == 'attachment; filename="run.json"'
    assert "content-length" not in answer.headers
    exported = answer.json()
    last = exported["execution"]["sequence"]
    assert last > 2 * limits.PAGE_LIMIT_MAX
    assert exported["complete"] is True
    assert [item["seq"] for item in exported["history"]] == list(range(1, last + 1))
    rest = get(server, f"/console/runs/{run_id}/export?after={last - 3}", cookie).json()
    assert [item["seq"] for item in rest["history"]] == [last - 2, last - 1, last]
    assert get(server, f"/console/runs/{run_id}/export?after=x", cookie).status == 404
    assert get(server, "/console/runs/r_unknown/export", cookie).status == 404
    head = server.request("HEAD", f"/console/runs/{run_id}/export", key="", headers={"Cookie": cookie})
    assert (head.status, head.body) == (200, b"")


# --- hostile and large contents ---------------------------------------------------------------------------------------


def pages(server: LiveServer) -> list[str]:
    long, nasty = (ended(server, "loops", {"text": text, "rounds": 3}) for text in (LONG, NASTY))
    wide = waiting(server, "wide", labels={"team": NASTY[:200]})
    server.call("POST", f"executions/{wide}/pause", {"reason": NASTY[:400]})
    cancelled = waiting(server, "wide")
    server.call("POST", f"executions/{cancelled}/cancel", {"reason": NASTY[:400]})
    asked = start(server, "asks", {"what": LONG})
    made = server.call("POST", "keys", {"name": NASTY[:100], "kind": "agent", "scopes": ["workflow:run"]})
    draft = server.request(
        "POST", "workflows/erase_customer/executions", {"input": {"customer": LONG}}, key=made["secret"]
    ).json()["held"]["draft_id"]
    server.call("POST", "agents", {"id": "nasty", "description": NASTY, "instructions": NASTY})
    return [
        f"/runs/{long}",
        f"/runs/{long}?record=20",
        f"/runs/{long}/visit?node=begin&visit=1&from=2",
        f"/runs/{long}/compare?with={nasty}",
        f"/runs/{nasty}?at=2999-01-01T00:00:00Z",
        f"/runs/{wide}",
        f"/runs/{wide}?nodes_from=9990",
        f"/runs/{wide}/compare?with={cancelled}",
        f"/runs/{cancelled}",
        f"/runs/{asked}",
        f"/runs?label={quote('team=' + NASTY[:200])}",
        f"/runs?started_by={quote(NASTY[:200])}&text={quote(NASTY[:200])}",
        "/workflows/wide",
        "/workflows/wide?nodes_from=9990",
        "/workflows/wide/start",
        "/workflows/wide/versions",
        "/workflows",
        f"/approvals/{draft}",
        "/approvals",
        "/agents/nasty",
        "/keys",
        "/audit",
        f"/audit?principal={quote(NASTY[:100])}&operation={quote(NASTY[:100])}",
    ]


def test_nothing_hostile_lives_and_pages_stay_small_whatever_is_in_them(
    server: LiveServer, browser: Browser, cookie: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pictures = Path(tmp_path_factory.getbasetemp()) / "console-runs"
    pictures.mkdir(exist_ok=True)
    problems: list[str] = []
    for number, page in enumerate(pages(server)):
        began = time.monotonic()
        answer = get(server, f"/console{page}", cookie)
        kilobytes = len(gzip.compress(answer.body, 6)) / 1000
        if answer.status != 200 or kilobytes > PAGE_KB_GZIP_MAX or time.monotonic() - began > 30:
            problems.append(f"{page}: {answer.status}, {kilobytes} kB, {time.monotonic() - began} s")
        width, scheme = ((1280, "light"), (375, "dark"))[number % 2]
        browser.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        browser.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        browser.open(f"{server.url}/console{page}")
        problems += [f"{page}: {item['entry']['text']}" for item in blocked(browser)]
        problems += [f"{page}: {problem}" for problem in _wrong(browser)]
        if IS_THOROUGH:
            taken = browser.command("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
            (pictures / f"{number:02}-{width}-{scheme}.png").write_bytes(base64.b64decode(taken))
    browser.command("Emulation.clearDeviceMetricsOverride")
    assert problems == [], "\n".join(problems)


def _wrong(browser: Browser) -> list[str]:
    """What is wrong with the page that the browser shows."""
    found: list[str] = []
    if browser.evaluate("document.scrollingElement.scrollWidth > innerWidth"):
        found.append("wider than the screen")
    if browser.evaluate("document.title") in ("owned", "1") or browser.evaluate("document.images.length"):
        found.append("hostile markup is alive")
    if browser.evaluate("document.querySelectorAll('a[href^=\"javascript:\" i], style, [style]').length"):
        found.append("a link that runs, or a style in the page")
    if browser.evaluate("document.querySelectorAll('script:not([nonce]), iframe, object, embed').length"):
        found.append("a script, or a frame, that is not ours")
    text = browser.evaluate("document.body.textContent")
    for character in INVISIBLE[1::2]:
        if character in text:
            found.append(f"U+{ord(character):04X} can be read by nobody")
    return found
