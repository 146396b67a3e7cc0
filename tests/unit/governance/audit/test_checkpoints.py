"""Signed notes, checkpoints, verifier keys, and statements about new keys."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.governance.audit.checkpoints import (
    Checkpoint,
    SigningKey,
    VerifierKey,
    key_statement,
    origin_of,
    parse_key_file,
    parse_notes,
    sign_checkpoint,
    stated_keys,
    tenant_of,
    trusted_keys,
)

FIRST, SECOND, THIRD = (SigningKey("penstock-1", bytes([number]) * 32) for number in (1, 2, 3))
CHECKPOINT = Checkpoint(origin="penstock-1/shop", size=7, root=b"r" * 32, at="2026-01-31T09:00:00Z")


def test_a_signed_checkpoint_has_the_published_form() -> None:
    lines = sign_checkpoint(FIRST, CHECKPOINT).splitlines()
    assert lines[:4] == ["penstock-1/shop", "7", base64.b64encode(b"r" * 32).decode(), "time 2026-01-31T09:00:00Z"]
    assert lines[4] == ""
    assert lines[5].startswith("\u2014 penstock-1 ")
    signature = base64.b64decode(lines[5].rpartition(" ")[2])
    assert signature[:4] == FIRST.verifier.key_id
    assert len(signature) == 4 + 64
    assert len(lines) == 6


def test_a_verifier_key_of_another_implementation_is_read() -> None:
    # The example key of the Go module golang.org/x/mod/sumdb/note.
    text = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
    key = VerifierKey.parse(text)
    assert str(key) == text
    assert key.key_id.hex() == "c74f20a3"


def test_a_note_that_was_changed_or_signed_by_another_is_not_signed() -> None:
    (note,) = parse_notes(sign_checkpoint(FIRST, CHECKPOINT))
    assert note.is_signed_by(FIRST.verifier)
    assert not note.is_signed_by(SECOND.verifier)
    (changed,) = parse_notes(str(note).replace("\n7\n", "\n8\n"))
    assert not changed.is_signed_by(FIRST.verifier)


@given(st.text(max_size=20), st.integers(0, 2**60), st.binary(min_size=32, max_size=32))
def test_what_is_written_is_read_again(tenant: str, size: int, root: bytes) -> None:
    checkpoint = Checkpoint(origin=origin_of("penstock-1", tenant), size=size, root=root)
    written = sign_checkpoint(FIRST, checkpoint)
    first, second = parse_notes(written + written)
    assert first == second
    assert first.is_signed_by(FIRST.verifier)
    assert Checkpoint.parse(first.text) == checkpoint
    assert tenant_of(checkpoint.origin) == tenant


@pytest.mark.parametrize(
    "text", ["", "origin\n", "origin\n07\nAA==\n", "origin\n-1\nAA==\n", "origin\n7\nAA==\n", "origin\n7\nno base64\n"]
)
def test_what_is_no_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"checkpoint|base64"):
        Checkpoint.parse(text)


@pytest.mark.parametrize(
    "text", ["text\n", "text\n\nmore\n", "text\n\n\u2014 name\n", "text\n\n\u2014 na+me AAAAAAAA\n"]
)
def test_what_is_no_note_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"signature|base64"):
        parse_notes(text)


def test_lines_that_a_later_release_adds_to_a_checkpoint_are_ignored() -> None:
    text = CHECKPOINT.text + "something new\n"
    assert Checkpoint.parse(text) == CHECKPOINT


@pytest.mark.parametrize(
    "text", ["", "name", "name+00000000+AAAA", str(FIRST.verifier)[:-4], "a b" + str(FIRST.verifier)]
)
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"key|base64"):
        VerifierKey.parse(text)


def test_statements_lead_from_a_trusted_key_to_its_successors_and_predecessors() -> None:
    notes = parse_notes(key_statement(FIRST, SECOND, "2026-01-31T09:00:00Z") + key_statement(SECOND, THIRD, "2027"))
    everything = {FIRST.verifier, SECOND.verifier, THIRD.verifier}
    assert trusted_keys([FIRST.verifier], notes) == everything
    assert trusted_keys([THIRD.verifier], notes) == everything
    assert trusted_keys([FIRST.verifier], notes[1:]) == {FIRST.verifier}


def test_a_statement_that_one_of_the_two_did_not_sign_counts_for_nothing() -> None:
    whole = key_statement(FIRST, SECOND, "2026-01-31T09:00:00Z")
    *lines, old_line, new_line = whole.splitlines(keepends=True)
    for line in (old_line, new_line):
        (note,) = parse_notes("".join(lines) + line)
        assert stated_keys(note) is None
        assert trusted_keys([FIRST.verifier], [note]) == {FIRST.verifier}


def test_a_key_file_has_keys_and_statements() -> None:
    statement = key_statement(FIRST, SECOND, "2026-01-31T09:00:00Z")
    keys, statements = parse_key_file(f"# of our server\n{SECOND.verifier}\n\n{statement}")
    assert keys == [SECOND.verifier]
    assert trusted_keys(keys, statements) == {FIRST.verifier, SECOND.verifier}
    with pytest.raises(ValueError, match="no key"):
        parse_key_file("# nothing\n")
