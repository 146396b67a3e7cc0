"""The tokens that an issuer gave for a session of the console, as they are stored: encrypted, for this session only.

Above it: the console. Below it: the vault, which also keeps what other servers granted to us.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec

from penstock.base.encoding import encode_bytes
from penstock.runtime.upstreams.oauth.vault import TokenVault

__all__ = ["SessionTokens", "SessionVault"]

_PURPOSE: Final = b"penstock tokens of console sessions, version 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTokens:
    """What an issuer gave for a session. Its repr has none of it."""

    refresh_token: str | None = field(default=None, repr=False)
    id_token: str | None = field(default=None, repr=False)
    """What the issuer is shown when somebody signs out there."""


class SessionVault:
    """Seals and opens the tokens of sessions."""

    def __init__(self, pepper: bytes) -> None:
        self._vault = TokenVault(pepper, _PURPOSE)

    def seal(self, tenant: str, session_id: str, tokens: SessionTokens) -> str:
        """Encrypt the tokens of a session."""
        return self._vault.seal(tenant, session_id, encode_bytes(tokens))

    def unseal(self, tenant: str, session_id: str, sealed: str | None) -> SessionTokens:
        """Decrypt them; those that were sealed for another session, or with another secret, are left out."""
        content = None if sealed is None else self._vault.unseal(tenant, session_id, sealed)
        if content is None:
            return SessionTokens()
        try:
            return msgspec.json.decode(content, type=SessionTokens)
        except msgspec.MsgspecError:
            return SessionTokens()  # of a version that keeps something else
