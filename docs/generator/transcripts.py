"""Console transcripts in pages: run each command again, and replace the output below it.

A transcript is a fenced block of the kind `console`. A line that begins with `$ ` is a command, which goes on in the
next line after a backslash; the rest is output. Commands run in a folder with `examples` and every file that the page
shows after a comment `<!-- file: NAME -->`. A Mermaid block after a comment `<!-- drawing: FILE -->` is drawn again.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["TRANSCRIPT_PAGES", "files_of", "refreshed"]

ROOT = Path(__file__).parents[2]
# Pages with transcripts, by their path from the root.
TRANSCRIPT_PAGES = (
    "docs/guides/agent-sessions.md",
    "docs/guides/apis.md",
    "docs/guides/audit-retention.md",
    "docs/guides/audit.md",
    "docs/guides/errors-and-retries.md",
    "docs/guides/evaluate-versions.md",
    "docs/guides/evaluate.md",
    "docs/guides/mcp-claude-desktop.md",
    "docs/guides/mcp-vscode.md",
    "docs/guides/mcp-windsurf.md",
    "docs/guides/mcp.md",
    "docs/guides/published-format.md",
    "docs/guides/secrets.md",
    "docs/guides/testing.md",
    "docs/guides/tools.md",
    "docs/guides/upstream-changes.md",
    "docs/guides/upstream-requests.md",
    "docs/guides/upstream-servers.md",
    "docs/guides/writing-workflows.md",
    "docs/tutorials/code-review.md",
    "docs/tutorials/daily-report.md",
    "docs/tutorials/tour.md",
)

_TRANSCRIPT = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_DRAWING = re.compile(r"^(<!-- drawing: (\S+) -->)\n```mermaid\n.*?^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^<!-- file: (\S+) -->\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROMPT = "$ "
_SECONDS_MAX = 60


def files_of(text: str) -> dict[str, str]:
    """The files that a page shows."""
    return {match[1]: match[2] for match in _FILE.finditer(text)}


def refreshed(text: str, commands: Path = Path(sys.executable).parent) -> str:
    """The page with every transcript run again; `commands` is the folder where `penstock` is found."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "examples").symlink_to(ROOT / "examples")
        for path, content in files_of(text).items():
            (folder / path).write_text(content, encoding="utf-8")
        drawn = _DRAWING.sub(lambda match: f"{match[1]}\n```mermaid\n{_drawing(match[2], folder, commands)}```", text)
        return _TRANSCRIPT.sub(lambda match: f"```console\n{_run_all(match[1], folder, commands)}```", drawn)


def _drawing(path: str, folder: Path, commands: Path) -> str:
    return _run(f"penstock workflow draw {shlex.quote(path)}", folder, commands)


def _run_all(transcript: str, folder: Path, commands: Path) -> str:
    return "".join(f"{_PROMPT}{command}\n{_run(command, folder, commands)}" for command in _commands(transcript))


def _commands(transcript: str) -> Iterator[str]:
    """The commands of a transcript, each with its continuation lines."""
    lines = iter(transcript.splitlines())
    for line in lines:
        if not line.startswith(_PROMPT):
            continue
        command = line.removeprefix(_PROMPT)
        while command.endswith("\\"):
            command += "\n" + next(lines)
        yield command


def _run(command: str, folder: Path, commands: Path) -> str:
    """What a command prints to standard output and standard error."""
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(commands), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONUTF8": "1",
        "NO_COLOR": "1",
    }
    finished = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        timeout=_SECONDS_MAX,
    )
    return finished.stdout
