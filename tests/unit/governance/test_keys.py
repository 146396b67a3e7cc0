"""API keys as text: only what has their form is one, and only the right secret matches."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.governance.keys import ParsedKey, derived_key, hash_secret, hide_secrets, parse_key, secret_matches

KEY_ID = "abcdefgh2345"
SECRET = "A" * 40 + "-_9"
TEXT = f"pen_{KEY_ID}_{SECRET}"
PEPPER = b"pepper"

key_ids = st.text("abcdefghijklmnopqrstuvwxyz234567", min_size=12, max_size=12)
secrets = st.text(string.ascii_letters + string.digits + "-_", min_size=43, max_size=43)


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


def test_a_record_keeps_the_id_of_a_key_and_not_its_secret() -> None:
    key = derived_key(b"pepper", "te2i2ssrt6y6", "seed")
    assert hide_secrets(f"drafts/{key.text}") == "drafts/pen_te2i2ssrt6y6_…"
    assert hide_secrets("pen_te2i2ssrt6y6 opened a pen_pal") == "pen_te2i2ssrt6y6 opened a pen_pal"
