"""`penstock runs top`: live runs, queues, rates and questions, with the keys of the console.

Above it: `main`. Below it: `snapshot`, `screen`, `keys`.
"""

from __future__ import annotations

import sys
import time
from typing import Annotated

import msgspec

from penstock.base.errors import PenstockError
from penstock.cli.declaration import Option
from penstock.cli.runs.client import RunClient, RunOptions, exit_with_runs
from penstock.cli.terminal.console import console_for
from penstock.cli.terminal.exits import print_json
from penstock.cli.terminal.live_region import LiveRegion
from penstock.cli.top.keys import read_key, single_keys
from penstock.cli.top.screen import PLACES, View, rates, rendered
from penstock.cli.top.snapshot import take_snapshot

__all__ = ["top_command"]

_ENTER = ("\r", "\n")
_ERASE = ("\x7f", "\b")
_SEARCH_CHARACTERS_MAX = 100


def top_command(
    *,
    interval: Annotated[
        float, Option("--interval", metavar="SECONDS", min=0.2, max=60, help="How often to look.")
    ] = 2.0,
    text: Annotated[
        str | None, Option("--text", metavar="TEXT", help="Only runs with these words in id, workflow or labels.")
    ] = None,
    options: RunOptions,
) -> None:
    """Show live runs, queues, rates and questions, until you press q.

    The keys are those of the console: ? shows them, / searches, g and a letter go to a place, j and k move. The
    line `next:` has the command for the selected row. With --json, one snapshot is printed: runs that
    have not ended (at most 200), how many have each status, the newest failures, calls that wait for approval, and
    counters.
    """

    def work(client: RunClient) -> int:
        if options.as_json:
            print_json(msgspec.to_builtins(take_snapshot(client, _now_ms(), text)))
            return 0
        with single_keys():
            return _Top(client, View(search=text or "", where=tuple(options.target_arguments())), interval).run()

    exit_with_runs(options, "execution.list", work)


class _Top:
    """The live view."""

    def __init__(self, client: RunClient, view: View, interval: float) -> None:
        self._client = client
        self._view = view
        self._interval = interval
        self._shown = take_snapshot(client, _now_ms(), view.search or None)
        self._per_second: dict[str, float] | None = None

    def run(self) -> int:
        """Show and look until the user leaves."""
        console = console_for(sys.stdout)
        due = time.monotonic() + self._interval
        with LiveRegion(console, own_screen=True) as region:
            while True:
                self._view.columns, self._view.lines = console.size
                region.draw(rendered(self._view, self._shown, self._per_second))
                key = read_key(max(due - time.monotonic(), 0))
                if key == "q" and not self._view.typing and not self._view.help:
                    return 0
                if key is None or self._pressed(key):
                    self._look()
                    due = time.monotonic() + self._interval

    def _look(self) -> None:
        try:
            now = take_snapshot(self._client, _now_ms(), self._view.search or None)
        except PenstockError as error:
            self._view.problem = error.message
            return
        self._view.problem = None
        self._per_second = rates(self._shown, now)
        self._shown = now

    def _pressed(self, key: str) -> bool:
        """Do what a key says; return whether to look again at once."""
        view = self._view
        if view.typing:
            return self._typed(key)
        if view.help:
            view.help = False
            return False
        second, view.waits_for_letter = view.waits_for_letter, False
        if second and key in PLACES:
            view.place, view.selected = PLACES[key], 0
        elif key == "g":
            view.waits_for_letter = True
        elif key == "?":
            view.help = True
        elif key == "/":
            view.typing = True
        elif key in ("j", "k"):
            view.selected += 1 if key == "j" else -1
        return False

    def _typed(self, key: str) -> bool:
        view = self._view
        if key in _ENTER:
            view.typing, view.selected = False, 0
            return True
        if key == "\x1b":
            view.typing, view.search = False, ""
            return True
        if key in _ERASE:
            view.search = view.search[:-1]
        elif key.isprintable() and len(view.search) < _SEARCH_CHARACTERS_MAX:
            view.search += key
        return False


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
