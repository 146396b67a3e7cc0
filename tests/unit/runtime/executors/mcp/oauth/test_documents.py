"""What servers publish about themselves: whatever they send, something sound is read or nothing."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.runtime.executors.mcp.oauth.documents import (
    read_authorization_server,
    read_resource_document,
    read_tokens,
)

values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=4)),
    max_leaves=8,
)
MEMBERS = [
    "issuer",
    "token_endpoint",
    "resource",
    "authorization_servers",
    "scopes_supported",
    "access_token",
    "refresh_token",
    "expires_in",
    "scope",
    "token_type",
    "code_challenge_methods_supported",
]


@given(st.one_of(st.binary(max_size=100), st.dictionaries(st.sampled_from(MEMBERS), values).map(json.dumps)))
def test_nothing_that_a_server_sends_breaks_the_reader(body: bytes | str) -> None:
    raw = body if isinstance(body, bytes) else body.encode()
    for read in (read_authorization_server, read_resource_document, read_tokens):
        read(raw)


@pytest.mark.parametrize(
    "endpoint",
    ["http://as.example/token", "ftp://as.example", "https://user@as.example/t", "https://as.example/t#x", "", "x", 5],
)
def test_an_endpoint_that_is_not_for_secrets_is_none(endpoint: object) -> None:
    body = json.dumps({"issuer": "https://as.example", "token_endpoint": endpoint}).encode()
    assert read_authorization_server(body) is None


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "ä", "x" * 20_000, 5, None])
def test_a_token_that_no_header_can_carry_is_none(token: object) -> None:
    assert read_tokens(json.dumps({"access_token": token}).encode()) is None


def test_a_token_of_another_type_is_none() -> None:
    assert read_tokens(b'{"access_token": "a", "token_type": "DPoP"}') is None


@pytest.mark.parametrize(
    ("given_value", "seconds"),
    [(60, 60), ("61", 61), (60.9, 60), (-5, 0), (10**30, 10**9), ("soon", None), (True, None)],
)
def test_durations_are_read_as_servers_write_them(given_value: object, seconds: int | None) -> None:
    tokens = read_tokens(json.dumps({"access_token": "a", "expires_in": given_value}).encode())
    assert tokens is not None
    assert tokens.expires_in_seconds == seconds
    assert "a" not in repr(tokens).removeprefix("Tokens")
