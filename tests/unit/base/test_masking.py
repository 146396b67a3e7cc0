"""Secrets are masked in every form in which they come back."""

from __future__ import annotations

import base64
import html
import json
import shlex
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.base.masking import mask, written_forms

SECRET = "Tok-En/9+ a\"b'c&d<é\\"
FORMS: dict[str, Callable[[str], str]] = {
    "as it is": lambda secret: secret,
    "lower case": str.lower,
    "upper case": str.upper,
    "percent": lambda secret: quote(secret, safe=""),
    "percent with slashes": quote,
    "percent in lower case": lambda secret: quote(secret, safe="").lower(),
    "form": quote_plus,
    "JSON": lambda secret: json.dumps(secret)[1:-1],
    "JSON with other letters": lambda secret: json.dumps(secret, ensure_ascii=False)[1:-1],
    "HTML": html.escape,
    "shell": shlex.quote,
    "base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "base64 after one byte": lambda secret: base64.b64encode(b"x" + secret.encode() + b"yz").decode(),
    "base64 after two bytes": lambda secret: base64.b64encode(b"u:" + secret.encode() + b"y").decode(),
    "base64 for URLs": lambda secret: base64.urlsafe_b64encode(b"u:" + secret.encode()).decode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_masked_in_every_form(form: str) -> None:
    written = FORMS[form](SECRET)
    masked = mask(f"the server said: {written}!", ("other-secret", SECRET))
    assert masked != f"the server said: {written}!"
    assert masked.startswith("the server said: ")
    assert masked.endswith("!")
    assert len(masked) < 40, masked


SECRETS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=6, max_size=30)


@example("ABCDEF")
@given(SECRETS)
def test_no_form_of_any_secret_is_left(secret: str) -> None:
    for form, written in FORMS.items():
        if form in ("lower case", "upper case", "percent in lower case") and not secret.isascii():
            continue  # other letters may become several
        assert written(secret) not in mask(f"<{written(secret)}>", (secret,)), form


def test_short_secrets_are_masked_as_written_only() -> None:
    assert mask("no, NO, cat", ("no",)) == "***, NO, cat"
    assert mask("anything", ("", "")) == "anything"
    assert mask("", ("secret",)) == ""


def test_a_secret_that_contains_another_is_masked_as_a_whole() -> None:
    assert mask("key=abcdef-123456", ("abcdef", "abcdef-123456")) == "key=***"


def test_the_forms_for_readers_of_pieces_are_in_lower_case() -> None:
    forms = written_forms(("Ab/Cd+Ef", ""))
    assert {"ab/cd+ef", "ab%2fcd%2bef"} <= {*forms}
    assert all(form == form.lower() for form in forms)
