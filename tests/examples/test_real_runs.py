"""Every example runs for real: with the files that its line of the README names, in an empty folder, and its tests."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.examples.cases import EXAMPLES, example_names
from tests.waiting import SECONDS_MAX

EXIT_CODES = {"completed": 0, "waits": 3, "all passed": 0}
# What a run says about something that is not beside it.
_MISSING = ("HANDLER_NOT_FOUND", "SERVER_NOT_CONFIGURED", "MODEL_NOT_FOUND", "WORKFLOW_NOT_FOUND", "GRAPH_NOT_FOUND")
_LINKS = re.compile(r"\]\(([^)]+)\)")


@dataclass(frozen=True)
class RealRun:
    """A line of the README: the files to copy, the command, and how it ends."""

    files: tuple[str, ...]
    command: str
    ends: str


def real_runs() -> list[RealRun]:
    """The lines of both tables; one without files has those of the line above it."""
    found: list[RealRun] = []
    for row in (EXAMPLES / "README.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        if not row.startswith("|") or not re.search(r"`.*penstock (?:run|test) ", row):
            continue
        ends = cells[3] if len(cells) > 3 else "all passed"
        files = tuple(_LINKS.findall(cells[0])) or found[-1].files
        found.append(RealRun(files, cells[2].strip("`"), ends))
    return found


def copied(run: RealRun, folder: Path) -> None:
    """Copy what the line names; of a file in a folder of its own, the whole folder."""
    for name in run.files:
        place = Path(name).parent if "/" in name else Path(name)
        source, target = EXAMPLES / place, folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
        else:
            shutil.copyfile(source, target)


def run_in_shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK")}
    environment = {**kept, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(folder), "NO_COLOR": "1"}
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
    )


def test_every_example_has_a_line_with_the_command_that_runs_it() -> None:
    assert sorted({run.files[0] for run in real_runs()}) == example_names()


@pytest.mark.parametrize("run", real_runs(), ids=lambda run: run.command)
def test_an_example_runs_in_an_empty_folder_with_what_its_line_names(run: RealRun, tmp_path: Path) -> None:
    copied(run, tmp_path)
    finished = run_in_shell(run.command, tmp_path)
    assert finished.returncode == EXIT_CODES[run.ends], finished.stdout + finished.stderr
    assert [code for code in _MISSING if code in finished.stdout] == []


@pytest.mark.parametrize("name", [name for name in example_names() if name.endswith(".yaml")])
def test_the_cases_of_an_example_pass_in_an_empty_folder(name: str, tmp_path: Path) -> None:
    run = next(run for run in real_runs() if run.files[0] == name)
    copied(run, tmp_path)
    files = " ".join(file for file in run.files if file.endswith(".yaml"))
    finished = run_in_shell(f"penstock test {files}", tmp_path)
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_who_asked_for_the_refund_of_the_examples_cannot_approve_it(tmp_path: Path) -> None:
    run = next(run for run in real_runs() if '"amount": 180' in run.command)
    copied(run, tmp_path)
    assert run_in_shell(f"{run.command} --run-id r1", tmp_path).returncode == 3
    answered = run_in_shell("penstock runs answer r1 approve=true", tmp_path)
    assert answered.returncode == 9, answered.stdout + answered.stderr
    assert "APPROVER_REQUIRED" in answered.stderr
