"""API keys as text: their form, and the hash that is stored instead of the secret.

A key is ``pen_<id>_<secret>``: the id names it in lists and in the audit log, the secret is shown once. The store keeps
an HMAC of the secret under a pepper that is not in the store, so that a copy of the store gives no access. The secret
has 256 random bits; a slow hash would not protect it better, and would slow down every request.

Above it: `operations`, `runtime.system` (which makes new ones). It draws no random numbers and keeps no state.
"""

from __future__ import annotations

import base64
import hmac
import re
from dataclasses import dataclass, field

__all__ = [
    "KEY_ID_CHARACTERS",
    "SECRET_BYTES",
    "ParsedKey",
    "derived_key",
    "hash_secret",
    "hide_secrets",
    "parse_key",
    "secret_matches",
]

# 60 bits: among a million keys, the chance of two equal ids is one in two million.
KEY_ID_CHARACTERS = 12
SECRET_BYTES = 32

_KEY = re.compile(rf"pen_([a-z2-7]{{{KEY_ID_CHARACTERS}}})_([A-Za-z0-9_-]{{43}})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedKey:
    """A key in its parts. Its repr leaves out the secret."""

    key_id: str
    secret: str = field(repr=False)

    @property
    def text(self) -> str:
        """The key as its owner gets it."""
        return f"pen_{self.key_id}_{self.secret}"


def parse_key(text: str) -> ParsedKey | None:
    """Return the parts of a key; None if the text is not a well-formed key."""
    found = _KEY.fullmatch(text)
    return None if found is None else ParsedKey(key_id=found[1], secret=found[2])


def hide_secrets(text: str) -> str:
    """Return a text without the secrets of keys in it, for records: somebody may send a key where a name belongs."""
    return _KEY.sub(r"pen_\1_…", text) if "pen_" in text else text


def derived_key(pepper: bytes, key_id: str, seed: str) -> ParsedKey:
    """Return a key whose secret can be derived again from its seed. The seed reveals nothing without the pepper."""
    digest = hmac.digest(pepper, f"api-key-secret\0{key_id}\0{seed}".encode(), "sha256")
    return ParsedKey(key_id=key_id, secret=base64.urlsafe_b64encode(digest).decode("ascii").rstrip("="))


def hash_secret(pepper: bytes, key_id: str, secret: str) -> str:
    """Return the hash that is stored for a secret.

    It includes the id, so equal secrets of two keys have different hashes.
    """
    return hmac.digest(pepper, f"{key_id}_{secret}".encode(), "sha256").hex()


def secret_matches(pepper: bytes, key_id: str, secret: str, secret_hash: str) -> bool:
    """Whether a secret is the one that was hashed; compares in constant time."""
    return hmac.compare_digest(hash_secret(pepper, key_id, secret).encode(), secret_hash.encode())
