"""Signing definitions and refusing bad signatures."""

import base64
import copy
import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.json import JsonObject
from penstock.definitions.canonical import canonical_json, definition_hash, without_signature
from penstock.definitions.signature import (
    SignatureRefused,
    SigningMode,
    Unsigned,
    Verified,
    public_key_spki,
    sign_definition,
    verify_signature,
)

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
KEYS = {"k1": public_key_spki(KEY)}
PUBLISHED: JsonObject = {
    "document": {"schema": "s", "name": "refund", "version": "1.0"},
    "nodes": [{"id": "é", "n": 1.0}],
}
NATIVE: JsonObject = {"penstock": "v1", "name": "refund", "nodes": []}


def segment(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def signed(document: JsonObject = PUBLISHED) -> JsonObject:
    return sign_definition(document, key_id="k1", private_key=KEY)


def block(document: JsonObject) -> dict[str, Any]:
    holder: Any = document.get("document", document)
    result: dict[str, Any] = holder["signature"]
    return result


@pytest.mark.parametrize("document", [PUBLISHED, NATIVE])
@pytest.mark.parametrize("mode", SigningMode)
def test_a_signed_definition_is_verified(document: JsonObject, mode: SigningMode) -> None:
    before = copy.deepcopy(document)
    result = signed(document)
    assert verify_signature(result, mode=mode, public_keys=KEYS) == Verified(key_id="k1")
    assert document == before
    assert without_signature(result) == document
    assert definition_hash(result) == definition_hash(document)


def test_the_signature_is_a_compact_jws_of_the_canonical_json() -> None:
    signature = block(signed())
    header, payload, _ = signature["value"].split(".")
    assert signature["alg"] == "EdDSA"
    assert signature["keyId"] == "k1"
    assert json.loads(base64.urlsafe_b64decode(header + "==")) == {"alg": "EdDSA", "kid": "k1"}
    assert payload == segment(canonical_json(PUBLISHED))


def test_public_keys_are_spki_in_base64url() -> None:
    encoded = public_key_spki(KEY)
    assert "=" not in encoded
    assert base64.urlsafe_b64decode(encoded + "=")[-32:] == KEY.public_key().public_bytes_raw()


def test_signing_again_replaces_the_signature() -> None:
    twice = sign_definition(signed(), key_id="k2", private_key=OTHER_KEY)
    keys = {**KEYS, "k2": public_key_spki(OTHER_KEY)}
    assert verify_signature(twice, mode=SigningMode.REQUIRE, public_keys=keys) == Verified(key_id="k2")


def test_unsigned_definitions_pass_only_when_signatures_are_optional() -> None:
    assert verify_signature(PUBLISHED, mode=SigningMode.OPTIONAL, public_keys=KEYS) == Unsigned()
    refused = verify_signature(PUBLISHED, mode=SigningMode.REQUIRE, public_keys=KEYS)
    assert isinstance(refused, SignatureRefused)
    assert refused.code == "SIGNATURE_REQUIRED"


def test_large_definitions_can_be_signed() -> None:
    large: JsonObject = {**PUBLISHED, "nodes": ["x" * 900_000]}
    assert verify_signature(signed(large), mode=SigningMode.REQUIRE, public_keys=KEYS) == Verified(key_id="k1")


def change_content(document: dict[str, Any]) -> None:
    document["document"]["version"] = "2.0"


def change_signature(document: dict[str, Any]) -> None:
    signature = document["document"]["signature"]
    head, last = signature["value"].rsplit(".", 1)
    signature["value"] = f"{head}.{'B' if last[0] == 'A' else 'A'}{last[1:]}"


def change_unused_bits(document: dict[str, Any]) -> None:
    signature = document["document"]["signature"]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    last = alphabet.index(signature["value"][-1])
    signature["value"] = signature["value"][:-1] + alphabet[last ^ 1]


def drop_the_signature_part(document: dict[str, Any]) -> None:
    signature = document["document"]["signature"]
    signature["value"] = signature["value"].rsplit(".", 1)[0] + "."


def name_another_key(document: dict[str, Any]) -> None:
    document["document"]["signature"]["keyId"] = "k2"


def claim_another_algorithm(document: dict[str, Any]) -> None:
    document["document"]["signature"]["alg"] = "HS256"


def unsigned_token(document: dict[str, Any]) -> None:
    header = segment(json.dumps({"alg": "none", "kid": "k1"}).encode())
    payload = segment(canonical_json(without_signature(document)))
    document["document"]["signature"]["value"] = f"{header}.{payload}."


def symmetric_token(document: dict[str, Any]) -> None:
    header = segment(json.dumps({"alg": "HS256", "kid": "k1"}).encode())
    payload = segment(canonical_json(without_signature(document)))
    public = base64.urlsafe_b64decode(KEYS["k1"] + "=")
    tag = hmac.new(public, f"{header}.{payload}".encode(), hashlib.sha256).digest()
    document["document"]["signature"]["value"] = f"{header}.{payload}.{segment(tag)}"


def token_of_another_document(document: dict[str, Any]) -> None:
    document["document"]["signature"]["value"] = block(signed({"document": {"name": "other"}}))["value"]


def token_without_key_id(document: dict[str, Any]) -> None:
    header = segment(json.dumps({"alg": "EdDSA"}).encode())
    payload = segment(canonical_json(without_signature(document)))
    tag = KEY.sign(f"{header}.{payload}".encode())
    document["document"]["signature"] = {"alg": "EdDSA", "value": f"{header}.{payload}.{segment(tag)}"}


def payload_that_is_not_canonical(document: dict[str, Any]) -> None:
    header = segment(json.dumps({"alg": "EdDSA", "kid": "k1"}).encode())
    payload = segment(json.dumps(without_signature(document)).encode())
    tag = KEY.sign(f"{header}.{payload}".encode())
    document["document"]["signature"]["value"] = f"{header}.{payload}.{segment(tag)}"


def no_object(document: dict[str, Any]) -> None:
    document["document"]["signature"] = "EdDSA"


def no_token(document: dict[str, Any]) -> None:
    document["document"]["signature"]["value"] = "not a token ☃"


def huge_number(document: dict[str, Any]) -> None:
    document["nodes"] = [10**400]


@pytest.mark.parametrize("mode", SigningMode)
@pytest.mark.parametrize(
    ("attack", "code"),
    [
        (change_content, "SIGNATURE_INVALID"),
        (change_signature, "SIGNATURE_INVALID"),
        (change_unused_bits, "SIGNATURE_INVALID"),
        (drop_the_signature_part, "SIGNATURE_INVALID"),
        (name_another_key, "SIGNATURE_MALFORMED"),
        (claim_another_algorithm, "SIGNATURE_MALFORMED"),
        (unsigned_token, "SIGNATURE_ALGORITHM"),
        (symmetric_token, "SIGNATURE_ALGORITHM"),
        (token_of_another_document, "SIGNATURE_INVALID"),
        (token_without_key_id, "SIGNATURE_MALFORMED"),
        (payload_that_is_not_canonical, "SIGNATURE_INVALID"),
        (no_object, "SIGNATURE_MALFORMED"),
        (no_token, "SIGNATURE_MALFORMED"),
        (huge_number, "SIGNATURE_MALFORMED"),
    ],
)
def test_a_bad_signature_is_refused_in_both_modes(
    attack: Callable[[dict[str, Any]], None], code: str, mode: SigningMode
) -> None:
    document = copy.deepcopy(signed())
    attack(document)
    refused = verify_signature(document, mode=mode, public_keys=KEYS)
    assert isinstance(refused, SignatureRefused)
    assert refused.code == code


def test_unknown_and_unusable_keys_are_refused() -> None:
    exchange_key = (
        X25519PrivateKey.generate().public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    )
    for keys in ({}, {"k1": "!!"}, {"k1": ""}, {"k1": segment(b"not a key")}, {"k1": segment(exchange_key)}):
        refused = verify_signature(signed(), mode=SigningMode.OPTIONAL, public_keys=keys)
        assert isinstance(refused, SignatureRefused)
        assert refused.code == "SIGNATURE_KEY_UNKNOWN"
    wrong = verify_signature(signed(), mode=SigningMode.OPTIONAL, public_keys={"k1": public_key_spki(OTHER_KEY)})
    assert isinstance(wrong, SignatureRefused)
    assert wrong.code == "SIGNATURE_INVALID"


@settings(max_examples=2 * settings().max_examples)
@given(st.data())
def test_no_change_of_one_character_goes_unnoticed(data: st.DataObject) -> None:
    document = copy.deepcopy(signed())
    token: str = block(document)["value"]
    index = data.draw(st.integers(0, len(token) - 1))
    character = data.draw(st.sampled_from("ABCXYZabcxyz019-_.=+/ \n"))
    changed = token[:index] + character + token[index + 1 :]
    block(document)["value"] = changed
    outcome = verify_signature(document, mode=SigningMode.OPTIONAL, public_keys=KEYS)
    assert isinstance(outcome, Verified) == (changed == token)
