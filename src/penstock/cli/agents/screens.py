"""What a conversation looks like: for people as text that appears while it is written, for programs as lines of JSON.

Above it: `chat`. Below it: the terminal. Texts from a model or a tool are cleaned of control characters.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.base.json import JsonObject
from penstock.base.text import clean, clean_lines
from penstock.cli.terminal.console import console_for
from penstock.cli.terminal.styled_text import Text

__all__ = ["JsonScreen", "Screen", "TextScreen"]

_ARGUMENTS_CHARACTERS_MAX = 60
_ERROR_CHARACTERS_MAX = 120
_ERASED = "\r\x1b[2K"


class Screen(Protocol):
    """Where a conversation is shown."""

    @property
    def calling(self) -> bool:
        """Whether a tool was called that has not returned."""

    def event(self, name: str, data: JsonObject) -> None:
        """Show something that happened."""

    def note(self, text: str) -> None:
        """Say something about the conversation itself."""

    def settle(self) -> None:
        """Make room for somebody who is asked something."""


@dataclass(slots=True)
class JsonScreen:
    """One JSON object for each event, on a line."""

    calls: set[Any] = field(default_factory=set)

    @property
    def calling(self) -> bool:
        """Whether a tool was called that has not returned."""
        return bool(self.calls)

    def event(self, name: str, data: JsonObject) -> None:
        """Print an event."""
        if name == "tool":
            (self.calls.add if data.get("phase") == "begun" else self.calls.discard)(data.get("call_id"))
        sys.stdout.write(json.dumps({"event": name, **data}, ensure_ascii=False) + "\n")
        sys.stdout.flush()

    def note(self, text: str) -> None:
        """Programs read events only."""

    def settle(self) -> None:
        """Every event has a line of its own."""


@dataclass(slots=True)
class TextScreen:
    """For people: the text of the model as it comes, and a line for each call of a tool."""

    shown: dict[tuple[Any, ...], str] = field(default_factory=dict)
    """What was shown of each turn."""
    calls: dict[Any, JsonObject] = field(default_factory=dict)
    mid_line: bool = False
    passing: bool = False
    """Whether the last line is one that the next output replaces."""

    @property
    def calling(self) -> bool:
        """Whether a tool was called that has not returned."""
        return bool(self.calls)

    def event(self, name: str, data: JsonObject) -> None:
        """Show what people want to know of an event."""
        match name:
            case "delta":
                self._delta(data)
            case "turn":
                self._turn(data)
            case "tool":
                self._tool(data)
            case "held":
                self.note(
                    f"  {data.get('operation')} waits for approval: penstock approval approve {data.get('draft_id')}"
                )
            case "output":
                self._output(data.get("output"))
            case "error":
                self._line(Text(clean(f"{data.get('code')}: {data.get('message')}"), style="red"))
            case "complete" if data.get("status") == "cancelled":
                self._line(Text("cancelled", style="yellow"))
            case _:
                pass

    def note(self, text: str) -> None:
        """Print a line."""
        self._line(Text(clean(text), style="dim"))

    def settle(self) -> None:
        """Go to the beginning of a line."""
        self._end_line()

    def _delta(self, data: JsonObject) -> None:
        key, offset, text = _turn_of(data), data.get("offset"), str(data.get("text", ""))
        before = self.shown.get(key, "")
        if offset == 0 and before:
            self.note("(begins again)")
            before = ""
        self.shown[key] = before + text
        self._write(text)

    def _turn(self, data: JsonObject) -> None:
        said, key = str(data.get("text", "")), _turn_of(data)
        before = self.shown.get(key, "")
        if said.startswith(before):
            self._write(said[len(before) :])
        else:
            self._end_line()
            self._write(said)
        self._end_line()
        self.shown[key] = said

    def _output(self, output: Any) -> None:
        """Show an answer other than text: what was said in turns is shown already."""
        if isinstance(output, dict) and list(output) == ["text"]:
            return
        if not any(_says(text, output) for text in self.shown.values()):
            self._line(Text(clean(json.dumps(output, ensure_ascii=False))))

    def _tool(self, data: JsonObject) -> None:
        call_id, name = data.get("call_id"), clean(str(data.get("name")))
        if data.get("phase") == "begun":
            self.calls[call_id] = data
            self._pass(f"{name}{_arguments(data)} …")
            return
        began = self.calls.pop(call_id, {})
        line = Text(f"  {name}{_arguments(began)} ", style="dim")
        if data.get("phase") == "failed":
            reason = clean(f"{data.get('error_code')}: {data.get('error')}")
            line.append(_short(reason, _ERROR_CHARACTERS_MAX), style="red")
        else:
            line.append("done", style="green")
        self._line(line)

    def _write(self, text: str) -> None:
        if not text:
            return
        self._erase()
        sys.stdout.write(clean_lines(text))
        sys.stdout.flush()
        self.mid_line = not text.endswith("\n")

    def _end_line(self) -> None:
        self._erase()
        if self.mid_line:
            sys.stdout.write("\n")
            sys.stdout.flush()
        self.mid_line = False

    def _line(self, line: Text) -> None:
        self._end_line()
        console_for(sys.stdout).print(line)

    def _pass(self, text: str) -> None:
        """Show a line that the next output replaces; only on a terminal."""
        self._end_line()
        if sys.stdout.isatty():
            width = max(console_for(sys.stdout).width - 4, 1)
            sys.stdout.write(f"  {_short(clean(text), width)}")
            sys.stdout.flush()
            self.passing = True

    def _erase(self) -> None:
        if self.passing:
            sys.stdout.write(_ERASED)
            sys.stdout.flush()
        self.passing = False


def _turn_of(data: JsonObject) -> tuple[Any, ...]:
    return data.get("execution_id"), data.get("node_id"), data.get("visit")


def _says(text: str, output: Any) -> bool:
    """Whether a text is the JSON of an answer, however the model wrote it."""
    try:
        return bool(json.loads(text) == output)
    except (ValueError, RecursionError):
        return False


def _arguments(data: JsonObject) -> str:
    arguments = data.get("arguments")
    if not arguments:
        return ""
    return " " + _short(clean(json.dumps(arguments, ensure_ascii=False)), _ARGUMENTS_CHARACTERS_MAX)


def _short(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: characters - 1]}…"
