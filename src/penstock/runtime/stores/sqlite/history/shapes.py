"""Shapes of moves in the SQLite file: each is kept once and has a number, by which pages of history refer to it.

A file has one shape for each kind of move of each definition, and keeps it for good: what refers to it may be read
years later. A page that is a move is ``[number, at, value, ...]``; a page of records begins with two brackets or a
brace, so that its second character tells which it is.

Above it: `runs.appending` (writing), `reader`, `maintenance`. Below it: the engine's `pages`.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator

from penstock.base.errors import CorruptHistory
from penstock.engine.pages import Move, Shape, shape_of

__all__ = ["ShapeNumbers", "ShapeReader", "altered_shapes", "is_move"]


_DIGITS = frozenset(b"123456789")
_KNOWN_MAX = 10_000  # some megabytes; then all are forgotten, and looked up again when they are needed
_PAGE = bytearray(b"[%d,%d,%b]")  # what is made of it is bound to a statement at once, which bytes are not
_HINT = "restore a backup with `penstock restore`"


def is_move(page: bytes) -> bool:
    """Whether a page of history is a move."""
    return len(page) > 1 and page[1] in _DIGITS


def _hash(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=32).digest()


class ShapeNumbers:
    """The numbers of shapes, for the writer of a file; a shape that has none gets one in the same transaction."""

    def __init__(self) -> None:
        self._known: dict[bytes, int] = {}
        self._new: dict[bytes, int] = {}  # of the transaction under way, which may still be rolled back

    def clear(self) -> None:
        """A transaction begins."""
        self._new.clear()

    def page(self, connection: sqlite3.Connection, move: Move) -> bytes | bytearray:
        """A move as it is stored."""
        content = move.shape.content
        number = self._known.get(content) or self._new.get(content) or self._number(connection, content)
        return _PAGE % (number, move.at, move.encoded)

    def _number(self, connection: sqlite3.Connection, content: bytes) -> int:
        key = _hash(content)
        found = connection.execute("SELECT number FROM shapes WHERE hash = ?", (key,)).fetchone()
        if found is not None:
            # It was there before this transaction began, and stays whatever becomes of that.
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            number = self._known[content] = int(found[0])
            return number
        made = connection.execute("INSERT INTO shapes (hash, content) VALUES (?,?)", (key, content)).lastrowid
        if made is None:
            raise sqlite3.IntegrityError("a shape got no number")
        self._new[content] = made
        return made


class ShapeReader:
    """Shapes by number, of one file; one that was read stays in memory, since it never changes."""

    def __init__(self) -> None:
        self._known: dict[int, Shape] = {}

    def shape(self, connection: sqlite3.Connection, number: int) -> Shape:
        """The shape of a number; raises `CorruptHistory` where there is none, or another one than was stored."""
        known = self._known.get(number)
        if known is not None:
            return known
        found = connection.execute("SELECT hash, content FROM shapes WHERE number = ?", (number,)).fetchone()
        if found is None:
            raise CorruptHistory("SHAPE_MISSING", f"the shape {number} of a move is not in the store", _HINT)
        key, content = found
        if not isinstance(content, bytes) or _hash(content) != key:
            raise CorruptHistory("SHAPE_CHANGED", f"the shape {number} of moves is not what its hash stands for", _HINT)
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        shape = self._known[number] = shape_of(content)
        return shape


def altered_shapes(connection: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """Shapes that are not what they should be: a code and what to say."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'shapes'").fetchone():
        return  # an older file
    for number, key, content in connection.execute("SELECT number, hash, content FROM shapes"):
        if not isinstance(content, bytes) or _hash(content) != key:
            yield "SHAPE_CHANGED", f"the shape {number} of moves is not what its hash stands for"
