"""API keys as text: only what has their form is one, only the right secret matches, and scopes cover what they say."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base import limits
from penstock.governance.keys import ParsedKey, hash_secret, is_scope, parse_key, scope_allows, secret_matches

KEY_ID = "abcdefgh2345"
SECRET = "A" * 40 + "-_9"
TEXT = f"pen_{KEY_ID}_{SECRET}"
PEPPER = b"pepper"

key_ids = st.text("abcdefghijklmnopqrstuvwxyz234567", min_size=12, max_size=12)
secrets = st.text(string.ascii_letters + string.digits + "-_", min_size=43, max_size=43)
words = st.text(string.ascii_lowercase, min_size=1, max_size=5)
scopes = st.lists(words, min_size=1, max_size=4).map(":".join)


def test_a_key_has_an_id_and_a_secret() -> None:
    assert parse_key(TEXT) == ParsedKey(key_id=KEY_ID, secret=SECRET)


@given(key_ids, secrets)
def test_every_key_is_read_back_from_its_text(key_id: str, secret: str) -> None:
    key = ParsedKey(key_id=key_id, secret=secret)
    assert parse_key(key.text) == key


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pen_",
        TEXT + "\n",
        " " + TEXT,
        TEXT[:-1],
        TEXT + "A",
        TEXT.replace("pen_", "PEN_"),
        TEXT.replace("pen_", "pan_"),
        TEXT.replace(KEY_ID, KEY_ID.upper()),
        TEXT.replace(KEY_ID, "abcdefgh0189"),
        TEXT.replace("-_9", "+/9"),
        TEXT.replace("-_9", "\u0661_9"),
        "\ud800",
    ],
)
def test_what_does_not_have_the_form_of_a_key_is_none(text: str) -> None:
    assert parse_key(text) is None


@given(st.text())
def test_any_other_text_is_no_key(text: str) -> None:
    assert parse_key(text) is None


def test_a_key_prints_without_its_secret() -> None:
    assert SECRET not in repr(parse_key(TEXT))


def test_only_the_secret_that_was_hashed_matches() -> None:
    kept = hash_secret(PEPPER, KEY_ID, SECRET)
    assert len(kept) == 64
    assert SECRET not in kept
    assert secret_matches(PEPPER, KEY_ID, SECRET, kept)
    assert not secret_matches(PEPPER, KEY_ID, SECRET[:-1] + "8", kept)
    assert not secret_matches(PEPPER, "bbcdefgh2345", SECRET, kept)
    assert not secret_matches(b"salt", KEY_ID, SECRET, kept)
    assert not secret_matches(PEPPER, KEY_ID, SECRET, "")
    assert not secret_matches(PEPPER, KEY_ID, SECRET, "ä")


@pytest.mark.parametrize(
    ("granted", "required", "is_allowed"),
    [
        (["*"], "workflow:execute", True),
        (["workflow:*"], "workflow:execute", True),
        (["workflow:*"], "workflow:execute:refund", True),
        (["workflow:execute"], "workflow:execute", True),
        (["audit:read", "workflow:execute"], "workflow:execute", True),
        ([], "workflow:execute", False),
        (["workflow"], "workflow:execute", False),
        (["workflow:execute"], "workflow:execute:refund", False),
        (["workflow:execute:refund"], "workflow:execute", False),
        (["workflow:*"], "workflow", False),
        (["workflow:*"], "workflows:read", False),
        (["work*"], "workflow:read", False),
        (["workflow:exec*"], "workflow:execute", False),
        (["Workflow:*"], "workflow:execute", False),
        (["workflow:*"], "workflow:*", True),
        (["workflow:*"], "workflow:execute:*", True),
        (["workflow:*"], "*", False),
        (["workflow:execute"], "workflow:*", False),
        (["*"], "*", True),
    ],
)
def test_a_scope_covers_what_it_says(granted: list[str], required: str, is_allowed: bool) -> None:
    assert scope_allows(granted, required) is is_allowed


@given(st.lists(scopes), scopes)
def test_more_scopes_never_allow_less(granted: list[str], required: str) -> None:
    assert scope_allows([*granted, required], required)
    if scope_allows(granted, required):
        assert scope_allows([*granted, "other"], required)


@pytest.mark.parametrize(
    "text", ["*", "workflow", "workflow:*", "workflow:execute", "workflow:execute:Refund.v2", "a-b:c_d:*", "a:1"]
)
def test_a_scope_is_words_and_colons(text: str) -> None:
    assert is_scope(text)


@pytest.mark.parametrize(
    "text",
    ["", ":", "a:", ":a", "a::b", "**", "*:a", "a:*:b", "a*", "a:b*", "A:b", "a b", "a:b\n", "a:ä", "1a", "a:-b"],
)
def test_anything_else_is_no_scope(text: str) -> None:
    assert not is_scope(text)


def test_a_scope_has_an_end() -> None:
    assert is_scope("a" * limits.SCOPE_CHARACTERS_MAX)
    assert not is_scope("a" * (limits.SCOPE_CHARACTERS_MAX + 1))


@given(scopes)
def test_a_scope_that_is_built_of_words_is_one(scope: str) -> None:
    assert is_scope(scope)
    assert is_scope(f"{scope}:*")
