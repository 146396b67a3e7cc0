"""Consoles: when they style, how wide they are, and what no text can do to a terminal."""

import io

import pytest

from penstock.cli.terminal.console import Console
from penstock.cli.terminal.styled_text import Text

STYLED = Text.assemble(("a", "bold red"), "b", ("c", "dim"))
COLORED, PLAIN_STYLES, NOTHING = "\x1b[1;31ma\x1b[0mb\x1b[2mc\x1b[0m", "\x1b[1ma\x1b[0mb\x1b[2mc\x1b[0m", "abc"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)


def printed(stream: io.StringIO, text: str | Text, *, cut: bool = False) -> str:
    Console(stream).print(text, cut=cut)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("stream", "variables", "expected"),
    [
        (Terminal, {"TERM": "xterm"}, COLORED),
        (Terminal, {}, COLORED),
        (Terminal, {"TERM": "dumb"}, NOTHING),
        (Terminal, {"TERM": "unknown"}, NOTHING),
        (Terminal, {"TERM": "xterm", "NO_COLOR": "1"}, PLAIN_STYLES),
        (Terminal, {"TERM": "xterm", "NO_COLOR": ""}, COLORED),
        (io.StringIO, {"TERM": "xterm"}, NOTHING),
        (io.StringIO, {"FORCE_COLOR": "1"}, COLORED),
        (io.StringIO, {"FORCE_COLOR": "1", "TERM": "dumb"}, COLORED),
        (io.StringIO, {"FORCE_COLOR": ""}, NOTHING),
        (io.StringIO, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, PLAIN_STYLES),
    ],
)
def test_styles_appear_where_they_can_be_seen_and_are_wanted(
    stream: type[io.StringIO], variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert printed(stream(), STYLED) == f"{expected}\n"


def test_no_text_can_steer_the_terminal() -> None:
    assert printed(Terminal(), "a\x1b[2Jb\rc\x08\x9b1m\td\ne") == "a\N{REPLACEMENT CHARACTER}[2Jb" + (
        "\N{REPLACEMENT CHARACTER}c\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}1m\td\ne\n"
    )
    assert "\x1b" not in printed(io.StringIO(), Text("\x1b]0;title\x07", style="bold"))


def test_markup_and_names_of_emoji_are_just_text() -> None:
    assert printed(io.StringIO(), "[bold]a[/bold] :smile: 12") == "[bold]a[/bold] :smile: 12\n"


def test_only_a_terminal_gets_lines_cut_at_its_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "5")
    assert printed(Terminal(), "a long line", cut=True) == "a lo…\n"
    assert printed(Terminal(), "a long line") == "a long line\n"
    assert printed(io.StringIO(), "a long line", cut=True) == "a long line\n"


def test_the_size_comes_from_the_variables_if_they_are_positive_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "33")
    monkeypatch.setenv("LINES", "7")
    assert Console(io.StringIO()).size == (33, 7)
    monkeypatch.setenv("COLUMNS", "0")
    monkeypatch.setenv("LINES", "many")
    columns, lines = Console(io.StringIO()).size
    assert columns > 0
    assert lines > 0
