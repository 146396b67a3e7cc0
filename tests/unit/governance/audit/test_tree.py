"""Merkle trees: roots as RFC 6962 defines them, proofs of inclusion and of consistency."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.governance.audit.tree import (
    EMPTY_ROOT,
    Frontier,
    RangeHasher,
    consistency_ranges,
    grown,
    inclusion_ranges,
    node_hash,
    verify_consistency,
    verify_inclusion,
)

SIZES = st.integers(1, 200)


def leaves(count: int) -> list[bytes]:
    return [hashlib.sha256(b"\x00%d" % number).digest() for number in range(count)]


def root_by_definition(given_leaves: list[bytes]) -> bytes:
    """The recursive definition of RFC 6962, section 2.1."""
    if len(given_leaves) < 2:
        return given_leaves[0] if given_leaves else EMPTY_ROOT
    half = 1
    while half * 2 < len(given_leaves):
        half *= 2
    return node_hash(root_by_definition(given_leaves[:half]), root_by_definition(given_leaves[half:]))


def proof(ranges: list[tuple[int, int]], found: list[bytes]) -> list[bytes]:
    hasher = RangeHasher(ranges)
    for index in range(0, len(found), 7):
        hasher.add(index, found[index : index + 7])
    assert hasher.position is None
    return hasher.hashes()


def test_the_roots_are_those_of_the_reference_tree_of_certificate_transparency() -> None:
    # The eight inputs and the roots that every implementation of RFC 6962 is tested with.
    inputs = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
    tree = Frontier()
    assert tree.root.hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    roots = []
    for text in inputs:
        tree = grown(tree, [hashlib.sha256(b"\x00" + bytes.fromhex(text)).digest()])
        roots.append(tree.root.hex())
    assert roots[0] == "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"
    assert roots[-1] == "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"


@given(SIZES, st.integers(0, 200))
def test_a_tree_that_grows_has_the_root_that_the_definition_gives_it(size: int, more: int) -> None:
    found = leaves(size + more)
    assert grown(grown(Frontier(), found[:size]), found[size:]).root == root_by_definition(found)


@given(SIZES, st.data())
def test_a_proof_of_inclusion_holds_for_its_leaf_and_for_no_other(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    found = leaves(size)
    root = grown(Frontier(), found).root
    path = proof(inclusion_ranges(index, size), found)
    assert verify_inclusion(found[index], index, size, path, root)
    other = data.draw(st.integers(0, size - 1))
    assert verify_inclusion(found[index], other, size, path, root) == (other == index)
    assert not verify_inclusion(leaves(size + 1)[size], index, size, path, root)
    assert not verify_inclusion(found[index], index, size, [*path, root], root)
    if path:
        assert not verify_inclusion(found[index], index, size, path[:-1], root)
        assert not verify_inclusion(found[index], index, size, [EMPTY_ROOT, *path[1:]], root)


@given(SIZES, st.data())
def test_a_proof_of_consistency_holds_for_its_trees_and_for_no_others(new: int, data: st.DataObject) -> None:
    old = data.draw(st.integers(0, new))
    found = leaves(new)
    old_root, new_root = grown(Frontier(), found[:old]).root, grown(Frontier(), found).root
    path = proof(consistency_ranges(old, new), found)
    assert verify_consistency(old, old_root, new, new_root, path)
    assert not verify_consistency(old, hashlib.sha256(b"other").digest(), new, new_root, path)
    if 0 < old < new:
        assert not verify_consistency(old, old_root, new, hashlib.sha256(b"other").digest(), path)
        assert not verify_consistency(old, old_root, new, new_root, path[:-1])
        assert not verify_consistency(old, old_root, new, new_root, [*path, EMPTY_ROOT])


@pytest.mark.parametrize(("index", "size"), [(0, 0), (3, 3), (-1, 3)])
def test_there_is_no_proof_for_a_leaf_that_is_not_there(index: int, size: int) -> None:
    with pytest.raises(ValueError, match="has no leaf"):
        inclusion_ranges(index, size)
    assert not verify_inclusion(EMPTY_ROOT, index, size, [], EMPTY_ROOT)


def test_there_is_no_proof_of_a_beginning_that_is_longer_than_the_whole() -> None:
    with pytest.raises(ValueError, match="has no beginning"):
        consistency_ranges(4, 3)
    assert not verify_consistency(4, EMPTY_ROOT, 3, EMPTY_ROOT, [])


def test_leaves_that_are_left_out_or_ranges_that_overlap_are_no_proof() -> None:
    hasher = RangeHasher([(0, 2)])
    with pytest.raises(ValueError, match="leaf 0 was left out"):
        hasher.add(1, leaves(3))
    with pytest.raises(ValueError, match="leaf 0 is missing"):
        hasher.hashes()
    with pytest.raises(ValueError, match="overlap"):
        RangeHasher([(0, 2), (1, 3)])
