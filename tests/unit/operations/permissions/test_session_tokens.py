"""Tokens of a session can be read for that session only."""

from __future__ import annotations

from penstock.operations.permissions.session_tokens import SessionTokens, SessionVault
from penstock.runtime.upstreams.oauth.vault import TokenVault

PEPPER = bytes(range(32))
TOKENS = SessionTokens(refresh_token="r-1", id_token="i-1")


def test_tokens_are_read_for_their_own_session_only() -> None:
    vault = SessionVault(PEPPER)
    sealed = vault.seal("default", "s-1", TOKENS)
    assert vault.unseal("default", "s-1", sealed) == TOKENS
    for other in (
        vault.unseal("default", "s-2", sealed),
        vault.unseal("acme", "s-1", sealed),
        vault.unseal("default", "s-1", None),
        SessionVault(bytes(32)).unseal("default", "s-1", sealed),
    ):
        assert other == SessionTokens()


def test_what_was_sealed_for_another_purpose_is_not_read() -> None:
    sealed = TokenVault(PEPPER).seal("default", "s-1", b'{"refresh_token": "r-1"}')
    assert SessionVault(PEPPER).unseal("default", "s-1", sealed) == SessionTokens()


def test_tokens_are_not_shown() -> None:
    assert "r-1" not in repr(TOKENS)
    assert "i-1" not in repr(TOKENS)
