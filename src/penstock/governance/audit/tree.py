"""Merkle trees over the leaves of an audit trail, as RFC 6962 and RFC 9162 define them.

A tree of any size is described by its `Frontier`: the roots of the complete subtrees from left to right, at most one
for each bit of the size. New leaves need nothing else, so a root costs no more than the leaves that came since. A proof
is a list of hashes of ranges of leaves (`inclusion_ranges`, `consistency_ranges`); `RangeHasher` computes them in one
pass over the leaves, with memory for the frontiers only.

Above it: `checkpoints`, `trails`, operations. Below it: SHA-256.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

__all__ = [
    "EMPTY_ROOT",
    "HASH_BYTES",
    "Frontier",
    "RangeHasher",
    "consistency_ranges",
    "grown",
    "inclusion_ranges",
    "node_hash",
    "verify_consistency",
    "verify_inclusion",
]

HASH_BYTES = 32
EMPTY_ROOT = hashlib.sha256(b"").digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node."""
    return hashlib.sha256(b"\x01" + left + right).digest()


class Frontier(msgspec.Struct, frozen=True):
    """A tree as far as it matters for what comes after: its size, and the roots of its complete subtrees."""

    size: int = 0
    nodes: tuple[bytes, ...] = ()

    @property
    def root(self) -> bytes:
        """The root of the tree."""
        if not self.nodes:
            return EMPTY_ROOT
        found = self.nodes[-1]
        for node in reversed(self.nodes[:-1]):
            found = node_hash(node, found)
        return found


def grown(frontier: Frontier, leaves: Iterable[bytes]) -> Frontier:
    """Return the tree with more leaves."""
    size, nodes = frontier.size, list(frontier.nodes)
    for leaf in leaves:
        found, bits = leaf, size
        while bits & 1:
            found = node_hash(nodes.pop(), found)
            bits >>= 1
        nodes.append(found)
        size += 1
    return Frontier(size, tuple(nodes))


def inclusion_ranges(index: int, size: int) -> list[tuple[int, int]]:
    """Return the ranges of leaves whose hashes prove that a leaf is in a tree, nearest to the leaf first."""
    if not 0 <= index < size:
        raise ValueError(f"a tree of {size} has no leaf {index}")
    ranges: list[tuple[int, int]] = []
    start, end = 0, size
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            ranges.append((middle, end))
            end = middle
        else:
            ranges.append((start, middle))
            start = middle
    return ranges[::-1]


def consistency_ranges(old: int, new: int) -> list[tuple[int, int]]:
    """Return the ranges of leaves whose hashes prove that a tree is the beginning of a larger one."""
    if not 0 <= old <= new:
        raise ValueError(f"a tree of {new} has no beginning of {old}")
    if old in (0, new):
        return []
    ranges: list[tuple[int, int]] = []
    start, end, is_whole = 0, new, True
    while end != old:
        middle = start + _split(end - start)
        if old <= middle:
            ranges.append((middle, end))
            end = middle
        else:
            ranges.append((start, middle))
            start, is_whole = middle, False
    if not is_whole:
        ranges.append((start, end))
    return ranges[::-1]


def _split(size: int) -> int:
    """Return the largest power of two below a size."""
    return 1 << ((size - 1).bit_length() - 1)


class RangeHasher:
    """Computes the hashes of ranges of leaves that do not overlap, in one pass over the leaves."""

    def __init__(self, ranges: Sequence[tuple[int, int]]) -> None:
        self._ranges = ranges
        self._waiting = sorted(ranges)
        if any(start < end for (_, end), (start, _) in pairwise(self._waiting)):
            raise ValueError("the ranges overlap")
        self._found: dict[tuple[int, int], bytes] = {}
        self._current = Frontier()

    @property
    def position(self) -> int | None:
        """The number of the next leaf that is needed; None if no more are."""
        return self._waiting[0][0] + self._current.size if self._waiting else None

    def add(self, index: int, leaves: Sequence[bytes]) -> None:
        """Add leaves in a row, the first of which has this number. Leaves that are not needed are ignored."""
        while self._waiting:
            start, end = self._waiting[0]
            first = start + self._current.size
            if first < index:
                raise ValueError(f"leaf {first} was left out")
            taken = leaves[first - index : end - index]
            self._current = grown(self._current, taken)
            if start + self._current.size < end:
                return
            self._found[self._waiting.pop(0)] = self._current.root
            self._current = Frontier()

    def hashes(self) -> list[bytes]:
        """Return the hashes in the order in which the ranges were given; raise ValueError if leaves are missing."""
        if self._waiting:
            raise ValueError(f"leaf {self.position} is missing")
        return [self._found[found] for found in self._ranges]


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Whether a proof shows that a leaf has this number in the tree with this size and root."""
    if not 0 <= index < size:
        return False
    position, last, found = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            return False
        if position & 1 or position == last:
            found = node_hash(sibling, found)
            while position and not position & 1:
                position, last = position >> 1, last >> 1
        else:
            found = node_hash(found, sibling)
        position, last = position >> 1, last >> 1
    return last == 0 and found == root


def verify_consistency(old: int, old_root: bytes, new: int, new_root: bytes, proof: Sequence[bytes]) -> bool:
    """Whether a proof shows that a tree is the beginning of a larger one."""
    if old == new:
        return not proof and old_root == new_root
    if not 0 <= old < new:
        return False
    if old == 0:
        return not proof and old_root == EMPTY_ROOT
    # The root of a complete subtree is not repeated in the proof.
    hashes = [old_root, *proof] if old & (old - 1) == 0 else list(proof)
    return bool(hashes) and _leads_to_both(hashes, old - 1, new - 1, old_root, new_root)


def _leads_to_both(hashes: Sequence[bytes], position: int, last: int, old_root: bytes, new_root: bytes) -> bool:
    while position & 1:
        position, last = position >> 1, last >> 1
    first = second = hashes[0]
    for sibling in hashes[1:]:
        if last == 0:
            return False
        if position & 1 or position == last:
            first, second = node_hash(sibling, first), node_hash(sibling, second)
            while position and not position & 1:
                position, last = position >> 1, last >> 1
        else:
            second = node_hash(second, sibling)
        position, last = position >> 1, last >> 1
    return last == 0 and first == old_root and second == new_root
