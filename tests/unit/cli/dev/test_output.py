"""What `penstock dev` prints fits into a terminal, and what people copy stays whole."""

from io import StringIO
from pathlib import Path

import pytest

from penstock.cli.dev.output import DevOutput
from penstock.cli.server.process import Started
from penstock.cli.targets.workspace import Workspace
from penstock.cli.terminal.console import Console

ADDRESS = "http://127.0.0.1:5151"
KEY = f"pen_{'k' * 12}_{'s' * 36}"
LINK = f"{ADDRESS}/console/sign-in/link/{'l' * 43}"


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def announced(stream: StringIO) -> list[str]:
    output = DevOutput(console=Console(stream), workspace=Workspace(database=Path("penstock.db")))
    started = Started(
        address=ADDRESS, base_path="/api/v0", owner_key=KEY, has_keys=True, started_ms=353, event_loop="asyncio"
    )
    output.started(started, [], sign_in=LINK)
    return stream.getvalue().splitlines()


def test_at_a_terminal_a_note_without_room_is_below_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    lines = announced(Terminal())
    assert [line for line in lines if len(line) > 80] == [f"  sign in    {LINK}"]
    place = lines.index(f"  key        {KEY}")
    assert lines[place + 1] == f"{' ' * 13}(may do everything; shown only now)"


def test_a_pipe_has_a_note_beside_its_value() -> None:
    assert f"  key        {KEY}   (may do everything; shown only now)" in announced(StringIO())
