"""Signed checkpoints of an audit trail, in the forms of C2SP: signed notes, tlog checkpoints, verifier keys.

A checkpoint names the trail, its size, the root of its Merkle tree and the time. An Ed25519 signature over that text
follows, with the name of the key and four bytes that distinguish keys of the same name. Any tool that knows signed
notes can verify it.

A server that changes its key leaves a statement: a note that names the old and the new key and is signed by both. Trust
in one of them extends to the other (`trusted_keys`).

Above it: `trails`, operations, `app`, which keeps the key. Below it: Ed25519.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

import msgspec

from penstock.base.lazy_import import lazy_import
from penstock.governance.audit.tree import HASH_BYTES

# Loaded with the first signature: a server starts without it.
if TYPE_CHECKING:
    from cryptography import exceptions
    from cryptography.hazmat.primitives.asymmetric import ed25519
else:
    exceptions = lazy_import("cryptography.exceptions")
    ed25519 = lazy_import("cryptography.hazmat.primitives.asymmetric.ed25519")

__all__ = [
    "SEED_BYTES",
    "Checkpoint",
    "Note",
    "SigningKey",
    "VerifierKey",
    "key_statement",
    "origin_of",
    "parse_key_file",
    "parse_notes",
    "sign_checkpoint",
    "stated_keys",
    "tenant_of",
    "trusted_keys",
]

SEED_BYTES = 32
_ED25519 = b"\x01"
_ID_BYTES = 4
_SIGNATURE = "\u2014 "
_STATEMENT = "penstock audit key"
_TIME = "time "


class VerifierKey(msgspec.Struct, frozen=True):
    """A public key and its name."""

    name: str
    public: bytes

    @property
    def key_id(self) -> bytes:
        """Distinguishes keys of the same name."""
        return hashlib.sha256(self.name.encode() + b"\n" + _ED25519 + self.public).digest()[:_ID_BYTES]

    def __str__(self) -> str:
        """Return the key as text: its name, id and bytes."""
        return f"{self.name}+{self.key_id.hex()}+{_base64(_ED25519 + self.public)}"

    @classmethod
    def parse(cls, text: str) -> VerifierKey:
        """Read a key from its text; raise ValueError if it is not a key."""
        name, _, rest = text.strip().partition("+")
        key_id, _, encoded = rest.partition("+")
        public = _unbase64(encoded)
        key = cls(name, public[1:])
        if not _is_name(name) or public[:1] != _ED25519 or len(key.public) != HASH_BYTES or key.key_id.hex() != key_id:
            raise ValueError("this is not an Ed25519 verifier key (name+id+base64)")
        return key

    def verifies(self, text: str, signature: bytes) -> bool:
        """Whether a signature over a text is this key's."""
        try:
            ed25519.Ed25519PublicKey.from_public_bytes(self.public).verify(signature, text.encode())
        except exceptions.InvalidSignature:
            return False
        return True


class SigningKey(msgspec.Struct, frozen=True):
    """A private key and its name."""

    name: str
    seed: bytes

    @property
    def verifier(self) -> VerifierKey:
        """The public key."""
        return VerifierKey(
            self.name, ed25519.Ed25519PrivateKey.from_private_bytes(self.seed).public_key().public_bytes_raw()
        )

    def signature_line(self, text: str) -> str:
        """Return the line that signs a text."""
        signature = ed25519.Ed25519PrivateKey.from_private_bytes(self.seed).sign(text.encode())
        return f"{_SIGNATURE}{self.name} {_base64(self.verifier.key_id + signature)}\n"


class Note(msgspec.Struct, frozen=True):
    """A signed text: its lines, and for each signature the name, the id of the key and the bytes."""

    text: str
    signatures: tuple[tuple[str, bytes, bytes], ...]

    def is_signed_by(self, key: VerifierKey) -> bool:
        """Whether the note has a valid signature of this key."""
        return any(
            name == key.name and key_id == key.key_id and key.verifies(self.text, signature)
            for name, key_id, signature in self.signatures
        )

    def __str__(self) -> str:
        """Return the note as it was written."""
        lines = (f"{_SIGNATURE}{name} {_base64(key_id + signature)}\n" for name, key_id, signature in self.signatures)
        return f"{self.text}\n{''.join(lines)}"


def parse_notes(content: str) -> list[Note]:
    """Read the notes in a text, one after another, with or without empty lines between them; raise ValueError."""
    notes: list[Note] = []
    lines = content.splitlines()
    position = 0
    while position < len(lines):
        if not lines[position]:
            position += 1
            continue
        start = position
        while position < len(lines) and lines[position]:
            position += 1
        text = "".join(f"{line}\n" for line in lines[start:position])
        position += 1
        signatures = []
        while position < len(lines) and lines[position].startswith(_SIGNATURE):
            signatures.append(_parsed_signature(lines[position]))
            position += 1
        if not signatures:
            raise ValueError(f"the note that begins with {lines[start][:80]!r} has no signature")
        notes.append(Note(text, tuple(signatures)))
    return notes


def _parsed_signature(line: str) -> tuple[str, bytes, bytes]:
    name, _, encoded = line.removeprefix(_SIGNATURE).partition(" ")
    signature = _unbase64(encoded)
    if not _is_name(name) or len(signature) <= _ID_BYTES:
        raise ValueError("a line of a note is not a signature")
    return name, signature[:_ID_BYTES], signature[_ID_BYTES:]


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a trail at a time: how many records it had, and the root of the tree over them."""

    origin: str
    size: int
    root: bytes
    at: str | None = None
    """RFC 3339."""

    @property
    def text(self) -> str:
        """The text that is signed."""
        time = f"{_TIME}{self.at}\n" if self.at is not None else ""
        return f"{self.origin}\n{self.size}\n{_base64(self.root)}\n{time}"

    @classmethod
    def parse(cls, text: str) -> Checkpoint:
        """Read a checkpoint; raise ValueError if it is not a checkpoint. Unknown lines at the end are ignored."""
        origin, size, root, *more = [*text.splitlines(), "", "", ""][: max(3, text.count("\n"))]
        decoded = _unbase64(root)
        if not origin or not (size.isascii() and size.isdecimal()) or str(int(size)) != size:
            raise ValueError("this is not a checkpoint (origin, size, root)")
        if len(decoded) != HASH_BYTES:
            raise ValueError("the root of this checkpoint is not a SHA-256 hash")
        times = [line.removeprefix(_TIME) for line in more if line.startswith(_TIME)]
        return cls(origin=origin, size=int(size), root=decoded, at=times[0] if times else None)


def origin_of(name: str, tenant: str) -> str:
    """Return the name of a tenant's trail, by the name of the server's key."""
    return f"{name}/{quote(tenant, safe='')}"


def tenant_of(origin: str) -> str:
    """Return the tenant whose trail has this name."""
    return unquote(origin.rpartition("/")[2])


def sign_checkpoint(key: SigningKey, checkpoint: Checkpoint) -> str:
    """Return a signed checkpoint."""
    text = checkpoint.text
    return f"{text}\n{key.signature_line(text)}"


def key_statement(old: SigningKey, new: SigningKey, at: str) -> str:
    """Return the statement that a key follows another, signed by both."""
    text = f"{_STATEMENT}\n{old.verifier}\n{new.verifier}\n{_TIME}{at}\n"
    return f"{text}\n{old.signature_line(text)}{new.signature_line(text)}"


def stated_keys(note: Note) -> tuple[VerifierKey, VerifierKey] | None:
    """Return the old and the new key of a statement; None if the note is not a statement, or not signed by both."""
    title, *lines = note.text.splitlines()
    if title != _STATEMENT or len(lines) < 2:  # noqa: PLR2004  # the old and the new key
        return None
    old, new = VerifierKey.parse(lines[0]), VerifierKey.parse(lines[1])
    return (old, new) if note.is_signed_by(old) and note.is_signed_by(new) else None


def trusted_keys(keys: Iterable[VerifierKey], statements: Sequence[Note]) -> frozenset[VerifierKey]:
    """Return the keys, and those that statements connect with them."""
    trusted = set(keys)
    pairs = [pair for pair in map(stated_keys, statements) if pair is not None]
    while more := {key for pair in pairs if trusted.intersection(pair) for key in pair} - trusted:
        trusted |= more
    return frozenset(trusted)


def parse_key_file(content: str) -> tuple[list[VerifierKey], list[Note]]:
    """Read a file of public keys: a key in each line, then statements after an empty line; raise ValueError."""
    head, _, rest = content.strip().partition("\n\n")
    keys = [VerifierKey.parse(line) for line in head.splitlines() if line and not line.startswith("#")]
    if not keys:
        raise ValueError("there is no key in it")
    return keys, parse_notes(rest)


def _is_name(name: str) -> bool:
    return bool(name) and "+" not in name and not any(character.isspace() for character in name)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _unbase64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("this is not base64") from error
