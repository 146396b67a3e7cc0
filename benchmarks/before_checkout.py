"""Part of `benchmarks.before`: an earlier commit of this project with an environment of its own.

The commit is unpacked into `.cache/before` with `git archive` and set up by its own `scripts/setup`, so that it runs
with the libraries that it was pinned to. Both happen once; `--before` names a checkout that is set up already.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

__all__ = ["COMMIT", "checkout", "program_of"]

COMMIT = "5c1cb5623f836bee336a37d6f68a2b96a69cf57a"
_ROOT = Path(__file__).resolve().parent.parent
_SETUP_SECONDS_MAX = 900


def program_of(root: Path) -> Path:
    """The command of a checkout."""
    return root / ".venv" / "bin" / "penstock"


def checkout(given: Path | None) -> Path:
    """A folder with the earlier commit, ready to run; made on first use."""
    if given is not None:
        if not program_of(given).exists():
            raise SystemExit(f"{given} is not set up: run scripts/setup there, or leave out --before")
        return given.resolve()
    place = _ROOT / ".cache" / "before" / COMMIT[:12]
    if program_of(place).exists():
        return place
    _unpack(place)
    print(f"==> setting up {COMMIT[:12]} in {place.relative_to(_ROOT)}", file=sys.stderr)
    subprocess.run([place / "scripts" / "setup"], check=True, timeout=_SETUP_SECONDS_MAX, stdout=sys.stderr)
    return place


def _unpack(place: Path) -> None:
    done = subprocess.run(["git", "archive", "--format=tar", COMMIT], cwd=_ROOT, capture_output=True, check=False)
    if done.returncode != 0:
        raise SystemExit(
            f"commit {COMMIT[:12]} is not in this clone ({done.stderr.decode().strip()}); fetch the whole history, "
            "or name a checkout of it with --before"
        )
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(place, filter="data")
