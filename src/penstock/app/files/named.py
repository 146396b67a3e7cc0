"""Which files the operator names, and their text: files, folders and patterns, read with care.

Nothing is left out silently. A name that matches nothing, a folder that cannot be listed and a file that cannot be read
are each a value that says so. Only regular files are opened, so that a pipe in the place of a file blocks nobody.

Above it: `policies`, `graphs`, `watcher`, the command line. Below it: the file system.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from glob import glob, has_magic
from hashlib import blake2b
from pathlib import Path

from penstock.base import limits

__all__ = ["FoundFiles", "UnreadableFile", "find_files", "read_file", "read_text", "stamp_file"]

_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True, slots=True)
class UnreadableFile:
    """A named file, folder or pattern that gives nothing to read, and why."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name} {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFiles:
    """The files that some names stand for, and the names that stand for none."""

    paths: tuple[Path, ...]
    problems: tuple[UnreadableFile, ...] = ()


def find_files(named: Iterable[str], suffix: str) -> FoundFiles:
    """Return named files as they are, and all files with a suffix below folders; patterns (`*`, `**`) give both.

    As in a shell, files and folders whose names begin with a dot count only if they are named.
    """
    paths: dict[Path, None] = {}
    problems: list[UnreadableFile] = []
    for text in named:
        try:
            found = [*_find(text, suffix)]
        except (OSError, ValueError) as error:
            problems.append(UnreadableFile(text, f"cannot be listed: {_reason(error)}"))
            continue
        if not found:
            pattern = has_magic(text)
            problems.append(UnreadableFile(text, "matches no file" if pattern else f"has no {suffix} file"))
        paths.update(dict.fromkeys(found))
    return FoundFiles(paths=tuple(paths), problems=tuple(problems))


def _find(text: str, suffix: str) -> Iterator[Path]:
    path = Path(text)
    if not has_magic(text) or path.exists():
        yield from _walk(path, suffix) if path.is_dir() else (path,)
        return
    fixed = Path(*_fixed_parts(path))
    for _ in _walk(fixed, ""):  # `glob` leaves out folders that cannot be listed; this raises for them
        pass
    for match in map(Path, sorted(glob(text, recursive=True))):
        if not match.is_dir():
            yield match
        elif path.name != "**":
            yield from _walk(match, suffix)


def _fixed_parts(pattern: Path) -> Iterator[str]:
    """Yield the leading parts of a pattern that have no wildcards."""
    for part in pattern.parts[:-1]:
        if has_magic(part):
            return
        yield part


def _walk(folder: Path, suffix: str) -> Iterator[Path]:
    """Yield the files below a folder by name; raise `OSError` for a folder that cannot be listed."""
    with os.scandir(folder) as listed:
        entries = sorted(listed, key=lambda entry: entry.name)
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), suffix)
        elif entry.name.endswith(suffix):
            yield Path(entry.path)


def read_file(path: Path, *, bytes_max: int = limits.OPERATOR_FILE_BYTES_MAX) -> bytes | UnreadableFile:
    """Return the contents of a regular file that is not too large, or why they cannot be read."""
    try:
        descriptor = os.open(path, _OPEN_FLAGS)
    except (OSError, ValueError) as error:
        return UnreadableFile(str(path), f"cannot be read: {_reason(error)}")
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return UnreadableFile(str(path), "is not a file")
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(bytes_max + 1)
    except OSError as error:
        return UnreadableFile(str(path), f"cannot be read: {_reason(error)}")
    finally:
        os.close(descriptor)
    if len(data) > bytes_max:
        return UnreadableFile(str(path), f"is larger than {bytes_max} bytes")
    return data


def read_text(path: Path, *, bytes_max: int = limits.OPERATOR_FILE_BYTES_MAX) -> str | UnreadableFile:
    """Return the text of a file, or why it has no text. NUL bytes come from a crash in the middle of a write."""
    data = read_file(path, bytes_max=bytes_max)
    if isinstance(data, UnreadableFile):
        return data
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return UnreadableFile(str(path), f"is not UTF-8 text (byte {error.start})")
    if "\0" in text:
        return UnreadableFile(str(path), f"has a NUL byte (character {text.index(chr(0))})")
    return text


def stamp_file(path: Path) -> str:
    """Return what changes with the contents of a file, however its size and its times look."""
    data = read_file(path)
    return str(data) if isinstance(data, UnreadableFile) else blake2b(data, digest_size=16).hexdigest()


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
