"""The names that a document claims: each in one form, however it is written."""

from __future__ import annotations

import pytest

from penstock.base.json import JsonObject
from penstock.definitions.claims import ClaimedName, claimed_names


def _resource(uri: str) -> JsonObject:
    return {"expose": {"resource": {"uri": uri}}}


@pytest.mark.parametrize(
    "uri", ["notes://daily/{day}", "NOTES://daily/{date}", "notes://da%69ly/{day}", "notes://%64%61ily/{x}"]
)
def test_two_spellings_of_an_address_are_one_name(uri: str) -> None:
    assert claimed_names("notes", _resource(uri)) == (ClaimedName("resource", "notes://daily/{}"),)


def test_an_escape_that_means_something_stays() -> None:
    assert claimed_names("notes", _resource("notes://a%3fb")) == (ClaimedName("resource", "notes://a%3Fb"),)
