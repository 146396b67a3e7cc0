"""Records the terminal session of the README: real commands in a real pseudo-terminal, drawn as an animated SVG.

A recording is a list of lines with the time at which each appeared. Run ids and times differ between two recordings;
`comparable` replaces them, so that a test can compare a fresh session with the stored picture.
"""

from __future__ import annotations

import html
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Line", "Step", "comparable", "draw", "lines_of_drawing", "record", "session"]

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "images" / "first-call.svg"
COLUMNS: Final = 80
_SECONDS_MAX: Final = 60.0
_TYPING_SECONDS: Final = 0.035  # for each character
_PAUSE_SECONDS: Final = 0.7  # before a command is typed
_REST_SECONDS: Final = 6.0  # at the end, before it begins again
_LINE_SECONDS_MAX: Final = 0.8  # a longer wait is shown as this
_RUN_ID: Final = re.compile(r"r_[0-9A-Z]{26}")
_LINES_UP: Final = re.compile(r"\x1b\[(\d+)A")
_ESCAPE: Final = re.compile(r"\x1b\[[0-9;?]*[B-Za-z]|\x1b[=>]|\x07")
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
_DURATION: Final = re.compile(r"\b\d+(?:\.\d+)?(?:ms| ms| s|s|m\d+s)(?: ago)?(?![\w])|\b\d\d:\d\d\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A command, the answers to what it asks (the text that is waited for, and what is typed), and how it is shown."""

    command: str
    answers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of the terminal and when it appeared, in seconds from the beginning."""

    text: str
    at: float
    is_command: bool = False


def session() -> list[Step]:
    """The first five minutes: a project, a call that waits, its approval, and the run that resumes."""
    return [
        Step(command="penstock init shop && cd shop", answers=(("[approval]:", ""),)),
        Step(command="penstock mcp call refund_order order_id=A-7 amount=180 --no-input"),
        Step(command="penstock runs list"),
        Step(command="penstock runs answer RUN", answers=(("decline]:", "approve"), ("left out):", ""))),
        Step(command="penstock runs watch RUN --perform"),
    ]


def record(steps: list[Step], folder: Path, commands: Path = Path(sys.executable).parent) -> list[Line]:
    """Run the steps in a folder and return what the terminal showed. `RUN` in a command is the newest run."""
    lines: list[Line] = []
    clock, place, run_id = 0.0, folder, ""
    for step in steps:
        clock += _PAUSE_SECONDS
        command = step.command.replace("RUN", run_id)
        lines.append(Line(text=f"$ {command}", at=clock, is_command=True))
        clock += _TYPING_SECONDS * len(command)
        shown = _run_in_terminal(command, step.answers, place, commands)
        before = 0.0
        for text, at in shown:
            clock += min(at - before, _LINE_SECONDS_MAX)
            before = at
            lines.append(Line(text=text, at=round(clock, 2)))
            run_id = (_RUN_ID.findall(text) or [run_id])[-1]
        if "cd " in command:
            place = place / command.rpartition("cd ")[2].strip()
    return lines


def _run_in_terminal(
    command: str, answers: tuple[tuple[str, str], ...], folder: Path, commands: Path
) -> list[tuple[str, float]]:
    """The lines that a command shows, each with its time; what it asks for is typed."""
    controller, terminal = pty.openpty()
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(commands), os.environ["PATH"]]),
        "COLUMNS": str(COLUMNS),
        "LINES": "40",
        "TERM": "xterm-256color",
        "NO_COLOR": "1",
        "PYTHONUTF8": "1",
    }
    began = time.monotonic()
    process = subprocess.Popen(
        ["bash", "-c", f"stty cols {COLUMNS} rows 40; {command}"],
        cwd=folder,
        env=environment,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    try:
        return _keep_last_drawing(_lines_from(controller, list(answers), began))
    finally:
        os.close(controller)
        if process.poll() is None:
            process.kill()
        if process.wait() not in {0, 3}:  # 3: the call waits for somebody
            raise RuntimeError(f"{command} exited with {process.returncode}")


def _lines_from(controller: int, answers: list[tuple[str, str]], began: float) -> Iterator[tuple[str, float]]:
    pending = ""
    while True:
        left = began + _SECONDS_MAX - time.monotonic()
        ready, _, _ = select.select([controller], [], [], max(left, 0))
        if not ready:
            raise RuntimeError(f"the command did not end within {_SECONDS_MAX:.0f} s; it shows {pending!r}")
        try:
            part = os.read(controller, 65_536)
        except OSError:  # Linux: nobody has the terminal open any more
            part = b""
        if not part:
            break
        pending += _ESCAPE.sub("", part.decode("utf-8", "replace"))
        *whole, pending = pending.split("\n")
        now = time.monotonic() - began
        yield from ((line.rstrip("\r"), now) for line in whole)
        if answers and answers[0][0] in pending:
            os.write(controller, f"{answers.pop(0)[1]}\n".encode())
    if pending.strip():
        yield pending, time.monotonic() - began


def _keep_last_drawing(shown: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """The lines that stay: a display that is drawn again moves up over its old lines first."""
    kept: list[tuple[str, float]] = []
    for text, at in shown:
        for _ in range(sum(map(int, _LINES_UP.findall(text)))):
            kept.pop()
        kept.append((_LINES_UP.sub("", text).rpartition("\r")[2].rstrip(), at))
    return kept


_CSS: Final = """text{font:14px ui-monospace,Menlo,Consolas,monospace;fill:#d5dbe3;white-space:pre}
.c{fill:#fff;font-weight:600}.g,.s{animation:s DURs infinite step-end}.s{transform:translateY(-ENDpx)}
@media (prefers-reduced-motion:reduce){.g,.s{animation:none}}"""
_ROW: Final = 19
_ROWS: Final = 26
_CHARACTER: Final = 8.43
_EDGE: Final = 18


def draw(lines: list[Line]) -> str:
    """The recording as an SVG that plays in a page, without script, and scrolls as a terminal does.

    Without motion it shows how the session ends.
    """
    whole = [(line, piece) for line in lines for piece in _wrap(line.text)]
    total = max(line.at for line in lines) + _REST_SECONDS
    width, height = round(COLUMNS * _CHARACTER + 2 * _EDGE), min(len(whole), _ROWS) * _ROW + 2 * _EDGE + 22
    rules, rows = [], []
    for number, (line, piece) in enumerate(whole):
        share = line.at / total * 100
        rules.append(f"@keyframes k{number}{{0%{{opacity:0}}{share:.2f}%,99.9%{{opacity:1}}}}")
        kind = "c g" if line.is_command else "g"
        style = f"animation-name:k{number}"
        y = _EDGE + 22 + (number + 1) * _ROW - 5
        rows.append(f'<text class="{kind}" style="{style}" x="{_EDGE}" y="{y}">{html.escape(piece)}</text>')
    scrolled = max(len(whole) - _ROWS, 0) * _ROW
    css = _CSS.replace("DUR", f"{total:.1f}").replace("END", str(scrolled))
    moves = "".join(
        f"{line.at / total * 100:.2f}%{{transform:translateY(-{(number + 1 - _ROWS) * _ROW}px)}}"
        for number, (line, _) in enumerate(whole)
        if number >= _ROWS
    )
    rules.append(f"@keyframes scroll{{0%{{transform:none}}{moves}99.9%{{transform:translateY(-{scrolled}px)}}}}")
    top = _EDGE + 23
    window = f'<clipPath id="w"><rect y="{top}" width="{width}" height="{height - top}"/></clipPath>'
    dots = "".join(
        f'<circle cx="{_EDGE + 4 + 18 * place}" cy="16" r="5.5" fill="{color}"/>'
        for place, color in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
            "<title>A terminal: a new project, a call that waits, its approval, and the run that resumes</title>",
            f"<style>{css}\n{''.join(rules)}</style>",
            f'<rect width="{width}" height="{height}" rx="9" fill="#15202b"/>{dots}{window}',
            '<g clip-path="url(#w)"><g class="s" style="animation-name:scroll">',
            *rows,
            "</g></g>",
            "</svg>",
            "",
        ]
    )


def _wrap(text: str) -> list[str]:
    """A line as a terminal of 80 columns shows it."""
    return [text[at : at + COLUMNS] for at in range(0, len(text), COLUMNS)] or [""]


def lines_of_drawing(picture: str) -> list[str]:
    """The text of a stored picture, line by line."""
    return [html.unescape(found) for found in re.findall(r"<text [^>]*>(.*?)</text>", picture)]


def comparable(lines: list[str]) -> str:
    """The text without what differs between two recordings: ids, moments and durations."""
    text = "".join(line.ljust(COLUMNS) if len(line) == COLUMNS else line + "\n" for line in lines)
    for pattern, word in ((_RUN_ID, "RUN"), (_MOMENT, "MOMENT"), (_DURATION, "DURATION")):
        text = pattern.sub(word, text)
    return re.sub(r" +", " ", text)


def main() -> int:
    """Record the session and store its picture."""
    with tempfile.TemporaryDirectory() as folder:
        lines = record(session(), Path(folder))
    PICTURE.write_text(draw(lines), encoding="utf-8")
    print("\n".join(line.text for line in lines))
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size / 1024:.1f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
