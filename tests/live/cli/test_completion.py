"""Completion as the guide installs it, pressed with Tab in real shells."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import SECONDS_MAX

BIN = Path(sys.executable).parent
PROMPT = "ready> "


def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK", "XDG"))}
    path = f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**kept, "HOME": str(home), "PATH": path, "TERM": "dumb", "PS1": PROMPT}


class Shell:
    """An interactive bash with a terminal of its own."""

    def __init__(self, home: Path) -> None:
        with (home / ".bashrc").open("a", encoding="utf-8") as file:
            file.write(f"\nPS1='{PROMPT}'\n")
        self.terminal, other = pty.openpty()
        command = ["bash", "--rcfile", str(home / ".bashrc"), "-i"]
        self.process = subprocess.Popen(
            command, env=environment(home), stdin=other, stdout=other, stderr=other, start_new_session=True
        )
        os.close(other)
        self.seen = ""

    def expect(self, wanted: Callable[[str], bool]) -> str:
        """What is on the screen once it is what is wanted."""
        until = time.monotonic() + SECONDS_MAX
        while not wanted(self.seen):
            left = until - time.monotonic()
            assert left > 0, self.seen
            if select.select([self.terminal], [], [], min(left, 0.2))[0]:
                self.seen += os.read(self.terminal, 4096).decode(errors="replace")
        return self.seen

    def complete(self, words: str) -> str:
        """Type words, press Tab, and return the line once it has grown."""
        self.seen = ""
        os.write(self.terminal, f"{words}\t".encode())
        line = self.expect(lambda seen: len(seen.split("\n")[-1].replace("\a", "")) > len(words))
        return line.replace("\a", "")


@contextmanager
def open_shell(home: Path) -> Iterator[Shell]:
    shell = Shell(home)
    try:
        shell.expect(lambda seen: PROMPT in seen)
        yield shell
    finally:
        shell.process.kill()
        shell.process.wait(timeout=SECONDS_MAX)
        os.close(shell.terminal)


def install(shell: str, home: Path) -> str:
    done = subprocess.run(
        [shell, "-c", "penstock --install-completion"],
        env={**environment(home), "SHELL": f"/bin/{shell}"},
        capture_output=True,
        text=True,
        check=True,
        timeout=SECONDS_MAX,
    )
    assert f"{shell} completion installed in" in done.stdout, done
    return done.stdout


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("penstock sched", "penstock schedule "),
        ("penstock graph branch cr", "penstock graph branch create "),
        ("penstock server back", "penstock server backup "),
        ("penstock config profile ad", "penstock config profile add "),
        ("penstock workflow list --serv", "penstock workflow list --server "),
    ],
)
def test_tab_completes_nested_commands_and_options_in_bash(tmp_path: Path, typed: str, completed: str) -> None:
    install("bash", tmp_path)
    with open_shell(tmp_path) as shell:
        assert completed in shell.complete(typed)


def test_an_old_spelling_is_completed_without_a_hint_on_the_line(tmp_path: Path) -> None:
    install("bash", tmp_path)
    with open_shell(tmp_path) as shell:
        line = shell.complete("penstock graphs branches-create --sour")
        assert "--source " in line
        assert "is now" not in line


@pytest.mark.parametrize(
    ("shell", "file", "script"),
    [
        ("bash", ".local/share/penstock/completion.bash", "complete -o nosort -F _penstock_completion penstock"),
        ("zsh", ".local/share/penstock/completion.zsh", "compdef _penstock_completion penstock"),
        ("fish", ".config/fish/completions/penstock.fish", "complete --no-files --command penstock"),
    ],
)
def test_each_shell_gets_a_file_of_its_own(tmp_path: Path, shell: str, file: str, script: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    install(shell, tmp_path)
    assert script in (tmp_path / file).read_text(encoding="utf-8")
    checked = subprocess.run([shell, "-n", str(tmp_path / file)], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_fish_completes_what_the_installed_file_says(tmp_path: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("there is no fish here")
    install("fish", tmp_path)
    asked = "complete -C 'penstock graph branch cr'"
    done = subprocess.run(["fish", "-c", asked], env=environment(tmp_path), capture_output=True, text=True, check=True)
    assert done.stdout.split()[:1] == ["create"]
