"""Takes the pictures of the README and of the guide for approvers, with a real server and a real browser.

`scripts/screenshots` runs it. It is no part of `scripts/docs`: pictures differ from machine to machine.
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.live.console.visiting import sign_in
from tests.live.mcp.browsers import Browser, browsing
from tests.live.rest.servers import LiveServer, serving

__all__ = ["main"]

_IMAGES = Path(__file__).parents[1] / "images"
_WIDTH = 860
_TOUR_WIDTH = 1_160
# The scopes of somebody who decides, and does nothing else.
_APPROVER = ("draft:read", "draft:approve", "execution:read", "execution:write", "approve:approvers")
REFUND: dict[str, Any] = {
    "penstock": "v1",
    "name": "refund_order",
    "title": "Refund an order",
    "description": "Pays the money of an order back to the customer.",
    "input": {
        "type": "object",
        "required": ["order", "amount"],
        "properties": {"order": {"type": "string"}, "amount": {"type": "number"}, "reason": {"type": "string"}},
    },
    "governance": {"risk": "high"},
    "expose": {"tool": True},
    "nodes": [{"id": "done", "type": "end", "output": {"refunded": "${ .input.amount }"}}],
}

CLAIM: dict[str, Any] = {
    "penstock": "v1",
    "name": "settle_claim",
    "title": "Settle a claim",
    "description": "Claims over 100 wait for a person.",
    "state": {"paid": {}},
    "input": {
        "type": "object",
        "required": ["order", "amount"],
        "properties": {"order": {"type": "string"}, "amount": {"type": "number"}},
    },
    "nodes": [
        {
            "id": "policy",
            "type": "switch",
            "cases": [
                {"when": ".input.amount < 0", "next": "refuse"},
                {"when": ".input.amount > 100", "next": "ask"},
            ],
            "default": "pay",
        },
        {
            "id": "ask",
            "type": "interrupt",
            "message": "Pay ${ .input.amount } for order ${ .input.order }?",
            "answer": {"type": "object", "required": ["approve"], "properties": {"approve": {"type": "boolean"}}},
            "next": {"when": ".ask.approve", "then": "pay", "else": "declined"},
        },
        {"id": "pay", "type": "set_state", "set": {"paid": "${ .input.amount }"}, "next": "done"},
        {"id": "refuse", "type": "fail", "code": "AMOUNT_NEGATIVE", "message": "An amount cannot be negative."},
        {"id": "declined", "type": "end", "output": {"paid": 0}},
        {"id": "done", "type": "end", "output": {"paid": "${ .state.paid }"}},
    ],
}


def main(folder: Path = _IMAGES) -> None:
    """Take every picture."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as place, TemporaryDirectory() as profile, serving(Path(place)) as server:
        server.call("POST", "workflows", {"document": REFUND})
        key = _key(server, "Ada Park", "person", *_APPROVER)
        drafts = [_asked(server, order, amount) for order, amount in (("A-1041", 35.5), ("A-1042", 180))]
        with browsing(Path(profile), whole=True) as browser:
            _take_all(server, browser, key, drafts, folder)
            _take_tour(server, browser, folder)


def _take_all(server: LiveServer, browser: Browser, key: str, drafts: list[str], folder: Path) -> None:
    features = [{"name": "prefers-color-scheme", "value": "light"}]
    browser.command("Emulation.setEmulatedMedia", features=features)
    browser.open(f"{server.url}/console/approvals")
    _take(browser, folder / "approving-sign-in.webp")
    sign_in(browser, server, key, "/console/approvals")
    _take(browser, folder / "approving-queue.webp")
    browser.open(f"{server.url}/console/approvals/{drafts[-1]}")
    _take(browser, folder / "approving-call.webp")
    server.call("PUT", "workflows/refund_order", {"document": {**REFUND, "description": "Pays money back."}})
    browser.open(f"{server.url}/console/approvals/{drafts[0]}")
    _take(browser, folder / "approving-changed.webp", most=330)
    server.call("PUT", "workflows/refund_order", {"document": REFUND})
    browser.open(f"{server.url}/console/approvals/{drafts[-1]}")
    browser.type_into("#note", "Checked with the shop: the parcel came back.")
    browser.press("button[value=approve]")
    _take(browser, folder / "approving-done.webp")


def _take_tour(server: LiveServer, browser: Browser, folder: Path) -> None:
    server.call("POST", "workflows", {"document": CLAIM})
    runs = [
        _settled(server, order, amount) for order, amount in (("B-17", 20), ("B-18", -5), ("B-19", 64), ("B-20", 240))
    ]
    browser.command("Network.clearBrowserCookies")
    sign_in(browser, server, server.key)
    _take(browser, folder / "console-home.webp", most=900, width=_TOUR_WIDTH)
    browser.open(f"{server.url}/console/runs/{runs[-1]}")
    _take(browser, folder / "console-run.webp", width=_TOUR_WIDTH)
    browser.open(f"{server.url}/console/workflows/settle_claim/start")
    _take(browser, folder / "console-start.webp", most=800, width=_TOUR_WIDTH)
    browser.open(f"{server.url}/console/audit")
    _take(browser, folder / "console-audit.webp", most=700, width=_TOUR_WIDTH)


def _settled(server: LiveServer, order: str, amount: float) -> str:
    """Return a run that has ended, or waits for an answer."""
    given = {"input": {"order": order, "amount": amount}}
    run_id: str = server.call("POST", "workflows/settle_claim/executions", given)["execution_id"]
    server.call("GET", f"executions/{run_id}/wait")
    return run_id


def _key(server: LiveServer, name: str, kind: str, *scopes: str) -> str:
    made = server.call("POST", "keys", {"name": name, "kind": kind, "scopes": [*scopes]})
    secret: str = made["secret"]
    return secret


def _asked(server: LiveServer, order: str, amount: float) -> str:
    """Return a call of an agent that waits."""
    agent = _key(server, "support-assistant", "agent", "*")
    given = {"input": {"order": order, "amount": amount, "reason": "The parcel came back."}}
    sent = {"Penstock-Justification": "The customer sent it back."}
    answer = server.request("POST", "workflows/refund_order/executions", given, key=agent, headers=sent).json()
    draft_id: str = answer["held"]["draft_id"]
    return draft_id


def _take(browser: Browser, path: Path, most: int = 1_400, width: int = _WIDTH) -> None:
    browser.command("Emulation.setScrollbarsHidden", hidden=True)
    browser.command("Emulation.setDeviceMetricsOverride", width=width, height=400, deviceScaleFactor=1, mobile=False)
    height = min(int(browser.evaluate("document.documentElement.scrollHeight")), most)
    browser.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
    taken = browser.command("Page.captureScreenshot", format="webp", quality=70)["data"]
    path.write_bytes(base64.b64decode(taken))
    print(f"{path.name}: {path.stat().st_size // 1024} kB")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
