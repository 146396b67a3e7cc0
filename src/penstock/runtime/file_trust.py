"""Who can change a file that this process trusts: a secret, a key, or a file of the operator.

Root and the user of this process are trusted. Anybody else who owns a file, may write to it, or may replace it in its
folder decides what the process does.

Above it: the readers of secrets and keys, `app.files`, `penstock server doctor`. Below it: the operating system.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["FileRisk", "find_file_risk", "find_folder_risk", "list_risks"]

_ROOT = 0


class FileRisk(NamedTuple):
    """Why somebody else can change a file, and what to do about it."""

    problem: str
    advice: str


def find_file_risk(path: Path, *, secret: bool = False) -> FileRisk | None:
    """Return who else can write to a file or owns it; None if nobody does, or if there is no such file.

    The group may write to it if it is root's or the one of this process, which on many systems has one member; to a
    `secret` it may not.
    """
    if os.name != "posix":
        return None
    try:
        link, found = path.lstat(), path.stat()
    except (OSError, ValueError):
        return None  # the reader of the file reports it
    mode = stat.S_IMODE(found.st_mode)
    for owner in dict.fromkeys((found.st_uid, link.st_uid)):
        if owner not in (_ROOT, os.geteuid()):
            problem = f"{path} belongs to another user (uid {owner})"
            return FileRisk(problem, f"if you trust its contents, run: chown -h {os.geteuid()} {path}")
    if mode & stat.S_IWOTH:
        return FileRisk(f"{path} can be changed by every user (mode {mode:o})", f"run: chmod go-w {path}")
    if mode & stat.S_IWGRP and (secret or found.st_gid not in (_ROOT, os.getegid())):
        return FileRisk(f"{path} can be changed by its group (mode {mode:o})", f"run: chmod g-w {path}")
    return None


def find_folder_risk(path: Path) -> FileRisk | None:
    """Return the folder above a file in which every user can replace the files of others; None if no folder allows
    that.
    """
    if os.name != "posix":
        return None
    for folder in dict.fromkeys(_list_folders(path)):
        try:
            mode = folder.stat().st_mode
        except OSError:
            continue
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            problem = f"every user can replace {path}: {folder} has the mode {stat.S_IMODE(mode):o}"
            return FileRisk(problem, f"run: chmod o-w {folder}, or: chmod +t {folder}")
    return None


def _list_folders(path: Path) -> Iterator[Path]:
    yield from path.absolute().parents
    if path.is_symlink():
        yield from Path(os.path.realpath(path)).parents


def list_risks(path: Path, *, secret: bool = False) -> list[FileRisk]:
    """Return everything that lets somebody else change a file."""
    return [risk for risk in (find_file_risk(path, secret=secret), find_folder_risk(path)) if risk is not None]
