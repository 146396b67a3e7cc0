"""How a followed run is shown: a live view on a terminal, line by line elsewhere, or not at all.

The live view is drawn in place, and only when something changed. It stops for a question; lines that are settled then
stay on the screen and are not drawn again.

Above it: the commands that watch. Below it: `rendering`, `follower`, `live_region`.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Protocol

from penstock.base.clock import Clock
from penstock.base.text import clean
from penstock.cli.run.follower import Follower
from penstock.cli.run.rendering import Line, RenderContext, header_of, lines_of, text_of
from penstock.cli.terminal.console import console_for
from penstock.cli.terminal.live_region import LiveRegion
from penstock.cli.terminal.styled_text import Text
from penstock.cli.terminal.traces import trace_text
from penstock.engine.visits import RunVisits
from penstock.runtime.simulation.tracing import trace_lines

__all__ = ["Display", "LiveDisplay", "LogToDisplay", "PlainDisplay", "SilentDisplay", "display_for"]

# Lines of a finished run that are left on the screen; `penstock runs history` has them all.
_FINAL_LINES_MAX = 200
# Kept free below the view: the cursor, and a line for whatever the shell prints.
_FREE_LINES = 2
_LINES_MIN = 4


class Display(Protocol):
    """Shows a run."""

    def show(self, follower: Follower) -> None:
        """Show the current state, and what happened since the last call."""

    def say(self, text: str | Text) -> None:
        """Print something beside the view."""

    def settle(self, follower: Follower) -> None:
        """Leave the current state on the screen and stop drawing, until the next `show`."""


class SilentDisplay:
    """Shows nothing: for programs, and for users who want only the end."""

    def show(self, follower: Follower) -> None:
        """Not shown."""
        follower.take_unseen()

    def say(self, text: str | Text) -> None:
        """Not said."""

    def settle(self, follower: Follower) -> None:
        """Nothing is drawn."""


class PlainDisplay:
    """A line for everything that happens: for files, pipes and simple terminals."""

    def __init__(self) -> None:
        self._console = console_for(sys.stdout)
        self._header_of: str | None = None
        self._runs: dict[str, RunVisits] = {}

    def show(self, follower: Follower) -> None:
        """Print what is new."""
        root = follower.view
        if self._header_of != root.run_id:
            self._header_of = root.run_id
            named = clean(f"{root.workflow.name} {root.workflow.version}")
            self._console.print(f"● {named}  run {clean(root.run_id)}")
        width = max((len(node) for node in root.workflow.nodes), default=0)
        depth = root.run_id.count(":sub:")
        for line in trace_lines(follower.take_unseen(), follower.workflows(), self._runs):
            self._console.print(trace_text(line, root.visits.begun_at, width, depth_from=depth))

    def say(self, text: str | Text) -> None:
        """Print a line."""
        self._console.print(text)

    def settle(self, follower: Follower) -> None:
        """Everything is printed already."""


class LiveDisplay:
    """The live view."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._console = console_for(sys.stdout)
        self._region: LiveRegion | None = None
        self._drawn = ""
        self._printed: set[str] = set()

    def show(self, follower: Follower) -> None:
        """Draw the run if it looks different now."""
        follower.take_unseen()
        height = max(self._console.size[1] - _FREE_LINES - 1, _LINES_MIN)
        texts, _ = self._texts(follower, height)
        # A window of another size needs another drawing of the same lines.
        drawn = "\n".join((str(self._console.size), *(text.plain for text in texts)))
        if self._region is None:
            self._region = LiveRegion(self._console)
            self._region.start()
        elif drawn == self._drawn:
            return
        self._drawn = drawn
        self._region.draw(texts)

    def say(self, text: str | Text) -> None:
        """Print something above the view."""
        if self._region is None:
            self._console.print(text)
        else:
            self._region.print_above(text)

    def settle(self, follower: Follower) -> None:
        """Print the current state; lines that will not change are not drawn again."""
        if self._region is not None:
            self._region.stop()
            self._region = None
        texts, lines = self._texts(follower, _FINAL_LINES_MAX)
        for text in texts:
            self._console.print(text, cut=True)
        self._printed.update(line.key for line in lines if line.settled)

    def _texts(self, follower: Follower, lines_max: int) -> tuple[list[Text], list[Line]]:
        view = follower.view
        sheet = RenderContext.for_workflow(view.workflow, now=self._clock.now_ms(), children=follower.children)
        lines = lines_of(view, sheet, lines_max=lines_max, without=self._printed)
        return [header_of(view, sheet), *(text_of(line, sheet) for line in lines)], lines


class LogToDisplay(logging.Handler):
    """Prints log messages beside the view, so that they do not tear it apart."""

    def __init__(self, display: Display) -> None:
        super().__init__(logging.WARNING)
        self._display = display
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Print one message."""
        for line in self.format(record).splitlines():
            self._display.say(Text(_clean_line(line), style="dim"))


def _clean_line(line: str) -> str:
    """A line without control characters, its indentation kept."""
    kept = line.lstrip(" ")
    return " " * (len(line) - len(kept)) + clean(kept)


def display_for(clock: Clock, *, silent: bool) -> Display:
    """The display that fits where the output goes."""
    if silent:
        return SilentDisplay()
    if sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        return LiveDisplay(clock)
    return PlainDisplay()
