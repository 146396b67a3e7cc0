"""A stranger adopts it: from an empty home to an approved call with the commands of the README, beside other projects.

    scripts/newcomer [--rounds N] [--without-peers]

Each side gets a new virtual environment, an empty home and no cache, and runs its commands in a pseudo-terminal. For
Penstock they come from the section "Try it" of the README, in an export of the last commit; for the others from their
`commands.sh`. Where a command asks, the terminal takes the default, and types `approve` where somebody has to decide. A
side counts only if 180 was refunded at the end.

Each side is adopted in the shortest way that its documentation shows. `penstock init` writes the project; what a peer's
newcomer has to write is the programs in its folder here (`lines_to_write`). The peers come as built packages from the
index; Penstock is built from its checkout first, which takes longer. With its process, FastMCP forgets its question.
Those of Penstock and Temporal wait in a store.

- commands_to_first_tool: commands up to that answer, those joined by `&&` counted one by one.
- seconds_to_first_tool: the time on the clock, the installation included.
- lines_to_write: lines of the programs that a newcomer writes before the first call, blank ones and comments left out.
- packages, megabytes, help_ratio: as in `scripts/benchmark weight`.
- readme_words: words of the README, code and tables included. prose_findings: see docs/generator/prose.py.

Temporal's development server is a program that the registries here do not have, so its commands are counted and its
installation is measured, but its call is not timed. The last line is one JSON object; `ok` if every target holds.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import pty
import re
import select
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.servers import missed_targets
from benchmarks.weight import installed_sizes, weigh
from docs.generator.prose import find_in_tree

_ROOT: Final = Path(__file__).resolve().parents[2]
_PEERS: Final = Path(__file__).resolve().parent
_MEGABYTE: Final = 1 << 20
_SECONDS_MAX: Final = 900.0
_ANSWERS: Final = {"Template [approval]:": "", "decline]:": "approve", "left out):": ""}
_PROMPT: Final = re.compile("|".join(map(re.escape, _ANSWERS)))
_REFUNDED: Final = re.compile(r"""["']refunded["']: ?180""")
_SHELL_BLOCK: Final = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TARGETS: Final = {
    "commands_to_first_tool": ("at_most", 5.0),
    "seconds_to_first_tool": ("at_most", 300.0),
    "packages": ("at_most", 45.0),
    "megabytes": ("at_most", 125.0),
    "help_ratio": ("at_most", 6.0),
    "first_mcp_answer_cpu_ms": ("at_most", 600.0),
    "readme_words": ("at_most", 900.0),
    "prose_findings": ("at_most", 0.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """How one side went; `seconds` is missing if its call could not be tried here."""

    commands: int
    seconds: float | None
    packages: int
    megabytes: float
    lines_to_write: int

    def figures(self) -> dict[str, Any]:
        """The figures under the names of the report."""
        return {
            "commands_to_first_tool": self.commands,
            "seconds_to_first_tool": None if self.seconds is None else round(self.seconds, 1),
            "lines_to_write": self.lines_to_write,
            "packages": self.packages,
            "megabytes": self.megabytes,
        }


def read_commands(readme: str) -> list[str]:
    """The commands of the first shell block under "Try it"."""
    section = readme.partition("\n## Try it\n")[2].partition("\n## ")[0]
    found = _SHELL_BLOCK.search(section)
    if found is None:
        raise SystemExit('the README has no shell block under "Try it"')
    return found[1].strip().splitlines()


def adopt(commands: list[str], checkout: Path, scratch: Path) -> Adoption:
    """Run the commands as a newcomer in a folder; stop with an error if the refund is not made."""
    programs = _make_environment(scratch)
    began = time.monotonic()
    said = _run_in_terminal(" && ".join(commands), checkout, programs, scratch / "home")
    seconds = time.monotonic() - began
    if not _REFUNDED.search(said):
        raise SystemExit(f"no refund of 180 was made:\n{said}")
    return _adoption(commands, seconds, programs, _count_lines(checkout))


def adopt_without_call(commands: list[str], folder: Path, scratch: Path) -> Adoption:
    """Run only the installation; the rest needs a program that cannot be had here."""
    programs = _make_environment(scratch)
    _run_in_terminal(commands[0], folder, programs, scratch / "home")
    return _adoption(commands, None, programs, _count_lines(folder))


def _count_lines(folder: Path) -> int:
    """The lines of code of a peer's programs; none if the folder is no peer's."""
    programs = folder.glob("*.py") if folder.parent == _PEERS else ()
    lines = [line.strip() for path in programs for line in path.read_text(encoding="utf-8").splitlines()]
    return sum(1 for line in lines if line and not line.startswith("#"))


def _adoption(commands: list[str], seconds: float | None, programs: Path, lines_to_write: int) -> Adoption:
    sizes = installed_sizes(programs)
    return Adoption(
        commands=sum(len(command.split("&&")) for command in commands),
        seconds=seconds,
        lines_to_write=lines_to_write,
        packages=len(sizes),
        megabytes=round(sum(cost.on_disk for cost in sizes) / _MEGABYTE, 1),
    )


def _make_environment(scratch: Path) -> Path:
    (scratch / "home").mkdir(parents=True)
    subprocess.run([sys.executable, "-m", "venv", str(scratch / "environment")], check=True)
    return scratch / "environment" / "bin"


def _run_in_terminal(command: str, folder: Path, programs: Path, home: Path) -> str:
    """Run a command line with an empty home, and answer what it asks. Return what it showed."""
    kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_") or name in {"LANG", "LC_ALL"}}
    environment = {
        **kept,
        "HOME": str(home),
        "PATH": os.pathsep.join([str(programs), "/usr/local/bin:/usr/bin:/bin"]),
        "PIP_NO_CACHE_DIR": "1",
        "PYTHONUTF8": "1",
        "TERM": "xterm",
    }
    controller, terminal = pty.openpty()
    running = subprocess.Popen(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    try:
        said = _answer_questions(controller)
    finally:
        os.close(controller)
        if running.poll() is None:
            running.kill()
        code = running.wait()
    if code != 0:
        raise SystemExit(f"{command} exited with {code}:\n{said[-3000:]}")
    return said


def _answer_questions(controller: int) -> str:
    said, answered = "", 0
    ends = time.monotonic() + _SECONDS_MAX
    while True:
        if not select.select([controller], [], [], max(ends - time.monotonic(), 0))[0]:
            raise SystemExit(f"the commands did not end within {_SECONDS_MAX:.0f} s:\n{said[-3000:]}")
        try:
            part = os.read(controller, 65_536)
        except OSError:  # Linux: nobody has the terminal open any more
            part = b""
        if not part:
            return said
        said += part.decode("utf-8", "replace")
        asked = _PROMPT.findall(said)
        for prompt in asked[answered:]:
            os.write(controller, f"{_ANSWERS[prompt]}\n".encode())
        answered = len(asked)


def _export_commit(folder: Path) -> None:
    """Put the files of the last commit into a folder, as a clone would have them."""
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=_ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        packed.extractall(folder, filter="data")


def main() -> int:
    """Measure every side, print, and say by the exit code whether every target holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40, help="how often start-up is timed")
    parser.add_argument("--without-peers", action="store_true", help="measure only Penstock")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        _export_commit(scratch / "checkout")
        readme = (scratch / "checkout" / "README.md").read_text(encoding="utf-8")
        ours = adopt(read_commands(readme), scratch / "checkout", scratch / "penstock")
        weight = weigh(scratch / "penstock" / "environment" / "bin", rounds=arguments.rounds)
        peers: dict[str, Any] = {}
        if not arguments.without_peers:
            for peer, take in (("fastmcp", adopt), ("temporal", adopt_without_call)):
                folder = _PEERS / peer
                commands = (folder / "commands.sh").read_text(encoding="utf-8").strip().splitlines()
                peers[peer] = take(commands, folder, scratch / peer).figures()
    figures: dict[str, Any] = {
        **ours.figures(),
        "help_ratio": weight["help_ratio"],
        "first_mcp_answer_cpu_ms": weight["first_mcp_answer_cpu_ms"],
        "readme_words": len(readme.split()),
        "prose_findings": sum(map(len, find_in_tree().values())),
        "peers": peers,
    }
    missed = missed_targets(figures, _TARGETS)
    print(json.dumps({**figures, "missed": missed, "ok": not missed}))
    return 0 if not missed else 1


if __name__ == "__main__":
    raise SystemExit(main())
