"""How far the write-ahead log of a file was written, in a small file beside it, so that a log that was cut is noticed.

SQLite reads a log up to its last whole commit and takes that for the end: it cannot know that there were more. A moment
(`STORE_LOG_END_NOTED_SECONDS`) after commits have reached the disk, the writer notes the salt of the log's contents and
the number of frames up to the last commit. A log with that salt and fewer sound frames has lost commits that were
acknowledged. The note is not synchronized: after a crash it may be older than the log, never newer.

The note is emptied when the log is copied into the file and emptied, and removed when the last process closes the file.

The format of the log is documented (https://www.sqlite.org/fileformat2.html#walformat). The log is never locked, so it
may be opened and closed here.

Above it: `log_notes`, `database`. Below it: the file system.
"""

from __future__ import annotations

import os
import struct
from array import array
from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

__all__ = ["NOTE_SUFFIX", "LogEnd", "NotedEnd", "count_frames", "forget_end", "is_log_cut", "remove_end"]

NOTE_SUFFIX: Final = "-end"
_NOTE = struct.Struct(">8sQ")
# Size of a page, salt.
_HEADER = struct.Struct(">8xI4x8s8x")
# Pages after the commit (0 if the frame ends none), salt.
_FRAME = struct.Struct(">4xI8s8x")
_CHECKED_OF_FRAME: Final = 8
_BIG_ENDIAN: Final = 1  # the lowest bit of the magic number: the order of the bytes in checksums
_WORD: Final = 0xFFFFFFFF


class NotedEnd(NamedTuple):
    """What a note says: the salt of the log, and its number of frames."""

    salt: bytes
    frames: int


def count_frames(log: int) -> int:
    """The number of frames of the log's present contents. Behind them there may be frames of earlier contents."""
    header = os.pread(log, _HEADER.size, 0)
    if len(header) < _HEADER.size:
        return 0
    page_bytes, salt = _HEADER.unpack(header)
    present = _presence(log, page_bytes, salt)
    numbers = range((os.fstat(log).st_size - _HEADER.size) // (_FRAME.size + page_bytes))
    return bisect_left(numbers, True, key=lambda number: not present(number))


def _presence(log: int, page_bytes: int, salt: bytes) -> Callable[[int], bool]:
    def is_present(number: int) -> bool:
        frame = os.pread(log, _FRAME.size, _HEADER.size + number * (_FRAME.size + page_bytes))
        return len(frame) == _FRAME.size and _FRAME.unpack(frame)[1] == salt

    return is_present


class LogEnd:
    """Notes the end of a file's log. One thread at a time."""

    def __init__(self, path: str) -> None:
        self._log_path = f"{os.path.realpath(path)}-wal"
        self._note_path = f"{os.path.realpath(path)}{NOTE_SUFFIX}"
        self._log: int | None = None
        self._note: int | None = None
        self._known = NotedEnd(b"", 0)

    def note(self) -> None:
        """Note how far the log goes. A disk that has no room for the note keeps nobody from working."""
        with suppress(OSError):
            if self._log is None:
                self._log = os.open(self._log_path, os.O_RDONLY)
            if self._note is None:
                self._note = os.open(self._note_path, os.O_RDWR | os.O_CREAT, 0o600)
            self._known = self._read_end(self._log)
            os.pwrite(self._note, _NOTE.pack(*self._known) if self._known.salt else bytes(_NOTE.size), 0)

    def close(self) -> None:
        """Close both files."""
        for descriptor in (self._log, self._note):
            if descriptor is not None:
                os.close(descriptor)
        self._log = self._note = None

    def _read_end(self, log: int) -> NotedEnd:
        """The last commit: looked for behind the one that is known, usually a few frames further."""
        header = os.pread(log, _HEADER.size, 0)
        if len(header) < _HEADER.size:
            return NotedEnd(b"", 0)
        page_bytes, salt = _HEADER.unpack(header)
        first = self._known.frames if self._known.salt == salt else 0
        present, step = _presence(log, page_bytes, salt), 1
        while present(first + step - 1):
            step *= 2
        number = bisect_left(range(first, first + step), True, key=lambda frame: not present(frame)) + first
        while number > first and not _ends_commit(log, page_bytes, number - 1):
            number -= 1  # another process is writing, or took back what it wrote
        return NotedEnd(salt, number)


def _ends_commit(log: int, page_bytes: int, number: int) -> bool:
    frame = os.pread(log, _FRAME.size, _HEADER.size + number * (_FRAME.size + page_bytes))
    return len(frame) == _FRAME.size and _FRAME.unpack(frame)[0] > 0


def forget_end(path: str) -> None:
    """Empty the note: the log is about to be emptied, or was. Processes that have the note open go on with it."""
    with suppress(OSError):
        os.truncate(f"{os.path.realpath(path)}{NOTE_SUFFIX}", 0)


def remove_end(path: str) -> None:
    """Remove the note of a file that nobody has open."""
    with suppress(OSError):
        os.unlink(f"{os.path.realpath(path)}{NOTE_SUFFIX}")


def is_log_cut(path: str) -> bool:
    """Whether the log of a file has fewer sound frames than were noted. False if there is no log or no note."""
    real = os.path.realpath(path)
    try:
        with open(f"{real}{NOTE_SUFFIX}", "rb") as file:
            raw = file.read(_NOTE.size)
    except OSError:
        return False
    if len(raw) < _NOTE.size or not any(raw):
        return False
    noted = NotedEnd(*_NOTE.unpack(raw))
    try:
        log = os.open(f"{real}-wal", os.O_RDONLY)
    except OSError:
        return False
    try:
        return _lacks_frames(log, noted)
    finally:
        os.close(log)


def _lacks_frames(log: int, noted: NotedEnd) -> bool:
    header = os.pread(log, _HEADER.size, 0)
    if len(header) < _HEADER.size:
        return noted.frames > 0
    page_bytes, salt = _HEADER.unpack(header)
    if salt != noted.salt:
        return False  # the log began anew since
    swap = (header[3] & _BIG_ENDIAN == 1) != (array("I", [1]).tobytes()[0] == 0)
    state = _checksum(header[:24], (0, 0), swap=swap)
    for number in range(noted.frames):
        frame = os.pread(log, _FRAME.size + page_bytes, _HEADER.size + number * (_FRAME.size + page_bytes))
        if len(frame) < _FRAME.size + page_bytes or _FRAME.unpack(frame[: _FRAME.size])[1] != salt:
            break
        state = _checksum(frame[:_CHECKED_OF_FRAME], state, swap=swap)
        state = _checksum(frame[_FRAME.size :], state, swap=swap)
        if state != struct.unpack(">II", frame[16:24]):
            break
    else:
        return False
    # Somebody who works with the file may have begun the log anew while it was read.
    return os.pread(log, _HEADER.size, 0) == header


def _checksum(content: bytes, state: tuple[int, int], *, swap: bool) -> tuple[int, int]:
    words = array("I", content)
    if swap:
        words.byteswap()
    one, two = state
    each = iter(words)
    for first, second in zip(each, each, strict=True):
        one = (one + first + two) & _WORD
        two = (two + second + one) & _WORD
    return one, two
