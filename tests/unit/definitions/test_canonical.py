"""Canonical JSON and definition hashes."""

import hashlib
import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.json import JsonObject, JsonValue
from penstock.definitions.canonical import canonical_json, definition_hash

json_values: st.SearchStrategy[JsonValue] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (1e21, "1e+21"),
        (123456789012345680000, "123456789012345680000"),
        (10**21, "1e+21"),
        (2**53 + 1, "9007199254740992"),
        (-(2**53) - 1, "-9007199254740992"),
        (1e-7, "1e-7"),
        (1e-6, "0.000001"),
        (5e-324, "5e-324"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1.5e300, "1.5e+300"),
        (100.0, "100"),
    ],
)
def test_numbers_are_written_as_javascript_writes_them(value: float, text: str) -> None:
    assert canonical_json(value) == text.encode()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('"\\/', '"\\"\\\\/"'),
        ("\b\f\n\r\t\x01\x1f", '"\\b\\f\\n\\r\\t\\u0001\\u001f"'),
        ("\x7f\u2028é😀", '"\x7f\u2028é😀"'),
        ("\ud800", '"\\ud800"'),
        ("a\udc00\ud800b", '"a\\udc00\\ud800b"'),
        ("\ud83d\ude00", '"😀"'),
    ],
)
def test_text_is_raw_except_for_what_json_must_escape(value: str, text: str) -> None:
    assert canonical_json(value) == text.encode()


def test_keys_are_sorted_by_utf16_code_units_at_every_level() -> None:
    value: JsonValue = {"\uffff": 1, "😀": {"b": 1, "a": [{"d": 1, "c": 2}]}, "Z": None, "a": True}
    assert canonical_json(value).decode() == '{"Z":null,"a":true,"😀":{"a":[{"c":2,"d":1}],"b":1},"\uffff":1}'


def test_empty_containers_have_no_white_space() -> None:
    assert canonical_json({"a": [], "b": {}}) == b'{"a":[],"b":{}}'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 10**400])
def test_numbers_that_json_cannot_hold_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="is not"):
        canonical_json({"a": value})


@given(json_values)
def test_canonical_json_is_json_of_the_same_value(value: JsonValue) -> None:
    def doubled(member: JsonValue) -> JsonValue:
        if isinstance(member, dict):
            return {name: doubled(inner) for name, inner in member.items()}
        if isinstance(member, list):
            return [doubled(inner) for inner in member]
        return float(member) if isinstance(member, int) and not isinstance(member, bool) else member

    assert doubled(json.loads(canonical_json(value))) == doubled(value)


@given(json_values)
def test_canonical_json_is_its_own_canonical_form(value: JsonValue) -> None:
    text = canonical_json(value)
    assert canonical_json(json.loads(text)) == text


@given(st.dictionaries(st.text(), st.integers(), max_size=6), st.randoms())
def test_the_order_of_keys_does_not_matter(value: dict[str, int], random: Random) -> None:
    keys = list(value)
    random.shuffle(keys)
    assert canonical_json({key: value[key] for key in keys}) == canonical_json(dict(value))


def test_integers_that_no_double_holds_are_told_apart_when_asked() -> None:
    assert canonical_json([2**53 + 1]) == canonical_json([2**53])
    assert canonical_json([2**53 + 1, {"a": -(10**400)}], exact_integers=True) == (
        b'[9007199254740993,{"a":-1' + b"0" * 400 + b"}]"
    )


def test_the_hash_is_sha256_of_the_canonical_json() -> None:
    document: JsonObject = {"document": {"name": "x"}, "nodes": []}
    assert definition_hash(document) == hashlib.sha256(b'{"document":{"name":"x"},"nodes":[]}').hexdigest()


def test_signing_does_not_change_the_hash() -> None:
    published: JsonObject = {"document": {"name": "x"}, "nodes": []}
    signed: JsonObject = {"document": {"name": "x", "signature": {"alg": "EdDSA"}}, "nodes": []}
    assert definition_hash(signed) == definition_hash(published)
    native: JsonObject = {"penstock": "v1", "name": "x"}
    assert definition_hash({**native, "signature": {"alg": "EdDSA"}}) == definition_hash(native)


def test_only_the_place_of_the_signature_is_left_out() -> None:
    published: JsonObject = {"document": {"name": "x"}, "nodes": []}
    assert definition_hash({**published, "signature": {}}) != definition_hash(published)
    assert definition_hash([1]) == hashlib.sha256(b"[1]").hexdigest()
