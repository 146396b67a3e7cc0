"""`scripts/test --fast` finds the tests of a change, the nearest first, and says what it leaves out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deadline import VARIABLE
from tests.durations import recorded_seconds
from tests.touched import ROOT, changed_files, chosen, distances, import_graph, roots_of
from tests.waiting import SECONDS_MAX

DURATIONS = "src/penstock/definitions/durations.py"


@pytest.fixture(scope="module")
def graph() -> dict[str, frozenset[str]]:
    """Of the project."""
    return import_graph()


def test_a_changed_module_reaches_its_own_tests_and_those_of_whoever_imports_it(
    graph: dict[str, frozenset[str]],
) -> None:
    found = distances(roots_of([DURATIONS], graph), graph)
    assert found["tests/unit/definitions/test_durations.py"] == 1
    assert found["tests/unit/engine/walk/test_timers.py"] > 1
    assert "tests/unit/base/test_json.py" not in found


def test_a_module_that_is_imported_for_types_and_loaded_later_is_reached(graph: dict[str, frozenset[str]]) -> None:
    assert "src/penstock/runtime/sandbox/worker.py" in graph["src/penstock/definitions/validate.py"]


def test_settings_of_a_folder_reach_its_tests_and_no_others(graph: dict[str, frozenset[str]]) -> None:
    found = distances(roots_of(["tests/live/cli/conftest.py"], graph), graph)
    assert found["tests/live/cli/test_run.py"] == 1
    assert "tests/live/test_races.py" not in found


@pytest.mark.parametrize(
    ("path", "reached"),
    [
        ("docs/tutorials/quick-start.md", "tests/docs/test_quick_start.py"),
        ("examples/saga-booking.yaml", "tests/examples/test_examples.py"),
        ("tests/golden/histories/new/one.json", "tests/golden/test_golden_histories.py"),
        ("src/penstock/definitions/new.json", "tests/unit/definitions/test_durations.py"),
    ],
)
def test_a_file_that_is_no_module_reaches_who_reads_it(
    graph: dict[str, frozenset[str]], path: str, reached: str
) -> None:
    assert reached in distances(roots_of([path], graph), graph)


def test_changed_tests_come_first_then_unit_tests_then_the_nearest() -> None:
    found = {
        "src/penstock/a.py": 0,
        "tests/live/test_changed.py": 0,
        "tests/live/test_near.py": 1,
        "tests/live/helpers_of_tests.py": 1,
        "tests/unit/test_far.py": 3,
        "tests/unit/test_near.py": 1,
    }
    choice = chosen(found, dict.fromkeys(found, 1.0))
    assert choice.taken == (
        "tests/live/test_changed.py",
        "tests/unit/test_near.py",
        "tests/unit/test_far.py",
        "tests/live/test_near.py",
        "tests/tidy",
    )
    assert (choice.left_out, choice.seconds) == ((), 4.0)


def test_what_does_not_fit_is_left_out_and_keeps_out_nothing_shorter() -> None:
    found = {"tests/unit/test_a.py": 1, "tests/unit/test_b.py": 2, "tests/unit/test_c.py": 3}
    choice = chosen(found, {"tests/unit/test_a.py": 5.0, "tests/unit/test_b.py": 9.0, "tests/unit/test_c.py": 4.0}, 10)
    assert choice.taken == ("tests/unit/test_a.py", "tests/unit/test_c.py", "tests/tidy")
    assert choice.left_out == ("tests/unit/test_b.py",)


def test_a_change_is_what_differs_from_the_branch_point_committed_or_not(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        name = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        subprocess.run(["git", *name, *arguments], cwd=tmp_path, check=True, capture_output=True)

    def commit(path: str, text: str) -> None:
        (tmp_path / path).write_text(text)
        git("add", path)
        git("commit", "-m", path)

    git("init", "-b", "main")
    commit("before.py", "")
    commit("kept.py", "")
    assert changed_files(tmp_path) == ("the commit before the last", ["kept.py"])
    git("checkout", "-b", "topic")
    commit("committed.py", "")
    (tmp_path / "kept.py").write_text("changed")
    (tmp_path / "untracked.py").write_text("")
    git("rm", "before.py")
    compared, files = changed_files(tmp_path)
    assert compared.startswith("main (")
    assert files == ["before.py", "committed.py", "kept.py", "untracked.py"]
    assert changed_files(tmp_path, "topic")[1] == ["before.py", "kept.py", "untracked.py"]
    with pytest.raises(SystemExit, match="git knows no `nowhere`"):
        changed_files(tmp_path, "nowhere")


def test_where_nothing_ran_yet_nothing_is_known(tmp_path: Path) -> None:
    assert recorded_seconds(tmp_path) == {}
    path = tmp_path / ".pytest_cache" / "v" / "penstock" / "module_seconds"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"tests/unit/test_a.py": 1.5}))
    assert recorded_seconds(tmp_path) == {"tests/unit/test_a.py": 1.5}


@pytest.mark.parametrize("workers", ["0", "2"])
def test_after_the_deadline_no_test_begins_and_those_left_out_are_counted(tmp_path: Path, workers: str) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_configure\n")
    (tmp_path / "test_a.py").write_text("def test_one(): pass\ndef test_two(): raise AssertionError\n")
    for until, told in (("9e9", "1 failed, 1 passed"), ("0", "2 tests left out: the time was over")):
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-p",
                "xdist",
                "-n",
                workers,
                "-c",
                "/dev/null",
                "--rootdir",
                str(tmp_path),
                str(tmp_path),
            ],
            # No other installed plugins: without this project's settings every process would import Schemathesis.
            env={**os.environ, VARIABLE: until, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS_MAX,
        )
        assert told in done.stdout, done.stdout + done.stderr
