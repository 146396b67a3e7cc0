"""A region that is drawn in place: what is on the screen after it was drawn, printed above, resized and removed."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.terminal.cells import split_clusters
from penstock.cli.terminal.console import Console
from penstock.cli.terminal.live_region import LiveRegion
from penstock.cli.terminal.styled_text import Text

WIDTH, HEIGHT = 12, 200
CODES = re.compile(r"\x1b\[(\??[0-9;]*)([A-Za-z])")
LINES = st.lists(st.text("ab 日", max_size=20), max_size=6)


class Terminal(io.StringIO):
    """Draws what is written to it, as far as the codes of a region go."""

    def __init__(self, columns: int = WIDTH) -> None:
        super().__init__()
        self.columns = columns
        self.rows: list[list[str]] = [[]]
        self.main: list[list[str]] | None = None
        self.row = self.column = 0
        self.has_cursor = True

    def isatty(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        at = 0
        for code in CODES.finditer(text):
            self._draw(text[at : code.start()])
            self._obey(code[1], code[2])
            at = code.end()
        self._draw(text[at:])
        return super().write(text)

    def screen(self) -> list[str]:
        lines = ["".join(row).rstrip() for row in self.rows]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def _draw(self, text: str) -> None:
        assert "\x1b" not in text
        for cluster, cells in split_clusters(text):
            if cluster == "\r":
                self.column = 0
            elif cluster == "\n":
                # A terminal in its usual mode returns to the first column too.
                self._go_to(self.row + 1, 0)
            else:
                if self.column + cells > self.columns:
                    self._go_to(self.row + 1, 0)
                row = self.rows[self.row]
                row += [" "] * (self.column - len(row))
                row[self.column : self.column + cells] = [cluster, *[""] * (cells - 1)]
                self.column += cells

    def _go_to(self, row: int, column: int) -> None:
        self.row, self.column = row, column
        self.rows += [[] for _ in range(row + 1 - len(self.rows))]

    def _obey(self, arguments: str, verb: str) -> None:
        match verb, arguments:
            case "A", count:
                assert int(count) <= self.row
                self.row -= int(count)
            case "H", "":
                self._go_to(0, 0)
            case "J", "":
                # After a line that fills the window, the cursor is still on its last character.
                at = min(self.column, self.columns - 1)
                del self.rows[self.row][at:], self.rows[self.row + 1 :]
            case (("h" | "l"), "?25"):
                self.has_cursor = verb == "h"
            case "h", "?1049":
                self.main, self.rows = self.rows, [[]]
                self._go_to(0, 0)
            case "l", "?1049":
                assert self.main is not None
                self.rows = self.main
                self._go_to(len(self.rows) - 1, len(self.rows[-1]))
            case _:
                assert verb == "m", (arguments, verb)


@pytest.fixture(autouse=True)
def no_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("LINES", str(HEIGHT))
    monkeypatch.setenv("TERM", "xterm")


def texts(lines: Sequence[str]) -> list[Text]:
    return [Text(line, style="bold") for line in lines]


def without_end(lines: Sequence[str]) -> list[str]:
    """Return what a screen shows of lines: nothing of spaces at their ends, or of empty ones at the end."""
    shown = [line.rstrip() for line in lines]
    while shown and not shown[-1]:
        shown.pop()
    return shown


@given(st.lists(st.tuples(LINES, st.text("xy", max_size=WIDTH)), max_size=6))
def test_the_screen_has_what_was_printed_above_and_the_last_drawing_below(
    steps: list[tuple[list[str], str]],
) -> None:
    terminal = Terminal()
    region = LiveRegion(Console(terminal))
    printed: list[str] = []
    with region:
        for lines, above in steps:
            region.draw(texts(lines))
            region.print_above(above)
            printed.append(above)
            drawn = [text.cut(WIDTH).plain for text in texts(lines)]
            assert terminal.screen() == without_end([*printed, *drawn])
            assert not terminal.has_cursor
    assert terminal.screen() == without_end(printed)
    assert terminal.has_cursor


def test_output_of_other_code_appears_above_in_whole_lines() -> None:
    terminal = Terminal()
    region = LiveRegion(Console(terminal))
    before = sys.stdout, sys.stderr
    with region:
        region.draw(texts(["view"]))
        print("hello", end="")
        assert terminal.screen() == ["view"]
        print(" you")
        print("oh", file=sys.stderr)
        print("half", end="")
        assert terminal.screen() == ["hello you", "oh", "view"]
    assert terminal.screen() == ["hello you", "oh", "half"]
    assert (sys.stdout, sys.stderr) == before


def test_a_window_that_became_narrower_is_cleaned_of_the_lines_it_has_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    region = LiveRegion(Console(terminal))
    region.start()
    region.draw(texts(["a" * 12, "b" * 7]))
    # The terminal wraps what is on it; the cursor stays behind the last character.
    terminal.columns = 5
    terminal.rows = [list("aaaaa"), list("aaaaa"), list("aa"), list("bbbbb"), list("bb")]
    terminal.row, terminal.column = 4, 2
    monkeypatch.setenv("COLUMNS", "5")
    region.draw(texts(["c" * 12]))
    assert terminal.screen() == ["cccc…"]
    region.stop()
    assert terminal.screen() == []


def test_only_lines_that_fit_into_the_window_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "2")
    terminal = Terminal()
    with LiveRegion(Console(terminal)) as region:
        region.draw(texts(["a", "b", "c"]))
        assert terminal.screen() == ["a", "b"]


def test_a_screen_of_its_own_leaves_what_was_there_and_keeps_output_until_it_ends() -> None:
    terminal = Terminal()
    terminal.write("$ top\n")

    def draw_and_fail() -> None:
        with LiveRegion(Console(terminal), own_screen=True) as region:
            region.draw(texts(["top", "a" * 12]))
            region.draw(texts(["top " * 4, "b"]))
            print("warning", file=sys.stderr)
            assert terminal.screen() == ["top top top…", "b"]
            raise KeyError

    with pytest.raises(KeyError):
        draw_and_fail()
    assert terminal.screen() == ["$ top", "warning"]
    assert terminal.has_cursor
