"""Run the tests that a change touches, the nearest first, as many as fit into a minute.

    python -m tests.touched [--base REF] [--seconds 60] [--list] [-- ARGUMENTS FOR PYTEST]

The change is everything that differs from the branch point with `main`, committed or not; if nothing differs, it is the
last commit. The import graph leads from each changed module to the test modules that import it, directly or through
others. Changed test modules and unit tests come first, then the others, each ordered by the number of imports between.
They are taken in this order as long as their recorded time (or a guess) fits; the rest is named at the end. If the
machine is busy and they take longer, no test begins once the time is nearly up (`deadline`).

It sees imports only. A test that starts a server reaches all of Penstock through a process, and is chosen only by what
it imports itself. Whether everything works together is for `scripts/test` to say.

Above it: `scripts/test --fast`. Below it: git, grimp, pytest.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import grimp

from tests.deadline import VARIABLE
from tests.durations import recorded_seconds

__all__ = [
    "Choice",
    "changed_files",
    "chosen",
    "distances",
    "import_graph",
    "main",
    "roots_of",
]

ROOT = Path(__file__).parents[1]
PACKAGES = ("penstock", "tests", "docs", "benchmarks")

# Processor time of the chosen tests. On two cores this leaves room for starting, collecting and reporting.
_SECONDS_MAX = 60.0
# No test begins later than this after the start; running ones have the rest of the minute.
_BEGIN_SECONDS_MAX = 52.0
_ALWAYS = ("tests/tidy",)
# A guess for modules that never ran here. A unit test is quick; whatever starts processes is not.
_UNIT_SECONDS = 2.0
_OTHER_SECONDS = 20.0
_NAMES_SHOWN = 12
# Which tests read files that are not modules.
_READERS: dict[str, tuple[str, ...]] = {
    "docs/": ("tests/docs",),
    "examples/": ("tests/examples", "tests/docs"),
    "README.md": ("tests/docs",),
    "ARCHITECTURE.md": ("tests/docs",),
    "CONTRIBUTING.md": ("tests/docs",),
}


@dataclass(frozen=True, slots=True)
class Choice:
    """Test modules, the most relevant first: those that fit, and those that are left out."""

    taken: tuple[str, ...]
    left_out: tuple[str, ...]
    seconds: float
    """The time that the chosen modules took before, with a guess for those that never ran here."""


def changed_files(root: Path, base: str | None = None) -> tuple[str, list[str]]:
    """Return what the folder was compared with, and the files that differ: changed, added or deleted."""

    def git(*arguments: str) -> str | None:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else None

    def differing(reference: str) -> list[str]:
        told = git("diff", "--name-only", "--no-renames", reference)
        if told is None:
            raise SystemExit(f"git knows no `{reference}`; name another with --base")
        untracked = git("ls-files", "--others", "--exclude-standard") or ""
        return sorted({*told.splitlines(), *untracked.splitlines()})

    if base is not None:
        return base, differing(base)
    if git("rev-parse", "HEAD") is None:
        raise SystemExit("a change can only be seen in a git repository with a commit; run scripts/test")
    for branch in ("main", "origin/main"):
        common = git("merge-base", "HEAD", branch)
        if common and (files := differing(common)):
            return f"{branch} ({common[:9]})", files
    if files := differing("HEAD"):
        return "the last commit", files
    return "the commit before the last", differing("HEAD~1")


def import_graph() -> dict[str, frozenset[str]]:
    """For each file, the files that import it. A test counts as importing the `conftest.py` of each folder above it."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    files = {module: path for module in graph.modules if (path := _file_of(module)) is not None}
    importers: dict[str, set[str]] = {path: set() for path in files.values()}
    for module, path in files.items():
        for imported in graph.find_modules_directly_imported_by(module):
            if imported in files:
                importers[files[imported]].add(path)
    for path in files.values():
        for folder in Path(path).parents:
            above = (folder / "conftest.py").as_posix()
            if above in importers and above != path:
                importers[above].add(path)
    return {path: frozenset(found) for path, found in importers.items()}


def _file_of(module: str) -> str | None:
    """The file of a module; None for a folder without `__init__.py`."""
    stem = module.replace(".", "/")
    above = "src/" if module.split(".", 1)[0] == "penstock" else ""
    candidates = (f"{above}{stem}.py", f"{above}{stem}/__init__.py")
    return next((path for path in candidates if (ROOT / path).is_file()), None)


def roots_of(changed: Iterable[str], graph: Mapping[str, frozenset[str]]) -> set[str]:
    """The modules from which a change spreads: the changed ones, and those that read changed data files and pages."""
    found: set[str] = set()
    for path in changed:
        if path in graph:
            found.add(path)
            continue
        folder = os.path.dirname(path)
        # Data files are beside the modules that read them, or below.
        while folder and path.startswith(("src/", "tests/")):
            beside = {module for module in graph if os.path.dirname(module) == folder}
            found |= beside
            if beside:
                break
            folder = os.path.dirname(folder)
        readers = tuple(reader for start, read_by in _READERS.items() if path.startswith(start) for reader in read_by)
        found |= {module for module in graph if module.startswith(readers)} if readers else set()
    return found


def distances(roots: Iterable[str], graph: Mapping[str, frozenset[str]]) -> dict[str, int]:
    """The number of imports between each module and the nearest changed one."""
    found = dict.fromkeys(roots, 0)
    edge = list(found)
    while edge:
        reached = []
        for path in edge:
            for importer in graph.get(path, ()):
                if importer not in found:
                    found[importer] = found[path] + 1
                    reached.append(importer)
        edge = reached
    return found


def chosen(found: Mapping[str, int], seconds: Mapping[str, float], seconds_max: float = _SECONDS_MAX) -> Choice:
    """Choose test modules in order, as many as fit; a long one that does not fit does not keep out a shorter one."""

    def rank(path: str) -> tuple[bool, int, str]:
        is_near = found[path] == 0 or path.startswith("tests/unit/")
        return (not is_near, found[path], path)

    taken: list[str] = []
    left_out: list[str] = []
    total = 0.0
    for path in sorted(filter(_is_test, found), key=rank):
        if path.startswith(_ALWAYS):
            continue
        cost = seconds.get(path, _UNIT_SECONDS if path.startswith("tests/unit/") else _OTHER_SECONDS)
        if total + cost > seconds_max:
            left_out.append(path)
        else:
            taken.append(path)
            total += cost
    return Choice((*taken, *_ALWAYS), tuple(left_out), total)


def _is_test(path: str) -> bool:
    return path.startswith("tests/") and os.path.basename(path).startswith("test_")


def _listed(paths: Sequence[str]) -> str:
    shown = [f"    {path}" for path in paths[:_NAMES_SHOWN]]
    if more := len(paths) - len(shown):
        shown.append(f"    and {more} more; --list names them")
    return "\n".join(shown)


def main(arguments: Sequence[str]) -> int:
    """Choose tests, print the choice and run it; the exit code is that of pytest."""
    parser = argparse.ArgumentParser(prog="scripts/test --fast", description=__doc__.partition("\n")[0])
    parser.add_argument("--base", help="compare with this commit or branch")
    parser.add_argument("--seconds", type=float, default=_SECONDS_MAX, help="processor time that the tests may take")
    parser.add_argument("--begin-within", type=float, default=_BEGIN_SECONDS_MAX, help="no test begins after this")
    parser.add_argument("--list", action="store_true", help="name the test modules and run nothing")
    parser.add_argument("pytest", nargs="*", help="further arguments for pytest, after --")
    given = parser.parse_args(arguments)
    began = time.monotonic()
    until = time.time() + given.begin_within  # noqa: TID251  # processes have no other clock in common
    compared, changed = changed_files(ROOT, given.base)
    graph = import_graph()
    choice = chosen(distances(roots_of(changed, graph), graph), recorded_seconds(ROOT), given.seconds)
    if given.list:
        print("\n".join([*choice.taken, *(f"left out: {path}" for path in choice.left_out)]))
        return 0
    print(f"{len(changed)} files differ from {compared}:\n{_listed(changed)}", flush=True)
    print(f"{len(choice.taken)} test modules are run, about {choice.seconds:.0f} s of processor time.", flush=True)
    workers = str(len(os.sched_getaffinity(0)))
    code = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", workers, "--dist", "worksteal", *given.pytest, *choice.taken],
        cwd=ROOT,
        env={"HYPOTHESIS_PROFILE": "fast", **os.environ, VARIABLE: str(until)},
        check=False,
    ).returncode
    verdict = "passed" if code == 0 else "FAILED"
    print(f"\n{verdict} in {time.monotonic() - began:.0f} s: {len(choice.taken)} test modules that the change touches.")
    if choice.left_out:
        print(f"Left out, because the time did not suffice ({len(choice.left_out)}):\n{_listed(choice.left_out)}")
    print("Types are checked by scripts/check, everything by scripts/test.")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
