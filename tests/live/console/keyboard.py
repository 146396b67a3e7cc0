"""A person who uses the console with the keyboard alone. Above it: the tests of journeys. Below it: the browser."""

from __future__ import annotations

import json

from tests.live.console.visiting import only_tab
from tests.live.mcp.browsers import Browser

__all__ = ["Keyboard"]

_TABS_MAX = 400
_CODES = {"Enter": (13, "\r"), " ": (32, " "), "Escape": (27, "")}


class Keyboard:
    """Keys, and what they lead to."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser

    def open(self, url: str) -> None:
        """Show a page, and leave what repeats on every page with the first link of it."""
        self.browser.open(url)
        self._to_content()

    def _to_content(self) -> None:
        only_tab(self.browser)
        skipped = self.browser.evaluate("document.activeElement.getAttribute('href')")
        assert skipped == "#content", f"the first tab leads to {skipped}"
        self.press("Enter")

    def to(self, selector: str, *, backwards: bool = False) -> None:
        """Press the tab key until the focus is there, where it can be seen."""
        here = f"document.activeElement.matches({json.dumps(selector)})"
        for _ in range(_TABS_MAX):
            if self.browser.evaluate(here):
                break
            only_tab(self.browser, backwards=backwards)
        assert self.browser.evaluate(here), f"no tab leads to {selector}"
        assert self.browser.evaluate("document.activeElement.matches(':focus-visible')"), selector

    def write(self, selector: str, text: str) -> None:
        """Go to a field and write into it."""
        self.to(selector)
        self.browser.command("Input.insertText", text=text)

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            code, text = _CODES[key] if key in _CODES else (ord(key.upper()), key)
            sent = {"key": key, "windowsVirtualKeyCode": code}
            self.browser.command("Input.dispatchKeyEvent", type="keyDown", **sent, **({"text": text} if text else {}))
            self.browser.command("Input.dispatchKeyEvent", type="keyUp", **sent)

    def follow(self, selector: str = "") -> None:
        """Press Enter on a link or button, and wait for the page that it leads to."""
        if selector:
            self.to(selector)
        self.go("Enter")
        self._to_content()

    def go(self, *keys: str) -> None:
        """Press keys that lead to another page, and wait for it."""
        self.browser.events.clear()
        self.press(*keys)
        self.browser.wait_for("Page.loadEventFired")
