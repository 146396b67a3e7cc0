"""Answers that show a part of a credential are noticed, in every form that a server is likely to show it in."""

from __future__ import annotations

import base64

import pytest

from penstock.cli.verify.credentials import Credentials

SECRET = "GFT0Fu3mbpLuGOqGMszGiCJTa0n15CfRj6aNlqCVXsk"
KEY = f"pen_te2i2ssrt6y6_{SECRET}"


@pytest.mark.parametrize(
    "shown",
    [
        KEY,
        SECRET[:12],
        SECRET[-20:],
        SECRET.lower(),
        SECRET.encode().hex(),
        *(base64.b64encode(f"{'x' * number}{SECRET}".encode()).decode() for number in range(3)),
    ],
)
def test_a_part_of_a_secret_is_found(shown: str) -> None:
    known = Credentials()
    known.add(KEY)
    assert known.part_in(f'{{"details": "{shown}"}}', "GET /audit") is not None


def test_the_public_part_of_a_key_and_what_the_request_named_are_not_found() -> None:
    known = Credentials()
    known.add(KEY)
    assert known.part_in('{"token_prefix": "pen_te2i2ssrt6y6", "hash": "' + "0a" * 32 + '"}', "") is None
    assert known.part_in(f"there is no draft {KEY}", f"GET /drafts/{KEY}") is None
