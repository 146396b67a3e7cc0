"""Shapes of moves: each is stored once under a number, and pages of history refer to that number.

There is one shape for each kind of move of each definition. Shapes are never deleted, because the pages that refer to
them may be read years later. A page that is a move is ``[number, at, value, ...]``. A page of records starts with two
brackets or a brace, so its second character tells the two apart.

Above it: `appending` (writing), `history`, `checks`. Below it: the engine's `pages`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from weakref import WeakKeyDictionary

from penstock.base.errors import CorruptHistory
from penstock.engine.pages import Move, Shape, shape_of
from penstock.runtime.ports.transactions import Reader, Transaction

__all__ = ["ShapeNumbers", "ShapeReader", "altered_shapes", "is_move"]


_DIGITS = frozenset(b"123456789")
_KNOWN_MAX = 10_000  # a few megabytes; then the cache is emptied and fills again on use
_PAGE = bytearray(b"[%d,%d,%b]")  # sqlite3 binds a bytearray directly, but looks for an adapter for bytes
_NUMBER = "SELECT number FROM shapes WHERE hash = ?"
_ADD = "INSERT INTO shapes (hash, content) VALUES (?,?) ON CONFLICT (hash) DO NOTHING RETURNING number"
_HINT = "restore a backup with `penstock server restore`"


def is_move(page: bytes) -> bool:
    """True if a page of history is a move."""
    return len(page) > 1 and page[1] in _DIGITS


def _hash(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=32).digest()


class ShapeNumbers:
    """The numbers of shapes, for writers. A new shape gets a number in the same transaction."""

    def __init__(self) -> None:
        self._known: dict[bytes, int] = {}
        # From open transactions, which may still be rolled back.
        self._new: WeakKeyDictionary[Transaction, dict[bytes, int]] = WeakKeyDictionary()

    def page(self, transaction: Transaction, move: Move) -> bytes | bytearray:
        """Encode a move as it is stored."""
        content = move.shape.content
        number = self._known.get(content) or self._find_number(transaction, content)
        return _PAGE % (number, move.at, move.encoded)

    def _find_number(self, transaction: Transaction, content: bytes) -> int:
        made_here = self._new.get(transaction, {})
        if content in made_here:
            return made_here[content]
        key = _hash(content)
        found = transaction.one(_NUMBER, (key,))
        if found is not None:
            # Stored before this transaction started, so a rollback does not affect it.
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            number = self._known[content] = int(found[0])
            return number
        # Another writer may have stored it since.
        made = transaction.one(_ADD, (key, content)) or transaction.one(_NUMBER, (key,))
        if made is None:
            raise TypeError("a shape got no number")
        self._new.setdefault(transaction, made_here)[content] = int(made[0])
        return int(made[0])


class ShapeReader:
    """The shapes of one database by number. They never change, so each is read once and stays in memory."""

    def __init__(self) -> None:
        self._known: dict[int, Shape] = {}

    def shape(self, reader: Reader, number: int) -> Shape:
        """The shape with a number. Raises `CorruptHistory` if it is missing or differs from what was stored."""
        known = self._known.get(number)
        if known is not None:
            return known
        found = reader.one("SELECT hash, content FROM shapes WHERE number = ?", (number,))
        if found is None:
            raise CorruptHistory("SHAPE_MISSING", f"the shape {number} of a move is not in the store", _HINT)
        key, content = found
        if not isinstance(content, bytes) or _hash(content) != key:
            raise CorruptHistory(
                "SHAPE_CHANGED", f"the shared value {number} of several moves does not match its hash", _HINT
            )
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        shape = self._known[number] = shape_of(content)
        return shape


def altered_shapes(reader: Reader) -> Iterator[tuple[str, str]]:
    """Find altered shapes. Yields a code and a message for each."""
    for number, key, content in reader.rows("SELECT number, hash, content FROM shapes"):
        if not isinstance(content, bytes) or _hash(content) != key:
            yield "SHAPE_CHANGED", f"the shared value {number} of several moves does not match its hash"
