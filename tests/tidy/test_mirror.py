"""`tests/unit` mirrors `src/penstock`: who knows where a module is knows where its tests are.

`tests/unit/a/b/test_c.py`, or `test_c_and_more.py`, tests the module or package `src/penstock/a/b/c`. What is about a
package as a whole is named after it: `tests/unit/a/b/test_b_and_more.py`. Helpers of tests have other names. What is
about several packages is no unit test: see the folders beside `unit` in CONTRIBUTING.md.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# The first cells of the rows of the table of folders.
_TABLE = re.compile(r"^  \| (`[^|]*`) \|", re.MULTILINE)
# Tests that stand elsewhere, each with its reason.
EXCEPTIONS: dict[str, str] = {}


def subject_of(test: str, source: frozenset[str]) -> str | None:
    """What a test module is about: the longest name of a module or package beside it in `src/penstock`, if any."""
    folder, _, file = test.rpartition("/")
    name = file.removeprefix("test_").removesuffix(".py")
    if folder and folder not in source:
        return None
    beside = [path for path in source if path.rpartition("/")[0] == folder]
    candidates = [*beside, folder or "penstock"]
    fitting = [path for path in candidates if f"{name}_".startswith(f"{path.rpartition('/')[2]}_")]
    return max(fitting, key=len, default=None)


def _source() -> frozenset[str]:
    """Modules and packages by their paths below `src/penstock`, without endings."""
    top = ROOT / "src" / "penstock"
    paths = [path.relative_to(top) for path in top.rglob("*.py")]
    return frozenset(
        {path.with_suffix("").as_posix() for path in paths if path.name != "__init__.py"}
        | {path.parent.as_posix() for path in paths if path.name == "__init__.py"} - {"."}
    )


def test_every_unit_test_stands_where_its_module_stands() -> None:
    source, top = _source(), ROOT / "tests" / "unit"
    tests = [path.relative_to(top).as_posix() for path in top.rglob("test_*.py")]
    astray = sorted(test for test in tests if subject_of(test, source) is None)
    assert astray == sorted(EXCEPTIONS), "move a test with its module; CONTRIBUTING.md says where others belong"


def test_a_folder_of_unit_tests_is_a_package_of_the_source() -> None:
    source, top = _source(), ROOT / "tests" / "unit"
    folders = {path.parent.relative_to(top).as_posix() for path in top.rglob("*.py")} - {"."}
    assert sorted(folders - source) == []


@pytest.mark.parametrize(
    ("test", "about"),
    [
        ("a/b/test_c.py", "a/b/c"),
        ("a/b/test_c_when_late.py", "a/b/c"),
        ("a/b/test_c_d.py", "a/b/c_d"),
        ("a/b/test_b_as_a_whole.py", "a/b"),
        ("a/test_b.py", "a/b"),
        ("test_penstock_public.py", "penstock"),
        ("a/b/test_cd.py", None),
        ("a/x/test_x.py", None),
        ("a/test_c.py", None),
    ],
)
def test_a_test_is_about_what_its_name_and_its_folder_say(test: str, about: str | None) -> None:
    assert subject_of(test, frozenset({"a", "a/b", "a/b/c", "a/b/c_d"})) == about


def test_each_folder_of_tests_is_explained() -> None:
    explained = set(
        re.findall(r"`(\w+)`", "".join(_TABLE.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))))
    )
    folders = {path.parent.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").glob("*/**/*.py")}
    assert folders == explained
