"""Workflow files as commands name them: paths, `-` for standard input, and directories to search.

It reads text, or says in one sentence why it could not. `definitions` knows what the text means.

Above it: the commands. Below it: the file system.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path

from penstock.app.files.named import UnreadableFile, read_text
from penstock.base.errors import Rejected
from penstock.base.limits import DOCUMENT_BYTES_MAX

__all__ = [
    "STANDARD_INPUT",
    "SourceText",
    "Unreadable",
    "candidate_files",
    "expand_paths",
    "expand_pattern",
    "is_workflow",
    "read_path",
    "read_sources",
    "says_nothing",
    "search_folder",
]

STANDARD_INPUT = "-"
_STANDARD_INPUT_LABEL = "<stdin>"
_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
# Folders that hold other people's files or generated ones.
_SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "build", "dist"})
_MARKERS = frozenset({"---", "..."})
# Only files that look like workflows count in a search: a folder holds many other YAML and JSON files.
_NATIVE_MARK = re.compile(r"""(?m)(^|[{,\s])["']?penstock["']?\s*:""")
_PUBLISHED_MARK = re.compile(r"""(?s)["']?state_schema["']?\s*:.*["']?nodes["']?\s*:""")


@dataclass(frozen=True, slots=True)
class SourceText:
    """A file that was read; `label` is how messages call it."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file that could not be read, and why."""

    label: str
    message: str
    code: str = "UNREADABLE_FILE"


def expand_paths(patterns: Iterable[str]) -> list[str]:
    """Files and folders as they are named; patterns (`flows/**/*.yaml`) as the files that match, each once."""
    found: dict[str, None] = {}
    for pattern in patterns:
        matches = expand_pattern(pattern)
        if not matches:
            raise Rejected("WORKFLOWS_NOT_FOUND", f"no file matches {pattern}", "check `workflows.paths`")
        found.update(dict.fromkeys(matches))
    return list(found)


def expand_pattern(pattern: str) -> list[str]:
    """The files and folders that a pattern matches, in order; a name without wildcards stands for itself."""
    return sorted(glob(pattern, recursive=True)) if has_magic(pattern) and not Path(pattern).exists() else [pattern]


def read_path(path: str, *, only_files: bool = False) -> SourceText | Unreadable:
    """Read one file, or standard input for `-`. With `only_files`, a pipe or a device in its place blocks nobody."""
    if only_files:
        text = read_text(Path(path), bytes_max=DOCUMENT_BYTES_MAX)
        if isinstance(text, UnreadableFile):
            return Unreadable(path, text.reason.removeprefix("cannot be read: "))
        return SourceText(path, text)
    label = _STANDARD_INPUT_LABEL if path == STANDARD_INPUT else path
    try:
        # One byte more than allowed is enough to know that the file is too large.
        if path == STANDARD_INPUT:
            data = sys.stdin.buffer.read(DOCUMENT_BYTES_MAX + 1)
        else:
            with Path(path).open("rb") as file:
                data = file.read(DOCUMENT_BYTES_MAX + 1)
    except OSError as error:
        return Unreadable(label, error.strerror or str(error))
    if len(data) > DOCUMENT_BYTES_MAX:
        return Unreadable(label, f"the file is larger than {DOCUMENT_BYTES_MAX} bytes, the most a workflow may have")
    try:
        return SourceText(label, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return Unreadable(label, f"the file is not UTF-8 text (byte {error.start})")


def read_sources(paths: list[str]) -> Iterator[SourceText | Unreadable]:
    """Read every file named, and every workflow in the directories named; a file is read once."""
    seen: set[str] = set()
    for path in paths:
        found = search_folder(path) if path != STANDARD_INPUT and Path(path).is_dir() else [read_path(path)]
        for source in found:
            if source.label not in seen:
                seen.add(source.label)
                yield source


def candidate_files(paths: Iterable[str]) -> list[str]:
    """The files named, and every file in the directories named that may hold a workflow; nothing is read."""
    found: dict[str, None] = {}
    for path in paths:
        folder = Path(path)
        found.update(dict.fromkeys(map(str, sorted(_walk(folder))) if folder.is_dir() else (path,)))
    return list(found)


def search_folder(folder: str, *, also_empty: bool = False) -> list[SourceText | Unreadable]:
    """The workflows in a folder and what cannot be read there, or only that it has none.

    With `also_empty`, files that say nothing are among them: they may have been workflows.
    """
    try:
        sources = [read_path(str(path), only_files=True) for path in sorted(_walk(Path(folder)))]
    except OSError as error:
        return [Unreadable(str(error.filename or folder), f"cannot be listed: {error.strerror or error}")]
    workflows = [source for source in sources if isinstance(source, Unreadable) or is_workflow(source.text)]
    if also_empty:
        workflows += [source for source in sources if isinstance(source, SourceText) and says_nothing(source.text)]
    if any(isinstance(source, SourceText) for source in workflows):
        return workflows
    return [Unreadable(folder, "no workflow found here; name the file to check it anyway")]


def _walk(folder: Path) -> Iterator[Path]:
    """The files below a folder that may be workflows. Links to files are followed, links to folders are not."""
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue
        if path.is_dir():
            if path.name not in _SKIPPED_FOLDERS and not path.is_symlink():
                yield from _walk(path)
        elif path.suffix in _SUFFIXES:
            yield path


def says_nothing(text: str) -> bool:
    """Whether a text has only comments and blank lines."""
    said = (line.strip() for line in text.splitlines())
    return all(not line or line.startswith("#") or line in _MARKERS for line in said)


def is_workflow(text: str) -> bool:
    """Whether a text looks like a workflow; which mistakes it has is another question."""
    return _NATIVE_MARK.search(text) is not None or _PUBLISHED_MARK.search(text) is not None
