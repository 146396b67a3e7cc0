"""Check a release and build it: wheel, sdist, bill of materials and checksums, in `dist`. Nothing is published.

    python -m tests.release

Every check runs, also after another one failed. The last line is one JSON object.

Above it: `scripts/release`. Below it: git, hatchling, pip, `tests.sbom`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from penstock import __version__
from tests.sbom import make_sbom

__all__ = ["build_in", "changelog_problem", "compare_builds", "export_tree", "main"]

ROOT = Path(__file__).parents[1]
PASSED = ROOT / ".cache" / "tests-passed"
REQUIREMENTS = ROOT / "requirements" / "runtime.txt"
_BUILD_SECONDS_MAX = 600
_SDIST_TESTS = ("tests/unit/engine", "tests/golden", "tests/docs/test_deployment.py")
_HEADING = re.compile(r"^## \[(?P<version>[^]]+)\](?: - (?P<date>\d{4}-\d\d-\d\d))?$", re.MULTILINE)


class CheckFailed(Exception):
    """What is wrong, and what to do about it."""


def run_command(words: list[str], *, cwd: Path = ROOT, environment: dict[str, str] | None = None) -> str:
    """Run a program and return what it printed; raise with its last lines if it fails."""
    done = subprocess.run(
        words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=_BUILD_SECONDS_MAX, check=False
    )
    if done.returncode:
        told = "\n".join((done.stderr or done.stdout).strip().splitlines()[-5:])
        raise CheckFailed(f"{' '.join(words[:4])} ended with {done.returncode}: {told}")
    return done.stdout


def changelog_problem(changelog: str, version: str) -> str | None:
    """Return why a changelog does not fit a version; None if it does."""
    headings = [(found["version"], found["date"], found) for found in _HEADING.finditer(changelog)]
    if headings and headings[0][0] == "Unreleased":
        start, end = headings[0][2].end(), headings[1][2].start() if len(headings) > 1 else len(changelog)
        if changelog[start:end].strip():
            return f"changes are under Unreleased; move them under [{version}]"
        headings = headings[1:]
    if not headings:
        return f"there is no heading `## [{version}] - YYYY-MM-DD`"
    if headings[0][0] != version:
        return f"the newest heading is [{headings[0][0]}], and the version is {version}"
    return None if headings[0][1] else f"the heading [{version}] has no date"


def check_tree() -> str:
    """Refuse a tree with changes that are not committed."""
    changed = run_command(["git", "status", "--porcelain"]).splitlines()
    if changed:
        raise CheckFailed(f"{len(changed)} files are not committed, such as {changed[0][3:]}; commit or remove them")
    return run_command(["git", "rev-parse", "--short", "HEAD"]).strip()


def check_version() -> str:
    """Refuse a version that the changelog does not have."""
    problem = changelog_problem((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), __version__)
    if problem is not None:
        raise CheckFailed(problem)
    return __version__


def check_tests() -> str:
    """Refuse a commit that the whole suite did not pass on."""
    head = run_command(["git", "rev-parse", "HEAD"]).strip()
    passed = PASSED.read_text(encoding="ascii").strip() if PASSED.exists() else None
    if passed != head:
        raise CheckFailed("no whole run of the tests passed on this commit; run scripts/test in a clean tree")
    return f"passed on {head[:8]}"


def source_epoch() -> str:
    """The time of the commit, which every file of a build has."""
    return run_command(["git", "log", "-1", "--format=%ct"]).strip()


def export_tree(folder: Path) -> None:
    """Write what is committed to a folder."""
    folder.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)


def build_in(source: Path, target: Path, epoch: str, *, umask: int = 0o022) -> None:
    """Build the wheel and the sdist of a tree."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(target)],
        cwd=source,
        env=environment,
        umask=umask,
        capture_output=True,
        text=True,
        timeout=_BUILD_SECONDS_MAX,
        check=False,
    )
    if done.returncode:
        raise CheckFailed(f"the build failed: {done.stderr.strip()[-500:]}")


def compare_builds(one: Path, other: Path) -> list[str]:
    """Return the names of files that are not equal, or that only one of two folders has."""
    names = sorted({path.name for folder in (one, other) for path in folder.iterdir()})
    return [name for name in names if read_or_none(one / name) != read_or_none(other / name)]


def read_or_none(path: Path) -> bytes | None:
    """The contents of a file; None if there is none."""
    return path.read_bytes() if path.exists() else None


def check_builds(dist: Path, scratch: Path) -> str:
    """Build twice, in folders with other names and with other permissions, and refuse builds that differ."""
    epoch = source_epoch()
    for name, umask in (("first", 0o022), ("second/deeper", 0o077)):
        export_tree(scratch / name)
        build_in(scratch / name, scratch / "built" / name.split("/")[0], epoch, umask=umask)
    differing = compare_builds(scratch / "built" / "first", scratch / "built" / "second")
    if differing:
        raise CheckFailed(f"two builds differ: {', '.join(differing)}")
    shutil.rmtree(dist, ignore_errors=True)
    shutil.copytree(scratch / "built" / "first", dist)
    return ", ".join(sorted(path.name for path in dist.iterdir()))


def check_sdist(dist: Path, scratch: Path) -> str:
    """Unpack the sdist, build the wheel from it, and run some of its tests on its own source."""
    [sdist] = dist.glob("*.tar.gz")
    unpacked = scratch / "unpacked"
    unpacked.mkdir()
    run_command(["tar", "-xzf", str(sdist), "-C", str(unpacked)])
    [source] = unpacked.iterdir()
    run_command(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(scratch / "again")],
        cwd=source,
        environment={**os.environ, "SOURCE_DATE_EPOCH": source_epoch()},
    )
    [wheel] = (scratch / "again").iterdir()
    if wheel.read_bytes() != read_or_none(dist / wheel.name):
        raise CheckFailed("the wheel that is built from the sdist is another one")
    environment = {**os.environ, "PYTHONPATH": str(source / "src")}
    told = run_command(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *_SDIST_TESTS],
        cwd=source,
        environment=environment,
    )
    return f"the same wheel; its tests: {told.strip().splitlines()[-1]}"


def check_sbom(dist: Path) -> str:
    """Write the bill of materials."""
    target = dist / f"penstock_mcp-{__version__}.cdx.json"
    target.write_bytes(make_sbom(REQUIREMENTS, __version__, int(source_epoch())))
    return f"{target.name}: {len(json.loads(target.read_bytes())['components'])} components"


def check_first_call(dist: Path, scratch: Path) -> str:
    """Install the wheel with its pinned requirements into an empty environment, and make the first call."""
    [wheel] = dist.glob("*.whl")
    environment, home = scratch / "environment", scratch / "home"
    home.mkdir()
    run_command([sys.executable, "-m", "venv", str(environment)])
    pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    run_command([*pip, "--require-hashes", "-r", str(REQUIREMENTS)])
    run_command([*pip, "--no-deps", str(wheel)])
    penstock = str(environment / "bin" / "penstock")
    variables = {"PATH": f"{environment / 'bin'}:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}
    told = run_command([penstock, "--version"], cwd=home, environment=variables).strip()
    if __version__ not in told:
        raise CheckFailed(f"the installed command says {told!r}, not {__version__}")
    run_command([penstock, "init", "shop"], cwd=home, environment=variables)
    call = [penstock, "mcp", "call", "refund_order", "order_id=A-7", "amount=20"]
    answer = run_command(call, cwd=home / "shop", environment=variables)
    if '"refunded":20' not in answer.replace(" ", ""):
        raise CheckFailed(f"the first call answered {answer[-200:]!r}")
    return f"{wheel.name} answers"


def write_checksums(dist: Path) -> str:
    """Write the SHA-256 of every file of the release."""
    files = sorted(path for path in dist.iterdir() if path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (dist / "SHA256SUMS").write_text("".join(lines), encoding="ascii")
    return f"{len(lines)} files"


def main() -> int:
    """Run every check, and print what was found."""
    dist, results = ROOT / "dist", dict[str, str]()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        checks: dict[str, Callable[[], str]] = {
            "tree": check_tree,
            "version": check_version,
            "tests": check_tests,
            "builds": lambda: check_builds(dist, scratch),
            "sdist": lambda: check_sdist(dist, scratch),
            "sbom": lambda: check_sbom(dist),
            "first_call": lambda: check_first_call(dist, scratch),
            "checksums": lambda: write_checksums(dist),
        }
        failed = []
        for name, check in checks.items():
            try:
                results[name] = check()
                print(f"ok    {name}: {results[name]}", flush=True)
            except (CheckFailed, OSError, ValueError, subprocess.SubprocessError) as error:
                results[name] = str(error)
                failed.append(name)
                print(f"FAIL  {name}: {error}", flush=True)
    print(json.dumps({"ok": not failed, "version": __version__, "failed": failed, "checks": results}))
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
