"""Keys of issuers, and what they verify."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest
from joserfc.jwk import ECKey, OctKey

from penstock.base import limits
from penstock.governance.tokens.parsing import ParsedToken, parse_token
from penstock.governance.tokens.signing_keys import (
    SigningKeys,
    UnreadableKeys,
    read_signing_keys,
    signature_is_valid,
)
from tests.issuers import Issuer, base64url


def keys_of(issuer: Issuer) -> SigningKeys:
    found = read_signing_keys(json.dumps(issuer.key_set()).encode())
    assert isinstance(found, SigningKeys)
    return found


def parsed(text: str) -> ParsedToken:
    found = parse_token(text)
    assert isinstance(found, ParsedToken)
    return found


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_a_signature_is_verified_with_the_key_that_the_token_names(algorithm: str) -> None:
    issuer = Issuer()
    token = parsed(issuer.token(algorithm=algorithm))
    key = keys_of(issuer).find(token)
    assert key is not None
    assert signature_is_valid(token, key)
    head, body, _ = token.text.split(".")
    other = parsed(issuer.token(algorithm=algorithm, sub="eve")).text.rpartition(".")[2]
    assert not signature_is_valid(parsed(f"{head}.{body}.{other}"), key)


def test_an_rsa_key_without_an_algorithm_verifies_ps256_too() -> None:
    issuer = Issuer(algorithms=("PS256",))
    token = parsed(issuer.token(algorithm="PS256"))
    key = keys_of(issuer).find(token)
    assert key is not None
    assert signature_is_valid(token, key)


def test_a_key_is_used_with_no_algorithm_but_its_own() -> None:
    issuer = Issuer(algorithms=("RS256",))
    listed = issuer.key_set()["keys"][0]
    keys = read_signing_keys(json.dumps({"keys": [{**listed, "alg": "PS256"}]}).encode())
    assert isinstance(keys, SigningKeys)
    assert keys.find(parsed(issuer.token())) is None


def test_without_a_key_id_only_a_single_key_will_do() -> None:
    alone, several = Issuer(algorithms=("RS256",)), Issuer(algorithms=("RS256", "PS256"))
    token = parsed(alone.token(header={"kid": None}))
    assert keys_of(alone).find(token) is not None
    assert keys_of(several).find(parsed(several.token(header={"kid": None}))) is None


def _private(key: Any) -> dict[str, Any]:
    return {**key.as_dict(private=True), "kid": "k"}


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys": {}}',
        b'{"keys": []}',
        b'{"keys": [7, null, {}]}',
        b"[" * 100_000,
        json.dumps({"keys": [_private(OctKey.generate_key(256))]}).encode(),
        json.dumps(
            {"keys": [{"kty": "RSA", "use": "sig", "n": base64url(b"\x80" + b"\x01" * 127), "e": "AQAB"}]}
        ).encode(),
        json.dumps({"keys": [_private(ECKey.generate_key("P-384"))]}).encode(),
        json.dumps({"keys": [{**_private(ECKey.generate_key("P-256")), "use": "enc"}]}).encode(),
        json.dumps({"keys": [{**_private(ECKey.generate_key("P-256")), "key_ops": ["sign"]}]}).encode(),
        json.dumps({"keys": [{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}]}).encode(),
        json.dumps({"keys": [{"kty": "RSA", "n": "", "e": "AQAB"}]}).encode(),
        json.dumps({"keys": [{}] * (limits.ISSUER_KEYS_MAX + 1)}).encode(),
    ],
    ids=count(),
)
def test_a_set_without_a_usable_public_key_says_what_is_wrong(document: bytes) -> None:
    assert isinstance(read_signing_keys(document), UnreadableKeys)


def test_a_private_part_in_a_key_set_is_not_read() -> None:
    key = ECKey.generate_key("P-256")
    keys = read_signing_keys(json.dumps({"keys": [_private(key)]}).encode())
    assert isinstance(keys, SigningKeys)
    assert not keys.keys[0].key.is_private
