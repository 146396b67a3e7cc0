"""Encrypts what is stored of a sign-in: AES-256-GCM under a key that is derived from the server's secret.

The tenant and the name of what it belongs to (a server, a session of the console) are authenticated with it: a row that
was copied to another one, or changed in any way, cannot be read. Each purpose has a key of its own. The secret is kept
outside the store, so a copy of the store reveals no token.

Above it: `grants`, the sessions of the console. Below it: `cryptography`.
"""

from __future__ import annotations

import base64
import binascii
from functools import cached_property
from secrets import token_bytes
from typing import TYPE_CHECKING, Final

from penstock.base.lazy_import import lazy_import

if TYPE_CHECKING:
    from cryptography import exceptions
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.ciphers import aead
    from cryptography.hazmat.primitives.kdf import hkdf
else:  # few servers have anything to encrypt, and the library takes a while to load
    exceptions = lazy_import("cryptography.exceptions")
    hashes = lazy_import("cryptography.hazmat.primitives.hashes")
    aead = lazy_import("cryptography.hazmat.primitives.ciphers.aead")
    hkdf = lazy_import("cryptography.hazmat.primitives.kdf.hkdf")

__all__ = ["TokenVault"]

_PURPOSE: Final = b"penstock tokens of other servers, version 1"
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12


class TokenVault:
    """Seals and opens texts for one server, or session, and tenant."""

    def __init__(self, pepper: bytes, purpose: bytes = _PURPOSE) -> None:
        self._pepper = pepper
        self._purpose = purpose

    @cached_property
    def _cipher(self) -> aead.AESGCM:
        derivation = hkdf.HKDF(algorithm=hashes.SHA256(), length=_KEY_BYTES, salt=None, info=self._purpose)
        return aead.AESGCM(derivation.derive(self._pepper))

    def seal(self, tenant: str, name: str, content: bytes) -> str:
        """Encrypt something."""
        nonce = token_bytes(_NONCE_BYTES)
        return base64.b64encode(nonce + self._cipher.encrypt(nonce, content, _context(tenant, name))).decode("ascii")

    def unseal(self, tenant: str, name: str, sealed: object) -> bytes | None:
        """Decrypt something; None if it was not sealed here, for this tenant and this name."""
        try:
            given = base64.b64decode(sealed if isinstance(sealed, str) else "", validate=True)
            return self._cipher.decrypt(given[:_NONCE_BYTES], given[_NONCE_BYTES:], _context(tenant, name))
        except (binascii.Error, exceptions.InvalidTag, ValueError):
            return None


def _context(tenant: str, name: str) -> bytes:
    # Neither contains the separator, so that no two pairs are the same text.
    return b"\0".join((tenant.encode(), name.encode()))
