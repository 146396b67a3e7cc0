"""Which files have changed since the last look, judged by what the file system says about them.

Looking is cheap enough to be done a few times a second, works on every system and file share, and needs no library. A
change is reported once it has settled, so that an editor that writes a file in two steps is not read in between.

Above it: `penstock dev`. Below it: the file system.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

__all__ = ["FileChanges"]


@dataclass(frozen=True, slots=True)
class _Missing:
    """Stands for a file that does not exist."""


_Stamp: TypeAlias = "tuple[int, int, int] | _Missing"
_MISSING = _Missing()


class FileChanges:
    """Watches the files that a function lists; the list may change from one look to the next."""

    def __init__(self, listed: Callable[[], Iterable[Path]]) -> None:
        self._listed = listed
        self._reported: dict[Path, _Stamp] = {path: _stamp(path) for path in listed()}
        self._seen = dict(self._reported)

    def look(self) -> list[Path]:
        """Files that were added, changed or removed, and have stayed so since the previous look."""
        now = {path: _stamp(path) for path in dict.fromkeys((*self._listed(), *self._reported))}
        settled = [
            path
            for path, stamp in now.items()
            if stamp == self._seen.get(path, None) and stamp != self._reported.get(path, _MISSING)
        ]
        self._seen = now
        for path in settled:
            if isinstance(now[path], _Missing):
                del self._reported[path]
            else:
                self._reported[path] = now[path]
        return settled


def _stamp(path: Path) -> _Stamp:
    try:
        found = path.stat()
    except OSError:
        return _MISSING
    return found.st_mtime_ns, found.st_size, found.st_ino
