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
from dataclasses import dataclass
from pathlib import Path

__all__ = ["COMMIT", "UNGOVERNED", "Checkout", "checkout", "program_of"]

COMMIT = "5c1cb5623f836bee336a37d6f68a2b96a69cf57a"
"""What is compared with unless another commit is named: before the paths of starts and lists were made shorter."""
UNGOVERNED = "f3c3dcf94336fc3f7a566b6cc67d1d231424f8cf"
"""The last commit before policies, held calls, quotas and trails that others can verify."""
_ROOT = Path(__file__).resolve().parent.parent
_SETUP_SECONDS_MAX = 900


@dataclass(frozen=True, slots=True)
class Checkout:
    """A folder with an earlier state of the project. `commit` is None if nobody knows which it is."""

    root: Path
    commit: str | None

    @property
    def name(self) -> str:
        """What the figures were compared with."""
        return str(self.root) if self.commit is None else self.commit[:12]


def program_of(root: Path) -> Path:
    """The command of a checkout."""
    return root / ".venv" / "bin" / "penstock"


def checkout(given: Path | None, commit: str) -> Checkout:
    """A folder with the earlier commit, ready to run; made on first use. `given` is one that is there already."""
    if given is not None:
        if not program_of(given).exists():
            raise SystemExit(f"{given} is not set up: run scripts/setup there, or leave out --before")
        return Checkout(given.resolve(), _commit_in(given.resolve()))
    whole = _whole_name(commit)
    place = _ROOT / ".cache" / "before" / whole[:12]
    if not program_of(place).exists():
        _unpack(place, whole)
        print(f"==> setting up {whole[:12]} in {place.relative_to(_ROOT)}", file=sys.stderr)
        subprocess.run([place / "scripts" / "setup"], check=True, timeout=_SETUP_SECONDS_MAX, stdout=sys.stderr)
    return Checkout(place, whole)


def _git(*arguments: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, check=False)


def _commit_in(folder: Path) -> str | None:
    """The commit of a given checkout; None if it is no clone or has changes, so that no commit says what it is."""
    top = _git("rev-parse", "--show-toplevel", folder=folder)
    if top.returncode != 0 or Path(top.stdout.decode().strip()).resolve() != folder:
        return None
    if _git("status", "--porcelain", folder=folder).stdout.strip():
        return None
    return _git("rev-parse", "HEAD", folder=folder).stdout.decode().strip()


def _whole_name(commit: str) -> str:
    found = _git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}", folder=_ROOT)
    if found.returncode != 0:
        raise SystemExit(
            f"commit {commit} is not in this clone; fetch the whole history, or name a checkout of it with --before"
        )
    return found.stdout.decode().strip()


def _unpack(place: Path, commit: str) -> None:
    done = _git("archive", "--format=tar", commit, folder=_ROOT)
    if done.returncode != 0:
        raise SystemExit(f"commit {commit[:12]} cannot be unpacked: {done.stderr.decode().strip()}")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(place, filter="data")
