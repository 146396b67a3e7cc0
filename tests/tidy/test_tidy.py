"""The habits that keep the project readable, held from the first commit, and proof that each check can fail."""

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

from penstock.engine.records import TYPES
from tests.tidy import checks
from tests.together import together

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
# Files of the tests that may sleep, each with its reason. Waiting for something is none: see tests/waiting.py.
MAY_SLEEP: dict[str, str] = {
    "tests/waiting.py": "the one place that looks again after a pause",
    "tests/conformance/mcp_suite/steps.py": "steps that the official suite watches at work",
    "tests/scenarios/abuse/clients.py": "clients that hang up after a moment",
    "tests/scenarios/hostile_answers.py": "a server that drips",
    "tests/scenarios/hostile_upstream.py": "a server that drips",
    "tests/torture/audited.py": "work at times that are drawn by lot",
    "tests/torture/pair.py": "work at times that are drawn by lot",
    "tests/torture/suspended.py": "work that takes a while, and the operator who looks now and then",
    "tests/torture/worker.py": "work at times that are drawn by lot",
}
# Folders that are made by tools and hold nothing of ours; needed only where git cannot say what is ignored.
# They know each other, and what they exchange.
ADAPTERS = ("src/penstock/runtime/stores/", "src/penstock/runtime/executors/")
GENERATED_FOLDERS = frozenset({".git", ".venv", "__pycache__", "build", "dist", "node_modules"})


def python_files(*folders: str) -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for folder in folders for path in (ROOT / folder).rglob("*.py"))


def project_files() -> list[str]:
    """Files that are tracked or would be; in a copy without history, all that no tool has made."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    if (ROOT / ".git").exists():
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
        return sorted(path for path in set(listed) if (ROOT / path).is_file())
    walked = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    return sorted(path.as_posix() for path in walked if not _is_generated(path))


def _is_generated(path: Path) -> bool:
    return any(part in GENERATED_FOLDERS or part.endswith("_cache") for part in path.parts) or path.suffix == ".lock"


@cache
def read(path: str) -> str:
    # Files that are not text have nothing to say here.
    return (ROOT / path).read_bytes().decode("utf-8", errors="ignore")


SOURCE_FILES = python_files("src")
SCRIPTS = sorted(
    [".ci/run", *(path.relative_to(ROOT).as_posix() for path in (ROOT / "scripts").iterdir() if path.is_file())]
)


@together(SOURCE_FILES)
def test_a_source_module_is_tidy(path: str) -> None:
    source = read(path)
    problems = [
        *checks.check_docstring(source),
        *checks.check_exports(source),
        *checks.check_function_length(source),
        *checks.check_imports_in_functions(source),
        *checks.check_module_length(source),
        *checks.check_module_name(path.removeprefix("src/")),
        *checks.check_unfinished_marks(source),
        *([] if path.startswith(ADAPTERS) else checks.check_port_use(source)),
    ]
    assert not problems, f"{path}:\n" + "\n".join(problems)


def test_records_are_named_by_their_types() -> None:
    paths = python_files("src", "benchmarks", "docs/generator", "examples")
    found = {path: checks.check_record_names(read(path), frozenset(TYPES)) for path in paths}
    assert {path: problems for path, problems in found.items() if problems} == {}


def test_no_file_names_a_machine_or_a_package_registry() -> None:
    problems = {path: found for path in project_files() if (found := checks.check_foreign_addresses(read(path)))}
    assert problems == {}


def test_no_test_sleeps() -> None:
    problems = {path: found for path in python_files("tests") if (found := checks.check_sleeps(read(path)))}
    assert set(problems) == set(MAY_SLEEP), {path: problems.get(path) for path in set(problems) ^ set(MAY_SLEEP)}


@pytest.mark.parametrize("path", SCRIPTS)
def test_a_script_starts_by_itself(path: str) -> None:
    assert checks.check_script(read(path), is_executable=os.access(ROOT / path, os.X_OK)) == []


# From here on: each check complains about what it is meant to find, and about nothing else.


def function_of(body_lines: int, docstring: str = "") -> str:
    return f"def work():\n{docstring}" + "    pass\n" * body_lines


def test_a_function_of_71_lines_is_too_long() -> None:
    assert checks.check_function_length(function_of(69)) == []
    assert checks.check_function_length(function_of(70)) == ["line 1: 'work' has 71 lines, at most 70"]


def test_a_docstring_does_not_make_a_function_long() -> None:
    docstring = '    """First.\n\n    Second.\n    """\n'
    assert checks.check_function_length(function_of(69, docstring)) == []
    assert checks.check_function_length(function_of(70, docstring)) != []


def test_a_method_and_an_async_function_can_be_too_long() -> None:
    method = "class Box:\n" + "".join(f"    {line}\n" for line in function_of(70).splitlines())
    assert checks.check_function_length(method) != []
    assert checks.check_function_length("async " + function_of(70)) != []


def test_a_module_of_801_lines_is_too_long() -> None:
    assert checks.check_module_length("pass\n" * 800) == []
    assert checks.check_module_length("pass\n" * 801) == ["the module has 801 lines, at most 800"]


def test_an_import_inside_a_function_is_found() -> None:
    assert checks.check_imports_in_functions("import json\n\ndef work():\n    return json\n") == []
    assert checks.check_imports_in_functions("def work():\n    import json\n") == ["line 2: import inside 'work'"]
    assert checks.check_imports_in_functions("def work():\n    if 1:\n        from a import b\n") != []


def test_a_module_without_a_docstring_is_found() -> None:
    assert checks.check_docstring('"""What it is."""\n') == []
    assert checks.check_docstring("value = 1\n") == ["the module has no docstring"]
    assert checks.check_docstring("") != []


def test_a_module_with_code_needs_a_list_of_public_names() -> None:
    assert checks.check_exports('"""Only a docstring."""\n') == []
    assert checks.check_exports("value = 1\n") == ["the module has no literal __all__"]
    assert checks.check_exports("__all__ = ['value']\nvalue = 1\n") == []
    assert checks.check_exports("from package.module import *\n") == []
    assert checks.check_exports("from package.module import *\nvalue = 1\n") != []


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("__all__ = ['b', 'a']\na = b = 1\n", "not sorted"),
        ("__all__ = ['Alpha', 'BETA']\nclass Alpha: ...\nBETA = 1\n", "not sorted"),
        ("__all__ = ['a', 'a']\na = 1\n", "twice"),
        ("__all__ = ['a', 'b']\nimport a\n", "does not have: b"),
    ],
    ids=["unsorted", "constant_after_class", "twice", "missing"],
)
def test_a_wrong_list_of_public_names_is_found(source: str, complaint: str) -> None:
    [problem] = checks.check_exports(source)
    assert complaint in problem


def test_every_way_to_bind_a_name_counts_as_having_it() -> None:
    source = """
__all__ = ["ONE", "Two", "five", "four", "seven", "six", "three"]
ONE: int = 1
class Two: ...
def three(): ...
async def four(): ...
from somewhere import other as five
if ONE:
    six, seven = 6, 7
"""
    assert checks.check_exports(source) == []


def test_a_module_named_for_nothing_is_found() -> None:
    assert checks.check_module_name("penstock/base/limits.py") == []
    assert checks.check_module_name("penstock/base/utils.py") != []
    assert checks.check_module_name("penstock/helpers/limits.py") != []


@pytest.mark.parametrize(
    "use",
    [
        "isinstance(store, RunStore)",
        "isinstance(store, RunStore | None)",
        "isinstance(self.store, (int, RunStore))",
        "issubclass(kind, RunStore)",
        "cast('RunStore', store)",
        "hasattr(penstock.store, 'writer')",
        "getattr(self._platform, 'path', None)",
        "getattr(evaluator, 'prompt', evaluator)",
        "type(host) is int",
    ],
)
def test_asking_which_adapter_it_is_is_found(use: str) -> None:
    source = f"from penstock.runtime.stores.sqlite.runs.store import RunStore\n\nfound = {use}\n"
    [problem] = checks.check_port_use(source)
    assert problem.startswith("line 3: ")


def test_making_an_adapter_and_asking_other_things_is_no_problem() -> None:
    source = """
from penstock.runtime.stores.sqlite.database import SqliteDatabase
from penstock.runtime.tables.runs.store import RunStore

store = RunStore(SqliteDatabase("penstock.db"))
found = isinstance(outcome, Appended), getattr(error, "errno", None), type(value)
"""
    assert checks.check_port_use(source) == []


def test_a_record_that_is_named_by_a_text_is_found() -> None:
    names = frozenset({"ScheduleNode"})
    assert checks.check_record_names('__all__ = ["ScheduleNode"]\n', names) == []
    assert checks.check_record_names('"""ScheduleNode comes first."""\nkind = records.ScheduleNode\n', names) == []
    for source in ('x = record.name == "ScheduleNode"\n', 'TABLE = {"ScheduleNode:late": 1}\n'):
        assert len(checks.check_record_names(source, names)) == 1


def test_an_unfinished_mark_is_found() -> None:
    mark = "TO" + "DO"
    assert checks.check_unfinished_marks("todo_list = 1\n") == []
    assert checks.check_unfinished_marks(f"a = 1\n# {mark}: later\n") == [
        f"line 2: '{mark}' belongs in docs/roadmap.md"
    ]


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.sleep(1)\n",
        "from time import monotonic, sleep\n",
        "await asyncio.sleep(0.01)\n",
        "await anyio.sleep(seconds)\n",
        "from asyncio import sleep\n",
        "threading.Event().wait(0.1)\n",
        "await asyncio.wait((task,), timeout=0.05)\n",
    ],
)
def test_a_sleep_is_found(source: str) -> None:
    assert len(checks.check_sleeps(source)) == 1
    assert checks.check_sleeps(source.replace("sleep", "monotonic_ns").replace("wait(", "look(")) == []


@pytest.mark.parametrize(
    "source",
    [
        "await asyncio.sleep(0)\n",
        "await asyncio.Event().wait()\n",
        "begun.wait(SECONDS_MAX)\n",
        "await asyncio.wait([task], timeout=SECONDS_MAX)\n",
    ],
)
def test_letting_others_have_their_turn_is_no_sleep(source: str) -> None:
    assert checks.check_sleeps(source) == []


@pytest.mark.parametrize("folder", ["work", "root", "tmp", "home", "opt", "Users"])
def test_a_path_of_one_machine_is_found(folder: str) -> None:
    assert len(checks.check_foreign_addresses(f"see '/{folder}/penstock'")) == 1
    assert checks.check_foreign_addresses(f"see ../{folder}/penstock, $HOME/{folder}/x and a/{folder}/b") == []


def test_a_registry_host_is_found() -> None:
    host = ".".join(["pypi", "org"])
    assert checks.check_foreign_addresses(f"https://{host}/simple") == [f"line 1: registry host '{host}'"]
    assert checks.check_foreign_addresses("https://example.org/simple") == []


def test_a_script_that_cannot_start_or_hides_errors_is_found() -> None:
    good = "#!/usr/bin/env bash\n# What it does.\nset -euo pipefail\n"
    assert checks.check_script(good, is_executable=True) == []
    assert len(checks.check_script(good, is_executable=False)) == 1
    assert len(checks.check_script(good.replace("set -euo pipefail", ""), is_executable=True)) == 1
    assert len(checks.check_script("echo hello\n", is_executable=True)) == 1
    assert checks.check_script("#!/usr/bin/env python3\n", is_executable=True) == []
