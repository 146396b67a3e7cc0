"""A token has one spelling, and its header decides nothing."""

from __future__ import annotations

import base64
import json
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base import limits
from penstock.governance.tokens.parsing import ParsedToken, check_header, parse_token
from penstock.governance.tokens.rules import ALGORITHMS, TokenRefusal
from tests.issuers import Issuer, base64url

PUBLIC = frozenset(ALGORITHMS)
_NAMES = st.sampled_from(["alg", "typ", "kid", "crit", "b64", "jku", "jwk", "x5u", "x5c", "zip", "cty", "x5t", "other"])
_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(max_size=20),
    st.sampled_from([*ALGORITHMS, "none", "None", "HS256", "hs256", "RS512", "at+jwt", "JWT", "jwt", "ID"]),
    st.lists(st.text(max_size=5), max_size=3),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
)


@given(st.dictionaries(_NAMES, _VALUES), st.frozensets(st.sampled_from(ALGORITHMS)))
def test_a_header_passes_only_with_an_algorithm_of_the_issuer_and_nothing_that_decides(
    header: dict[str, Any], algorithms: frozenset[str]
) -> None:
    if check_header(header, algorithms) is None:
        assert header["alg"] in algorithms
        assert not {"crit", "b64", "jku", "jwk", "x5u", "x5c", "zip", "cty"} & header.keys()
        assert str(header.get("typ", "jwt")).lower() in ("jwt", "at+jwt", "application/at+jwt")


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    assert isinstance(parse_token(text), ParsedToken | TokenRefusal)


@given(st.binary(max_size=60), st.binary(max_size=60), st.binary(min_size=1, max_size=60))
def test_what_is_read_has_one_spelling(header: bytes, claims: bytes, signature: bytes) -> None:
    found = parse_token(".".join(map(base64url, (header, claims, signature))))
    if isinstance(found, ParsedToken):
        assert found.header == json.loads(header)
        assert found.claims == json.loads(claims)


@given(st.data())
def test_no_change_of_the_text_is_the_same_token(data: st.DataObject) -> None:
    token = _TOKEN
    place = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.characters(codec="ascii"))
    changed = parse_token(token[:place] + other + token[place + 1 :])
    if isinstance(changed, ParsedToken) and changed.text != token:
        parts = [base64.urlsafe_b64decode(part + "==") for part in changed.text.split(".")]
        assert parts != [base64.urlsafe_b64decode(part + "==") for part in token.split(".")]


_TOKEN = Issuer().token()


def _text(header: bytes, claims: bytes) -> str:
    return ".".join(map(base64url, (header, claims, b"s")))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "..",
        "a.b",
        "a.b.c.d.e",
        f"{_TOKEN}=",
        f" {_TOKEN}",
        f"{_TOKEN}\n",
        _TOKEN.replace(".", "=.", 1),
        _text(b"{}", b"[1]"),
        _text(b"{}", b"NaN"),
        _text(b"{}", b'{"a": NaN}'),
        _text(b'{"alg":"RS256","alg":"none"}', b"{}"),
        _text(b"{}", b"[" * 8_000),
        _text(b"{}", b"9" * 8_000),
        _text(b"{}", b"\xff{}"),
        "x" * (limits.TOKEN_CHARACTERS_MAX + 1),
        f"{'a' * 3_000}.{base64url(b'{}')}.{base64url(b's')}",
    ],
    ids=count(),
)
def test_a_text_that_is_no_token_is_refused(text: str) -> None:
    found = parse_token(text)
    assert isinstance(found, TokenRefusal)
    assert found.code == "TOKEN_INVALID"


def test_a_token_does_not_show_in_its_repr() -> None:
    found = parse_token(_TOKEN)
    assert isinstance(found, ParsedToken)
    assert _TOKEN.rpartition(".")[2] not in repr(found)


@pytest.mark.parametrize("kind", ["at+jwt", "application/at+jwt", "JWT", "jwt", None])
def test_the_types_of_access_tokens_pass(kind: str | None) -> None:
    header: dict[str, Any] = {"alg": "ES256"} if kind is None else {"alg": "ES256", "typ": kind}
    assert check_header(header, PUBLIC) is None
